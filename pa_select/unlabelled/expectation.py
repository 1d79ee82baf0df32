"""The score of classifiers for objects whose labels are known up to a probability."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score

from pa_select.scores.alignment import columns_of
from pa_select.scores.recorded import Recorded, row_numbers
from pa_select.unlabelled.accuracy_interval import effective_number, widening
from pa_select.unlabelled.label_metrics import value_and_gradient
from pa_select.unlabelled.probability_metrics import of_probabilities
from pa_select.unlabelled.scored import Expectation, Scored, parts_of, parts_of_groups
from pa_select.utils.sklearn_private import _PassthroughScorer
from pa_select.utils.typing import Floats, Ints


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


def expected_scores(
    scorer: Any, labels: Sequence[Floats], *sides: Sequence[Recorded]
) -> list[Scored]:
    """Score several sets of predictions for the same objects, whose labels are uncertain.

    Parameters
    ----------
    scorer : callable
        A scorer whose metric takes sample weights.
    labels : list of ndarray of shape (n, n_classes)
        For each model, the probabilities of the classes of each object.
    *sides : list of Recorded
        The predictions of each model, such as those for the rows of one site; the columns of
        `labels` are the model's classes.

    Returns
    -------
    list of Scored
        For each set the score, in the mean over the models. An object that several models
        predict is one unit.
    """
    by_formula = [
        [_by_formula(scorer, known, model) for known, model in zip(labels, models, strict=True)]
        for models in sides
    ]
    if all(found is not None for models in by_formula for found in models):
        return [Scored.mean_of([one for one in found if one]) for found in by_formula]
    outputs = [output for models in sides for one in models for output in _content(one)]
    part = parts_of(*labels, *outputs)

    def score_of(models: Sequence[Recorded], rows: Ints) -> float:
        pairs = zip(labels, models, strict=True)
        return float(np.mean([counted(scorer, m, known[rows], rows) for known, m in pairs]))

    return [Scored.by_leaving_out(partial(score_of, models), part) for models in sides]


def _content(model: Recorded) -> list[Floats]:
    """Return all numbers that are known of a model's rows."""
    codes = np.unique(model.predicted, return_inverse=True)[1].astype(np.float64)
    probabilities = [] if model.probabilities is None else [model.probabilities]
    return [model.scores, codes, *probabilities]


def _by_formula(
    scorer: Any, labels: Floats, model: Recorded, *, is_counted: bool = True
) -> Scored | None:
    """Score by the formula of a metric of scikit-learn; None if there is none for this scorer.

    ``is_counted``: every object counts once for each class; else each row has one label.
    """
    if is_accuracy(scorer):
        return Scored.of_mean(_hits(labels, model))
    metric, options = getattr(scorer, "_score_func", None), getattr(scorer, "_kwargs", {})
    found, methods = None, _response(scorer)
    if methods == ["predict"]:
        found = _of_table(metric, options, labels, model, is_counted)
    elif (formula := of_probabilities(metric, options, labels.shape[1])) is not None:
        every = row_numbers(np.arange(len(labels)))
        found = formula(labels, np.asarray(getattr(model, methods[0])(every)))
    return None if found is None else found.times(scorer._sign)


def _response(scorer: Any) -> list[str]:
    """Return the methods of a classifier, of which a scorer calls the first one."""
    methods = getattr(scorer, "_response_method", ())
    return [methods] if isinstance(methods, str) else list(methods)


def _of_table(
    metric: Any, options: dict[str, Any], labels: Floats, model: Recorded, is_counted: bool
) -> Scored | None:
    """Score predicted classes by the table of the expected counts of labels and predictions."""
    n, found = len(labels), columns_of(model.predicted, model.classes, "the model")
    table = labels.T @ (found[:, None] == np.arange(labels.shape[1])) / n
    # An object that counts once for every class brings all classes into the metric.
    known = np.full(len(table), True) if is_counted else (table.sum(0) > 0) | (table.sum(1) > 0)
    inside = np.ix_(known, known)
    result = value_and_gradient(metric, options, table[inside], model.classes[known])
    if result is None:
        return None
    gradient = np.zeros_like(table)
    gradient[inside] = result[1]
    influence = (labels * gradient.T[found]).sum(axis=1)
    return Scored(result[0], (influence - float((gradient * table).sum())) / n)


def error_of_score(
    scorer: Any,
    score: float,
    model: Recorded,
    y: NDArray[Any],
    groups: NDArray[Any] | None = None,
) -> float:
    """Return the standard error of the score of labelled rows, which may be in groups.

    Raises
    ------
    ValueError
        If all rows are in one group.
    """
    if is_accuracy(scorer):
        return float(np.sqrt(_variance(score, number_of_rows(model, y, groups))))
    labels = (y[:, None] == model.classes).astype(np.float64)
    if (found := _by_formula(scorer, labels, model, is_counted=False)) is not None:
        return found.standard_error(groups)

    return error_by_leaving_out(scorer, model, y, groups, labels, *_content(model))


def error_by_leaving_out(
    scorer: Any, model: Any, y: NDArray[Any], groups: NDArray[Any] | None, *content: Floats
) -> float:
    """Return the standard error of the score of labelled rows, by leaving out parts of them.

    Rows of one group are left out together; `content` is what is known of the rows.
    """

    def score_of(rows: Ints) -> float:
        return float(scorer(model, row_numbers(rows), y[rows]))

    if groups is None:
        return Scored.by_leaving_out(score_of, parts_of(*content)).standard_error()
    error = Scored.by_leaving_out(score_of, parts_of_groups(groups)).standard_error()
    return error * widening(len(np.unique(groups)), len(y))


def number_of_rows(model: Recorded, y: NDArray[Any], groups: NDArray[Any] | None) -> float:
    """Return how many independent rows say as much of the accuracy as labelled rows in groups."""
    return len(y) if groups is None else effective_number(model.predicted == y, groups, len(y))


def expected_score_of(scorer: Any, score: float, error: float, change: Expectation) -> Expectation:
    """Add the change that is expected to the score on labelled rows, with both errors."""
    total = score + change.score
    if is_accuracy(scorer):
        total = min(max(total, 0.0), 1.0)
    return Expectation(total, float(np.hypot(error, change.standard_error)))


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
