"""A cache on disk of finished (candidate, split) pairs, keyed by all that they depend on."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import joblib
import numpy as np
import scipy
import sklearn
from sklearn.utils.validation import check_memory

from pa_select._version import __version__
from pa_select.model_selection.fingerprint import Fingerprints, NoFingerprint
from pa_select.model_selection.worker import Data, Outcome, SplitTask, fit_and_score_split
from pa_select.utils.warn_caller import warn_caller


class Checkpoint:
    """Cache keys of a search's (candidate, split) pairs, and the worker that uses them.

    Parameters
    ----------
    memory : None, str, path or joblib.Memory
        The cache. None: nothing is kept.
    data : Data
        What every result depends on. It is read once.
    splits : sequence of SplitTask
    scoring : object
        The search's ``scoring``. The scorer made from None holds the estimator, so that it
        would make a new key for each estimator.

    Raises
    ------
    OSError
        If the folder cannot be written.

    Warns
    -----
    UserWarning
        If the data or the scoring cannot be looked through; then nothing is kept.
    """

    def __init__(self, memory: Any, data: Data, splits: Sequence[SplitTask], scoring: Any) -> None:
        #: Called with a key and the worker's arguments.
        self.work: Any = _work
        self._splits: list[Any] = [None] * len(splits)
        self._fingerprints = Fingerprints()
        self._warned: set[str] = set()
        if memory is not None:
            self.work = _open(memory)
            shared = [
                self._fingerprint(_versions(), "versions"),
                self._fingerprint(replace(data, scorer=None), "data"),
                self._fingerprint(scoring, "scoring"),
            ]
            if None not in shared:
                self._splits = [self._fingerprint((shared, split), "split") for split in splits]

    def keys(self, estimator: Any) -> list[str | None]:
        """Return the keys of an estimator, with its parameters set, on each split.

        None is the key of a result that cannot be kept, with a warning that says why.
        """
        if None in self._splits:
            return self._splits
        mine = self._fingerprint(estimator, type(estimator).__name__)
        if mine is None:
            return [None] * len(self._splits)
        return [joblib.hash((mine, split)) for split in self._splits]

    def _fingerprint(self, value: Any, name: str) -> str | None:
        try:
            return self._fingerprints.of(value, name)
        except NoFingerprint as error:
            reason = str(error)
        if reason not in self._warned:
            self._warned.add(reason)
            warn_caller(
                "memory: expected objects that pickle can save and code that Python can read, so "
                f"that results of changed code are not used again, got {reason}. What depends on "
                "it is not kept."
            )
        return None


def run(work: Any, key: str | None, data: Data, arguments: dict[str, Any]) -> Outcome:
    """Compute or look up one result, and call the callbacks in either case."""
    arguments = arguments | {"data": data}
    if key is None:
        return fit_and_score_split(**arguments)
    kept = _look_up(work, key, arguments)
    if kept is None:
        return work(key, arguments)
    callback = arguments.get("callback")
    if callback:
        caller, context = callback["caller"], callback["callback_ctx"]
        context.call_on_fit_task_begin(estimator=caller)
        context.call_on_fit_task_end(estimator=caller)
    return kept


def _look_up(work: Any, key: str, arguments: dict[str, Any]) -> Outcome | None:
    """Return the result that was kept; None if there is none, or none that can be read."""
    known = hasattr(work, "check_call_in_cache") and work.check_call_in_cache(key, arguments)
    if not known:
        return None
    kept = work.call_and_shelve(key, arguments)
    try:
        outcome = kept.get()
        reason = f"got {type(outcome).__name__}"
    except Exception as error:  # whatever reading a damaged file raises
        outcome, reason = None, f"got {type(error).__name__}: {error}".rstrip(": ")
    if isinstance(outcome, Outcome):
        return outcome
    folder = getattr(getattr(work, "store_backend", None), "location", "the folder")
    warn_caller(f"memory: expected a result in {folder}, {reason:.300}. It is computed again.")
    kept.clear()
    return None


def _work(key: str | None, arguments: dict[str, Any]) -> Outcome:
    return fit_and_score_split(**arguments)


def _versions() -> dict[str, str]:
    """Return the versions of all that computes a result, whatever the estimator."""
    packages = {module.__name__: module for module in (np, scipy, sklearn, joblib)}
    if "torch" in sys.modules:
        packages["torch"] = sys.modules["torch"]
    versions = {name: str(module.__version__) for name, module in packages.items()}
    # Bytecode differs between versions of Python.
    python = ".".join(map(str, sys.version_info[:2]))
    return versions | {"pa_select": __version__, "python": python}


def _open(memory: Any) -> Any:
    """Return the worker that keeps its results in a folder, after an attempt to write there."""
    memory = os.fspath(memory) if isinstance(memory, os.PathLike) else memory
    try:
        work = check_memory(memory).cache(_work, ignore=["arguments"])
        folder = getattr(getattr(work, "store_backend", None), "location", None)
        # Other stores than folders look after themselves.
        if isinstance(folder, str) and os.path.isdir(folder):
            tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OSError(
            f"memory: expected a folder that can be written, got "
            f"{getattr(memory, 'location', memory)!r} "
            f"({type(error).__name__}: {error})."
        ) from error
    return work
