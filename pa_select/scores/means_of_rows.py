"""Metrics that follow from a mean over rows, computed for many folds at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn import metrics

from pa_select.scores.precomputed import RecordedRegressor, row_numbers
from pa_select.utils.sklearn_private import _PassthroughScorer
from pa_select.utils.typing import Array, Floats, Ints, Scorer

# So many entries has a matrix of folds and rows at most.
_AT_ONCE = 4_000_000
_OF_ERRORS: dict[Any, Callable[[Floats], Floats]] = {
    metrics.mean_absolute_error: np.abs,
    metrics.mean_squared_error: np.square,
    metrics.root_mean_squared_error: np.square,
    metrics.r2_score: np.square,
}


def values_of_rows(scorer: Scorer, model: Any, y: Array) -> Floats | None:
    """Return the value of each row for a metric that follows from their mean; None for others.

    It is whether the label is predicted, a loss of probabilities, or an error of a regressor.
    """
    metric, options = _metric_of(scorer, model), set(getattr(scorer, "_kwargs", {}))
    values: Floats | None = None
    if isinstance(model, RecordedRegressor):
        if metric in _OF_ERRORS and not options:
            values = _OF_ERRORS[metric](y - model.predicted)
    elif metric is metrics.accuracy_score and not options:
        values = (model.predicted == y) * 1.0
    elif (
        metric in (metrics.log_loss, metrics.brier_score_loss)
        and options == {"labels"}  # else the classes are those of the labels of each fold
        and hasattr(model, "predict_proba")
    ):
        p = model.predict_proba(row_numbers(np.arange(len(y))))
        if p.shape[1] == 2:  # scikit-learn looks at the second class alone
            p = np.stack([1 - p[:, 1], p[:, 1]], axis=1)
        is_label = y[:, None] == model.classes
        if metric is metrics.log_loss:
            eps = np.finfo(p.dtype).eps
            values = -np.log(np.clip(p[is_label], eps, 1 - eps))
        else:
            values = np.square(is_label - p).sum(axis=1) / (2 if p.shape[1] == 2 else 1)
    return values


def means_of_folds(
    scorer: Scorer, models: Sequence[Any], y: Array, folds: Sequence[Ints]
) -> Floats | None:
    """Return what models score on all folds, (n_folds, n_models); None if there is no formula."""
    of_models = [values_of_rows(scorer, model, y) for model in models]
    known = [values for values in of_models if values is not None]
    if len(known) < len(models):
        return None
    values = np.stack(known, axis=1, dtype=np.float64)
    metric, found = _metric_of(scorer, models[0]), []
    at_once = max(1, _AT_ONCE // len(y))
    for start in range(0, len(folds), at_once):
        some = folds[start : start + at_once]
        inside = np.zeros((len(some), len(y)))
        for row, fold in zip(inside, some, strict=True):
            row[fold] = 1
        sizes = inside.sum(axis=1, keepdims=True)
        means = inside @ values / sizes
        if metric is metrics.root_mean_squared_error:
            means = np.sqrt(means)
        elif metric is metrics.r2_score:
            away = inside * (y - inside @ y[:, None] / sizes)
            spread = np.square(away).sum(axis=1, keepdims=True) / sizes
            # Where labels do not differ, it is as scikit-learn has it.
            share = np.divide(means, spread, out=(means > 0) * 1.0, where=spread > 0)
            means = np.where(sizes > 1, 1 - share, np.nan)
        found.append(means)
    return getattr(scorer, "_sign", 1) * np.concatenate(found)


def _metric_of(scorer: Scorer, model: Any) -> Any:
    """Return the metric of a scorer; an estimator's own score is its accuracy, or R2."""
    if isinstance(scorer, _PassthroughScorer):
        return metrics.r2_score if isinstance(model, RecordedRegressor) else metrics.accuracy_score
    return getattr(scorer, "_score_func", None)
