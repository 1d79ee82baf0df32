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
