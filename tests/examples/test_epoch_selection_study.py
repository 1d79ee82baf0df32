"""The studies of epoch selection choose as they say."""

import sys

import numpy as np
import pytest

STUDY = "study_optimisers"
FOUND = {
    "accuracy": np.array([0.2, 0.90, 0.93, 0.93]),
    "error": np.full(4, 0.02),
    "AFR_P": np.array([1.0, 0.8, 0.9, 1.0]),
    "PA, uniform": np.array([1.0, 0.4, 0.5, 0.6]),
    "PA": np.array([0.9, 0.8, 0.5, 0.6]),
    "last epoch": np.arange(4),
    "best epoch": np.array([10.0, 60.0, 50.0, 40.0]),
}


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


def test_epochs_vote_with_the_weight_that_their_labels_give_them():
    import epoch_selection as selection

    labels = np.array([0, 1] * 20)
    good, bad = np.eye(2)[labels], 3 * np.eye(2)[1 - labels]
    # The third epoch is right, and the last one wrong and more sure. The first two do not vote.
    logits = np.stack([bad, bad, good, bad])
    problem = selection.Problem(
        [], {"a": (None, labels), "b": (None, labels)}, {}, [(None, labels)]
    )
    found = selection.votes(problem, ({"a": logits, "b": logits}, [logits]), ("a", "b"))
    weighted, equal = (found[name].item() for name in selection.COMMITTEES)
    assert (weighted, equal) == (100, 0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_tables_of_collapses_and_attacks(monkeypatch, tmp_path):
    pd = pytest.importorskip("pandas")
    import study_epochs

    few = {name: study_epochs.CAUSES[name] for name in list(study_epochs.CAUSES)[:3]}
    monkeypatch.setattr(study_epochs, "CAUSES", few)
    files = [tmp_path / name for name in ("collapse.csv", "attacks.csv")]
    options = f"--seeds 2 2 --epochs 3 3 --collapse {files[0]} --attacks {files[1]}".split()
    options += ["--memory", str(tmp_path / "memory")]
    monkeypatch.setattr(sys, "argv", ["study_epochs.py", *options])
    study_epochs.main()
    collapses, attacks = map(pd.read_csv, files)
    assert collapses["normalisation"].tolist() == list(few)
    assert collapses["collapsed: PA"].str.endswith(" of 10").all()
    # Each of the five settings chooses from the same epochs.
    gain = attacks.set_index("rule")["attacked"].str.split(" ").str[0].astype(float)
    assert gain["best epoch"] == gain.drop("accuracy (percent)").max()
    assert 50 < float(attacks["clean"][0]) <= 100
