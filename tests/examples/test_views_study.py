"""The studies of training on views measure what their tables say."""

import pytest
from sklearn.dummy import DummyClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_training_on_the_shift_itself_helps(monkeypatch):
    import study_training_on_views as study
    from label_free_problems import PROBLEMS

    monkeypatch.setattr(study, "CANDIDATES", [DummyClassifier(), GaussianNB(), SVC()])
    problem = PROBLEMS["spurious"]["breast cancer"](0)
    found = study.measure(problem, 0)
    rules = {rule for _, rule in found}
    assert len(found) == 2 * len(rules) == 12
    on_both = found["with the shift", "trained on rows and views: accuracy on both"]
    assert on_both > found["with the shift", "trained on rows: accuracy"]
    assert all(0 <= value <= 100 for value in found.values())


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_model_trained_on_one_failure_withstands_it(monkeypatch):
    import study_failing_sensors as study

    monkeypatch.setattr(study, "CANDIDATES", [DummyClassifier(), GaussianNB(), SVC(gamma=0.1)])
    monkeypatch.setattr(study, "N_TESTS", 5)
    found = study.measure(study.Rows(study.DATA["wine"], 0), 0)
    assert set(study.COLUMNS) < {(n, where) for n, where, _ in found}
    assert all(found[n, where, study.REFERENCE] for n, where in study.COLUMNS)
    trained = "trained on rows and views: accuracy on all"
    gain = {
        where: found[1, where, trained] - found[1, where, study.REFERENCE]
        for where in ("the same failure", "other failures")
    }
    assert gain["the same failure"] > max(gain["other failures"], 5)
