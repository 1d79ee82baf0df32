"""How accurate classifiers will be on unlabelled rows of a target."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm
from sklearn.metrics import check_scoring
from sklearn.utils.validation import check_is_fitted

from pa_select.calibration.agreement_calibrated_classifier import AgreementCalibratedClassifier
from pa_select.calibration.fold_models import FoldScores
from pa_select.calibration.held_out import OnTarget
from pa_select.calibration.ratio import check_target, factor_of
from pa_select.scores.recorded import Recorded
from pa_select.unlabelled.calibration import calibrated
from pa_select.unlabelled.expectation import check_scorer, counted, is_accuracy
from pa_select.utils.columns import shares_of
from pa_select.utils.estimators import named_estimators
from pa_select.utils.optional_imports import optional_import
from pa_select.utils.sklearn_private import _num_samples
from pa_select.utils.typing import Floats, Ints

# A line needs the agreements of three pairs of models at least.
_LEAST_MODELS = 3
# A probit of 0 or 1 is infinite: so much of a row is added to both sides of a rate.
_HALF_A_ROW = 0.5


class AccuracyEstimate(NamedTuple):
    """What `estimate_accuracy` estimates for one classifier on unlabelled rows.

    Attributes
    ----------
    score : float
        The mean of the estimates below that are not nan, in the unit of the metric.
    confidence : float
        The metric, if each class has the probability that the classifier gives it, calibrated by
        the agreement on these rows. For the accuracy it is the mean of the largest probability.
    agreement_change : float
        The metric on the labelled rows, plus its change from these to the target if what the model
        of the other half decides stands in for the labels.
    agreement_line : float
        For the accuracy and three or more classifiers: where the accuracy on the labelled rows
        leads on the line that relates the agreements of all pairs of classifiers on the target to
        those on the labelled rows (in probits). nan for other metrics or fewer classifiers.
    validation_score : float
        The metric on the labelled rows, each scored by a model that was not fitted to it.
    ratio : float
        The ratio of agreements; the probabilities were calibrated by it if it is below 1.
    n_rows : int
        Number of rows of the target.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.utils import shuffle
    >>> from pa_select import AgreementCalibratedClassifier, estimate_accuracy
    >>> X, y = shuffle(*load_wine(return_X_y=True), random_state=0)
    >>> model = AgreementCalibratedClassifier(GaussianNB()).fit(X[:78], y[:78])
    >>> found = estimate_accuracy(model, 1.1 * X[78:])
    >>> found.n_rows, found.score < found.validation_score
    (100, True)
    """

    score: float
    confidence: float
    agreement_change: float
    agreement_line: float
    validation_score: float
    ratio: float
    n_rows: int

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


def estimate_accuracy(estimators: Any, X: Any, *, scoring: Any = "accuracy") -> Any:
    """Estimate how accurate classifiers will be on rows of a target that has no labels.

    Three rules are averaged. The first believes the probabilities, once the agreement on the
    target has calibrated them. The second adds to the accuracy on labelled rows by how much less
    models of different rows agree on the target than on held-out labelled rows. The third needs
    three classifiers or more: agreement and accuracy change along the same line.

    The estimate does not serve to choose a classifier: one that is chosen for the highest estimate
    looks better than it is, and simpler rules choose as well. `PASearchCV` has these.

    Parameters
    ----------
    estimators : AgreementCalibratedClassifier, or list or dict of them
        Fitted classifiers. Several must be fitted to the same rows.
    X : array-like of m rows
        Unlabelled rows of the target, at least 20. They need not be those that the classifiers
        were calibrated for.
    scoring : str or callable, default="accuracy"
        A scorer of scikit-learn, by name or as made by ``make_scorer``, whose metric takes
        sample weights. None: the accuracy.

    Returns
    -------
    AccuracyEstimate or dict of str to AccuracyEstimate
        A dict for several estimators.

    Raises
    ------
    TypeError
        If an estimator is not an `AgreementCalibratedClassifier`, or the metric takes no sample
        weights.
    ValueError
        If X has fewer than 20 rows, or several estimators were fitted to different rows.
    sklearn.exceptions.NotFittedError
        If an estimator is not fitted.

    Warns
    -----
    UserWarning
        If X has fewer than 100 rows.

    See Also
    --------
    expected_score : The score at another site from objects that were measured at both; where
        there are such pairs, it is more exact.

    Notes
    -----
    None of the rules sees a shift on which all models err alike. docs/calibration has the errors
    that were measured.

    References
    ----------
    .. [1] Y. Jiang, V. Nagarajan, C. Baek, J. Z. Kolter, "Assessing generalization of SGD via
       disagreement", ICLR 2022 (agreement and accuracy of models).
    .. [2] C. Baek, Y. Jiang, A. Raghunathan, J. Z. Kolter, "Agreement-on-the-line: predicting the
       performance of neural networks under distribution shift", NeurIPS 2022 (the line).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.utils import shuffle
    >>> from pa_select import AgreementCalibratedClassifier, estimate_accuracy
    >>> X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
    >>> X = X / 16
    >>> target = X[900:] + np.random.default_rng(0).normal(0, 0.4, X[900:].shape)
    >>> model = AgreementCalibratedClassifier(LogisticRegression(max_iter=1000))
    >>> model = model.fit(X[:900], y[:900])
    >>> found = estimate_accuracy(model, target)
    >>> truth = model.score(target, y[900:])
    >>> abs(found.score - truth) < 0.1, found.validation_score - truth > 0.1
    (True, True)
    """
    named = named_estimators(estimators)
    for name, one in named.items():
        if not isinstance(one, AgreementCalibratedClassifier):
            raise TypeError(
                "estimators: expected fitted AgreementCalibratedClassifiers, got "
                f"{type(one).__name__} as {name}."
            )
        check_is_fitted(one)
    check_target(X, X, "X")
    _check_same_rows(named)
    first = next(iter(named.values()))
    scorer = check_scoring(first, scoring)
    check_scorer(scorer, first.classes_)
    targets = {name: one._on_target(X, "X") for name, one in named.items()}
    line = dict.fromkeys(named, float("nan"))
    if is_accuracy(scorer) and len(named) >= _LEAST_MODELS:
        line = _agreement_line(named, {name: found.scores for name, found in targets.items()})
    found = {
        name: _estimate(one, X, scorer, targets[name], line[name]) for name, one in named.items()
    }
    several = isinstance(estimators, (Mapping, list, tuple))
    return found if several else next(iter(found.values()))


def _check_same_rows(named: Mapping[str, AgreementCalibratedClassifier]) -> None:
    name, first = next(iter(named.items()))
    for other_name, other in named.items():
        if not (
            np.array_equal(first.classes_, other.classes_)
            and np.array_equal(_labels_by_row(first), _labels_by_row(other), equal_nan=True)
        ):
            raise ValueError(
                "estimators: expected classifiers that were fitted to the same rows, got "
                f"others for {other_name} than for {name}."
            )


def _labels_by_row(one: AgreementCalibratedClassifier) -> Floats:
    """Return the column of the label of each row, nan for rows that no fold held out."""
    labels = np.full(len(one._held_out.weight), np.nan)
    labels[one._held_out.scores.rows] = one._held_out.columns
    return labels


def _estimate(
    one: AgreementCalibratedClassifier, X: Any, scorer: Any, target: OnTarget, line: float
) -> AccuracyEstimate:
    n, held_out, classes = _num_samples(X), one._held_out, one.classes_
    beta, factor = one.source_inverse_temperature_, factor_of(target.ratio)
    posterior = calibrated(one._scores(X), beta * factor)
    predicted = Recorded(classes, posterior, classes[posterior.argmax(1)], posterior)
    confidence = counted(scorer, predicted, posterior, np.arange(n))
    here = held_out.scores
    weight = shares_of(here.rows, held_out.weight)
    labels = _decisions_as_labels(held_out.columns, len(classes))
    validation = _score(scorer, _recorded(here.of_models, beta, classes), labels, weight)
    everywhere = shares_of(target.scores.rows, np.ones(n))
    there = _by_halves(scorer, target.scores, factor * beta, classes, everywhere)
    changed = validation + there - _by_halves(scorer, here, beta, classes, weight)
    if is_accuracy(scorer):
        changed = min(max(changed, 0.0), 1.0)
    score = float(np.nanmean([confidence, changed, line]))
    return AccuracyEstimate(score, confidence, changed, line, validation, target.ratio, n)


def _recorded(scores: Floats, beta: float, classes: Any) -> Recorded:
    return Recorded(classes, scores, classes[scores.argmax(1)], calibrated(scores, beta))


def _decisions_as_labels(columns: Ints, n_classes: int) -> Floats:
    """Return labels as probabilities of 0 and 1, so that a metric sees every class."""
    return np.eye(n_classes)[columns]


def _score(scorer: Any, model: Recorded, labels: Floats, weight: Floats) -> float:
    if is_accuracy(scorer):
        hits = model.scores.argmax(1) == labels.argmax(1)
        return float(np.average(hits, weights=weight))
    return counted(scorer, model, labels * weight[:, None], np.arange(len(labels)))


def _by_halves(
    scorer: Any, scores: FoldScores, beta: float, classes: Any, weight: Floats
) -> float:
    """Score the models of halves by what the models of the other halves decide."""
    one, other = (_recorded(half, beta, classes) for half in scores.of_halves)
    decided = [_decisions_as_labels(half.argmax(1), len(classes)) for half in scores.of_halves]
    first = _score(scorer, one, decided[1], weight)
    return (first + _score(scorer, other, decided[0], weight)) / 2


class _Decisions(NamedTuple):
    """What models decide for rows, in the order of the rows."""

    rows: Ints
    columns: Ints
    weight: Floats


def _agreement_line(
    named: Mapping[str, AgreementCalibratedClassifier], targets: Mapping[str, FoldScores]
) -> dict[str, float]:
    """Map the accuracies on labelled rows to the target as the agreements of models map."""
    here = {
        name: _decisions(one._held_out.scores, one._held_out.weight) for name, one in named.items()
    }
    there = {
        name: _decisions(scores, np.ones(int(scores.rows.max()) + 1))
        for name, scores in targets.items()
    }
    pairs = list(combinations(named, 2))
    x, noise = np.transpose([_probit(*_agreement(here[a], here[b])) for a, b in pairs])
    y, _ = np.transpose([_probit(*_agreement(there[a], there[b])) for a, b in pairs])
    spread = x.var()
    slope = 1.0
    if spread > 0:
        # Classifiers that are alike differ by chance, and chance has no slope.
        sure = max(0.0, 1 - noise.mean() / spread)
        slope += sure * (((x - x.mean()) * (y - y.mean())).mean() / spread - 1)
    found = {}
    for name, one in named.items():
        rows, decided, weight = here[name]
        probit, _ = _probit(decided == _labels_by_row(one)[rows], weight)
        found[name] = float(norm.cdf(y.mean() + slope * (probit - x.mean())))
    return found


def _decisions(scores: FoldScores, weight: Floats) -> _Decisions:
    order = np.argsort(scores.rows, kind="stable")
    rows = scores.rows[order]
    return _Decisions(rows, scores.of_models[order].argmax(1), shares_of(rows, weight))


def _agreement(one: _Decisions, other: _Decisions) -> tuple[Any, Floats]:
    if len(one.rows) != len(other.rows):
        raise ValueError(
            "estimators: expected classifiers with as many folds each, got "
            f"{len(one.rows)} and {len(other.rows)} predictions of held-out rows or of the target."
        )
    return one.columns == other.columns, one.weight


def _probit(hits: Any, weight: Floats) -> tuple[float, float]:
    """Return the probit of a rate, and its variance by chance."""
    n = weight.sum() ** 2 / np.square(weight).sum()
    rate = (np.average(hits, weights=weight) * n + _HALF_A_ROW) / (n + 2 * _HALF_A_ROW)
    probit = float(norm.ppf(rate))
    return probit, float(rate * (1 - rate) / (n * norm.pdf(probit) ** 2))
