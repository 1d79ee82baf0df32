"""The study of what agreement of folds sees runs, and compares what it says."""

import numpy as np
import pandas as pd
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier


@pytest.fixture
def study(monkeypatch):
    """The module of the study, with two classifiers and one problem."""
    import study_stability

    menu = [KNeighborsClassifier(15), DecisionTreeClassifier(random_state=0)]
    monkeypatch.setattr(study_stability, "CANDIDATES", menu)
    monkeypatch.setattr(study_stability, "PROBLEMS", {"moons": study_stability.PROBLEMS["moons"]})
    return study_stability


def test_samples_share_no_row(study):
    samples, (X_test, y_test) = study.disjoint_samples("moons", 0)
    rows = np.concatenate([X for X, _ in samples] + [X_test])
    assert len(np.unique(rows, axis=0)) == len(rows) == study.MADE
    assert {len(y) for _, y in samples} == {study.N}
    assert len(y_test) == study.N_TEST


@pytest.mark.parametrize("way", ["repeated", "split-half", "split-half, twice"])
def test_no_model_has_seen_the_rows_that_are_compared(study, way):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 3)), rng.integers(0, 2, 100)  # labels that no row tells
    nearest = KNeighborsClassifier(1)  # right on the rows that it has seen
    a, b = study.compared(nearest, way, X, y)
    assert a.shape == b.shape == (200 if "twice" in way else 100, 2)
    disagreement, agreement = study.measures(a, b)
    assert 0.1 < disagreement < 0.7
    assert study.measures(a, a)[0] == 0
    assert agreement < study.measures(a, a)[1]


def test_the_smallest_study_gives_a_table(study, tmp_path):
    study.main(["--samples", "1", "--table", str(tmp_path / "table.csv")])
    table = pd.read_csv(tmp_path / "table.csv").set_index("pairing")
    assert table["fits of a candidate"].to_dict() == {
        "repeated": 10, "split-half": 10, "split-half, twice": 20
    }  # fmt: skip
    # A tree's predictions change more with the sample than those of fifteen neighbours.
    assert (table["rank correlation, disagreement"] == "1.00 +- nan").all()
