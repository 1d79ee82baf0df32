"""What the tests of paired objects share."""

import pytest
from sklearn.ensemble import RandomForestClassifier

SEEN = {}  # what a forest says of its own rows, by the rows


class Remembered(RandomForestClassifier):
    """The forest that compares paired rows with labelled ones, grown once for equal rows."""

    def fit(self, X, y):
        rows = X.shape, X.tobytes(), y.tobytes()
        if rows not in SEEN:
            SEEN[rows] = super().fit(X, y).oob_decision_function_
        self.oob_decision_function_ = SEEN[rows]
        return self


@pytest.fixture(autouse=True, scope="module")
def _remembered_forests():
    """Each forest takes a tenth of a second, and most tests give the same rows several times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pa_select.unlabelled.paired_rows.RandomForestClassifier", Remembered)
        yield
