"""How a classifier will score at another site, from rows that were measured twice, unlabelled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import check_scoring
from sklearn.utils.validation import _num_samples

from pa_select.agreement.confidence import posteriors
from pa_select.agreement.posterior_agreement import agreements
from pa_select.agreement.standard_errors import standard_error
from pa_select.assessment.arguments import columns_of, named_estimators
from pa_select.assessment.measures import Outputs
from pa_select.scores import class_scores
from pa_select.utils.columns import check_column
from pa_select.utils.frames import reordered
from pa_select.utils.typing import Floats, Ints
from pa_select.utils.views import look_up
from pa_select.utils.warn_caller import warn_caller

# Fewer pairs give an estimate that says little.
_FEW_PAIRS = 20
# The standard error of a metric that is not a mean leaves out so many groups, one at a time.
_GROUPS = 50
# Of a normal distribution, 95 % lies within so many standard deviations.
_Z = 1.96


class ExpectedScore(NamedTuple):
    """What `expected_score` expects of one classifier at the other site.

    Attributes
    ----------
    score : float
        The expected value of the metric on the rows of the second sample, in its own unit.
    standard_error : float
        Standard error of `score` over the pairs; nan for one pair.
    low, high : float
        For the accuracy, a 95 % interval in [0, 1] that does not assume calibrated posteriors:
        the accuracy on the labelled rows minus and plus the sum of the rate of disagreement and
        1.96 standard errors. nan for another metric.
    validation_score : float
        The metric on the labelled rows.
    disagreement : float
        Share of pairs whose two rows are predicted to belong to different classes, in [0, 1].
    beta : float
        Inverse temperature at which the labelled rows have the highest likelihood, in [0, inf].
    n_pairs : int
        Number of pairs.
    """

    score: float
    standard_error: float
    low: float
    high: float
    validation_score: float
    disagreement: float
    beta: float
    n_pairs: int


def expected_score(
    estimators: Any,
    X_a: Any,
    X_b: Any,
    X_val: Any,
    y_val: Any,
    *,
    scoring: Any = "accuracy",
) -> Any:
    """Estimate how classifiers score at another site, from pairs of rows without labels.

    The same objects were measured at the site where labels exist (a) and at the other one (b).
    A classifier's posterior on the row of a, calibrated on labelled rows, stands in for the
    unknown label of the pair: the pair counts once for every class, with the posterior of the
    class as its weight. The metric compares these classes with what the classifier predicts for
    the row of b.

    Parameters
    ----------
    estimators : estimator, or list or dict of estimators
        Fitted classifiers: of scikit-learn, skorch nets or torch modules.
    X_a, X_b : array-like of n rows
        The pairs: row i of both is the same object. DataFrames are aligned by their index.
    X_val, y_val : array-like of m rows, array-like of shape (m,)
        Labelled rows from the site of `X_a` that the estimators were not fitted to.
    scoring : str or callable, default="accuracy"
        A scorer of scikit-learn, by name or as made by ``make_scorer``, whose metric takes
        sample weights.

    Returns
    -------
    ExpectedScore or dict of str to ExpectedScore
        A dict for several estimators.

    Raises
    ------
    TypeError
        If an estimator is not a classifier, or the metric takes no sample weights.
    ValueError
        If X_a and X_b have different numbers of rows or none, or a label is missing or unknown
        to an estimator.

    Warns
    -----
    UserWarning
        If there are fewer than 20 pairs.

    Notes
    -----
    The estimate is unbiased if the calibrated posterior on the row of a is the probability of
    the classes given both rows. So the temperature must calibrate the classifier at a, the rows
    of a must come from where the labelled rows come from, and the row of b must say nothing
    about the label beyond the row of a. Nothing is assumed about what differs at b.

    The interval for the accuracy holds whether or not the posterior is calibrated: if a
    prediction is right at one site and wrong at the other, the two predictions differ. Its
    standard errors are those of rates with two successes and two failures added (Agresti and
    Coull), so that a rate of 0 or 1 in few rows does not look certain.

    The inverse temperature is where the agreement of the scores with the labels is highest:
    with labels on one side, posterior agreement is the log-likelihood, and its maximisation is
    temperature scaling.

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger, "On calibration of modern neural
       networks", ICML 2017 (temperature scaling).
    .. [2] A. Agresti, B. A. Coull, "Approximate is better than 'exact' for interval estimation
       of binomial proportions", The American Statistician 1998.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from pa_select.assessment import expected_score
    >>> X, y = load_digits(return_X_y=True)
    >>> X = X / 16
    >>> again = 0.5 * X + 0.5 * np.random.default_rng(0).random(X.shape)  # on another scanner
    >>> model = LogisticRegression(max_iter=1000).fit(X[:700], y[:700])
    >>> pairs = slice(1300, 1400)  # nobody labelled these
    >>> found = expected_score(model, X[pairs], again[pairs], X[700:1300], y[700:1300])
    >>> truth = model.score(again[pairs], y[pairs])
    >>> found.low < truth < found.high, abs(found.score - truth) < 0.1
    (True, True)
    >>> found.validation_score - truth > 0.1
    True
    """
    several = isinstance(estimators, (Mapping, list, tuple))
    named = named_estimators(estimators)
    n = _num_samples(X_a)
    if not n:
        raise ValueError("X_a: expected at least one row, got none.")
    if _num_samples(X_b) != n:
        raise ValueError(
            f"X_b: expected the {n} objects of X_a, measured again, got {_num_samples(X_b)} rows."
        )
    if reordered(X_a, X_b):
        X_b = look_up(X_b, X_a, "X_b")
    y_val = check_column(y_val, _num_samples(X_val), "y_val")
    if not (scoring is None or isinstance(scoring, str) or callable(scoring)):
        raise TypeError(
            f"scoring: expected one scorer, by name or callable, got a {type(scoring).__name__}."
        )
    if n < _FEW_PAIRS:
        warn_caller(
            f"X_a and X_b: expected at least {_FEW_PAIRS} pairs, got {n}. The expected score says "
            "little; look at its standard error and at its interval."
        )
    found = {
        name: _expected(estimator, name, X_a, X_b, X_val, y_val, scoring)
        for name, estimator in named.items()
    }
    return found if several else next(iter(found.values()))


def _expected(
    estimator: Any, name: str, X_a: Any, X_b: Any, X_val: Any, y_val: NDArray[Any], scoring: Any
) -> ExpectedScore:
    a, b, val = (_Recorded.of(estimator, X) for X in (X_a, X_b, X_val))
    beta = _calibrate(val.scores, columns_of(y_val, val.classes_, name))
    labels = _posteriors(a.scores, beta)
    scorer = check_scoring(val, scoring)
    n, every = len(labels), np.arange(len(labels))
    score = _weighted_score(scorer, b, labels, every)
    validated = float(scorer(val, _rows(np.arange(len(y_val))), y_val))
    differ = a.predicted != b.predicted
    disagreement = float(differ.mean())
    low = high = np.nan
    if isinstance(scoring, str) and scoring == "accuracy":
        hits = labels[every, columns_of(b.predicted, b.classes_, name)]
        error = standard_error(hits, np.full(n, 1 / n))
        variance = _variance(validated, len(y_val)) + _variance(disagreement, n)
        reach = disagreement + _Z * float(np.sqrt(variance))
        low, high = max(validated - reach, 0.0), min(validated + reach, 1.0)
    else:
        error = _jackknife(lambda rows: _weighted_score(scorer, b, labels, rows), n)
    return ExpectedScore(score, error, low, high, validated, disagreement, beta, n)


def _calibrate(scores: Floats, columns: NDArray[np.intp]) -> float:
    """Return the inverse temperature at which labelled rows have the highest likelihood."""
    certain = np.full(scores.shape, -np.inf)
    certain[np.arange(len(columns)), columns] = 0.0
    return float(agreements(scores, certain).beta)


def _posteriors(scores: Floats, beta: float) -> Floats:
    """Return posteriors at an inverse temperature, (n, n_classes)."""
    found: Floats = posteriors(torch.from_numpy(scores), beta).numpy()
    return found


def _variance(rate: float, n: int) -> float:
    """Variance of a rate of n, after two successes and two failures are added."""
    added = (rate * n + 2) / (n + 4)
    return added * (1 - added) / (n + 4)


def _rows(numbers: Ints) -> Ints:
    """Stand for rows of data in a scorer that is given a `_Recorded` estimator."""
    return numbers.reshape(-1, 1)


def _weighted_score(scorer: Any, recorded: _Recorded, labels: Floats, rows: Ints) -> float:
    """Score predictions against labels that are known up to a probability.

    Each of the rows counts once for every class, with the class's probability as its weight.
    """
    k = labels.shape[1]
    try:
        score = scorer(
            recorded,
            _rows(np.repeat(rows, k)),
            np.tile(recorded.classes_, len(rows)),
            sample_weight=labels[rows].ravel(),
        )
    except TypeError as error:
        raise TypeError(
            f"scoring: expected a scorer whose metric takes sample weights, got {scorer!r} "
            f"({error})."
        ) from error
    return float(score)


def _jackknife(score_of: Any, n: int) -> float:
    """Standard error of a score of n rows, by leaving out groups of rows in turn."""
    n_groups = min(n, _GROUPS)
    if n_groups < 2:
        return float("nan")
    group = np.arange(n) % n_groups
    scores = np.array([score_of(np.flatnonzero(group != g)) for g in range(n_groups)])
    return float(np.sqrt((n_groups - 1) / n_groups * np.square(scores - scores.mean()).sum()))


class _Recorded(ClassifierMixin, BaseEstimator):
    """A classifier whose predictions for some rows are known; X has the numbers of these rows.

    So scikit-learn's scorers can count each row several times without predicting it again.
    """

    def __init__(self, classes: NDArray[Any], scores: Floats, predicted: NDArray[Any]) -> None:
        self.classes = classes
        self.scores = scores
        self.predicted = predicted

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes of the columns of the scores."""
        return self.classes

    @classmethod
    def of(cls, estimator: Any, X: Any) -> _Recorded:
        """Record what an estimator predicts for X."""
        scores, classes = class_scores(estimator, X)
        outputs = Outputs.of(scores)
        predicted = classes[outputs.predicted]
        # An estimator may predict by another threshold than its highest score.
        if hasattr(estimator, "predict"):
            predicted = np.asarray(estimator.predict(X))
        return cls(classes, outputs.scores, predicted)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Any, y: Any) -> _Recorded:
        """Do nothing; scorers expect estimators to have this method."""
        return self

    def predict(self, X: Ints) -> NDArray[Any]:
        """Return the recorded predictions."""
        return self.predicted[X[:, 0]]

    def predict_proba(self, X: Ints) -> Floats:
        """Return the posteriors at inverse temperature 1."""
        return _posteriors(self.scores[X[:, 0]], 1.0)

    def decision_function(self, X: Ints) -> Floats:
        """Return the scores, of two classes their difference."""
        scores = self.scores[X[:, 0]]
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores
