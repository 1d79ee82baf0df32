"""Reading of saved matrices: npy, npz, csv and Parquet, recognised by their first bytes.

Nothing in a file is unpickled, executed or fetched.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
import warnings
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, pairwise
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Earlier versions may unpickle extension types in a file (CVE-2023-47248).
_SAFE_PYARROW = 15

# In the first line of a csv file a whole number may be a name or a score.
_WHOLE_NUMBER = re.compile(r"\s*[+-]?\d+\s*")


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
    return _read(name, lambda file: _csv(file, name, header), lambda file: _parquet(file, name))


def read_labels(name: str, n: int, what: str = "pairs") -> Table:
    """Read labels, which are numbers or strings.

    Parameters
    ----------
    name : str
        As for `read_table`.
    n : int
        The number of labels. Line 1 of a csv file of strings is a name if n more lines follow.
    what : str, default="pairs"
        What has labels, in the plural, for messages.

    Raises
    ------
    InputError
        If the file cannot be read, whatever the reason.
    """
    return _read(
        name,
        lambda file: _csv_labels(file, name, n, what),
        lambda file: _parquet(file, name, strings=True),
    )


def _read(
    name: str, read_csv: Callable[[BinaryIO], Table], read_parquet: Callable[[BinaryIO], Table]
) -> Table:
    named = re.fullmatch(r"(-|.*\.npz):(.+)", name, re.IGNORECASE | re.DOTALL)
    path, member = named.groups() if named else (name, None)
    try:
        with _opened(path) as file:
            start = file.read(6)
            file.seek(0)
            read: Callable[[BinaryIO], Table]
            if start.startswith(b"PK\x03\x04") or start.startswith(b"PK\x05\x06"):
                kind, read = "npz", lambda file: Table(_npz(file, name, member))
            elif member is not None:
                raise InputError(f"{path}: expected an npz file, to take {member!r} from.")
            elif start == b"\x93NUMPY":
                kind, read = "npy", lambda file: Table(_npy(file))
            elif start.startswith(b"PAR1"):
                kind, read = "Parquet", read_parquet
            else:
                kind, read = "csv", read_csv
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # old or damaged files cause warnings
                    return read(file)
            except InputError:
                raise
            except Exception as error:
                # With damaged files the libraries raise errors of many types.
                why = " ".join(str(error).split()) or type(error).__name__
                raise InputError(f"{name}: expected a sound {kind} file, got: {why}.") from error
    except (OSError, ValueError) as error:  # ValueError: a zero byte in a path
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{name}: expected a file that can be read, got: {why}.") from error


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """Open a seekable file; pipes are read into memory."""
    if path == "-":
        yield io.BytesIO(sys.stdin.buffer.read())
        return
    with open(path, "rb") as file:
        yield file if os.path.isfile(path) else io.BytesIO(file.read())


def _npy(file: BinaryIO) -> NDArray[Any]:
    if isinstance(file, io.BytesIO):
        values: NDArray[Any] = np.load(file, allow_pickle=False)
    else:
        # A large file need not fit into memory.
        values = np.load(file.name, allow_pickle=False, mmap_mode="r")
    return values


def _npz(file: BinaryIO, name: str, member: str | None) -> NDArray[Any]:
    with np.load(file, allow_pickle=False) as archive:
        names = [n[:-4] for n in archive.zip.namelist() if n.endswith(".npy")]
        if not names:
            raise InputError(
                f"{name}: expected arrays, got a zip file without any; to save a "
                "tensor, use numpy.save and tensor.numpy() instead of torch.save."
            )
        if member is None and len(names) > 1:
            raise InputError(
                f"{name}: expected one array, got {', '.join(names)}; choose one, for example "
                f"{'scores.npz' if name == '-' else name}:{names[0]}."
            )
        if member is not None and member not in names:
            raise InputError(f"{name}: expected one of the arrays {', '.join(names)}.")
        values = archive[names[0] if member is None else member]
    if not isinstance(values, np.ndarray):
        raise InputError(f"{name}: expected an array, got other bytes.")
    return values


def _parquet(file: BinaryIO, name: str, strings: bool = False) -> Table:
    try:
        import pyarrow
        from pyarrow import parquet, types
    except ImportError as error:
        raise InputError(
            f"{name}: to read Parquet, pyarrow is needed: pip install pyarrow."
        ) from error
    if int(pyarrow.__version__.split(".")[0]) < _SAFE_PYARROW:
        raise InputError(
            f"{name}: to read Parquet, pyarrow {_SAFE_PYARROW} or later is needed, got "
            f"{pyarrow.__version__}."
        )
    table = parquet.read_table(file)
    known = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))
    # pandas stores the names of its index columns; a range index is a dict instead.
    index = [i for i in known.get("index_columns", []) if i in table.column_names]
    columns = [c for c in table.column_names if c not in index]
    for column in columns:
        of_type = table.schema.field(column).type
        if strings and types.is_dictionary(of_type):
            of_type = of_type.value_type  # pandas' categories
        if not (
            types.is_integer(of_type)
            or types.is_floating(of_type)
            or types.is_boolean(of_type)
            or (strings and (types.is_string(of_type) or types.is_large_string(of_type)))
        ):
            raise InputError(f"{name}: expected numbers in column {column!r}, got {of_type}.")
    if not columns:
        raise InputError(f"{name}: expected columns of numbers, got none.")
    values = np.column_stack([table[column].to_numpy() for column in columns])
    if values.dtype == object:  # strings, or None
        values = np.where(values == None, "", values).astype(np.str_)  # noqa: E711
    ids = list(zip(*(table[i].to_pylist() for i in index), strict=True)) if index else None
    return Table(values, columns, ids)


def _csv(file: BinaryIO, name: str, header: bool | None) -> Table:
    with _csv_rows(file, name) as rows:
        first = next(rows, None)
        if first is None:
            raise InputError(f"{name}: expected numbers, got an empty file.")
        names = first[1] if _is_header(first[1], name, header) else None
        n_ids = int(names is not None and not names[0].strip())
        width, n_rows, numbers = len(first[1]), 0, array("d")
        ids: list[str] = []
        for line, row in rows if names else chain([first], rows):
            n_rows += 1
            ids += row[:n_ids]
            try:
                numbers.extend(map(float, row[n_ids:]))
            except ValueError:
                column = next(i for i in range(n_ids, width) if not _is_number(row[i]))
                raise InputError(
                    f"{name}: expected numbers separated by commas, got {_short(row[column])} in "
                    f"line {line}, cell {column + 1}."
                ) from None
    return Table(
        np.asarray(numbers).reshape(n_rows, width - n_ids),
        names[n_ids:] if names else None,
        ids if n_ids else None,
    )


def _csv_labels(file: BinaryIO, name: str, n: int, what: str) -> Table:
    labels: list[str] = []
    ids: list[str] = []
    known: dict[str, str] = {}
    with _csv_rows(file, name) as rows:
        first = next(rows, (0, None))[1]
        if first is None:
            raise InputError(f"{name}: expected labels, got an empty file.")
        has_ids = len(first) == 2 and not first[0].strip()
        if len(first) != 1 + has_ids:
            raise InputError(
                f"{name}: expected one label for each of {n} {what}, got {len(first)} cells in "
                "line 1."
            )
        for _, row in rows:
            # Equal labels share one string, which saves memory.
            labels.append(known.setdefault(row[-1], row[-1]))
            ids += row[:has_ids]
    if all(map(_is_number, known or first[-1:])):
        has_name = _is_header(first, name, None)
    else:
        has_name = not first[0].strip() or len(labels) == n
    if not has_name:
        labels.insert(0, first[-1])
    numeric = all(map(_is_number, known)) and (has_name or _is_number(first[-1]))
    values = np.asarray(list(map(float, labels))) if numeric else np.asarray(labels, np.str_)
    return Table(values, first[-1:] if has_name else None, ids if has_ids else None)


@contextmanager
def _csv_rows(file: BinaryIO, name: str) -> Iterator[Iterator[tuple[int, list[str]]]]:
    """Iterate over the numbers and cells of non-empty lines, all as wide as the first."""
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    lines = csv.reader(text, strict=True)

    def rows() -> Iterator[tuple[int, list[str]]]:
        width, n_rows = None, 0
        for row in lines:
            if not row:
                continue
            n_rows += 1
            if n_rows <= 2:  # the first may hold names
                _refuse_other_separators(row, lines.line_num, name)
            width = width or len(row)
            if len(row) != width:
                raise InputError(
                    f"{name}: expected {width} cells in each line, as in the first, got "
                    f"{len(row)} in line {lines.line_num}."
                )
            yield lines.line_num, row

    try:
        yield rows()
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"{name}: expected npy, npz, Parquet or csv in UTF-8, got other bytes ({error}); "
            "pickles are never loaded."
        ) from error


def _refuse_other_separators(row: list[str], line: int, name: str) -> None:
    """Raise for numbers separated by semicolons or tabs; their commas are decimal ones."""
    for separator, what in ((";", "semicolons"), ("\t", "tabs")):
        cells = ",".join(row).split(separator)
        if len(cells) > 1 and all(_is_number(cell.replace(",", ".", 1)) for cell in cells):
            raise InputError(
                f"{name}: expected numbers with decimal points, separated by commas, got {what} "
                f"in line {line}; export the table again, or replace decimal commas by points "
                f"and then {what} by commas."
            )


def _is_header(cells: list[str], name: str, header: bool | None) -> bool:
    """Return whether the first line of a file holds names."""
    if header is not None:
        return header
    # pandas leaves the name of its index empty.
    labels = cells if cells[0].strip() else cells[1:]
    numbers = [_is_number(cell) for cell in labels]
    if not any(numbers):
        return True
    whole = all(_WHOLE_NUMBER.fullmatch(cell) for cell in labels)
    if whole and len(labels) < len(cells):
        return True
    if whole and len(cells) > 1 and all(int(a) < int(b) for a, b in pairwise(cells)):
        # pandas names columns 0, 1, ... by default, and classes are often numbers.
        raise InputError(
            f"{name}: line 1, {_short(','.join(cells))}, may be names or a row of scores; "
            "use --header or --no-header."
        )
    if all(numbers) and len(labels) == len(cells):
        return False
    odd = next(cell for cell in cells if not _is_number(cell))
    raise InputError(
        f"{name}: expected names or numbers in line 1, got both, such as {_short(odd)}; use "
        "--header if they are names."
    )


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _short(text: str) -> str:
    """Return a text short enough to quote in a message."""
    return repr(text if len(text) <= 40 else text[:37] + "...")
