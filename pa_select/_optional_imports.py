"""One way to say which extra a missing package comes with."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def optional_import(module: str, extra: str) -> Any:
    """Import a package that is no core dependency.

    Raises
    ------
    ImportError
        If it is missing; the message tells how to install it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise ImportError(
            f'This needs {package}, which is not installed: pip install "pa-select[{extra}]".'
        ) from error
