"""Finished parts of a search, kept on disk under the content of all that made them."""

from __future__ import annotations

import inspect
import os
from dataclasses import replace
from typing import Any

import joblib
import numpy as np
import scipy
import sklearn
from sklearn.utils.validation import check_memory

import pa_select
from pa_select.search.worker import Data, Outcome, fit_and_score_split


class Checkpoint:
    """Keys of a search's (candidate, split) pairs, and the worker that looks them up.

    Parameters
    ----------
    memory : None, str, path or joblib.Memory
        Where results are kept; None keeps nothing.
    data : Data
        On which every result depends. Hashed once.
    scoring : object
        What the user gave as ``scoring``: the scorer of None holds the estimator.
    """

    def __init__(self, memory: Any, data: Data, scoring: Any) -> None:
        #: Called with a key and the worker's arguments.
        self.work: Any = _work
        self._data = None
        if memory is not None:
            memory = check_memory(os.fspath(memory) if isinstance(memory, os.PathLike) else memory)
            self.work = memory.cache(_work, ignore=["arguments"])
            versions = [m.__version__ for m in (pa_select, sklearn, np, scipy, joblib)]
            parts = (versions, replace(data, scorer=None), scoring, _sources(scoring))
            self._data = _hash(parts, "the data and the scoring")

    def key(self, estimator: Any, split: Any) -> str | None:
        """Name the result of an estimator, with its parameters set, on a split."""
        if self._data is None:
            return None
        parts = (estimator, _sources(estimator), split, self._data)
        return _hash(parts, f"{type(estimator).__name__} with its parameters")


def run(work: Any, key: str | None, arguments: dict[str, Any]) -> Outcome:
    """Compute or look up one result; callbacks hear of both."""
    callback = arguments.get("callback") or {}
    known = hasattr(work, "check_call_in_cache") and work.check_call_in_cache(key, arguments)
    if known and callback:
        caller, context = callback["caller"], callback["callback_ctx"]
        context.call_on_fit_task_begin(estimator=caller)
        outcome = work(key, arguments)
        context.call_on_fit_task_end(estimator=caller)
        return outcome
    return work(key, arguments)


def _work(key: str | None, arguments: dict[str, Any]) -> Outcome:
    return fit_and_score_split(**arguments)


def _hash(value: Any, what: str) -> str:
    try:
        return str(joblib.hash(value))
    except Exception as error:
        raise ValueError(
            f"memory: expected {what} to be picklable, so that results can be told apart; "
            f"got {type(error).__name__}: {str(error.args[0] if error.args else error):.200}"
        ) from error


def _sources(estimator: Any) -> list[str]:
    """Code of the estimator's parts: a changed class must not find its old results."""
    parts = [estimator]
    if hasattr(estimator, "get_params"):
        parts += estimator.get_params(deep=True).values()
    sources = set()
    for part in parts:
        code = part if inspect.isroutine(part) or inspect.isclass(part) else type(part)
        try:
            sources.add(inspect.getsource(code))
        except (OSError, TypeError):
            continue
    return sorted(sources)
