"""Selecting the numbers of a robustness curve to draw: a column along ratio or power."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pa_select.plotting.axes import AGREEMENT
from pa_select.utils.typing import Floats, HasArray, Prior

if TYPE_CHECKING:
    from pa_select.assessment import RobustnessCurve

#: The two variables that can be the horizontal axis, each with the other one.
AXES = {"ratio": "power", "power": "ratio"}
# Axis labels by the metric of `robustness_curve` that computes the column. The first two
# columns are computed with any metric.
_COLUMNS = {
    "agreement": {
        "mean_norm": "mean distance moved",
        "success_rate": "share of successful attacks",
        "pa": AGREEMENT,
        "pa_uniform": AGREEMENT,
        "beta": "inverse temperature $\\beta^*$\n(at the edges: 0, $\\infty$)",
        "standard_error": "standard error of the agreement\n(nats per pair)",
        "standard_error_uniform": "standard error of the agreement\n(nats per pair)",
        "gap": "certified gap (nats per pair)",
        "afr_pred": "share of kept predictions\n($\\mathrm{AFR_{pred}}$)",
        "pa_change": "change of the agreement\n(nats per pair)",
        "afr_pred_change": "change of the share\nof kept predictions",
    },
    "accuracy": {
        "clean_accuracy": "accuracy before the shift",
        "shifted_accuracy": "accuracy under the shift",
        "afr_true": "accuracy under the shift\n($\\mathrm{AFR_{true}}$)",
        "afr_true_change": "change of the accuracy",
        "accuracy_drop": "lost accuracy",
        "relative_accuracy_drop": "lost accuracy\n(share of that before)",
    },
    "log_loss": {
        "log_loss": "log-loss (nats)",
        "log_loss_gap": "increase of the log-loss (nats)",
        "relative_log_loss_gap": "increase of the log-loss\n(share of that before)",
    },
    "posterior": {
        "kl": "divergence of the posteriors (nats)",
        "wasserstein": "distance of the posteriors (0 to 1)",
    },
    "features": {
        "cosine_similarity": "cosine similarity of the features",
        "mmd": "maximum mean discrepancy\nof the features",
        "frechet": "Fréchet distance of the features",
        "centroid_distance": "distance of the features' means",
    },
}
#: The axis label of each column.
LABELS = {name: label for columns in _COLUMNS.values() for name, label in columns.items()}
#: The metric that computes each column.
METRICS = {name: metric for metric, columns in _COLUMNS.items() for name in columns}
# The columns with standard errors whose name is not that of the column and "_se".
_ERRORS = {
    "pa": "standard_error",
    "pa_uniform": "standard_error_uniform",
    "afr_pred_change": "afr_pred_se",
    "afr_true": "shifted_accuracy_se",
    "afr_true_change": "accuracy_drop_se",
}
#: The columns of shares of rows, which are in [0, 1].
SHARES = ("clean_accuracy", "shifted_accuracy", "afr_pred", "afr_true")
# The columns that depend on the class prior.
_OF_PRIOR = ("pa", "beta", "standard_error", "gap", "pa_change")
OF_UNIFORM_PRIOR = ("pa_uniform", "standard_error_uniform")


def prior_of(column: str, prior: Prior | None) -> Prior | None:
    """Return the class prior under which a column was computed, or None without a prior."""
    if column in OF_UNIFORM_PRIOR:
        return "uniform"
    return prior if column in _OF_PRIOR else None


def label_of(column: str, prior: Prior | None) -> str:
    """Return the axis label of a column, with its prior."""
    under = prior_of(column, prior)
    if under is None:
        return LABELS[column]
    return f"{LABELS[column]},\n{under if isinstance(under, str) else 'given'} prior"


def reference_values(column: str, prior: Prior | None, n_classes: int | None) -> dict[str, float]:
    """Return the reference values of an agreement, by their labels in the legend."""
    under = prior_of(column, prior)
    if column not in ("pa", "pa_uniform") or under is None or n_classes is None:
        return {}
    if not isinstance(under, str):
        return {"upper limit": float(-np.log(np.min(under)))}
    limit = math.log(n_classes)
    if under == "uniform":
        return {"upper limit, constant model": limit}
    return {r"upper limit ($\log K$)": limit, "constant model (0)": 0.0}


def check_at(x: str | None, at: Mapping[str, Any] | None) -> None:
    """Raise an error if the axis `x` does not exist, or `at` fixes it."""
    if x is not None and x not in AXES:
        raise ValueError(f"x: expected 'ratio', 'power' or None, got {x!r}.")
    if at is None:
        return
    if not isinstance(at, Mapping):
        raise TypeError(f"at: expected a dict or None, got {type(at).__name__}.")
    free = [name for name in AXES if name != x]
    if len(at) > 1 or not set(at) <= set(free):
        raise ValueError(f"at: expected {' or '.join(map(repr, free))} alone, got {list(at)}.")


def cut(
    curve: RobustnessCurve, column: str, x: str | None, at: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the parameters of a display."""
    check_at(x, at)
    known = [name for name in curve.table if name in LABELS]
    if column not in known:
        raise ValueError(f"column: expected one of {known}, got {column!r}.")
    lists = {"ratio": np.array(curve.ratios), "power": np.array(curve.powers)}
    if at:
        x = next(name for name in AXES if name not in at)
    elif x is None:
        x = "power" if len(lists["ratio"]) == 1 else "ratio"
    other = AXES[x]
    points, panels = np.argsort(lists[x]), np.argsort(lists[other])
    if at:
        values_of_panels = np.atleast_1d(at[other])
        panels = np.array([_position(lists[other], value, other) for value in values_of_panels])
    if np.isinf(lists[x]).any():
        raise ValueError("x: expected finite powers, got inf; x='ratio' gives it a panel.")

    def arranged(numbers: HasArray) -> Floats:
        """Arrange the numbers of a column by panel, estimator and point."""
        shape = len(curve.estimators), len(curve.powers), len(curve.ratios)
        cube = np.asarray(numbers, dtype=np.float64).reshape(shape)
        cube = np.moveaxis(cube, (1, 2) if other == "power" else (2, 1), (0, 2))
        return cube[panels][:, :, points]

    values = arranged(curve.table[column])
    if np.isnan(values).all():
        raise ValueError(f"column: expected one that the shift gives, got {column!r}, all nan.")
    errors = curve.table.get(_ERRORS.get(column, f"{column}_se"))
    return {
        "x": lists[x][points],
        "values": values,
        "errors": None if errors is None else arranged(errors),
        "names": list(curve.estimators),
        "panels": lists[other][panels].tolist(),
        "x_name": x,
        "column": column,
        "prior": curve.prior,
        "n_classes": curve.n_classes,
    }


def _position(values: Floats, value: float, name: str) -> int:
    """Return the position of a value, up to rounding such as that of 0.1 + 0.2."""
    near = np.flatnonzero(np.isclose(values, value, rtol=1e-9, atol=0))
    if not len(near):
        raise ValueError(f"at[{name!r}]: expected one of {values.tolist()}, got {value!r}.")
    return int(near[0])
