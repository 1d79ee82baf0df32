"""Reading of saved matrices: npy, npz, csv and Parquet, recognised by their first bytes.

Nothing in a file is unpickled, executed or fetched.
"""

from __future__ import annotations

import csv
import io
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

# Earlier versions may unpickle extension types in a file (CVE-2023-47248).
_SAFE_PYARROW = 15


class InputError(Exception):
    """The input cannot be used; the message is one line that names it."""


class Table(NamedTuple):
    """A saved matrix with its names.

    Attributes
    ----------
    values : ndarray
        The matrix in the shape and type of the file; csv and Parquet have two axes.
    columns : list of str or None
        Names of the columns, if the file has them.
    ids : list or None
        Names of the rows, if the file has them.
    """

    values: NDArray[Any]
    columns: list[str] | None = None
    ids: list[Any] | None = None


def read_table(name: str, header: bool | None = None) -> Table:
    """Read a matrix.

    Parameters
    ----------
    name : str
        Path of a file; "-" is standard input. ``:array`` after the name of an npz file
        chooses one of its arrays.
    header : bool, default=None
        Whether line 1 of a csv file holds names. None: it does if it has no numbers.

    Raises
    ------
    InputError
        If the file cannot be read, whatever the reason.
    """
    with _opened(name) as (kind, file, member):
        if kind == "csv":
            return _csv(_text(file), header)
        return _parquet(file) if kind == "Parquet" else Table(_array(kind, file, name, member))


def read_labels(name: str, n: int, what: str = "pairs") -> Table:
    """Read n labels, which are numbers or strings; `what` has labels, in the plural.

    Line 1 of a csv file of strings is a name if n more lines follow.

    Raises
    ------
    InputError
        If the file cannot be read, whatever the reason.
    """
    with _opened(name) as (kind, file, member):
        if kind == "csv":
            return _csv_labels(_text(file), n, what)
        if kind == "Parquet":
            return _parquet(file, strings=True)
        return Table(_array(kind, file, name, member))


def check_same_names(one: Table, other: Table, first: str, second: str) -> None:
    """Check that names of rows and columns, if both files have them, are in the same order."""
    # Different row names may be intended; the same names in another order are an error.
    ids = {repr(i) for i in one.ids or ()}
    permuted = ids == {repr(i) for i in other.ids or ()} and len(ids) == len(other.ids or ())
    for what, names, others in (
        ("column", one.columns, other.columns),
        ("row", one.ids if permuted else None, other.ids),
    ):
        if names is None or others is None or len(names) != len(others):
            continue
        for number, (a, b) in enumerate(zip(names, others, strict=True)):
            if a != b:
                raise InputError(
                    f"{second}: expected the {what}s of {first} in the same order, got {b!r} "
                    f"instead of {a!r} as {what} {number}."
                )


class _ContentError(Exception):
    """What is wrong with the content of a file, which is not named yet."""


@contextmanager
def _opened(name: str) -> Iterator[tuple[str, BinaryIO, str | None]]:
    """Open a file, tell its kind, and turn all errors that reading it causes into one line."""
    named = re.fullmatch(r"(-|.*\.npz):(.+)", name, re.IGNORECASE | re.DOTALL)
    path, member = named.groups() if named else (name, None)
    try:
        file = _seekable(path)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in a path
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{name}: expected a file that can be read, got: {why}.") from error
    with file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old or damaged files cause warnings
        kind = "file"
        try:
            start = file.read(6)
            file.seek(0)
            kinds = {b"PK\x03\x04": "npz", b"PK\x05\x06": "npz", b"PAR1": "Parquet"}
            kind = "npy" if start == b"\x93NUMPY" else kinds.get(start[:4], "csv")
            if member is not None and kind != "npz":
                raise InputError(f"{path}: expected an npz file, to take {member!r} from.")
            yield kind, file, member
        except InputError:
            raise
        except _ContentError as error:
            raise InputError(f"{name}: {error}") from error
        except Exception as error:
            # With damaged files the libraries raise errors of many types.
            why = " ".join(str(error).split()).rstrip(".") or type(error).__name__
            raise InputError(f"{name}: expected a sound {kind} file, got: {why}.") from error


def _seekable(path: str) -> BinaryIO:
    """Open a seekable file; pipes are read into memory."""
    if path == "-":
        return io.BytesIO(sys.stdin.buffer.read())
    file = open(path, "rb")  # noqa: SIM115
    if os.path.isfile(path):
        return file
    with file:
        return io.BytesIO(file.read())


def _array(kind: str, file: BinaryIO, name: str, member: str | None) -> NDArray[Any]:
    if kind == "npz":
        return _npz(file, name, member)
    if isinstance(file, io.BytesIO):
        values: NDArray[Any] = np.load(file, allow_pickle=False)
        return values
    # A large file need not fit into memory.
    mapped: NDArray[Any] = np.load(file.name, allow_pickle=False, mmap_mode="r")
    return mapped


def _npz(file: BinaryIO, name: str, member: str | None) -> NDArray[Any]:
    with np.load(file, allow_pickle=False) as archive:
        names = [n[:-4] for n in archive.zip.namelist() if n.endswith(".npy")]
        if not names:
            raise _ContentError(
                "expected arrays, got a zip file without any; to save a tensor, use numpy.save "
                "and tensor.numpy() instead of torch.save."
            )
        if member is None and len(names) > 1:
            raise _ContentError(
                f"expected one array, got {', '.join(names)}; choose one, for example "
                f"{'scores.npz' if name == '-' else name}:{names[0]}."
            )
        if member is not None and member not in names:
            raise _ContentError(f"expected one of the arrays {', '.join(names)}.")
        values = archive[names[0] if member is None else member]
    if not isinstance(values, np.ndarray):
        raise _ContentError("expected an array, got other bytes.")
    return values


def _parquet(file: BinaryIO, strings: bool = False) -> Table:
    try:
        import pandas
        import pyarrow
    except ImportError as error:
        raise _ContentError(
            "to read Parquet, pandas and pyarrow are needed: pip install pandas pyarrow."
        ) from error
    if int(pyarrow.__version__.split(".")[0]) < _SAFE_PYARROW:
        raise _ContentError(
            f"to read Parquet, pyarrow {_SAFE_PYARROW} or later is needed, got "
            f"{pyarrow.__version__}."
        )
    frame = pandas.read_parquet(file)
    texts = [item for item in frame.dtypes.items() if item[1].kind not in "biuf"]
    if texts and not strings:
        column, dtype = texts[0]
        raise _ContentError(f"expected numbers in column {column!r}, got {dtype}.")
    if texts:
        frame = frame.astype(object).where(frame.notna(), "").astype(str)
    values = frame.to_numpy()
    ids = None if isinstance(frame.index, pandas.RangeIndex) else frame.index.tolist()
    return Table(values.astype(np.str_) if texts else values, list(map(str, frame)), ids)


def _text(file: BinaryIO) -> TextIO:
    return io.TextIOWrapper(file, encoding="utf-8-sig", newline="")


def _csv(text: TextIO, header: bool | None) -> Table:
    with _no_other_bytes():
        line_1 = next(filter(None, csv.reader(iter(text.readline, ""), strict=True)), None)
    if line_1 is None:
        raise _ContentError("expected numbers, got an empty file.")
    has_names = _are_names(line_1) if header is None else header
    if not has_names:
        text.seek(0)
    # pandas leaves the name of its index empty.
    n_ids = int(has_names and not line_1[0].strip())
    ids: list[str] = []

    def keep(cell: str) -> float:
        ids.append(cell)
        return 0.0

    values = _loaded(text, "numbers", np.float64, {0: keep} if n_ids else None)
    if not values.size:
        values = np.empty((0, len(line_1)))
    if values.shape[1] != len(line_1):
        raise _ContentError(
            f"expected {len(line_1)} cells in each line, as in the first, got {values.shape[1]}."
        )
    names = line_1[n_ids:] if has_names else None
    return Table(values[:, n_ids:], names, ids if n_ids else None)


def _are_names(cells: list[str]) -> bool:
    """Return whether the first line of a csv file holds names."""
    if all(map(is_whole_number, cells)) and len(cells) > 1:
        numbers = list(map(int, cells))
        if numbers == sorted(set(numbers)):
            # pandas names columns 0, 1, ... by default, and classes are often numbers.
            raise _ContentError(
                f"expected names or scores in line 1, got {','.join(cells)[:40]!r}, which may be "
                "either; use --header or --no-header."
            )
    return not cells[0].strip() or not any(map(_is_number, cells))


def _csv_labels(text: TextIO, n: int, what: str) -> Table:
    cells = _loaded(text, "labels", np.str_)
    if not cells.size:
        raise _ContentError("expected labels, got an empty file.")
    has_ids = cells.shape[1] == 2 and not cells[0, 0].strip()
    if cells.shape[1] != 1 + has_ids:
        raise _ContentError(
            f"expected one label for each of {n} {what}, got {cells.shape[1]} cells in line 1."
        )
    labels = cells[:, -1]
    is_numeric = all(map(_is_number, np.unique(labels[1:]).tolist()))
    is_numeric &= len(labels) > 1 or _is_number(labels[0])
    has_name = has_ids or (not _is_number(labels[0]) if is_numeric else len(labels) == n + 1)
    labels, ids = labels[int(has_name) :], cells[1:, 0].tolist() if has_ids else None
    return Table(labels.astype(np.float64) if is_numeric else labels, None, ids)


def _loaded(text: TextIO, what: str, dtype: Any, converters: Any = None) -> NDArray[Any]:
    """Read cells that are separated by commas, as a matrix."""
    with _no_other_bytes():
        try:
            return np.loadtxt(
                text, dtype, None, ",", converters, ndmin=2, quotechar='"', encoding=None
            )
        except UnicodeDecodeError:
            raise
        except ValueError as error:
            why = str(error).split("; use `usecols`")[0].rstrip(".")
            raise _ContentError(f"expected {what} separated by commas, got: {why}.") from error


@contextmanager
def _no_other_bytes() -> Iterator[None]:
    try:
        yield
    except (UnicodeDecodeError, csv.Error) as error:
        raise _ContentError(
            f"expected npy, npz, Parquet or csv in UTF-8, got other bytes ({error}); pickles are "
            "never loaded."
        ) from error


def is_whole_number(cell: str) -> bool:
    """Return whether a cell, which may be a name or a score, holds a whole number."""
    return re.fullmatch(r"\s*[+-]?\d{1,15}\s*", cell) is not None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
