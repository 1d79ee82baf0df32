"""By how much a metric is expected to change, if labels are known up to a probability."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score

from pa_select.agreement.standard_errors import standard_error
from pa_select.scores.recorded import Recorded, row_numbers
from pa_select.utils.sklearn_private import _PassthroughScorer
from pa_select.utils.typing import Floats, Ints

# The standard error of a metric that is not a mean leaves out so many groups, one at a time.
_GROUPS = 20
# Of a normal distribution, 95 % lies within so many standard deviations.
_Z = 1.96


class Expectation(NamedTuple):
    """An expected value, and its standard error over the objects."""

    score: float
    standard_error: float


def is_accuracy(scorer: Any) -> bool:
    """Whether a scorer of scikit-learn computes the accuracy; None does, for classifiers."""
    if isinstance(scorer, _PassthroughScorer):
        return True
    plain = getattr(scorer, "_sign", 0) == 1 and not getattr(scorer, "_kwargs", {})
    return plain and getattr(scorer, "_score_func", None) is accuracy_score


def check_scorer(scorer: Any, classes: NDArray[Any]) -> None:
    """Check that the metric of a scorer takes sample weights.

    Raises
    ------
    TypeError
        If it does not.
    """
    rows = np.arange(2 * len(classes))
    scores = np.tile(np.eye(len(classes)), (2, 1))
    known = Recorded(classes, scores, np.tile(classes, 2))
    try:
        _weighted(scorer, known, rows, np.tile(classes, 2), np.ones(len(rows)))
    except TypeError:
        raise
    except Exception:  # the metric does not like these labels; it will say so for the real ones
        return


def expected_change(
    scorer: Any,
    labels: Sequence[Floats],
    before: Sequence[Recorded],
    after: Sequence[Recorded],
) -> Expectation:
    """Score two sets of predictions for the same objects, whose labels are uncertain.

    Parameters
    ----------
    scorer : callable
        A scorer whose metric takes sample weights.
    labels : list of ndarray of shape (n, n_classes)
        For each model, the probabilities of the classes of each object.
    before, after : list of Recorded
        The two predictions of each model; the columns of `labels` are its classes.

    Returns
    -------
    Expectation
        The score of `after` minus that of `before`, in the mean over the models. An object
        that several models predict is one observation.
    """
    n, models = len(labels[0]), list(zip(labels, before, after, strict=True))
    every = np.arange(n)
    if is_accuracy(scorer):
        gains = [_hits(known, b) - _hits(known, a) for known, a, b in models]
        gain = np.mean(gains, axis=0)
        return Expectation(float(gain.mean()), standard_error(gain, np.full(n, 1 / n)))

    def change_of(rows: Ints) -> float:
        changes = [
            counted(scorer, b, known[rows], rows) - counted(scorer, a, known[rows], rows)
            for known, a, b in models
        ]
        return float(np.mean(changes))

    return Expectation(change_of(every), jackknife(change_of, n))


def expected_level(
    scorer: Any, labels: Sequence[Floats], models: Sequence[Recorded]
) -> Expectation:
    """Score predictions for objects whose labels are uncertain.

    Parameters
    ----------
    scorer, labels
        As in `expected_change`.
    models : list of Recorded
        The predictions of each model.

    Returns
    -------
    Expectation
        The score in the mean over the models.
    """
    n, pairs = len(labels[0]), list(zip(labels, models, strict=True))
    if is_accuracy(scorer):
        hits = np.mean([_hits(known, model) for known, model in pairs], axis=0)
        return Expectation(float(hits.mean()), standard_error(hits, np.full(n, 1 / n)))

    def score_of(rows: Ints) -> float:
        return float(np.mean([counted(scorer, m, known[rows], rows) for known, m in pairs]))

    return Expectation(score_of(np.arange(n)), jackknife(score_of, n))


def error_of_score(
    scorer: Any,
    score: float,
    model: Recorded,
    y: NDArray[Any],
    groups: NDArray[Any] | None = None,
) -> float:
    """Return the standard error of the score of labelled rows, which may be in groups."""
    if is_accuracy(scorer):
        return float(np.sqrt(_variance(score, number_of_rows(model, y, groups))))

    def score_of(rows: Ints) -> float:
        return float(scorer(model, row_numbers(rows), y[rows]))

    return jackknife(score_of, len(y), groups)


def number_of_rows(model: Recorded, y: NDArray[Any], groups: NDArray[Any] | None) -> float:
    """Return how many independent rows say as much of the accuracy as labelled rows in groups."""
    return len(y) if groups is None else effective_number(model.predicted == y, groups, len(y))


def expected_score_of(scorer: Any, score: float, error: float, change: Expectation) -> Expectation:
    """Add the change that is expected to the score on labelled rows, with both errors."""
    total = score + change.score
    if is_accuracy(scorer):
        total = min(max(total, 0.0), 1.0)
    return Expectation(total, float(np.hypot(error, change.standard_error)))


def interval(
    accuracy: float, n_labelled: float, disagreement: float, n_pairs: float
) -> tuple[float, float]:
    """Return the 95 % interval of the accuracy that does not assume calibrated posteriors."""
    variance = _variance(accuracy, n_labelled) + _variance(disagreement, n_pairs)
    reach = disagreement + _Z * float(np.sqrt(variance))
    return max(accuracy - reach, 0.0), min(accuracy + reach, 1.0)


def effective_number(right: NDArray[np.bool_], groups: NDArray[Any], n: int) -> float:
    """Return how many independent rows have the variance of the accuracy of rows in groups.

    Parameters
    ----------
    right : ndarray of bool of shape (n_predictions,)
        Whether each prediction of a labelled row is right; a row may be predicted several times.
    groups : ndarray of shape (n_predictions,)
    n : int
        Number of rows, which is the most that is returned.
    """
    codes = np.unique(groups, return_inverse=True)[1]
    rate, n_groups = float(right.mean()), int(codes.max()) + 1
    deviations = np.bincount(codes, right - rate) / len(right)
    variance = float(deviations @ deviations) * n_groups / max(n_groups - 1, 1)
    # Where all predictions are right, how alike the rows of a group are is not known.
    return min(rate * (1 - rate) / variance, n) if variance > 0 else n_groups


def _variance(rate: float, n: float) -> float:
    """Variance of a rate of n, after two successes and two failures are added."""
    added = (rate * n + 2) / (n + 4)
    return added * (1 - added) / (n + 4)


def _hits(labels: Floats, model: Recorded) -> Floats:
    """Return the probability that each prediction is right."""
    order = np.argsort(model.classes)
    columns = order[np.searchsorted(model.classes, model.predicted, sorter=order)]
    hits: Floats = labels[np.arange(len(labels)), columns]
    return hits


def counted(scorer: Any, model: Recorded, labels: Floats, rows: Ints) -> float:
    """Count each of the rows once for every class, with the class's probability as weight."""
    k = labels.shape[1]
    return _weighted(
        scorer, model, np.repeat(rows, k), np.tile(model.classes, len(rows)), labels.ravel()
    )


def _weighted(scorer: Any, model: Recorded, rows: Ints, y: NDArray[Any], weight: Floats) -> float:
    try:
        return float(scorer(model, row_numbers(rows), y, sample_weight=weight))
    except TypeError as error:
        raise TypeError(
            f"scoring: expected a scorer whose metric takes sample weights, got {scorer!r} "
            f"({error})."
        ) from error


def jackknife(score_of: Any, n: int, groups: NDArray[Any] | None = None) -> float:
    """Standard error of a score of n rows, by leaving out parts of the rows in turn.

    Rows of one group are left out together.
    """
    codes = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    n_parts = min(int(codes.max()) + 1, _GROUPS)
    if n_parts < 2:
        return float("nan")
    part = codes % n_parts
    scores = np.array([score_of(np.flatnonzero(part != p)) for p in range(n_parts)])
    return float(np.sqrt((n_parts - 1) / n_parts * np.square(scores - scores.mean()).sum()))
