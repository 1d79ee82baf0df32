"""The columns of a robustness curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pa_select.assessment.feature_measures import feature_discrepancy
from pa_select.assessment.measures import (
    accuracy_measures,
    kept_predictions,
    log_loss_measures,
    posterior_measures,
)
from pa_select.assessment.shifted_outputs import Samples


def curve_table(
    samples: Samples,
    keys: list[tuple[str, float, float]],
    columns: Mapping[str, Any],
    chosen: Sequence[str],
    n: int,
) -> dict[str, NDArray[Any]]:
    """Return the columns of the chosen metrics, with nan where an estimator failed.

    Parameters
    ----------
    samples : Samples
    keys : list of (str, float, float)
        Estimator, power and ratio of each row of the table.
    columns : dict of str to ndarray of shape (n,), or None
        The column of each row's label in an estimator's scores.
    chosen : sequence of str
        The metrics.
    n : int
        Number of rows that were shifted.
    """
    samples.check_some_are_left(samples.after)
    known = [key for key in keys if key[:2] in samples.after]
    solved: list[Any] = [{}] * len(known)
    if "agreement" in chosen:
        solved = samples.agreement_columns(known)
    rows = {
        key: _measures(samples, key, columns[key[0]], chosen, agreement)
        for key, agreement in zip(known, solved, strict=True)
    }
    names = next(iter(rows.values()))
    for key in keys:
        if key[:2] in samples.failures:
            lost = dict(zip(("estimator", "power", "ratio"), key, strict=True)) | {"n_pairs": n}
            rows[key] = dict.fromkeys(names, np.nan) | lost
    return {name: np.array([rows[key][name] for key in keys]) for name in names}


def _measures(
    samples: Samples,
    key: tuple[str, float, float],
    y: Any,
    chosen: Sequence[str],
    solved: Mapping[str, float],
) -> dict[str, Any]:
    """Return one row of the table."""
    name, power, ratio = key
    replaced = samples.replaced(*key)
    shifted = samples.shifted[name, power]
    before, after = samples.pair(*key)
    groups = samples.how["groups"]
    row: dict[str, Any] = {"estimator": name, "power": power, "ratio": ratio}
    right: dict[str, float] = {}
    if "accuracy" in chosen:
        right = accuracy_measures(before, after, y, groups)
        # A reader looks for these first.
        row |= {name: right[name] for name in ("clean_accuracy", "shifted_accuracy")}
    row |= {
        "n_pairs": len(replaced),
        "mean_norm": _mean(shifted.norm[replaced]),
        "success_rate": np.nan if shifted.success is None else _mean(shifted.success[replaced]),
    }
    if "agreement" in chosen:
        row |= {**solved, **kept_predictions(before, after, groups)}
    row |= right
    if "log_loss" in chosen:
        row |= log_loss_measures(before, after, y, groups)
    if "posterior" in chosen:
        row |= posterior_measures(before, after, groups)
    if "features" in chosen:
        row |= feature_discrepancy(*samples.feature_pair(*key))._asdict()
    return row


def _mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
