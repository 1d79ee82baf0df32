"""What is warned of: it asks what the metric uses, and right pairs are not doubted."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier

from pa_select import expected_score


def messages(given, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        expected_score(*given, **options)
    return [str(one.message) for one in caught]


def apart(n, seed):
    """Rows of two classes that are far from each other."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return 8 * y[:, None] + rng.normal(size=(n, 2)), y


@pytest.mark.parametrize("threshold", [1e-6, 0.5])
@pytest.mark.parametrize("scoring", ["accuracy", "f1", "roc_auc", "neg_log_loss", None])
def test_rows_without_an_error_are_those_that_the_metric_sees(threshold, scoring):
    model = FixedThresholdClassifier(LogisticRegression(), threshold=threshold)
    model.fit(*apart(100, 0))
    (V, v), a = apart(100, 1), apart(60, 2)[0]
    n_wrong = np.count_nonzero(model.predict(V) != v)
    assert (n_wrong > 10) == (threshold < 0.5)
    found = messages((model, a, a + 0.1, V, v), scoring=scoring)
    # The class scores tell all rows apart; a moved threshold does not.
    of_scores = scoring in ("roc_auc", "neg_log_loss")
    assert any("rows without an error" in text for text in found) == (of_scores or not n_wrong)
