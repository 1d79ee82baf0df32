"""Warnings that point at the caller's line."""

from __future__ import annotations

import inspect
import warnings

_OWN = ("pa_select", "sklearn", "skorch", "joblib", "lightning", "contextlib")


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the first line outside of this package and of the packages that call it."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _OWN:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=max(level - 1, 1) + 1)
