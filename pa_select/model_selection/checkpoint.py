"""The work on one split, which a `joblib.Memory` keeps."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import joblib
from sklearn.utils.validation import check_memory

from pa_select._version import __version__
from pa_select.model_selection.split_scores import Data, Outcome, SplitTask, fit_and_score_split
from pa_select.utils.typing import Estimator


def _work(key: str, arguments: dict[str, Any]) -> Outcome:
    return fit_and_score_split(**arguments)


def kept(memory: Any) -> Any:
    """Return a function of a key and of arguments of `fit_and_score_split`, whose results stay.

    As with the `memory` of scikit-learn's pipelines, results of code that was changed are found
    again: clear the memory then.
    """
    memory = os.fspath(memory) if isinstance(memory, os.PathLike) else memory
    return check_memory(memory).cache(_work, ignore=["arguments"])


def is_kept(work: Any, key: str | None) -> bool:
    """Return whether there is a result of this key, if the memory can tell."""
    return hasattr(work, "check_call_in_cache") and work.check_call_in_cache(key, {})


def keys_of(data: Data, splits: Sequence[SplitTask]) -> Callable[[Estimator], list[str]]:
    """Return a function that makes the keys of an estimator, with its parameters set, by split."""
    # Hashed once; the scorer made of the scoring None holds the estimator.
    scorer = data.scorer if not hasattr(data.scorer, "_estimator") else None
    versions = [__version__, *map(version, ("numpy", "scikit-learn", "torch", "skorch"))]
    shared = joblib.hash((versions, replace(data, scorer=scorer)))
    return lambda estimator: [joblib.hash((estimator, task, shared)) for task in splits]
