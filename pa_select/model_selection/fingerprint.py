"""Fingerprints of objects: of their values, and of all code of the user's own behind them.

Objects are read as pickle reads them, so that all that they hold is seen. Functions and classes
are read through: their bytecode, and what this reads. So no source is needed, code that was edited
on disk but not loaded again does not count, and a comment changes nothing. Code of installed
packages counts by its name and version.
"""

from __future__ import annotations

import builtins
import copyreg
import importlib
import pickle
import sys
import threading
from collections import deque
from collections.abc import Iterable
from hashlib import blake2b
from importlib.util import resolve_name
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    ModuleType,
)
from typing import Any

import joblib
import numpy as np
from sklearn.utils import check_random_state

from pa_select.model_selection.own_code import (
    Import,
    attribute,
    brought_by_a_package,
    is_compiled,
    is_installed,
    reads,
    version_of,
)

_ATOMS = {type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented)}
# What they run is not known before they run.
_RUN_ANYTHING = (compile, eval, exec, globals, __import__, importlib.import_module)
# Locks change no result.
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
# Of a class: what Python adds to it, and what says nothing about what it does.
_IGNORED = {
    *("__annotate__", "__annotate_func__", "__annotations__", "__annotations_cache__"),
    *("__dict__", "__doc__", "__firstlineno__", "__module__", "__qualname__"),
    *("__static_attributes__", "__weakref__", "_abc_impl"),
}
_CODE = (
    *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags", "co_code"),
    *("co_names", "co_varnames", "co_freevars", "co_cellvars"),
)


class NoFingerprint(Exception):
    """An object cannot be looked through; the message says which one, and why."""


class Fingerprints:
    """Fingerprints of objects, equal in every process for equal values and equal code.

    What a function or a class reads is known after it was read alone.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[bytes, Any]] = {}

    def of(self, value: Any, name: str) -> str:
        """Return the fingerprint of an object.

        Parameters
        ----------
        value : object
            What to read.
        name : str
            What the object is called in messages.

        Returns
        -------
        str

        Raises
        ------
        NoFingerprint
            If something that the object holds, or that its code reads, is neither Python code
            nor an object that can be pickled.
        """
        return _Reader(self._known, [name]).digest(value).hex()


class _Reader:
    """Writes what it reads to a hash.

    Parameters
    ----------
    known : dict
        Fingerprints of functions and classes by their id.
    way : list of str
        Names on the way from the user's object to the one that is read.
    waiting : deque or None
        Functions and classes to read after this one; None writes their fingerprints instead.
    """

    def __init__(
        self,
        known: dict[int, tuple[bytes, Any]],
        way: list[str],
        waiting: deque[tuple[Any, list[str]]] | None = None,
    ) -> None:
        self._hash = blake2b(digest_size=20)
        self._known = known
        self._way = way
        self._waiting = waiting
        # Kept, so that no other object gets its id.
        self._seen: dict[int, tuple[int, Any]] = {}

    def digest(self, value: Any) -> bytes:
        try:
            self._value(value)
            while self._waiting:
                code, way = self._waiting.popleft()
                self._way = way if way[-1] == code.__name__ else [*way, code.__name__]
                self._class(code) if isinstance(code, type) else self._function(code)
        except NoFingerprint:
            raise
        except Exception as error:  # whatever the user's own `__reduce__` raises
            reason = f"{error}" or type(error).__name__
            raise NoFingerprint(f"{_shortened(self._way)}: {reason:.200}") from error
        return self._hash.digest()

    def _put(self, kind: str, content: bytes = b"") -> None:
        self._hash.update(b"%s %d " % (kind.encode(), len(content)))
        self._hash.update(content)

    def _named(self, name: str, value: Any) -> None:
        """Read something that has a name, which messages give."""
        self._put("name", name.encode())
        self._way.append(name)
        self._value(value)
        self._way.pop()

    def _value(self, value: Any) -> None:
        kind = type(value)
        if kind in _ATOMS:
            self._put(kind.__name__, _atom(value))
        # Whether equal constants are one object depends on whether code was compiled or loaded.
        elif kind is tuple:
            self._sequence("tuple", value)
        elif kind is frozenset:
            self._set("frozenset", value)
        elif kind is CodeType:
            self._bytecode(value)
        elif isinstance(value, np.dtype) or (
            kind in (np.ndarray, np.memmap) and not value.dtype.hasobject
        ):
            self._put("array", joblib.hash(value, coerce_mmap=True).encode())
        elif id(value) in self._seen:
            self._put("again", b"%d" % self._seen[id(value)][0])
        else:
            self._seen[id(value)] = len(self._seen), value
            self._new(kind, value)

    def _new(self, kind: type, value: Any) -> None:
        torch = sys.modules.get("torch")
        if kind is list:
            self._sequence("list", value)
        elif kind in (dict, MappingProxyType):
            self._dict(value)
        elif kind is set:
            self._set("set", value)
        elif kind in _LOCKS:
            self._put("lock")
        elif value is check_random_state(None):
            # Seeded or not, it stands for random_state=None, also in frozen distributions.
            self._put("numpy's own generator")
        elif issubclass(kind, property):
            self._sequence("property", (kind, value.fget, value.fset, value.fdel))
        elif issubclass(kind, (staticmethod, classmethod)):
            self._sequence("method", (kind, value.__func__))
        elif isinstance(value, ModuleType):
            self._module(value)
        elif issubclass(kind, type) or kind is FunctionType:
            self._code(value)
        elif torch is not None and kind in (torch.Tensor, torch.nn.Parameter):
            self._tensor(value, torch)
        else:
            self._object(value)

    def _sequence(self, kind: str, values: Any) -> None:
        self._put(kind, b"%d" % len(values))
        for value in values:
            self._value(value)

    def _dict(self, values: Any) -> None:
        self._put("dict", b"%d" % len(values))
        for key, value in values.items():
            self._value(key)
            self._named(key if type(key) is str else f"[{type(key).__name__}]", value)

    def _attributes(self, values: Any, names: Iterable[str]) -> None:
        """Read variables, whose order says nothing."""
        for name in sorted(names):
            self._named(name, values[name])
        self._put("end")

    def _set(self, kind: str, values: Any) -> None:
        # In the order of the fingerprints that the elements have alone.
        each = (_Reader(self._known, [*self._way]).digest(value) for value in values)
        self._sequence(kind, sorted(each))

    def _tensor(self, tensor: Any, torch: Any) -> None:
        if tensor.layout is not torch.strided or tensor.is_quantized:
            self._object(tensor)
            return
        flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        about = type(tensor).__name__, str(tensor.dtype), tuple(tensor.shape), str(tensor.device)
        self._sequence("tensor", (*about, tensor.requires_grad, flat))

    def _object(self, value: Any) -> None:
        """Read any other object as pickle does."""
        reduce = copyreg.dispatch_table.get(type(value))
        parts: Any = reduce(value) if reduce else value.__reduce_ex__(4)
        if isinstance(parts, str):
            self._one_of_its_name(value, parts)
            return
        parts = [*parts, *[None] * (6 - len(parts))]
        made_by, arguments, state, items, pairs, setter = parts
        self._put("object")
        self._value(made_by)
        self._value(arguments)
        if type(state) is dict and all(type(name) is str for name in state):
            self._attributes(state, state)
        else:
            self._value(state)
        self._sequence("items", list(items or ()))
        self._sequence("pairs", list(pairs or ()))
        self._value(setter)

    def _one_of_its_name(self, value: Any, name: str) -> None:
        """Read an object that pickle saves as the name of a variable."""
        module = getattr(value, "__module__", None)
        module = module or pickle.whichmodule(value, name)  # type: ignore[attr-defined]
        if self._is_from_a_package(value, module, name):
            return
        if hasattr(value, "__wrapped__"):  # such as a function with a cache
            self._sequence("wrapped", (type(value), value.__wrapped__))
            return
        if attribute(module, name) is not value:
            raise TypeError(f"it is not the {name!r} of {module}")
        if type(value) is BuiltinFunctionType or is_compiled(module):
            raise TypeError(f"{module} is compiled, and no installed package brought it")
        self._put("one of its name", name.encode())
        self._value(type(value))
        self._value(getattr(value, "__dict__", None))

    def _is_from_a_package(self, value: Any, module: Any, name: str) -> bool:
        """Write the name and the version of something that an installed package brought."""
        if not isinstance(module, str) or not is_installed(module):
            return False
        if attribute(module, name) is not value:
            return False  # made by code of the package from something of the user's own
        if _runs_anything(value):
            raise TypeError("it can run code that is not known beforehand")
        self._put("installed", f"{module}:{name} {version_of(module)}".encode())
        return True

    def _code(self, code: Any) -> None:
        if self._is_from_a_package(code, code.__module__, code.__qualname__):
            return
        if self._waiting is not None:
            self._waiting.append((code, [*self._way]))
            return
        if id(code) not in self._known:
            reader = _Reader(self._known, [*self._way], deque())
            self._known[id(code)] = reader.digest(code), code
        self._put("code", self._known[id(code)][0])

    def _function(self, function: Any) -> None:
        code, surroundings = function.__code__, function.__globals__
        self._put("function", function.__name__.encode())
        self._bytecode(code)
        self._value(function.__defaults__)
        self._attributes(function.__kwdefaults__ or {}, function.__kwdefaults__ or {})
        self._attributes(function.__dict__, function.__dict__)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self._named(name, _content(cell))
        if not is_installed(surroundings.get("__name__") or ""):
            names, imports = reads(code)
            for path in names:
                self._global(path, surroundings)
            for wanted in imports:
                self._import(wanted, surroundings)

    def _bytecode(self, code: CodeType) -> None:
        self._put("bytecode", getattr(code, "co_exceptiontable", b""))
        for name in _CODE:
            self._value(getattr(code, name))
        self._sequence("constants", code.co_consts)

    def _global(self, path: tuple[str, ...], surroundings: dict[str, Any]) -> None:
        """Read a global variable, or what is taken from a module of the user's own."""
        value = surroundings.get(path[0], getattr(builtins, path[0], None))
        for name in path[1:]:
            if not isinstance(value, ModuleType) or name not in vars(value):
                break  # of a module that makes the name when it is asked for, all counts
            if is_installed(value.__name__) and not _runs_anything(vars(value)[name]):
                break
            value = vars(value)[name]
        self._named(".".join(path), value)

    def _import(self, wanted: Import, surroundings: dict[str, Any]) -> None:
        """Read what a function imports, as the function will do."""
        package = surroundings.get("__package__") or surroundings.get("__name__", "")
        module = resolve_name("." * wanted.level + wanted.module, package)
        if brought_by_a_package(module):  # it need not be imported now
            self._put("installed module", f"{module} {version_of(module)}".encode())
            return
        try:
            loaded = importlib.import_module(module)
        except ImportError:
            self._put("missing", module.encode())
            return
        # A module of the user's own that is imported as a whole counts as a whole.
        names = wanted.names or ("import_module",) * (loaded is importlib)
        if is_installed(module):
            names = tuple(name for name in names if _runs_anything(getattr(loaded, name, None)))
        if not names:
            self._named(module, loaded)
        for name in names:
            if hasattr(loaded, "__path__") and not hasattr(loaded, name):
                importlib.import_module(f"{module}.{name}")
            self._named(f"{module}.{name}", getattr(loaded, name, None))

    def _class(self, kind: Any) -> None:
        if is_compiled(kind.__module__) and not is_installed(kind.__module__):
            raise TypeError(f"{kind.__module__} is compiled, and no installed package brought it")
        self._put("class", kind.__name__.encode())
        self._value(type(kind))
        self._sequence("bases", kind.__bases__)
        self._attributes(vars(kind), vars(kind).keys() - _IGNORED)

    def _module(self, module: Any) -> None:
        name = module.__name__
        if is_installed(name):
            self._put("module", f"{name} {version_of(name)}".encode())
            return
        if is_compiled(name):
            raise TypeError(f"{name} is compiled, and no installed package brought it")
        self._put("own module", name.encode())
        self._attributes(vars(module), _variables(module))


def _atom(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    # The decimals of a very large number are refused.
    return (hex(value) if type(value) is int else repr(value)).encode()


def _shortened(way: list[str]) -> str:
    ends = way if len(way) <= 10 else [*way[:5], "...", *way[-4:]]
    return " > ".join(ends)


def _runs_anything(value: Any) -> bool:
    return any(value is one for one in _RUN_ANYTHING)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return cell_is_empty


def cell_is_empty() -> None:
    """Stand for a variable that has no value yet."""


def _variables(module: ModuleType) -> Iterable[str]:
    """Return the names of a module's variables, without those that the import set."""
    return (
        name
        for name, value in vars(module).items()
        if isinstance(value, FunctionType) or not (name[:2] == name[-2:] == "__")
    )
