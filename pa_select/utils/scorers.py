"""How a scorer stops a search with a reason, since scikit-learn's searches swallow its errors."""

from __future__ import annotations

import sys
import traceback
from types import FrameType
from typing import Any, NamedTuple

from pa_select.utils.estimators import is_number


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


def stop_search(error: Exception, of_model: bool = False) -> Any:
    """Return what stops the search that called a scorer, or raise the error; scorers call this.

    scikit-learn has no error that its searches let pass whatever `error_score` is, so the scorer
    has to know who called it. An error of the model, if it is one, stops the search only if no
    candidate escapes it; else it is raised, and the score of this candidate is nan.
    """
    caller = sys._getframe(2)
    called_by_search = caller.f_globals.get("__name__", "").startswith("sklearn.")
    if not called_by_search or (of_model and _may_be_of_candidate(error, caller)):
        raise error
    return NoScore(f"{type(error).__name__}: {error}".removesuffix("."))


def _may_be_of_candidate(error: Exception, frame: FrameType | None) -> bool:
    """Whether the parameters of one candidate of the search may be the reason of an error."""
    *_, (last, _) = traceback.walk_tb(error.__traceback__)
    if not last.f_globals.get("__name__", "").startswith("pa_select."):
        return True  # the model itself failed
    while frame is not None and frame.f_code.co_name != "_fit_and_score":
        frame = frame.f_back
    parameters = (frame and frame.f_locals.get("parameters")) or {}
    # Numbers do not decide which methods a model has, or whether it takes missing values.
    return not all(map(is_number, parameters.values()))


def called_as_scorer(what: str, instead: str) -> NoScore:
    """Return what stops a search that was given a class or a function in place of a scorer."""
    return NoScore(f"{what} called as a scorer; give scoring={instead}, an object")
