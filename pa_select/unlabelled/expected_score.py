"""The score that a classifier is expected to have at another site, from unlabelled pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import check_scoring
from sklearn.utils.validation import _num_samples

from pa_select.scores.alignment import columns_of
from pa_select.scores.recorded import Recorded, row_numbers
from pa_select.unlabelled.calibration import calibrated, calibrating_beta
from pa_select.unlabelled.expectation import (
    check_scorer,
    error_of_score,
    expected_change,
    expected_level,
    expected_score_of,
    interval,
    is_accuracy,
)
from pa_select.unlabelled.pair_posteriors import PairPosteriors, check_same_classes
from pa_select.unlabelled.paired_rows import aligned_pairs, check_pairs, warn_of_other_rows
from pa_select.unlabelled.shrinkage import Shrunk, near_best, shrunk_scores
from pa_select.unlabelled.site_adapter import cross_adapted
from pa_select.utils.columns import check_column
from pa_select.utils.estimators import named_estimators
from pa_select.utils.frames import check_columns
from pa_select.utils.optional_imports import optional_import
from pa_select.utils.warn_caller import warn_caller


class ExpectedScore(NamedTuple):
    """What `expected_score` expects of one classifier at the other site.

    Attributes
    ----------
    score : float
        The expected value of the metric on the rows of the second sample, in its own unit.
    standard_error : float
        Standard error of `score`, from the pairs and from the labelled rows; with several
        estimators also from the errors of the posteriors that the labels show. nan for one pair.
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

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.utils import shuffle
    >>> from pa_select import expected_score
    >>> X, y = shuffle(*load_wine(return_X_y=True), random_state=0)
    >>> model = GaussianNB().fit(X[:60], y[:60])
    >>> found = expected_score(model, X[120:], 1.1 * X[120:], X[60:120], y[60:120])
    >>> found.n_pairs, found.low < found.score < found.high
    (58, True)
    >>> found.score < found.validation_score
    True
    """

    score: float
    standard_error: float
    low: float
    high: float
    validation_score: float
    disagreement: float
    beta: float
    n_pairs: int

    def to_frame(self) -> Any:
        """Return a table of one row.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        ImportError
            If pandas, which comes with the extra ``plot``, is missing.
        """
        return optional_import("pandas", "plot").DataFrame([self._asdict()])


def expected_score(
    estimators: Any,
    X_a: Any,
    X_b: Any,
    X_val: Any,
    y_val: Any,
    *,
    scoring: Any = "accuracy",
    adapter: Any = None,
    reference: Any = "ensemble",
) -> Any:
    """Estimate how classifiers score at another site, from pairs of rows without labels.

    The same objects were measured at the site where labels exist (a) and at the other one (b).
    A classifier's posterior on the row of a, calibrated on labelled rows, stands in for the
    unknown label of the pair: the pair counts once for every class, with the posterior of the
    class as its weight. So the metric can be computed for what the classifier predicts for the
    rows of b, and for what it predicts for the rows of a. The difference is the change to
    expect, and it is added to the score on the labelled rows.

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
        sample weights. None: the accuracy.
    adapter : None, "ridge" or estimator, default=None
        If given, the classifier predicts the rows of b after a regression has mapped them to
        rows of a, as `SiteAdapter` does. No row is mapped by a regression that has seen it.
    reference : {"ensemble", "self"} or fitted classifier, default="ensemble"
        Whose posteriors stand in for the labels: the mean of those of the most accurate
        estimators (within two standard errors of the best score), each estimator's own, or those
        of a classifier that was not fitted to the labelled rows either. The more accurate it is,
        the better. The ensemble of a single estimator is itself.

    Returns
    -------
    ExpectedScore or dict of str to ExpectedScore
        A dict for several estimators.

    Raises
    ------
    TypeError
        If an estimator is not a classifier, or the metric takes no sample weights.
    ValueError
        If X_a and X_b have different numbers of rows, other columns, the same values or no
        rows, a label is missing or unknown to an estimator, or `reference` is unknown or has
        other classes, as the estimators of an ensemble may not have.

    Warns
    -----
    UserWarning
        If there are fewer than 20 pairs, the rows of X_a do not look like the labelled rows,
        the two rows of a pair resemble each other no more than rows paired at random, or an
        estimator knows every label of the labelled rows, or none.

    Notes
    -----
    The estimate is unbiased if the calibrated posterior on the row of a is the probability of
    the classes given both rows. So the temperature must calibrate the classifier at a, the rows
    of a must come from where the labelled rows come from, and the row of b must say nothing
    about the label beyond the row of a. Nothing is assumed about what differs at b. Only pairs
    whose two rows are predicted to belong to different classes change the accuracy. So the
    accuracies at a and b differ by their share at most.

    The interval for the accuracy holds whether or not the posterior is calibrated: if a
    prediction is right at one site and wrong at the other, the two predictions differ. Its
    standard errors are those of rates with two successes and two failures added (Agresti and
    Coull), so that a rate of 0 or 1 in few rows does not look certain.

    The best of several scores on labelled rows is partly luck. So the scores of several
    estimators are first shrunk towards what the posteriors say of them on the rows of a, as far as
    chance explains the difference (empirical Bayes), and the standard error adds the misfit of
    the posteriors that the labels show. `PASearchCV` does the same. With ``reference="self"``
    nothing is shrunk: own posteriors are calibrated by the same labels, and say no more than they.

    The inverse temperature is where the agreement of the scores with the labels is highest:
    with labels on one side, posterior agreement is the log-likelihood, and its maximisation is
    temperature scaling.

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger, "On calibration of modern neural
       networks", ICML 2017 (temperature scaling).
    .. [2] B. Efron, C. Morris, "Data analysis using Stein's estimator and its generalizations",
       JASA 1975.
    .. [3] A. Agresti, B. A. Coull, "Approximate is better than 'exact' for interval estimation
       of binomial proportions", The American Statistician 1998.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.utils import shuffle
    >>> from pa_select import expected_score
    >>> X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
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
    X_a, X_b = check_pairs(X_a, X_b)
    given = X_a, X_b, X_val, y_val
    found = estimates(estimators, *given, scoring, adapter, reference)
    warn_of_other_rows(X_a, X_val)
    _warn_of_labelled_rows(found)
    several = isinstance(estimators, (Mapping, list, tuple))
    return found if several else next(iter(found.values()))


def estimates(
    estimators: Any,
    X_a: Any,
    X_b: Any,
    X_val: Any,
    y_val: Any,
    scoring: Any = "accuracy",
    adapter: Any = None,
    reference: Any = "ensemble",
) -> dict[str, ExpectedScore]:
    """Compute what `expected_score` returns for several estimators, without its warnings."""
    if isinstance(reference, str) and reference not in ("self", "ensemble"):
        raise ValueError(
            f"reference: expected 'self', 'ensemble' or a fitted classifier, got {reference!r}."
        )
    named = named_estimators(estimators)
    X_a, X_b = aligned_pairs(X_a, X_b)
    check_columns(X_val, X_a, "X_val", "X_a")
    y_val = check_column(y_val, _num_samples(X_val), "y_val")
    if not (scoring is None or isinstance(scoring, str) or callable(scoring)):
        raise TypeError(
            f"scoring: expected one scorer, by name or callable, got a {type(scoring).__name__}."
        )
    scorer = check_scoring(_ANY, scoring)
    check_scorer(scorer, np.unique(y_val))
    if adapter is not None:
        X_b = cross_adapted(adapter, X_b, X_a, seed=0)
    a, b, val = (
        {name: Recorded.of(one, X, not is_accuracy(scorer)) for name, one in named.items()}
        for X in (X_a, X_b, X_val)
    )
    if not isinstance(reference, str):
        of_a, of_val = ({"the reference": Recorded.of(reference, X, False)} for X in (X_a, X_val))
        reference = PairPosteriors.mean_of(of_a, of_val, y_val)
    return expected_of_recorded(a, b, val, y_val, scorer, reference)


def _warn_of_labelled_rows(found: Mapping[str, ExpectedScore]) -> None:
    """Warn if the labelled rows cannot calibrate an estimator."""
    for name, one in found.items():
        if one.beta == np.inf:
            warn_caller(
                f"X_val: expected rows of which {name} gets some wrong, got rows that it gets all "
                "right. Either it was fitted to them, or they are too few to calibrate its "
                "posteriors, which count as certain."
            )
        elif one.beta == 0:
            warn_caller(
                f"y_val: expected the labels of X_val, got labels that the scores of {name} say "
                "nothing about. Are they in the order of the rows?"
            )


def expected_of_recorded(
    a: Mapping[str, Recorded],
    b: Mapping[str, Recorded],
    val: Mapping[str, Recorded],
    y_val: Any,
    scorer: Any,
    reference: PairPosteriors | Literal["self", "ensemble"] = "ensemble",
) -> dict[str, ExpectedScore]:
    """Estimate how classifiers score at another site, from their recorded predictions.

    Parameters
    ----------
    a, b : dict of str to Recorded
        What each classifier predicts for the same objects at both sites.
    val : dict of str to Recorded
        What it predicts for labelled rows.
    y_val : ndarray of shape (m,)
        Their labels.
    scorer : callable
        A scorer whose metric takes sample weights.
    reference : {"self", "ensemble"} or PairPosteriors, default="ensemble"
        What stands in for the labels of the pairs.
    """
    rows = row_numbers(np.arange(len(y_val)))
    scores = np.array([scorer(one, rows, y_val) for one in val.values()], dtype=np.float64)
    recorded = zip(scores, val.values(), strict=True)
    errors = np.array([error_of_score(scorer, s, one, y_val) for s, one in recorded])
    betas = {
        name: calibrating_beta(one.scores, columns_of(y_val, one.classes, name, "y_val"))
        for name, one in val.items()
    }
    if isinstance(reference, str) and reference == "ensemble" and len(a) > 1:
        reference = _ensemble(a, val, y_val, near_best(scores, errors, np.isfinite(scores)))
    shrunk = Shrunk(scores, 0.0)
    if isinstance(reference, PairPosteriors):
        posteriors = {name: reference.of(one.classes) for name, one in a.items()}
        if len(a) > 1:
            levels = [expected_level(scorer, [posteriors[name]], [a[name]]) for name in a]
            shrunk = shrunk_scores(scores, errors, *np.transpose(levels))
    else:
        posteriors = {name: calibrated(one.scores, betas[name]) for name, one in a.items()}
    found = {}
    for c, name in enumerate(a):
        change = expected_change(scorer, [posteriors[name]], [a[name]], [b[name]])
        # What is wrong with the posteriors at the first site may be wrong at the other one.
        error = float(np.hypot(errors[c], shrunk.misfit))
        expected = expected_score_of(scorer, float(shrunk.scores[c]), error, change)
        validated, differ = float(scores[c]), a[name].predicted != b[name].predicted
        disagreement, n, limits = float(differ.mean()), len(differ), (np.nan, np.nan)
        if is_accuracy(scorer):
            limits = interval(validated, len(y_val), disagreement, n)
        found[name] = ExpectedScore(*expected, *limits, validated, disagreement, betas[name], n)
    return found


def _ensemble(
    a: Mapping[str, Recorded], val: Mapping[str, Recorded], y_val: Any, near: NDArray[np.bool_]
) -> PairPosteriors:
    """Return the mean posteriors of the most accurate classifiers, or of all if none is known."""
    check_same_classes(a)
    names = [name for name, is_near in zip(a, near, strict=True) if is_near or not near.any()]
    of_a, of_val = ({name: one[name] for name in names} for one in (a, val))
    return PairPosteriors.mean_of(of_a, of_val, y_val)


# Stands for the classifier when a scorer is made from its name.
_ANY = Recorded(np.array([0, 1]), np.eye(2), np.array([0, 1]))
