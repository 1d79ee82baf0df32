"""Doctests of a single file of the package see what a user sees."""

from contextlib import suppress
from importlib import import_module

import pytest

# The former name of another module, which warns when it is imported.
collect_ignore = ["pa_select/environments.py"]


def pytest_collect_file(file_path, parent):
    """Import a module of the package as Python does, before pytest imports it.

    pytest alone would import its package first, and then the module a second time. It would put
    this second module in the place of the function of the same name.
    """
    package = parent.config.rootpath / "pa_select"
    if file_path.suffix == ".py" and file_path.is_relative_to(package):
        name = ".".join(file_path.relative_to(package.parent).with_suffix("").parts)
        # Without an optional library pytest says that it skips the file.
        with suppress(ImportError, pytest.skip.Exception):
            import_module(name.removesuffix(".__init__"))
