"""A cache on disk of finished (candidate, split) pairs, keyed by all that they depend on."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import joblib
import numpy as np
import scipy
import sklearn
from sklearn.utils.validation import check_memory

from pa_select._version import __version__
from pa_select.model_selection.worker import Data, Outcome, SplitTask, fit_and_score_split


class Checkpoint:
    """Cache keys of a search's (candidate, split) pairs, and the worker that uses them.

    Parameters
    ----------
    memory : None, str, path or joblib.Memory
        The cache. None: nothing is kept.
    data : Data
        What every result depends on. It is hashed once.
    splits : sequence of SplitTask
    scoring : object
        The search's ``scoring``. The scorer made from None holds the estimator, so that it
        would make a new key for each estimator.
    """

    def __init__(self, memory: Any, data: Data, splits: Sequence[SplitTask], scoring: Any) -> None:
        #: Called with a key and the worker's arguments.
        self.work: Any = _work
        if memory is not None:
            memory = check_memory(os.fspath(memory) if isinstance(memory, os.PathLike) else memory)
            self.work = memory.cache(_work, ignore=["arguments"])
            versions = [__version__, *(m.__version__ for m in (sklearn, np, scipy, joblib))]
            parts = (versions, replace(data, scorer=None), scoring, _sources(scoring))
            shared = _hash(parts, "the data and the scoring")
            self._splits = [_hash((shared, split), "the splits") for split in splits]

    def keys(self, estimator: Any) -> list[str]:
        """Return the keys of an estimator, with its parameters set, on each split."""
        what = f"{type(estimator).__name__} with its parameters"
        mine = _hash((estimator, _sources(estimator)), what)
        return [_hash((mine, split), what) for split in self._splits]


def run(work: Any, key: str | None, data: Data, arguments: dict[str, Any]) -> Outcome:
    """Compute or look up one result, and call the callbacks in either case."""
    arguments = arguments | {"data": data}
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
            f"memory: expected {what} to be picklable, so that results can be found again; "
            f"got {type(error).__name__}: {str(error.args[0] if error.args else error):.200}"
        ) from error


def _sources(estimator: Any) -> list[str]:
    """Return the code of the estimator's parts: a changed class must not find old results."""
    parts = [estimator]
    if hasattr(estimator, "get_params"):
        parts += estimator.get_params(deep=True).values()
    codes: set[Any] = {
        getattr(x, "__func__", x) if inspect.isroutine(x) or inspect.isclass(x) else type(x)
        for x in parts
    }
    return sorted({_source(code) for code in codes})


@lru_cache(maxsize=1000)
def _source(code: Any) -> str:
    try:
        return inspect.getsource(code)
    except (OSError, TypeError):
        return ""  # built in, or not defined in a file
