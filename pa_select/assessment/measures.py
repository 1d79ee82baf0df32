"""What a shift did to the outputs of a classifier, beside their agreement."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, rel_entr

Floats = NDArray[np.float64]


class Outputs(NamedTuple):
    """Scores of one sample, and what every measure needs of them.

    Parameters
    ----------
    scores : ndarray of shape (n, n_classes)
        As `class_scores` gives them.
    log_posterior : ndarray of shape (n, n_classes)
        At inverse temperature 1.
    predicted : ndarray of shape (n,)
        Column of the predicted class.
    """

    scores: Floats
    log_posterior: Floats
    predicted: NDArray[np.intp]

    @classmethod
    def of(cls, scores: Any) -> Outputs:
        """Read scores of any type."""
        if hasattr(scores, "detach"):
            scores = scores.detach().cpu().double().numpy()
        values: Floats = np.asarray(scores, dtype=np.float64)
        return cls(values, log_softmax(values, axis=1), values.argmax(1))

    def mixed(self, other: Outputs, replaced: NDArray[np.bool_]) -> Outputs:
        """The outputs with some rows replaced by another sample's."""
        return Outputs(
            np.where(replaced[:, None], other.scores, self.scores),
            np.where(replaced[:, None], other.log_posterior, self.log_posterior),
            np.where(replaced, other.predicted, self.predicted),
        )


def accuracies(before: Outputs, after: Outputs, y: NDArray[np.intp]) -> dict[str, float]:
    """Accuracy before and under the shift."""
    return {
        "clean_accuracy": float((before.predicted == y).mean()),
        "shifted_accuracy": float((after.predicted == y).mean()),
    }


def accuracy_measures(clean: float, shifted: float) -> dict[str, float]:
    """The papers' name for the accuracy under the shift, and what the shift cost."""
    return {
        "afr_true": shifted,
        "afr_true_change": shifted - clean,
        "accuracy_drop": clean - shifted,
        "relative_accuracy_drop": _ratio(clean - shifted, clean),
    }


def log_loss_measures(before: Outputs, after: Outputs, y: NDArray[np.intp]) -> dict[str, float]:
    """Log-loss under the shift in nats, and what it gained."""
    rows = np.arange(len(y))
    clean, shifted = (float(-o.log_posterior[rows, y].mean()) for o in (before, after))
    return {
        "log_loss": shifted,
        "log_loss_gap": shifted - clean,
        "relative_log_loss_gap": _ratio(shifted - clean, clean),
    }


def posterior_measures(before: Outputs, after: Outputs) -> dict[str, float]:
    """How far the posteriors of a row are apart, on average."""
    p, q = np.exp(before.log_posterior), np.exp(after.log_posterior)
    return {
        "kl": float(rel_entr(p, q).sum(1).mean()),
        "wasserstein": float(np.abs(p - q).sum(1).mean() / 2),
    }


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")
