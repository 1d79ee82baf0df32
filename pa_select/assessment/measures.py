"""Measures of how a shift changes a classifier's outputs, other than agreement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, rel_entr

from pa_select.agreement.standard_errors import standard_error
from pa_select.utils.typing import Floats, Ints


class Outputs(NamedTuple):
    """The scores of one sample, with the posteriors and predictions derived from them.

    Parameters
    ----------
    scores : ndarray of shape (n, n_classes)
        Scores as `class_scores` returns them.
    log_posterior : ndarray of shape (n, n_classes)
        Logs of the posteriors at inverse temperature 1.
    predicted : ndarray of shape (n,)
        Column of the predicted class.
    """

    scores: Floats
    log_posterior: Floats
    predicted: NDArray[np.intp]

    @classmethod
    def of(cls, scores: Any) -> Outputs:
        """Derive posteriors and predictions from scores of any type."""
        if hasattr(scores, "detach"):
            scores = scores.detach().cpu().double().numpy()
        values: Floats = np.asarray(scores, dtype=np.float64)
        return cls(values, log_softmax(values, axis=1), values.argmax(1))

    def mixed(self, other: Outputs, replaced: NDArray[np.bool_]) -> Outputs:
        """Return the outputs with some rows replaced by those of another sample."""
        return Outputs(
            np.where(replaced[:, None], other.scores, self.scores),
            np.where(replaced[:, None], other.log_posterior, self.log_posterior),
            np.where(replaced, other.predicted, self.predicted),
        )


def with_errors(values: Mapping[str, Floats], groups: Ints | None) -> dict[str, float]:
    """Return the mean of one value for each row, and its standard error as ``<name>_se``.

    Parameters
    ----------
    values : dict of str to ndarray of shape (n,)
    groups : ndarray of shape (n,) or None
        Rows of one group are not taken as independent. None: all rows are.
    """
    found = {}
    for name, of_rows in values.items():
        weight = np.full(len(of_rows), 1 / len(of_rows))
        objects = None if groups is None else (groups, groups)
        found[name] = float(of_rows.mean())
        with np.errstate(invalid="ignore"):  # an infinite log-loss has the error nan
            found[f"{name}_se"] = standard_error(of_rows, weight, objects)
    return found


def accuracy_measures(
    before: Outputs, after: Outputs, y: NDArray[np.intp], groups: Ints | None
) -> dict[str, float]:
    """Return both accuracies and the accuracy lost, also by their names in the papers."""
    right, still = (1.0 * (outputs.predicted == y) for outputs in (before, after))
    found = with_errors({"clean_accuracy": right, "shifted_accuracy": still}, groups)
    lost = with_errors({"accuracy_drop": right - still}, groups)
    return {
        **found,
        "afr_true": found["shifted_accuracy"],
        "afr_true_change": -lost["accuracy_drop"],
        **lost,
        "relative_accuracy_drop": _ratio(lost["accuracy_drop"], found["clean_accuracy"]),
    }


def kept_predictions(before: Outputs, after: Outputs, groups: Ints | None) -> dict[str, float]:
    """Return the share of rows whose prediction stays the same under the shift."""
    found = with_errors({"afr_pred": 1.0 * (before.predicted == after.predicted)}, groups)
    return found | {"afr_pred_change": found["afr_pred"] - 1}


def log_loss_measures(
    before: Outputs, after: Outputs, y: NDArray[np.intp], groups: Ints | None
) -> dict[str, float]:
    """Return the log-loss under the shift in nats, and its increase."""
    rows = np.arange(len(y))
    clean, shifted = (-outputs.log_posterior[rows, y] for outputs in (before, after))
    with np.errstate(invalid="ignore"):
        gap = shifted - clean
    found = with_errors({"log_loss": shifted, "log_loss_gap": gap}, groups)
    relative = _ratio(found["log_loss_gap"], float(clean.mean()))
    return found | {"relative_log_loss_gap": relative}


def posterior_measures(before: Outputs, after: Outputs, groups: Ints | None) -> dict[str, float]:
    """Return two mean distances between a row's posteriors before and under the shift."""
    p, q = np.exp(before.log_posterior), np.exp(after.log_posterior)
    distances = {"kl": rel_entr(p, q).sum(1), "wasserstein": np.abs(p - q).sum(1) / 2}
    return with_errors(distances, groups)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")
