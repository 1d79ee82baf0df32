"""The studies of epoch selection choose as they say."""

import numpy as np
import pytest

FOUND = {
    "accuracy": np.array([0.2, 0.90, 0.93, 0.93]),
    "error": np.full(4, 0.02),
    "AFR_P": np.array([1.0, 0.8, 0.9, 1.0]),
    "PA, uniform": np.array([1.0, 0.4, 0.5, 0.6]),
    "PA": np.array([0.9, 0.8, 0.5, 0.6]),
    "last epoch": np.arange(4),
    "best epoch": np.array([10.0, 60.0, 50.0, 40.0]),
}


@pytest.fixture
def study():
    """The module of the study of optimisers."""
    import study_optimisers

    return study_optimisers


def test_each_rule_keeps_its_best_epoch(study):
    assert study.choices(FOUND) == {
        "accuracy": 2,  # the earlier one of two
        "AFR_P": 0,
        "PA, uniform": 0,
        "PA": 0,
        "PA, guarded": 3,  # epoch 1 is more than a standard error less accurate
        "last epoch": 3,
        "best epoch": 1,
    }


def test_of_equal_epochs_of_several_optimisers_a_random_one_is_kept(study):
    other = FOUND | {"best epoch": FOUND["best epoch"] - 100}
    rng = np.random.default_rng(0)
    kept = [study.kept_of_any([FOUND, other], rng) for _ in range(60)]
    assert {one["accuracy"] for one in kept} == {50.0, 40.0, -50.0, -60.0}
    assert {one["best epoch"] for one in kept} == {60.0}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_rows_of_the_study_of_optimisers(study, monkeypatch):
    few = dict(list(study.OPTIMISERS.items())[-2:])
    monkeypatch.setattr(study, "OPTIMISERS", few)
    table = study.of_one_seed("hue", "ERM", 0, 3)
    assert list(table.index) == [*few, study.REPORTED, study.ANY]
    assert (table["best epoch"] >= table["accuracy"] - 1e-9).all()
    # The best epoch of all optimisers is as good as the best one of each, in the mean.
    assert table["best epoch"][study.ANY] >= table["best epoch"][list(few)].max() - 1e-9
