"""Checks of the assessment's arguments; an error names the argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

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
