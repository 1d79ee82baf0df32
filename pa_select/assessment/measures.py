"""Measures of how a shift changes a classifier's outputs, other than agreement."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, rel_entr

from pa_select.utils.typing import Floats


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


def accuracies(before: Outputs, after: Outputs, y: NDArray[np.intp]) -> dict[str, float]:
    """Return the accuracy before and under the shift."""
    return {
        "clean_accuracy": float((before.predicted == y).mean()),
        "shifted_accuracy": float((after.predicted == y).mean()),
    }


def accuracy_measures(clean: float, shifted: float) -> dict[str, float]:
    """Return the accuracy under the shift, by its name in the papers, and the accuracy lost."""
    return {
        "afr_true": shifted,
        "afr_true_change": shifted - clean,
        "accuracy_drop": clean - shifted,
        "relative_accuracy_drop": _ratio(clean - shifted, clean),
    }


def log_loss_measures(before: Outputs, after: Outputs, y: NDArray[np.intp]) -> dict[str, float]:
    """Return the log-loss under the shift in nats, and its increase."""
    rows = np.arange(len(y))
    clean, shifted = (float(-o.log_posterior[rows, y].mean()) for o in (before, after))
    return {
        "log_loss": shifted,
        "log_loss_gap": shifted - clean,
        "relative_log_loss_gap": _ratio(shifted - clean, clean),
    }


def posterior_measures(before: Outputs, after: Outputs) -> dict[str, float]:
    """Return two mean distances between a row's posteriors before and under the shift."""
    p, q = np.exp(before.log_posterior), np.exp(after.log_posterior)
    return {
        "kl": float(rel_entr(p, q).sum(1).mean()),
        "wasserstein": float(np.abs(p - q).sum(1).mean() / 2),
    }


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")
