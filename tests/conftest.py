"""What all tests share."""

import pytest
from hypothesis import settings
from sklearn.ensemble import RandomForestClassifier

# The same examples in every run, however long one takes.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True, scope="session")
def _no_suggestion():
    """Keep searches from saying, once in a process, what they cannot do without views."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pa_select.utils.messages._SAID", {"other data than X and y"})
        yield


SEEN = {}  # what a forest says of its own rows, by the rows


class Remembered(RandomForestClassifier):
    """The forest that compares paired rows with labelled ones, grown once for equal rows."""

    def fit(self, X, y):
        rows = X.shape, X.tobytes(), y.tobytes()
        if rows not in SEEN:
            SEEN[rows] = super().fit(X, y).oob_decision_function_
        self.oob_decision_function_ = SEEN[rows]
        return self


@pytest.fixture(autouse=True, scope="session")
def _remembered_forests(request):
    """Each forest takes a tenth of a second, and many tests give the same rows several times."""
    if request.config.getoption("benchmark_enable", False):  # times are measured
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pa_select.two_sites.paired_rows.RandomForestClassifier", Remembered)
        yield
