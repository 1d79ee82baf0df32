"""Model selection by posterior agreement.

Posterior agreement measures how often two noisy measurements give the same answer, beyond chance.
Two scans of an object say which class it has; two test folds say which candidate of a search is
best.

Public names are loaded when they are first used, so that ``import pa_select`` is fast and
needs neither torch nor skorch. They are listed in ``__init__.pyi``, for type checkers as well.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pkgutil import get_data
from typing import Any

from pa_select._version import __version__ as __version__

_HOMES = {
    public.name: line.module
    for line in ast.parse(get_data(__name__, "__init__.pyi")).body
    if isinstance(line, ast.ImportFrom)
    for public in line.names
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
