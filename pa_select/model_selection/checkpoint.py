"""A cache on disk of finished (candidate, split) pairs, keyed by all that they depend on.

A key is the hash of an object's pickle, in which code stands as Python has loaded it: that of
installed packages by name and version, all other code by its bytecode and what this reads. So no
source is needed, code that was edited on disk but not loaded again does not count, and a comment
changes nothing.
"""

from __future__ import annotations

import builtins
import copyreg
import dis
import importlib
import os
import pickle
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec, resolve_name
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

import joblib
import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_memory

from pa_select.model_selection.split_scores import Data, Outcome, SplitTask, fit_and_score_split
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Estimator, Scoring

# What they run is not known before they run.
_RUN_ANYTHING = (compile, eval, exec, globals, __import__, importlib.import_module)
_COMPILED = "it is compiled, and no installed package brought it"
# Pickle writes them as values. All other kinds are written by `_Hasher`.
_PLAIN = {type(None), bool, int, float, list, dict, bytearray}
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
# Of a class: what Python adds to it, and what says nothing about what it does.
_IGNORED = {
    *("__annotate__", "__annotate_func__", "__annotations__", "__annotations_cache__"),
    *("__dict__", "__doc__", "__firstlineno__", "__module__", "__qualname__"),
    *("__static_attributes__", "__weakref__", "_abc_impl"),
}
_BYTECODE = (
    *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags", "co_code"),
    *("co_names", "co_varnames", "co_freevars", "co_cellvars", "co_consts"),
    "co_exceptiontable",
)


class Checkpoint:
    """Cache keys of a search's (candidate, split) pairs, and the worker that uses them.

    A folder that cannot be written is an `OSError`. If the data or the scoring cannot be looked
    through, a warning says so, and nothing is kept.
    """

    def __init__(
        self, memory: Any, data: Data, splits: Sequence[SplitTask], scoring: Scoring
    ) -> None:
        #: Called with a key and the arguments of `fit_and_score_split`.
        self.work = _open(memory)
        self._code_digests: dict[int, tuple[bytes, Any]] = {}
        self._warnings: set[str] = set()
        # The scorer made of the scoring None holds the estimator.
        shared = [
            self._key(replace(data, scorer=None), "data"),
            self._key((_versions(), scoring), "scoring"),
        ]
        known = None not in shared
        self._splits = [self._key((shared, x), "split") if known else None for x in splits]

    def keys(self, estimator: Estimator) -> list[str | None]:
        """Return the keys of an estimator, with its parameters set, on each split.

        None is the key of a result that cannot be kept, with a warning that says why.
        """
        if None in self._splits:
            return self._splits
        key = self._key(estimator, type(estimator).__name__)
        return [key and joblib.hash((key, split)) for split in self._splits]

    def _key(self, value: object, name: str) -> str | None:
        try:
            return fingerprint(value, name, self._code_digests)
        except NoFingerprint as error:
            reason = str(error)
        if reason not in self._warnings:
            warn_caller(
                "memory: expected objects that pickle can save and code that Python can read, so "
                f"that results of changed code are not used again, got {reason}. What depends on "
                "it is not kept."
            )
        self._warnings.add(reason)
        return None


def _work(key: str, arguments: dict[str, Any]) -> Outcome:
    return fit_and_score_split(**arguments)


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
            "memory: expected a folder that can be written, got "
            f"{getattr(memory, 'location', memory)!r} ({type(error).__name__}: {error})."
        ) from error
    return work


class NoFingerprint(Exception):
    """An object cannot be looked through; the message says which one, and why."""


def fingerprint(value: object, name: str, code_digests: dict[int, tuple[bytes, Any]]) -> str:
    """Return a hash of an object, equal in every process for equal values and equal code.

    The name stands in messages. The digests of code that is read, by id, serve the next call.
    """
    return _Hasher(code_digests).digest(name, value).hex()


class _Hasher(pickle.Pickler):
    """Pickles to a hash.

    Functions, classes and modules in a value are written as their digests. To make such a digest,
    all code that this code reads is listed and read one after the other, as it may read itself.
    """

    def __init__(self, code_digests: dict[int, tuple[bytes, Any]], code: list[Any] | None = None):
        self._hash = blake2b(digest_size=20)
        self._code_digests = code_digests
        self._code = code
        self._seen: dict[int, tuple[int, Any]] = {}
        self._numbers = {id(item): i for i, item in enumerate(code or ())}
        super().__init__(SimpleNamespace(write=self._hash.update), protocol=5)

    def digest(self, name: str, value: object = None) -> bytes:
        try:
            if self._code is None:
                self.dump(value)
            for code in self._code or ():
                name = code.__name__
                self.dump(list(_content(code)))
        except NoFingerprint as error:
            raise NoFingerprint(f"{name} > {error}") from error.__cause__
        except Exception as error:  # such as a recursion that is too deep
            raise NoFingerprint(f"{name}: {error!s:.200}") from error
        return self._hash.digest()

    def persistent_id(self, value: Any) -> object:
        """Return what is written instead of an object; None: the object."""
        kind = type(value)
        if kind in _PLAIN:
            return None
        # Whether equal constants are one object depends on whether code was compiled or loaded.
        # So pickle gets a new object each time, to which it cannot refer back.
        if kind is str:
            return value.encode("utf-8", "surrogatepass")
        if kind in (bytes, tuple):
            return bytearray(value) if kind is bytes else [*value]
        if kind is frozenset:
            return {"frozenset": self._sorted(value)}
        if kind is CodeType:
            return {"code": [getattr(value, name) for name in _BYTECODE]}
        if isinstance(value, np.dtype):
            return {"dtype": joblib.hash(value)}
        if id(value) in self._seen:
            return {"again": self._seen[id(value)][0]}
        if (content := self._replacement(kind, value)) is None:
            return None
        # Kept, so that no other object gets its id.
        self._seen[id(value)] = len(self._seen), value
        return {kind.__name__: content}

    def _replacement(self, kind: type, value: Any) -> object:
        """Return what is written instead of an object that can change; None: the object."""
        if kind is set:
            return self._sorted(value)
        # numpy's own generator stands for random_state=None, also in frozen distributions.
        if kind in _LOCKS or value is check_random_state(None):
            return "changes no result"
        if kind in (np.ndarray, np.memmap) and not value.dtype.hasobject:
            return joblib.hash(value, coerce_mmap=True)
        if kind is MappingProxyType:
            return dict(value)
        if issubclass(kind, property):
            return [kind, value.fget, value.fset, value.fdel]
        if issubclass(kind, (staticmethod, classmethod)):
            return [kind, value.__func__]
        if isinstance(value, (type, FunctionType, ModuleType)):
            return self._code_id(value)
        torch = sys.modules.get("torch")
        is_tensor = torch and kind in (torch.Tensor, torch.nn.Parameter)
        return _tensor(value, torch) if is_tensor else None

    def _sorted(self, values: Iterable[object]) -> list[bytes]:
        return sorted(_Hasher(self._code_digests).digest("a set", value) for value in values)

    def _code_id(self, code: object) -> int | str | bytes:
        name = getattr(code, "__qualname__", "module")  # which modules lack
        if installed := _installed(code, _module_of(code), name):
            return installed
        if self._code is not None:
            if id(code) not in self._numbers:
                self._numbers[id(code)] = len(self._code)
                self._code.append(code)
            return self._numbers[id(code)]
        digests = self._code_digests
        if id(code) not in digests:
            # The code is kept, so that no other object gets its id.
            digests[id(code)] = _Hasher(digests, [code]).digest(""), code
        return digests[id(code)][0]

    def reducer_override(self, value: object) -> Any:
        """Return how pickle makes any other object."""
        try:
            reduce = copyreg.dispatch_table.get(type(value))
            parts: Any = reduce(value) if reduce else value.__reduce_ex__(4)
            return _by_name(value, parts) if isinstance(parts, str) else parts
        except NoFingerprint:
            raise
        except Exception as error:  # whatever the user's own `__reduce__` raises
            raise NoFingerprint(f"{type(value).__name__}: {error}") from error


def _by_name(value: object, name: str) -> tuple[Any, ...]:
    """Return a reduction, by its content, of an object that pickle saves as a variable's name."""
    module = pickle.whichmodule(value, name)  # type: ignore[attr-defined]
    if installed := _installed(value, module, name):
        return _by_name, (installed,)
    if hasattr(value, "__wrapped__"):  # such as a function with a cache
        return _by_name, (type(value), value.__wrapped__)
    if _attribute(module, name) is not value:
        raise TypeError(f"it is not the {name!r} of {module}")
    if type(value) is BuiltinFunctionType or _is_compiled(module):
        raise TypeError(_COMPILED)
    return _by_name, (type(value), name), getattr(value, "__dict__", None)


def _tensor(tensor: Any, torch: Any) -> list[Any] | None:
    if tensor.layout is not torch.strided or tensor.is_quantized:
        return None
    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return [str(tensor.dtype), tuple(tensor.shape), str(tensor.device), tensor.requires_grad, flat]


def _content(code: Any) -> Iterator[Any]:
    """Yield all that a function, a class or a module of the user's own is made of."""
    yield from (type(code).__name__, code.__name__)
    if isinstance(code, FunctionType):
        yield from (code.__code__, code.__defaults__, code.__kwdefaults__, vars(code))
        # A variable without a value has an empty cell.
        cells = code.__closure__ or ()
        yield [None if cell == CellType() else (cell.cell_contents,) for cell in cells]
        if not _is_installed(code.__globals__.get("__name__") or ""):
            yield from _values_read(code)
    elif _is_compiled(_module_of(code)):
        raise TypeError(_COMPILED)
    elif isinstance(code, ModuleType):
        # Without what the import set.
        for name, value in sorted(vars(code).items()):
            if isinstance(value, FunctionType) or not name[:2] == name[-2:] == "__":
                yield from (name, value)
    else:
        yield from (type(code), code.__bases__)
        for name in sorted(vars(code).keys() - _IGNORED):
            yield from (name, vars(code)[name])


def _values_read(function: FunctionType) -> Iterator[Any]:
    """Yield the global variables that a function reads, and what it imports."""
    surroundings = function.__globals__
    paths, imports = _reads(function.__code__)
    for path in paths:
        value = surroundings.get(path[0], getattr(builtins, path[0], None))
        for name in path[1:]:
            # Of a module that makes the name when it is asked for, all counts.
            if not isinstance(value, ModuleType) or name not in vars(value):
                break
            if _is_installed(value.__name__) and not _runs_anything(vars(value)[name]):
                break
            value = vars(value)[name]
        yield from (path, value)
    for level, module, names in imports:
        package = surroundings.get("__package__") or surroundings.get("__name__", "")
        yield from _imported(resolve_name("." * level + module, package), names)


def _imported(module: str, names: tuple[str, ...]) -> Iterator[Any]:
    """Yield what a function takes from a module, which is imported now if it is the user's own."""
    top = module.partition(".")[0]
    # What a package brings need not be imported to know where it is.
    spec = None if top in sys.modules else find_spec(top)
    if _is_installed(module, spec.origin if spec and spec.has_location else None):
        loaded = sys.modules.get(module)
        values = [getattr(loaded, name, None) for name in names or ("import_module",)]
        yield from filter(_runs_anything, values)  # which is refused
        yield f"{module} {_version_of(module)}"
        return
    try:
        loaded = importlib.import_module(module)
    except ImportError:
        yield from ("missing", module)
        return
    if not names:
        yield sys.modules[top]
    for name in names:
        if hasattr(loaded, "__path__") and not hasattr(loaded, name):
            importlib.import_module(f"{module}.{name}")
        yield from (name, getattr(loaded, name, None))


@lru_cache(maxsize=10_000)
def _reads(code: CodeType) -> tuple[list[tuple[str, ...]], list[tuple[int, str, Any]]]:
    """Return global names with the attributes that are read of them, and imports.

    Those of the functions inside are among them. ``a.b.c`` gives ("a", "b", "c"), and an import
    its dots, its module, and the names that it takes.
    """
    paths: dict[tuple[str, ...], None] = {}
    imports: dict[tuple[int, str, Any], None] = {}
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    for i, step in enumerate(steps):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            path = [step.argval]
            for after in steps[i + 1 :]:
                if after.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
                    break
                path.append(after.argval)
            paths[tuple(path)] = None
        elif step.opname == "IMPORT_NAME":
            level, names = steps[i - 2].argval, steps[i - 1].argval
            imports[level, step.argval, tuple(names or ())] = None
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner_paths, inner_imports = _reads(constant)
            paths |= dict.fromkeys(inner_paths)
            imports |= dict.fromkeys(inner_imports)
    return list(paths), list(imports)


def _runs_anything(value: object) -> bool:
    return any(value is one for one in _RUN_ANYTHING)


def _installed(value: object, module: object, name: str) -> str | None:
    """Return the name and version of what an installed package brought; None of all else."""
    if not isinstance(module, str) or not _is_installed(module):
        return None
    if not isinstance(value, ModuleType) and _attribute(module, name) is not value:
        return None  # made by code of the package from something of the user's own
    if _runs_anything(value):
        raise NoFingerprint(f"{name}: it can run code that is not known beforehand")
    return f"{module}:{name} {_version_of(module)}"


def _module_of(code: Any) -> str:
    return code.__name__ if isinstance(code, ModuleType) else code.__module__


def _attribute(module: str, qualified_name: str) -> Any:
    value: Any = sys.modules.get(module)
    for name in qualified_name.split("."):
        value = getattr(value, name, None)
    return value


def _is_installed(module: str, place: str | None = None) -> bool:
    """Whether a module came with Python or with an installed package, which has a version."""
    top = module.partition(".")[0]
    # The main program is the user's own, also where a tool in a package runs it.
    if top in ("__main__", "pa_select"):
        return top == "pa_select"
    place = place or _place(module)
    if place is None:
        return top in sys.stdlib_module_names
    installed = {"site-packages", "dist-packages"} & {*place.split(os.sep)}
    return bool(installed) or place.startswith(os.path.dirname(os.__file__) + os.sep)


def _is_compiled(module: str) -> bool:
    return (_place(module) or "").endswith(tuple(EXTENSION_SUFFIXES))


def _place(module: str) -> str | None:
    """Return the file of a module, or else of the package that it belongs to."""
    while module:
        loaded = sys.modules.get(module)
        for place in (getattr(loaded, "__file__", None), *getattr(loaded, "__path__", ())):
            if isinstance(place, str) and os.path.isabs(place):
                return place
        module = module.rpartition(".")[0]
    return None


@lru_cache(maxsize=1000)
def _version_of(module: str) -> str:
    """Return the version of the installed package of a module; nothing for Python's own."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        return ""
    stated = getattr(sys.modules.get(top), "__version__", None)
    brought = [] if isinstance(stated, str) else sorted({*packages_distributions().get(top, [])})
    return " ".join(map(version, brought)) or str(stated)


def _versions() -> list[str]:
    """Return the versions of all that computes a result, and of Python, whose bytecode differs."""
    packages = ["pa_select", "numpy", "scipy", "sklearn", "joblib", "torch"]
    return [repr(sys.version_info[:2]), *(_version_of(x) for x in packages if x in sys.modules)]
