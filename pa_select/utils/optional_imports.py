"""Import of optional packages, with an error that names the extra to install."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def optional_import(module: str, extra: str) -> Any:
    """Import an optional dependency.

    Raises
    ------
    ImportError
        If the package is missing; the message says how to install it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise ImportError(
            f'This needs {package}, which is not installed: pip install "pa-select[{extra}]".'
        ) from error
