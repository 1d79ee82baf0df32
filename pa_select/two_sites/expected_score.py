"""The score that models are expected to have at another site, from unlabelled pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pickle import PicklingError
from typing import Any

import joblib
import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer
from sklearn.utils.validation import _num_samples

from pa_select.scores.class_scores import cached_for_only
from pa_select.two_sites.classification import Classification
from pa_select.two_sites.paired_rows import (
    aligned_by_index,
    aligned_pairs,
    check_pairs,
    warn_of_few,
)
from pa_select.two_sites.regression import Regression
from pa_select.two_sites.site_adapter import SiteAdapter, cross_adapted
from pa_select.two_sites.trained import (
    ExpectedScore,
    doubt_of_few_labels,
    estimates,
)
from pa_select.utils.arrays import (
    as_numbers,
    as_numpy,
    check_column,
    check_matrix,
    check_same_shape,
    check_scoring_argument,
    labels_of,
    look_like_probabilities,
    rows_of_parts,
    stacked,
)
from pa_select.utils.estimators import named_estimators
from pa_select.utils.frames import check_columns
from pa_select.utils.messages import warn_caller, warn_once_by
from pa_select.utils.typing import (
    Adapter,
    Array,
    Estimators,
    Groups,
    Labels,
    Model,
    Reference,
    Rows,
    Scorer,
)


def expected_score(
    estimators: Estimators | None,
    X_a: Rows,
    X_b: Rows,
    X_val: Rows,
    y_val: Labels | None,
    *,
    scoring: str | Scorer | None = None,
    adapter: Adapter = None,
    reference: Reference = "ensemble",
    groups: Groups = None,
    pair_groups: Groups = None,
) -> Any:
    r"""Estimate how classifiers or regressors score at another site, from pairs without labels.

    The same objects were measured at the site where labels exist (a) and at the other one (b).
    A classifier's posterior on the row of a, calibrated on labelled rows, replaces the unknown
    label of the pair: the pair counts once for every class, weighted by the posterior of the
    class. This gives the metric of the predictions for the rows of b, and of the predictions for
    the rows of a. Their difference is the expected change, which is added to the score on the
    labelled rows. For a regressor the prediction on the row of a, calibrated by a line, and the
    residuals of the labelled rows replace the unknown target: the pair counts once for each
    value that the target may have.

    Parameters
    ----------
    estimators : estimator, list or dict of estimators, or None
        Fitted classifiers: of scikit-learn, skorch nets or torch modules. Or fitted regressors
        of one output, of scikit-learn or with its conventions. None: `X_a`, `X_b` and `X_val` hold
        class scores instead of rows, logits or log-probabilities with a column for each class:
        those of an old version of a model for n unlabelled rows, those of its new version for the
        same rows, and those of the old version for the labelled rows. The columns of DataFrames
        may be named by the classes.
    X_a, X_b : array-like or torch Dataset of n rows
        The pairs: row i of both is the same object. DataFrames are aligned by their index, and
        the rows of Datasets are stacked.
    X_val : array-like or torch Dataset of m rows
        Labelled rows from the site of `X_a` that the estimators were not fitted to.
    y_val : array-like of shape (m,), or None
        Their labels; without estimators the names of the columns of DataFrames, or the numbers of
        columns, from 0, or classes of which each column has one, in sorted order. None: the labels
        of the Dataset `X_val`, whose items are (row, label).
    scoring : str or callable, default=None
        A scorer of scikit-learn, by name or as made by ``make_scorer``; for classifiers the
        metric must take sample weights. None: the metric of the fitted search or searches, if
        they have a single one; else the accuracy, or R2 for regressors.
    adapter : None, "ridge" or estimator, default=None
        If given, the model predicts the rows of b after a regression, or a transformer, has
        mapped them to rows of a, as `SiteAdapter` does. They are cross-fitted: no row is mapped
        by one that has seen it. The rows of b may then have other columns.
    reference : {"ensemble", "self"} or fitted estimator, default="ensemble"
        The posteriors (or predictions) that replace the labels: the mean over the most accurate
        estimators (within two standard errors of the best score), each estimator's own, or the
        posteriors of a model that was not fitted to the labelled rows either. The more accurate
        the reference is, the better. The ensemble of a single estimator is itself.
    groups : array-like of shape (m,), default=None
        The group of each labelled row, such as the object that was scanned; at least two groups.
        The standard error and the interval then do not assume that rows of one group are
        independent, and use Student's t for few groups.
    pair_groups : array-like of shape (n,), default=None
        The object of each pair, if objects have several, such as the image of each pixel. Standard
        error and interval then are those of objects, with Student's t for few of them, and hold
        less often for losses (:doc:`/measured`). None: every pair is an object of its own.
        Then equal rows of X_a are refused if they are those of more than a tenth of the objects,
        but for tables of few discrete values, in which half of the columns tell fewer rows apart
        than all columns do. Class scores may be equal.

    Returns
    -------
    ExpectedScore or dict of str to ExpectedScore
        A dict for several estimators.

    Raises
    ------
    TypeError
        If an estimator is neither a classifier nor a regressor, both kinds are given, the metric
        takes no sample weights, or needs probabilities that an estimator does not have (the
        outputs of a torch module are logits), or the rows of a Dataset cannot be stacked.
    ValueError
        If X_a and X_b have different numbers of rows, other columns without an adapter, the same
        values or no rows, or many rows of X_a are equal, as of an object that is given several
        times, without `pair_groups`. If a label is missing, an estimator knows none of the labels,
        or `reference` is unknown or does not know them all. If all labelled rows, or all pairs,
        are in one group. If a regressor predicts several values, or one that is not finite.

    Warns
    -----
    UserWarning
        If there are fewer than 20 pairs, the two rows of a pair (not class scores) resemble each
        other no more than rows paired at random, labelled rows have a class that an estimator
        lacks (they count as missed), scores of labels are -inf, or an estimator predicts all
        labelled rows correctly (by its class scores for a metric of scores), predicts them no
        better than chance, or starts with a `SiteAdapter`.

    See Also
    --------
    new_site_interval : What to expect at a site without pairs, from the results at three or more.
    PASearchCV : ``fit(X, y, paired=(X_a, X_b))`` judges candidates by cross-validation.

    Notes
    -----
    The estimate is unbiased if the calibrated posterior on the row of a is the probability of
    the classes given both rows. So the posteriors must be calibrated at a, the rows
    of a must have the distribution of the labelled rows, and the row of b must carry no
    information about the label beyond the row of a. Nothing is assumed about the difference
    between the sites. For regressors the assumptions are that the calibrated prediction is the
    mean of the target given both rows, and that the errors do not depend on the row of b.

    The interval needs no such assumption: if a prediction is right at one site and wrong at the
    other, the two predictions differ. It combines exact intervals of the accuracy on the labelled
    rows and of the rate of disagreement ([3]_, [4]_). Its coverage is at least 0.95 from 20
    labelled rows and two pairs on. Rows, and pairs, in groups count as fewer ([5]_). The root mean
    squared error of a regressor changes by the root mean square of :math:`f(b) - f(a)` at most,
    and the mean absolute error by its mean absolute value (triangle inequality).

    The best of several scores on labelled rows is partly luck. So the scores of several
    estimators are first shrunk (empirical Bayes, [2]_) towards the scores that the posteriors
    predict for the rows of a, as `PASearchCV` does. The standard error includes how wrong the
    posteriors are on labelled rows. With ``reference="self"`` nothing is shrunk.

    No number depends on the order of the rows or of the pairs. The standard errors use the delta
    method for metrics of predicted classes, log-loss, Brier score, area under the curve and the
    usual regression errors. For other metrics twenty parts of the rows are left out in turn
    (jackknife). Metrics of predicted classes get two pseudo-pairs, of which half a pair becomes
    right and half a pair becomes wrong ([6]_), and two successes and two failures on labelled
    rows. Errors of other metrics are multiplied for the quantile of Student's t.

    The inverse temperature is where the agreement of the scores with the labels is highest, which
    is temperature scaling ([1]_). A bias of each class then makes the posteriors believe in each
    class as often as labelled rows have it ([7]_). :doc:`/theory` has the formulas.

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger, "On calibration of modern neural
       networks", ICML 2017.
    .. [2] B. Efron, C. Morris, "Data analysis using Stein's estimator and its generalizations",
       JASA 1975.
    .. [3] R. G. Newcombe, "Interval estimation for the difference between independent
       proportions: comparison of eleven methods", Statistics in Medicine 1998.
    .. [4] G. Y. Zou, A. Donner, "Construction of confidence limits about effect measures: a
       general approach", Statistics in Medicine 2008.
    .. [5] E. L. Korn, B. I. Graubard, "Confidence intervals for proportions with small expected
       number of positive counts estimated from survey data", Survey Methodology 1998.
    .. [6] A. Agresti, Y. Min, "Simple improved confidence intervals for comparing matched
       proportions", Statistics in Medicine 2005.
    .. [7] A. M. Alexandari, A. Kundaje, A. Shrikumar, "Maximum likelihood with bias-corrected
       calibration is hard-to-beat at label shift adaptation", ICML 2020.

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

    :doc:`/paired` judges a new version of a model by class scores, and has regressors.
    """
    if estimators is None:
        given = X_a, X_b, X_val, y_val
        return _of_class_scores(*given, scoring, adapter, reference, groups, pair_groups)
    X_a, X_b = check_pairs(X_a, X_b, adapter=adapter, groups=pair_groups)
    y_val = labels_of(X_val, y_val, "X_val")
    X_val = stacked(X_val, "X_val")
    given = X_a, X_b, X_val, y_val
    warnings: list[str] = []
    expected = estimates(
        estimators,
        *given,
        scoring,
        adapter,
        reference,
        groups,
        warnings,
        pair_groups=pair_groups,
    )
    for message in warnings:
        warn_caller(message)
    _warn_of_adapters(estimators)
    several = isinstance(estimators, (Mapping, list, tuple))
    return expected if several else next(iter(expected.values()))


class _ScoresAsRows(ClassifierMixin, BaseEstimator):
    """A classifier whose rows are its scores of classes."""

    def __init__(self, classes: Any) -> None:
        self.classes = self.classes_ = classes

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def decision_function(self, X: Any) -> Any:
        return X

    def predict(self, X: Any) -> Any:
        return self.classes_[X.argmax(axis=1)]

    def predict_proba(self, X: Any) -> Any:
        return softmax(X, axis=1)


def _of_class_scores(
    old: Any,
    new: Any,
    old_val: Any,
    y_val: Any,
    scoring: str | Scorer | None,
    adapter: Adapter,
    reference: Reference,
    groups: Groups,
    pair_groups: Groups,
) -> ExpectedScore:
    """Estimate how a new version of a model scores, by class scores of both versions."""
    for name, value, default in (("adapter", adapter, None), ("reference", reference, "ensemble")):
        if value is not default and value not in (default, "self"):
            raise ValueError(f"{name}: expected {default!r} for class scores, got {value!r}.")
    new = aligned_by_index(new, old, "X_b", "X_a")
    given = {"X_a": old, "X_b": new, "X_val": old_val}
    scores = {name: np.asarray(as_numbers(as_numpy(x), name), float) for name, x in given.items()}
    for name, matrix in scores.items():
        check_matrix(matrix, name)
    a, b, val = scores.values()
    check_same_shape(a.shape, b.shape, "X_a", "X_b")
    check_same_shape(a.shape[1:], val.shape[1:], "X_a", "X_val")
    for name, given_rows in (("X_b", new), ("X_val", old_val)):
        check_columns(given_rows, old, name, "X_a")
    probable = [name for name, x in scores.items() if look_like_probabilities(x)[0]]
    if probable:
        raise ValueError(
            f"{', '.join(probable)}: expected logits or log-probabilities, got rows that sum to "
            "1. Convert probabilities with pa_select.scores.log_probabilities."
        )
    y = check_column(labels_of(old_val, y_val, "X_val"), len(val), "y_val")
    classes, n_classes = np.unique(y), val.shape[1]
    named = _labels_of_columns(old, classes)
    if named is not None:  # the columns are put into the order of their classes
        classes, order = np.unique(named, return_index=True)
        a, b, val = (x[:, order] for x in (a, b, val))
    if len(classes) != n_classes:
        if y.dtype.kind not in "iub" or not 0 <= classes[0] <= classes[-1] < n_classes:
            raise ValueError(
                f"y_val: expected numbers of the {n_classes} columns of X_val, from 0, or labels "
                f"of {n_classes} classes, got {len(classes)} such as {classes.tolist()[0]!r}. If "
                "no row has the label of some class, give DataFrames with the classes as columns."
            )
        classes = np.arange(n_classes)
    warnings: list[str] = []
    model, rows = {"the model": _ScoresAsRows(classes)}, (a, b, val, y)
    expected = estimates(
        model, *rows, scoring, groups=groups, warnings=warnings, pair_groups=pair_groups
    )
    for message in warnings:
        warn_caller(message)
    if pair_groups is None:
        warn_of_few(len(a), "rows")
    else:
        warn_of_few(len(np.unique(pair_groups)), "objects")
    (one,) = expected.values()
    return one


def _labels_of_columns(scores: Any, labels: Array) -> Array | None:
    """Return the classes of the columns of a DataFrame; None if their names lack some label.

    So it is if several columns have one name.
    """
    # bool("False") is True.
    of_rows = [False, True] if labels.dtype.kind == "b" else labels.tolist()
    known = {str(label): label for label in of_rows}
    names = list(map(str, getattr(scores, "columns", ())))
    if len(set(names)) < len(names) or not known.keys() <= set(names):
        return None
    kind = type(of_rows[0])
    try:  # a class without a row is called as the others are
        return np.array([known.get(name, kind(name)) for name in names])
    except ValueError:
        return None


def _warn_of_adapters(estimators: Estimators) -> None:
    """Warn if a pipeline begins with an adapter, which would map rows of both sites."""
    for name, one in named_estimators(estimators).items():
        steps = getattr(one, "steps", None)
        if isinstance(steps, list) and steps and isinstance(steps[0][1], SiteAdapter):
            warn_caller(
                f"estimators: expected models of rows of the first site, got {name}, which begins "
                "with a SiteAdapter. It maps the rows of the first site, too, and it may have "
                "seen the pairs. Give the model without it, and adapter='ridge'."
            )


@dataclass(eq=False, repr=False)
class ExpectedScorer(BaseEstimator):
    """The scorer that `expected_scorer` makes, with its arguments as parameters."""

    X_a: Rows
    X_b: Rows
    scoring: str | Scorer | None = None
    adapter: Adapter = None

    @property
    def __name__(self) -> str:
        """The name of the score in scikit-learn's displays and skorch's histories."""
        return "expected_score"

    def _accept_sample_weight(self) -> bool:
        # Searches for several metrics ask each scorer.
        return False

    def __call__(self, estimator: Model, X: Rows, y: Labels | None = None) -> float:
        """Return the expected score of a fitted model; its labelled rows are X and y."""
        X = rows_of_parts(X)
        y = check_column(labels_of(X, y, "X"), _num_samples(X), "y")
        X_a, X_b = self._rows()
        check_columns(X_a, X, "X_a")
        # A search scores hundreds of models: warnings come once.
        warnings = doubt_of_few_labels(estimator, X)
        with cached_for_only(X, estimator):
            given = X_a, X_b, X, y, self.scoring
            (expected,) = estimates([estimator], *given, warnings=warnings, of_fold=True).values()
        if warnings:
            warn_once_by(self, warnings[0])
        return float(expected.score)

    def _rows(self) -> tuple[Any, Any]:
        """Return the rows of both sites, adapted if they are to be; adapted ones are kept."""
        if self.adapter is None:
            return aligned_pairs(self.X_a, self.X_b)
        X_a, X_b = stacked(self.X_a, "X_a"), stacked(self.X_b, "X_b")
        # The values, since a user may change rows or parameters in place.
        try:
            given = joblib.hash((X_a, X_b, self.adapter), coerce_mmap=True)
        except PicklingError:
            given = None
        kept: Any = getattr(self, "_kept", (None, None))
        if given is None or kept[0] != given:
            X_a, X_b = aligned_pairs(X_a, X_b, adapter=self.adapter)
            X_b = cross_adapted(self.adapter, X_b, X_a, seed=0)
            kept = self._kept = given, (X_a, X_b)
        rows: tuple[Any, Any] = kept[1]
        return rows


def expected_scorer(
    X_a: Rows, X_b: Rows, *y: Any, scoring: str | Scorer | None = None, adapter: Adapter = None
) -> ExpectedScorer:
    """Make a scorer that returns the expected score at another site.

    The test fold's labels calibrate the fold's model, and the unlabelled pairs predict its score
    at the other site.

    Parameters
    ----------
    X_a, X_b : array-like or torch Dataset of n rows
        The same objects, measured at the labelled site and at the other one. They must not be
        among the rows that are searched. Labels of Datasets are ignored.
    scoring, adapter
        As in `expected_score`.

    Returns
    -------
    callable
        A function of estimator, X and y, whose parameters are the arguments. X and y are labelled
        rows that the estimator was not fitted to.

    Raises
    ------
    ValueError
        If `X_a` and `X_b` are not two measurements of the same objects, or objects are given
        several times. A candidate that cannot be scored raises, and ``error_score`` of the search
        says what follows.

    Warns
    -----
    UserWarning
        As `expected_score` for the pairs. In a search the first of the warnings of a fold comes
        once, such as that the fold has fewer labelled rows than twice the classes.

    Notes
    -----
    Rows of a test fold whose class the fold's model does not know are missed, as in `PASearchCV`,
    even if it knows none. Columns of classes that the fold lacks count in the log-loss and in the
    Brier score.

    See Also
    --------
    expected_score : The score of trained classifiers, with its error and interval.
    PASearchCV : ``fit(X, y, paired=(X_a, X_b))`` calibrates on all folds together.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.utils import shuffle
    >>> from pa_select import expected_scorer
    >>> X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
    >>> here, there = X[:60], X[:60] + np.random.default_rng(0).normal(0, 4, (60, 64))
    >>> search = GridSearchCV(
    ...     RandomForestClassifier(30, random_state=0),
    ...     {"max_depth": [1, 8]},
    ...     scoring=expected_scorer(here, there),
    ... )
    >>> search.fit(X[60:500], y[60:500]).best_params_
    {'max_depth': 8}
    """
    if y:
        raise TypeError(f"expected_scorer: expected two samples, got {2 + len(y)} arguments.")
    # A wrong name, or wrong pairs, would make every fold of a search fail.
    check_scoring_argument(scoring)
    if isinstance(scoring, str):
        for task in (Regression(), Classification()):
            task.check_scorer(get_scorer(scoring), np.arange(3))
    check_pairs(X_a, X_b, adapter=adapter)
    scorer = ExpectedScorer(X_a, X_b, scoring, adapter)
    scorer._rows()  # once, and not in every process of a search
    return scorer
