"""Where code comes from, and what it reads: the global names and the modules that it imports."""

from __future__ import annotations

import dis
import os
import sys
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from types import CodeType
from typing import Any, NamedTuple

_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep
_LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")


class Import(NamedTuple):
    """An ``import`` inside of a function: its dots, its module, and the names that it takes."""

    level: int
    module: str
    names: tuple[str, ...]


def is_installed(module: str) -> bool:
    """Whether a module came with Python or with an installed package, which has a version."""
    top = module.split(".")[0]
    # The main program is the user's own, also where a tool in a package runs it.
    if top == "__main__":
        return False
    if top == "pa_select":
        return True
    place = _place(module)
    if place is None:
        return top in sys.stdlib_module_names
    parts = place.split(os.sep)
    installed = "site-packages" in parts or "dist-packages" in parts
    return installed or place.startswith(_STANDARD_LIBRARY)


def brought_by_a_package(module: str) -> bool:
    """Whether a module that is not loaded came with Python or with an installed package."""
    top = module.split(".")[0]
    if module in sys.modules or top in sys.modules and not is_installed(top):
        return False
    if top in sys.modules or top in sys.stdlib_module_names:
        return True
    return bool(packages_distributions().get(top)) and find_spec(top) is not None


def is_compiled(module: str) -> bool:
    """Whether a module is machine code."""
    return (_place(module) or "").endswith(tuple(EXTENSION_SUFFIXES))


def _place(module: str) -> str | None:
    """Return the file of a module, or else of the package that it belongs to."""
    while module:
        loaded = sys.modules.get(module)
        places = [getattr(loaded, "__file__", None), *getattr(loaded, "__path__", ())]
        for place in places:
            if isinstance(place, str) and os.path.isabs(place):
                return place
        module = module.rpartition(".")[0]
    return None


@lru_cache(maxsize=1000)
def version_of(module: str) -> str:
    """Return the version of the installed package of a module; nothing for Python's own."""
    top = module.split(".")[0]
    if top in sys.stdlib_module_names:
        return ""
    stated = getattr(sys.modules.get(top), "__version__", None)
    if isinstance(stated, str):
        return stated
    distributions = sorted(set(packages_distributions().get(top, [])))
    return " ".join(f"{name} {version(name)}" for name in distributions)


def attribute(module: str, qualified_name: str) -> Any:
    """Return what has this name in a module that is loaded, or None."""
    found: Any = sys.modules.get(module)
    for name in qualified_name.split("."):
        found = getattr(found, name, None)
    return found


@lru_cache(maxsize=10_000)
def reads(code: CodeType) -> tuple[list[tuple[str, ...]], list[Import]]:
    """Return what code reads from its surroundings, with that of the functions inside of it.

    Returns
    -------
    names : list of tuple of str
        Global names, each with the attributes that are read of it: ``a.b.c`` gives
        ("a", "b", "c").
    imports : list of Import
    """
    names: dict[tuple[str, ...], None] = {}
    imports: dict[Import, None] = {}
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    for i, step in enumerate(steps):
        if step.opname in _LOADS:
            path = [step.argval]
            for after in steps[i + 1 :]:
                if after.opname not in _ATTRIBUTES:
                    break
                path.append(after.argval)
            names[tuple(path)] = None
        elif step.opname == "IMPORT_NAME":
            level, taken = steps[i - 2].argval, steps[i - 1].argval
            imports[Import(level, step.argval, tuple(taken or ()))] = None
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner_names, inner_imports = reads(constant)
            names |= dict.fromkeys(inner_names)
            imports |= dict.fromkeys(inner_imports)
    return list(names), list(imports)
