"""Checks of the assessment's arguments; an error names the argument."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

METRICS = ("agreement", "accuracy", "log_loss", "posterior", "features")


def one_of(values: Sequence[Any], wanted: Any, name: str) -> Any:
    """Return the value asked for; `wanted` may be None if there is only one."""
    if wanted is None and len(values) == 1:
        return values[0]
    if isinstance(wanted, (int, float)):
        # Rounding: asking for 0.3 finds 0.1 + 0.2.
        wanted = next((value for value in values if np.isclose(value, wanted, atol=0)), wanted)
    if wanted not in values:
        raise ValueError(f"{name}: expected one of {list(values)}, got {wanted!r}.")
    return wanted


def named_estimators(estimators: Any) -> dict[str, Any]:
    """Return a dict of the estimators by name."""
    if isinstance(estimators, Mapping):
        named = {str(name): estimator for name, estimator in estimators.items()}
    else:
        several = estimators if isinstance(estimators, (list, tuple)) else [estimators]
        kinds = [type(estimator).__name__ for estimator in several]
        named = {
            kind if kinds.count(kind) == 1 else f"{kind} {kinds[:i].count(kind) + 1}": estimator
            for i, (kind, estimator) in enumerate(zip(kinds, several, strict=True))
        }
    if not named:
        raise ValueError("estimators: expected at least one, got none.")
    return named


def numbers(values: Any, name: str) -> list[float]:
    """Return one number or several different numbers as a list."""
    try:
        array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: expected a number or several, got {values!r}.") from error
    if array.ndim != 1 or not len(array) or np.isnan(array).any():
        raise ValueError(f"{name}: expected a number or several, got {values!r}.")
    if len(np.unique(array)) < len(array):
        raise ValueError(f"{name}: expected different numbers, got {values!r}.")
    listed: list[float] = array.tolist()
    return listed


def select_metrics(metrics: Any, has_labels: bool, has_features: bool) -> list[str]:
    """Return the metrics asked for; "all" means those whose arguments are given."""
    lacking = {} if has_labels else {"accuracy": "y", "log_loss": "y"}
    if not has_features:
        lacking["features"] = "features"
    if isinstance(metrics, str) and metrics == "all":
        return [name for name in METRICS if name not in lacking]
    named = [metrics] if isinstance(metrics, str) else list(metrics)
    if not named or not set(named) <= set(METRICS):
        raise ValueError(f"metrics: expected 'all' or some of {METRICS}, got {metrics!r}.")
    for name in named:
        if name in lacking:
            raise ValueError(
                f"{lacking[name]}: expected a value for the metric {name!r}, got None."
            )
    return named


def columns_of(y: NDArray[Any], classes: NDArray[Any], name: str) -> NDArray[np.intp]:
    """Return the column of each label in an estimator's scores."""
    known = np.isin(y, classes)
    if not known.all():
        row = int(np.argmin(known))
        raise ValueError(
            f"y: expected classes of {name}, {classes.tolist()}, got {y[row]!r} in row {row}."
        )
    order = np.argsort(classes)
    return order[np.searchsorted(classes, y, sorter=order)]
