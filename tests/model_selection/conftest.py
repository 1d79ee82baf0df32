"""What several files of this folder need."""

from unittest.mock import create_autospec

import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier


@pytest.fixture
def no_fit(monkeypatch):
    """Estimators of scikit-learn that must not be fitted: input is refused before."""
    for kind in (LogisticRegression, Ridge, KNeighborsClassifier, SVC, DecisionTreeClassifier):
        fitted = AssertionError("fitted before the input was checked")
        monkeypatch.setattr(kind, "fit", create_autospec(kind.fit, side_effect=fitted))
