"""A cache on disk of finished (candidate, split) pairs, keyed by all that they depend on.

Functions and classes that the estimator, the scoring or the splits hold count by what Python has
loaded: their bytecode, with the values that it names. Everything that a search could run beside
these counts more coarsely: each module of the user's own that is loaded, by its file and its
functions, and each installed package, by its version. So no code is missed that is found by a name
made while it runs, and an edit of any own module lets all be computed anew.
"""

from __future__ import annotations

import builtins
import copyreg
import dis
import os
import pickle
import re
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from importlib.metadata import distributions
from pathlib import Path
from types import CellType, CodeType, FunctionType, MappingProxyType, ModuleType, SimpleNamespace
from typing import Any

import joblib
import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_memory

from pa_select.model_selection.split_scores import Data, Outcome, SplitTask, fit_and_score_split
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Estimator, Scoring

# Pickle writes them as values. All other kinds are written by `_Hasher`.
_PLAIN = {type(None), bool, int, float, list, dict, bytearray}
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep
_MAIN = ("__main__", "__mp_main__")
# Of a class: what Python adds to it, and what says nothing about what it does.
_IGNORED = set(
    "__annotate__ __annotate_func__ __annotations__ __annotations_cache__ __dict__ __doc__ "
    "__firstlineno__ __module__ __qualname__ __static_attributes__ __weakref__ _abc_impl".split()
)
_BYTECODE = (
    "co_argcount co_posonlyargcount co_kwonlyargcount co_flags co_code co_names co_varnames "
    "co_freevars co_cellvars co_consts co_exceptiontable".split()
)
# By module: its spec, which a reload replaces, and its digest when it was first seen with it; that
# of a module of others is empty.
_first_seen: dict[str, tuple[object, str]] = {}


class Checkpoint:
    """Cache keys of a search's (candidate, split) pairs, and the worker that uses them.

    A folder that cannot be written is an `OSError`. If the data or the scoring cannot be looked
    through, a warning says so, and nothing is kept.
    """

    def __init__(
        self, memory: Any, data: Data, splits: Sequence[SplitTask], scoring: Scoring
    ) -> None:
        #: Called with a key, the digests of own modules, and arguments of `fit_and_score_split`.
        self.work = _open(memory)
        self.modules = own_modules()
        self._code_digests: dict[int, tuple[bytes, Any]] = {}
        self._warnings: set[str] = set()
        # The scorer made of the scoring None holds the estimator.
        shared = [
            self._key(replace(data, scorer=None), "data"),
            self._key((_versions(), self.modules, scoring), "scoring"),
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
            return fingerprint(value, self._code_digests)
        except Exception as error:  # whatever the user's own `__reduce__` raises
            reason = f"{name}: {error!s:.200}"
        if reason not in self._warnings:
            warn_caller(
                "memory: expected objects that pickle can save and code that runs no text, so "
                f"that results of changed code are not used again, got {reason}. What depends on "
                "it is not kept."
            )
        self._warnings.add(reason)
        return None


class NotKept(Exception):
    """A fit ran modules of the user's own that its key does not describe."""


def _work(key: str, known: dict[str, str], arguments: dict[str, Any]) -> Outcome:
    outcome = fit_and_score_split(**arguments)
    # Such as imported by the fit, or loaded by a worker before or after the file was edited.
    if others := sorted(dict(own_modules().items() - known.items())):
        raise NotKept(outcome, others)
    return outcome


def _open(memory: Any) -> Any:
    """Return the worker that keeps its results in a folder, after an attempt to write there."""
    memory = os.fspath(memory) if isinstance(memory, os.PathLike) else memory
    try:
        work = check_memory(memory).cache(_work, ignore=["known", "arguments"])
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


def own_modules() -> dict[str, str]:
    """Return a digest of each loaded module of the user's own, of its file and its functions.

    An edited file counts once it is loaded again. An edit before the first call shows, since the
    functions in memory are not those of the file.
    """
    found = {}
    for name, module in sorted(sys.modules.copy().items()):
        spec = _stated(module, "__spec__") or module
        if name not in _first_seen or _first_seen[name][0] is not spec:
            file, digest = _stated(module, "__file__"), ""
            if name not in _MAIN and isinstance(file, str) and _is_own(name):
                content = Path(file).read_bytes() if os.path.isfile(file) else b""
                digest = fingerprint([content, *_codes(module)], {})
            _first_seen[name] = spec, digest
        if digest := _first_seen[name][1]:
            found[name] = digest
    return found


def _codes(module: ModuleType) -> Iterator[CodeType]:
    # By type, since `isinstance` and `getattr` may run code of objects that stand for others.
    for _, value in sorted(vars(module).items()):
        is_class = issubclass(type(value), type) and value.__module__ == module.__name__
        for one in vars(value).values() if is_class else [value]:
            if issubclass(type(one), property):
                one = one.fget
            elif issubclass(type(one), (staticmethod, classmethod, type(_names))):
                one = one.__wrapped__
            if type(one) is FunctionType:
                yield one.__code__


def fingerprint(value: object, code_digests: dict[int, tuple[bytes, Any]]) -> str:
    """Return a hash of an object, equal in every process for equal values and equal code.

    The digests of functions and classes that are read, by id, serve the next call.
    """
    return _Hasher(code_digests).digest(value).hex()


class _Hasher(pickle.Pickler):
    """Pickles to a hash. The user's own functions and classes are written as their digests.

    For such a digest all code that this code names is listed and read one after the other, as it
    may name itself.
    """

    def __init__(self, code_digests: dict[int, tuple[bytes, Any]], code: list[Any] | None = None):
        self._hash = blake2b(digest_size=20)
        self._code_digests = code_digests
        self._code = code
        self._seen: dict[int, tuple[int, Any]] = {}
        super().__init__(SimpleNamespace(write=self._hash.update), protocol=5)

    def digest(self, value: object = None) -> bytes:
        """Return the hash of the object, or of the code."""
        self.dump(value)
        for code in self._code or ():
            self.dump(list(_content(code)))
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
        if kind is not frozenset and id(value) in self._seen:
            return {"again": self._seen[id(value)][0]}
        if (content := self._content(kind, value)) is None:
            return None
        # Kept, so that no other object gets its id.
        self._seen[id(value)] = len(self._seen), value
        return {kind.__name__: content}

    def _content(self, kind: type, value: Any) -> object:
        if kind is CodeType:
            return [getattr(value, name) for name in _BYTECODE]
        if kind in (set, frozenset):
            return sorted(_Hasher(self._code_digests).digest(one) for one in value)
        # Frozen distributions hold the generator of numpy.
        if kind in _LOCKS or value is check_random_state(None):
            return "changes no result"
        if isinstance(value, np.dtype) or (
            kind in (np.ndarray, np.memmap) and not value.dtype.hasobject
        ):
            return joblib.hash(value, coerce_mmap=True)
        if kind is MappingProxyType:
            return dict(value)
        if isinstance(value, (property, staticmethod, classmethod)):
            return [getattr(value, name, None) for name in ("fget", "fset", "fdel", "__func__")]
        if isinstance(value, ModuleType):
            return value.__name__
        if isinstance(value, (type, FunctionType)):
            return self._code_id(value)
        if any(value is one for one in (eval, exec, globals)):
            raise TypeError(f"{value.__name__} runs or reads what is not known beforehand")
        torch = sys.modules.get("torch")
        if not torch or kind not in (torch.Tensor, torch.nn.Parameter) or value.is_quantized:
            return None
        if value.layout is not torch.strided:
            return None
        flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        return [repr((value.dtype, value.shape, value.device, value.requires_grad)), flat]

    def _code_id(self, code: Any) -> object:
        if not _is_own(code.__module__ or ""):
            place: Any = sys.modules.get(code.__module__)
            for name in code.__qualname__.split("."):
                place = getattr(place, name, None)
            if place is code:  # not made by the package from something of the user's own
                return f"{code.__module__}:{code.__qualname__}"
        if self._code is not None:
            self._code.append(code)  # it is seen, and so listed once
            return "listed"
        if id(code) not in self._code_digests:
            # The code is kept, so that no other object gets its id.
            digest = _Hasher(self._code_digests, [code]).digest()
            self._code_digests[id(code)] = digest, code
        return self._code_digests[id(code)][0]

    def reducer_override(self, value: object) -> Any:
        """Return how pickle makes any other object."""
        reduce = copyreg.dispatch_table.get(type(value))
        parts: Any = reduce(value) if reduce else value.__reduce_ex__(4)
        # What pickle saves as a variable's name may hold more, as a cache holds its function.
        if isinstance(parts, str) and (state := getattr(value, "__dict__", None)):
            return str, (parts,), state
        return parts  # which it finds by this name, or refuses


def _content(code: Any) -> Iterator[Any]:
    """Yield all that a function or a class is made of, and the global variables that it reads."""
    yield code.__name__
    if isinstance(code, type):
        yield (type(code), code.__bases__)
        yield [(name, vars(code)[name]) for name in sorted(vars(code).keys() - _IGNORED)]
        return
    # A variable without a value has an empty cell.
    cells = [x != CellType() and (x.cell_contents,) for x in code.__closure__ or ()]
    yield (code.__code__, code.__defaults__, code.__kwdefaults__, vars(code), cells)
    if _is_own(code.__globals__.get("__name__") or ""):
        variables, names = _names(code.__code__)
        yield from _values(vars(builtins) | code.__globals__, variables, names, set())
        # What the function imports, also by a relative name.
        package = code.__globals__.get("__package__")
        imported = {x for name in names for x in (name, f"{package}.{name}") if x in sys.modules}
        yield from _values(sys.modules, {x for x in imported if _is_own(x)}, names, set())


def _values(space: Any, variables: Set[str], names: Set[str], seen: set[str]) -> Iterator[Any]:
    """Yield values by name. Those in modules of the user's own may have been set from outside."""
    for name in sorted(variables & space.keys()):
        yield (name, value := space[name])
        module = value.__name__ if isinstance(value, ModuleType) else ""
        if module and module not in seen and _is_own(module):
            seen.add(module)
            yield from _values(vars(value), names, names, seen)


@lru_cache(maxsize=10_000)
def _names(code: CodeType) -> tuple[Set[str], Set[str]]:
    """Return the global variables that code reads, and all names, of functions inside, too."""
    loads = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
    variables = {x.argval for x in dis.get_instructions(code) if x.opname in loads}
    inner = [_names(x) for x in code.co_consts if isinstance(x, CodeType)]
    return variables.union(*(x[0] for x in inner)), {*code.co_names}.union(*(x[1] for x in inner))


def _stated(module: object, name: str) -> Any:
    """Return what a module holds by a name. Some would import for it if they were asked."""
    return getattr(module, "__dict__", {}).get(name)


def _is_own(module: str) -> bool:
    """Whether a module came neither with Python nor with an installed package."""
    top = module.partition(".")[0]
    if top in (*_MAIN, "pa_select"):
        return top != "pa_select"
    while module:
        loaded = sys.modules.get(module)
        path = _stated(loaded, "__path__")
        places = [_stated(loaded, "__file__"), *(path if isinstance(path, list) else ())]
        for place in places:
            if isinstance(place, str) and os.path.isabs(place):
                installed = {"site-packages", "dist-packages"} & {*place.split(os.sep)}
                return not installed and not place.startswith(_STANDARD_LIBRARY)
        module = module.rpartition(".")[0]
    return top not in sys.stdlib_module_names


def _versions() -> dict[str, str]:
    """Return the versions of Python and of all packages, as loaded of those that compute most."""
    found = {"python": repr(sys.version_info[:3])}
    for package in distributions():  # whose own `version` takes ten times as long
        text = package.read_text("METADATA") or package.read_text("PKG-INFO") or ""
        head = dict(re.findall(r"^(Name|Version): (.*?)\s*$", text, re.MULTILINE)[:2])
        found[head.get("Name", "")] = head.get("Version", "")
    for name in ("pa_select", "numpy", "scipy", "sklearn", "joblib"):
        found[f"{name} as loaded"] = getattr(sys.modules.get(name), "__version__", "")
    return dict(sorted(found.items()))
