"""The study of training on views measures what its table says."""

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
    on_rows, on_both = (
        found["with the shift", rule]
        for rule in (
            "trained on rows: accuracy",
            "trained on rows and views: accuracy on both",
        )
    )
    assert on_both > on_rows
    assert all(0 <= value <= 100 for value in found.values())
