"""How a scorer stops a search with a reason, since scikit-learn's searches swallow its errors."""

from __future__ import annotations

import sys
import traceback
from types import FrameType
from typing import Any, NamedTuple

from pa_select.utils.estimators import is_number
from pa_select.utils.messages import named_error


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

    def _accept_sample_weight(self) -> bool:
        # Searches for several metrics ask each scorer.
        return False

    def __getattr__(self, name: str) -> Any:
        if name == "_score_func":
            raise AttributeError(
                "scoring: expected a metric of labels and predictions, got "
                f"{type(self).__name__}, whose score does not depend on the threshold of "
                "TunedThresholdClassifierCV. Tune it by a metric such as "
                "'balanced_accuracy', and compare the tuned classifiers."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def stop_search(error: Exception, of_model: bool = False, rows: str | None = None) -> Any:
    """Return what stops the search that called a scorer, or raise the error; scorers call this.

    scikit-learn has no error that its searches let pass whatever `error_score` is, so the scorer
    has to know who called it. An error of the model, if it is one, stops the search only if no
    candidate escapes it; else it is raised, and the score of this candidate is nan. `rows` are
    what the scorer calls rows that the model does not take, although it takes those of the search.
    """
    caller = sys._getframe(2)
    called_by_search = caller.f_globals.get("__name__", "").startswith("sklearn.")
    matters = _may_decide_about_rows if rows else _may_decide_about_methods
    # An error of the model itself may be of this candidate alone, unless other rows are taken.
    of_candidate = rows is None and not _is_ours(error)
    of_candidate |= any(map(matters, _parameters_of_candidate(caller).values()))
    if rows and not str(error).startswith(rows):
        error = named_error(error, rows)
    if not called_by_search or (of_model and of_candidate):
        raise error
    return NoScore(f"{type(error).__name__}: {error}".removesuffix("."))


def _is_ours(error: Exception) -> bool:
    """Whether this package has raised an error."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and frames[-1].f_globals.get("__name__", "").startswith("pa_select.")


def _parameters_of_candidate(frame: FrameType | None) -> dict[str, Any]:
    """Return the parameters of the candidate that a search of scikit-learn scores, if it does."""
    while frame is not None and frame.f_code.co_name != "_fit_and_score":
        frame = frame.f_back
    return (frame and frame.f_locals.get("parameters")) or {}


def _may_decide_about_methods(value: Any) -> bool:
    """Whether a parameter may decide which methods a model has: a number does not."""
    return not is_number(value)


def _may_decide_about_rows(value: Any) -> bool:
    """Whether a parameter may decide which rows a model takes: a step of a pipeline does."""
    if isinstance(value, str):
        return value in ("passthrough", "drop")
    return not isinstance(value, (bool, tuple)) and not is_number(value)


def called_as_scorer(what: str, instead: str) -> NoScore:
    """Return what stops a search that was given a class or a function in place of a scorer."""
    return NoScore(f"{what} called as a scorer; give scoring={instead}, an object")
