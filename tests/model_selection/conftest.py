"""What several files of this folder need."""

import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier


@pytest.fixture
def no_fit(monkeypatch):
    """Estimators of scikit-learn that must not be fitted: input is refused before."""

    def fit(*args, **params):
        raise AssertionError("fitted before the input was checked")

    for kind in (LogisticRegression, Ridge, KNeighborsClassifier, SVC, DecisionTreeClassifier):
        monkeypatch.setattr(kind, "fit", fit)
