"""Warnings at the caller's line and in workers, errors with a name, and missing packages."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import wraps
from importlib import import_module
from typing import Any
from weakref import WeakSet

from pa_select.utils.arrays import BadScoresError

_CALLED_WITHIN = ("pa_select", "sklearn", "skorch", "joblib", "lightning", "contextlib")

_kept: ContextVar[list[str] | None] = ContextVar("kept warnings", default=None)


def keeps_warnings(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate ``fit``: ``warnings_`` has the messages of this package's warnings."""

    @wraps(fit)
    def noted(self: Any, *args: Any, **params: Any) -> Any:
        self.warnings_ = []
        token = _kept.set(self.warnings_)
        try:
            return fit(self, *args, **params)
        finally:
            _kept.reset(token)

    return noted


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the first line outside of this package and of the packages that call it."""
    kept = _kept.get()
    if kept is not None and message not in kept:
        kept.append(message)
    level, frame = 1, inspect.currentframe()
    while (
        frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _CALLED_WITHIN
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=max(level - 1, 1) + 1)


# The state of this process, all of it: a scorer, which each fold calls, warns once; an attribute
# of it would change what a search caches.
_HAVE_WARNED: WeakSet[Any] = WeakSet()


def warn_once_by(scorer: Any, message: str) -> None:
    """Warn if this scorer has not warned yet."""
    if scorer not in _HAVE_WARNED:
        _HAVE_WARNED.add(scorer)
        warn_caller(message)


# Other types may take other arguments than a message.
_COMMON = (TypeError, ValueError, RuntimeError)


def named_error(error: Exception, name: str) -> Exception:
    """Return an error whose message begins with a name; its type is kept if it is common."""
    kind = next((kind for kind in _COMMON if isinstance(error, kind)), RuntimeError)
    if type(error) is kind or isinstance(error, BadScoresError):
        return kind(f"{name}: {error}")
    return kind(f"{name}: {type(error).__name__}: {error}")


def optional_import(module: str, extra: str) -> Any:
    """Import an optional dependency; if it is missing, the error says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise ImportError(
            f'This needs {package}, which is not installed: pip install "pa-select[{extra}]".'
        ) from error


def parallel(jobs: Iterable[Any], **options: Any) -> Iterable[Any]:
    """Start jobs, and return their results in order, each as soon as it is there if possible.

    scikit-learn sends all warning filters to the workers. One of torch's is for a class of its
    own, so that each worker would import torch to read it, which takes seconds.
    """
    # Imported here: the command line needs no scikit-learn.
    from sklearn.utils.parallel import Parallel

    with warnings.catch_warnings():
        warnings.filters = [
            kept
            for kept in warnings.filters
            if getattr(kept[2], "__module__", "").split(".")[0] != "torch"
        ]
        try:
            results: Iterable[Any] = Parallel(**options, return_as="generator")(jobs)
        except ValueError:
            results = Parallel(**options)(jobs)  # some backends cannot make a generator
        return results
