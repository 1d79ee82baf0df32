"""How a scorer stops a search with a reason, since scikit-learn's searches swallow its errors."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple


class NoScore(NamedTuple):
    """Why nothing can be scored. It is no number, so a search stops with this text at once.

    An error would be a warning and a score of nan for every fold, and the search would choose the
    first candidate.
    """

    why: str

    def __repr__(self) -> str:
        return self.why


class NoThreshold:
    """Mixin for scorers that cannot score predictions at a threshold, as scikit-learn asks them.

    `TunedThresholdClassifierCV` reads the score function of its scorer.
    """

    def __getattr__(self, name: str) -> Any:
        if name == "_score_func":
            raise AttributeError(
                "scoring: expected a metric of labels and predictions, got "
                f"{type(self).__name__}, whose score does not depend on the threshold of "
                "TunedThresholdClassifierCV. Tune it by a metric such as "
                "'balanced_accuracy', and compare the tuned classifiers."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def stop_search(error: Exception) -> Any:
    """Return what stops the search that called a scorer, or raise the error; scorers call this.

    scikit-learn has no error that its searches let pass whatever `error_score` is, so the scorer
    has to know who called it.
    """
    if sys._getframe(2).f_globals.get("__name__", "").startswith("sklearn."):
        return NoScore(f"{type(error).__name__}: {error}".removesuffix("."))
    raise error


def called_as_scorer(what: str, instead: str) -> NoScore:
    """Return what stops a search that was given a class or a function in place of a scorer."""
    return NoScore(f"{what} called as a scorer; give scoring={instead}, an object")
