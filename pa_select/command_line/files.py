"""Files of scores and labels: how they are read, and whether they fit together."""

from __future__ import annotations

import csv
import gzip
import os
import re
import sys
import warnings
from argparse import Namespace
from array import array
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO, TextIOWrapper
from itertools import chain, islice
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pa_select.command_line import output
from pa_select.scores.class_scores import scores_of_probabilities
from pa_select.utils.arrays import (
    DEFAULT_CLIP,
    check_same_shape,
    check_shape,
    check_values,
    look_like_probabilities,
)
from pa_select.utils.typing import Array, Ints

# Earlier versions may unpickle extension types in a file (CVE-2023-47248).
_SAFE_PYARROW = 15
# How far, as a share of it, a sum of rounded shares may be from the whole.
_ROUNDED = 0.1
_ROWS_AT_ONCE = 1 << 16
# Least number of rows in which different whole numbers, or equal ones, are no accident.
_MANY_IDS = 10
# Rows that show whether a column may be no class.
_FIRST_ROWS = 100
# What to do with a column that is no class.
_LEAVE_OUT = "delete the column, or its name if it is the first one"
# Decimal numbers, which R's write.csv2 writes with commas.
_WITH_POINT, _WITH_COMMA = (rf"\s*[+-]?\d*{mark}\d+([eE][+-]?\d+)?\s*" for mark in (r"\.", ","))
_QUOTED_COMMA = f'"{_WITH_COMMA}"'
# A row of a table that R's write.table writes with blanks: its name, and the first cell.
_NAMED_ROW = r"\s*(\"[^\"]*\"|\d+)\s+\S"
# How lines begin that are no rows: comments, and what Excel reads the separator from. Its errors,
# such as #N/A or #DIV/0!, are cells.
_COMMENT = re.compile(r"\s*(#(?!N/A|NV|[A-Z/\d]+[!?])|%|//|sep=)").match
# What programs write for a missing value: nothing but marks, an error of Excel, or a word.
_MISSING = re.compile(r"[\W_]*|#.*|N/?A|NULL|NONE|<NA>|MISSING", re.IGNORECASE)
# Largest number of names in a message.
_NAMED = 5

# A matrix, the names of its columns, and those of its rows.
_Content = tuple[Array, list[str] | None, list[str] | None]
# The cells of the lines of a csv file.
_Rows = Iterator[list[str]]


class InputError(Exception):
    """The input cannot be used; the message is one line that names it."""


class Table(NamedTuple):
    """A saved matrix in the shape and type of its file, with the names that the file has."""

    name: str
    values: Array
    columns: list[str] | None = None
    ids: list[str] | None = None


def check_names(names: Iterable[str]) -> None:
    """Check that standard input is named at most once; raise `InputError` otherwise."""
    if sum(name == "-" or name.startswith("-:") for name in names) > 1:
        raise InputError("-: expected once, since standard input can be read only once.")


def read_scores(names: Mapping[str, Sequence[str]], options: Namespace) -> dict[str, list[Table]]:
    """Read each model's scores of two samples, and of labelled rows if there is a third file.

    The labelled rows are other objects, whose names are not compared.
    The options say whether csv files have a ``header``, and whether all files hold
    ``probabilities``; otherwise the content decides. Raises `InputError` if a file cannot be
    read, holds no scores, or does not fit the others. Warns once of each kind of doubt.
    """
    doubts: dict[str, list[str]] = {}
    n_raised: dict[str, int] = {}
    tables = {}
    for model, files in names.items():
        read = [read_table(name, options.header) for name in files]
        who = model if len(names) > 1 else ", ".join(files)
        tables[model], found, n = _scores_of_model(read, who, options.probabilities)
        for text, name in found:
            doubts.setdefault(text, []).append(name)
        if n:
            n_raised[who] = n
    if n_raised:
        doubts[
            f"{sum(n_raised.values())} probabilities below {DEFAULT_CLIP:g} are raised to it; "
            "this matters if they are a forest's zeros (see --help)."
        ] = list(n_raised)
    for text, of_files in doubts.items():
        output.warn(f"{listed(of_files)}: {text}")
    return tables


def _scores_of_model(
    tables: list[Table], who: str, probabilities: bool
) -> tuple[list[Table], list[tuple[str, str]], int]:
    """Check the files of one model, and convert probabilities.

    Returns also what to warn of, with the name of the file or with `who` for all of them, and the
    number of probabilities that were raised.
    """
    given = tables[:2]
    doubts = [(text, table.name) for table in tables for text in _doubts_of_columns(table)]
    n_raised = 0
    with input_errors():
        for table in tables:
            check_shape(table.values, table.name)
            if not probabilities:
                check_values(table.values, table.name)
            _check_that_each_column_is_a_class(table)
        if not probabilities and _are_probabilities(tables):
            why = "read as probabilities, since all rows are non-negative and sum to 1."
            doubts.append((why, who))
            probabilities = True
        if probabilities:
            tables, n_raised = _with_logs(tables)
        else:
            doubts += _doubts_of_shares(tables, who)
    a, b, *labelled = tables
    check_alike(a, b)
    doubts += ((text, who) for text in _doubts_of_equal_columns(*given))
    n_classes = a.values.shape[1]
    for table in labelled:
        if table.values.shape[1] != n_classes:
            raise InputError(
                f"{table.name}: expected the {n_classes} columns of {a.name}, got "
                f"{table.values.shape[1]} columns."
            )
    return tables, doubts, n_raised


def check_alike(one: Table, other: Table) -> None:
    """Check that two tables have one shape, and no rows or columns in another order."""
    with input_errors():
        check_same_shape(one.values.shape, other.values.shape, one.name, other.name)
    _check_same_names(one, other)


def column_names(tables: Sequence[Table]) -> list[str] | None:
    """Return the names of the columns in the first table that has them.

    Raises `InputError` if another table has other names.
    """
    named = [table._replace(ids=None) for table in tables if table.columns is not None]
    for other in named[1:]:
        _check_same_names(named[0], other)
    return named[0].columns if named else None


@contextmanager
def input_errors() -> Iterator[None]:
    """Turn an error that a check raises into an `InputError`."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise InputError(str(error)) from error


def _are_probabilities(tables: Sequence[Table]) -> bool:
    """Return whether the tables of one model hold probabilities."""
    longest_first = sorted((table.values for table in tables), key=len, reverse=True)
    if any(look_like_probabilities(*longest_first)):
        return True
    are = [look_like_probabilities(table.values)[0] for table in tables]
    if any(are):
        raise InputError(
            f"{tables[are.index(True)].name}: expected logits or log-probabilities as in "
            f"{tables[are.index(False)].name}, got probabilities."
        )
    return False


def _doubts_of_columns(table: Table) -> Iterator[str]:
    """Yield what to warn of if a column of whole numbers seems to hold ids or labels."""
    values = table.values
    if values.ndim != 2 or values.dtype.kind not in "iuf":
        return
    rows, first_rows = np.arange(len(values)), values[:_FIRST_ROWS]
    with np.errstate(invalid="ignore"):
        are_whole = (first_rows == np.rint(first_rows)).all(axis=0)
    # Votes are whole numbers, too, but in all columns.
    may_be_none = len(rows) >= _MANY_IDS and not are_whole.all()
    for column in np.flatnonzero(are_whole):
        scores = values[:, column]
        what = "another whole number in each row"
        counts = len(rows) > 2 and any(np.array_equal(scores, rows + first) for first in (0, 1))
        if not counts:
            if not may_be_none or not _are_whole(scores):
                continue
            different = np.unique(scores)
            if len(different) < len(scores):
                what = "a few whole numbers, as labels have"
                most = values.shape[1]
                if len(different) == 1 or not 0 <= different[0] <= different[-1] <= most:
                    continue
                if look_like_probabilities(values)[0]:  # a class that is always certain
                    continue
        named = column if table.columns is None else repr(table.columns[column])
        yield f"column {named} has {what}, but is read as the scores of a class; {_LEAVE_OUT}."


def _doubts_of_equal_columns(a: Table, b: Table) -> Iterator[str]:
    """Yield what to warn of if a column, and no other one, is the same in both samples."""
    first_a, first_b = a.values[:_FIRST_ROWS], b.values[:_FIRST_ROWS]
    are_equal = (first_a == first_b).all(axis=0)
    if are_equal.all() or len(a.values) < _MANY_IDS:
        return
    for column in np.flatnonzero(are_equal & (first_a != first_a[0]).any(axis=0)):
        scores = a.values[:, column]
        # Of whole numbers `_doubts_of_columns` warns.
        if not _are_whole(scores) and np.array_equal(scores, b.values[:, column]):
            named = column if a.columns is None else repr(a.columns[column])
            yield (
                f"column {named} has the same numbers in both files, but is read as the scores of "
                f"a class; {_LEAVE_OUT}."
            )


def _are_whole(values: Array) -> bool:
    return values.dtype.kind in "iuf" and bool((values == np.rint(values)).all())


def _check_that_each_column_is_a_class(table: Table) -> None:
    """Raise `InputError` if all columns but one hold probabilities."""
    values = table.values
    if values.dtype.kind not in "iuf" or look_like_probabilities(values)[0]:
        return
    first_rows = np.asarray(values[:_FIRST_ROWS], dtype=np.float64)
    with np.errstate(invalid="ignore"):  # logs of probabilities may be -inf
        of_others = first_rows.sum(axis=1, keepdims=True) - first_rows
    for column in np.flatnonzero((abs(of_others - 1) < _ROUNDED).all(axis=0)).tolist():
        if look_like_probabilities(np.delete(values, column, axis=1))[0]:
            named = column if table.columns is None else repr(table.columns[column])
            raise InputError(
                f"{table.name}: column {named} is no class: the others sum to 1; {_LEAVE_OUT}."
            )


def _doubts_of_shares(tables: Sequence[Table], who: str) -> Iterator[tuple[str, str]]:
    """Yield what to warn of if logits may be probabilities with few decimals, or percentages."""
    wholes = [_whole_of_shares(table.values) for table in tables]
    for whole in sorted({*wholes} - {0.0}):
        names = [table.name for table, its in zip(tables, wholes, strict=True) if its == whole]
        why = f"sum to {whole:g} and not to 1; divide percentages or votes by their sum."
        if whole == 1:
            why = "only nearly sum to 1; probabilities need more decimals."
        name = who if len(names) == len(tables) else ", ".join(names)
        yield f"read as logits, since the rows {why}", name


def _whole_of_shares(values: Array) -> float:
    """Return what the rows nearly sum to if the values may be shares of it, and 0 otherwise."""
    whole = float(np.rint(values[0].sum(dtype=np.float64)))
    if not 1 <= whole < np.inf:
        return 0.0
    exact = whole == 1
    for begin in range(0, len(values), _ROWS_AT_ONCE):
        rows = values[begin : begin + _ROWS_AT_ONCE]
        sums = rows.sum(axis=1, dtype=np.float64)
        outside = (rows < 0).any() or (rows > whole).any()
        if outside or (abs(sums - whole) > _ROUNDED * whole).any():
            return 0.0
        exact = exact and bool((sums == 1).all())  # decisions, for example
    return 0.0 if exact else whole


def _with_logs(tables: Sequence[Table]) -> tuple[list[Table], int]:
    """Convert the probabilities of one model to scores; return how many were raised, too."""
    logs, n_raised = [], 0
    for table in tables:
        # As a scalar, the clip would be rounded to 0 in half precision.
        n_raised += int(np.count_nonzero(table.values < np.array([DEFAULT_CLIP])))
        values = scores_of_probabilities(table.values, table.name, DEFAULT_CLIP)
        logs.append(table._replace(values=values))
    return logs, n_raised


def _check_same_names(one: Table, other: Table) -> None:
    """Check that names of rows and columns, if both tables have them, are the same."""
    rows = _names_to_compare(one.ids, other.ids)
    for what, (names, others), advice in (
        ("column", (one.columns, other.columns), ""),
        ("row", rows, " Without names, rows are compared by position."),
    ):
        if names is None or others is None or len(names) != len(others):
            continue
        for number, (a, b) in enumerate(zip(names, others, strict=True)):
            if a != b:
                raise InputError(
                    f"{other.name}: expected the {what}s of {one.name} in the same order, got "
                    f"{b!r} instead of {a!r} as {what} {number}.{advice}"
                )


def _names_to_compare(
    one: list[str] | None, other: list[str] | None
) -> tuple[Sequence[Any] | None, Sequence[Any] | None]:
    """Return the names of rows; numbers that a program wrote by itself are positions."""
    numbers, others = _positions(one), _positions(other)
    if numbers is not None and others is not None:
        return numbers, others
    in_order = any(n is not None and n == sorted(n) for n in (numbers, others))
    # Rows in order say nothing against the names in the other file.
    return (None, None) if in_order else (one, other)


def _positions(names: list[str] | None) -> list[int] | None:
    """Return positions from 0 if the names are numbers of rows, from 0 or from 1, in any order."""
    if not names or not all(map(_is_whole_number, names)):
        return None
    numbers = list(map(int, names))
    first = min(numbers)
    if first not in (0, 1) or sorted(numbers) != list(range(first, first + len(numbers))):
        return None
    return [number - first for number in numbers]


def read_labels(
    name: str, scores: Table, columns: list[str] | None, what: str = "pairs"
) -> tuple[Ints, list[str] | None]:
    """Read one label for each row of the scores, and find the column of each.

    Numbers are those of columns, from 0. Strings are names of columns; if the columns have no
    names, the sorted labels are their names, as with scikit-learn's classes. If all names of
    columns are whole numbers, then numbers are names too.

    Returns the number of the column of each label, and the names of the columns, if there are
    any. Raises `InputError` if a label is missing or has no column; ``what`` has labels.
    """
    n, n_classes = scores.values.shape
    table = _read(name, lambda rows: _csv_labels(rows, n), strings=True)
    _check_same_names(scores, table._replace(columns=None))
    labels = table.values
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (n,):
        raise InputError(
            f"{name}: expected one label for each of {n} {what}, got shape {labels.shape}."
        )
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8", "backslashreplace")
    try:
        if labels.dtype.kind == "U":
            labels = np.char.strip(labels)
            columns = columns or _sorted_labels(labels, n_classes)
        numbers = _columns_of(labels, n_classes, columns)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    if labels.dtype.kind != "U" and numbers.min() > 0 and np.array_equal(labels, numbers):
        output.warn(f"{name}: no label is 0. Labels count from 0; R's factor codes count from 1.")
    return numbers, columns


def _sorted_labels(labels: NDArray[np.str_], n_classes: int) -> list[str]:
    """Return the distinct labels, which name the columns of the scores."""
    columns: list[str] = np.unique(labels[labels != ""]).tolist()
    if len(columns) != n_classes:
        raise InputError(
            f"expected {n_classes} different labels, one for each column of the scores, whose "
            f"columns have no names, got {len(columns)}: {quoted(columns)}."
        )
    return columns


def _columns_of(labels: Array, n_classes: int, columns: list[str] | None) -> Ints:
    """Return the number of the column of each label, which is a name or a number."""
    expected = f"names of columns of the scores, {quoted(columns or [])}"
    known: list[Any] = [column.strip() for column in columns or ()]
    if labels.dtype.kind != "U":
        if columns and all(map(_is_whole_number, columns)):
            known = list(map(int, columns))
        else:
            known, expected = list(range(n_classes)), f"numbers of columns, 0 to {n_classes - 1}"
        if labels.dtype.kind not in "iuf":
            raise InputError(f"expected {expected}, got dtype {labels.dtype}.")
    distinct, codes = np.unique(labels, return_inverse=True)
    counts, places = Counter(known), {name: number for number, name in enumerate(known)}
    n_columns = np.array([counts[label] for label in distinct.tolist()])[codes]
    if (n_columns != 1).any():
        # One missing value among numbers makes all labels texts.
        missing = [_is_no_value(str(label)) for label in distinct.tolist()]
        wrong = n_columns != 1
        if (missing_rows := wrong & np.array(missing)[codes]).any():
            wrong = missing_rows
        from_1 = known == [*range(n_classes)] and distinct.tolist() == [*range(1, n_classes + 1)]
        advice = "; columns count from 0: subtract 1" if from_1 else ""
        row = int(wrong.argmax())
        label = labels[row].item()
        if label == "":
            raise InputError(f"expected a label in each row, got none in row {row}.")
        several = ", which names several" if n_columns[row] else ""
        raise InputError(f"expected {expected}, got {label!r} in row {row}{several}{advice}.")
    return np.array([places[label] for label in distinct.tolist()], dtype=np.int64)[codes]


def listed(names: Sequence[str]) -> str:
    """Return the first few names."""
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")


def quoted(names: list[str]) -> str:
    """Return the first few names, in quotes."""
    return listed(list(map(repr, names)))


def read_table(name: str, header: bool | None = None) -> Table:
    """Read a matrix of numbers.

    The name is the path of a file; "-" is standard input. ``:array`` after the name of an npz
    file chooses one of its arrays. ``header`` says whether line 1 of a csv file holds names;
    None: it does if it has no numbers. Raises `InputError` if the file cannot be read, whatever
    the reason.
    """
    return _read(name, lambda rows: _csv_numbers(rows, header))


def _read(name: str, of_rows: Callable[[_Rows], _Content], strings: bool = False) -> Table:
    """Read a file of any kind, and turn each error that reading it causes into one line."""
    named = re.fullmatch(r"(-|.*\.npz|.*?):(.+)", name, re.IGNORECASE | re.DOTALL)
    path, member = named.groups() if named and not os.path.exists(name) else (name, None)
    try:
        file = _seekable(path)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in a path
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{name}: expected a file that can be read, got: {why}.") from error
    kind = "file"
    with file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old or damaged files cause warnings
        try:
            start = file.read(6)
            file.seek(0)
            if start[:2] == b"\x1f\x8b":
                kind = "gz"
                file = BytesIO(gzip.decompress(file.read()))  # noqa: PLW2901
                start = file.getvalue()[:6]
            kinds = {b"PK\x03\x04": "npz", b"PK\x05\x06": "npz", b"PAR1": "Parquet"}
            kind = "npy" if start == b"\x93NUMPY" else kinds.get(start[:4], "csv")
            if member is not None and kind != "npz":
                raise InputError(f"expected an npz file before the colon, got {kind}.")
            if kind == "npz":
                return Table(name, _npz(file, path, member))
            if kind == "npy":
                return Table(name, _npy(file))
            if kind == "Parquet":
                return Table(name, *_parquet(file, strings))
            return Table(name, *_csv(file, of_rows, strings))
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
        except (UnicodeDecodeError, csv.Error) as error:
            raise InputError(
                f"{name}: expected npy, npz, Parquet or csv in UTF-8, got other bytes ({error}); "
                "pickles are never loaded."
            ) from error
        except Exception as error:
            if isinstance(error, ValueError) and "object" in str(error).lower():
                raise InputError(
                    f"{name}: expected numbers or texts, got Python objects, which are never "
                    "loaded; save values.astype(str) or values.astype(float)."
                ) from error
            # With damaged files the libraries raise errors of many types.
            why = " ".join(str(error).split()).rstrip(".") or type(error).__name__
            raise InputError(f"{name}: expected a sound {kind} file, got: {why}.") from error


def _seekable(path: str) -> BinaryIO:
    """Open a seekable file; pipes are read into memory."""
    if path == "-":
        if sys.stdin is None:
            raise ValueError("no standard input")
        return BytesIO(sys.stdin.buffer.read())
    file = open(path, "rb")  # noqa: SIM115
    if os.path.isfile(path):
        return file
    with file:
        return BytesIO(file.read())


def _npy(file: BinaryIO) -> Array:
    if isinstance(file, BytesIO):
        values: Array = np.load(file, allow_pickle=False)
        return values
    # A large file need not fit into memory.
    mapped: Array = np.load(file.name, allow_pickle=False, mmap_mode="r")
    return mapped


def _npz(file: BinaryIO, example: str, member: str | None) -> Array:
    with np.load(file, allow_pickle=False) as archive:
        names = [n[:-4] for n in archive.zip.namelist() if n.endswith(".npy")]
        if not names:
            raise InputError(
                "expected arrays, got a zip file without any; to save a tensor, use numpy.save "
                "and tensor.numpy() instead of torch.save."
            )
        if member is None and len(names) > 1:
            raise InputError(
                f"expected one array, got {', '.join(names)}; choose one, for example "
                f"{example}:{names[0]}."
            )
        if member is not None and member not in names:
            raise InputError(f"expected one of the arrays {', '.join(names)}.")
        values = archive[names[0] if member is None else member]
    if not isinstance(values, np.ndarray):
        raise InputError("expected an array, got other bytes.")
    return values


def _parquet(file: BinaryIO, strings: bool) -> _Content:
    try:
        import pandas
        import pyarrow
    except ImportError as error:
        raise InputError(
            "to read Parquet, pandas and pyarrow are needed: pip install pandas pyarrow."
        ) from error
    if int(pyarrow.__version__.split(".")[0]) < _SAFE_PYARROW:
        raise InputError(
            f"to read Parquet, pyarrow {_SAFE_PYARROW} or later is needed, got "
            f"{pyarrow.__version__}."
        )
    frame = pandas.read_parquet(file)
    texts = [item for item in frame.dtypes.items() if item[1].kind not in "biuf"]
    if texts and not strings:
        column, dtype = texts[0]
        raise InputError(f"expected numbers in column {column!r}, got {dtype}.")
    if texts:
        frame = frame.astype(object).where(frame.notna(), "").astype(str)
    values = frame.to_numpy()
    if texts:
        values = values.astype(np.str_)
    elif values.dtype == object:  # columns that may have missing values
        values = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return values, list(map(str, frame)), list(map(str, frame.index))


def _csv(file: BinaryIO, of_rows: Callable[[_Rows], _Content], strings: bool) -> _Content:
    # Excel's "Unicode text" is UTF-16.
    encoding = "utf-16" if file.read(2) in (BOM_UTF16_LE, BOM_UTF16_BE) else "utf-8-sig"
    file.seek(0)
    text = TextIOWrapper(file, encoding=encoding, newline="")
    first = list(islice(filter(str.strip, text), 2))
    mark = _mark_between_cells(first, strings)
    text.seek(0)
    # pandas quotes numbers with decimal commas.
    have_points = mark == "," and not any(
        '"' in line and re.search(_QUOTED_COMMA, line) for line in text
    )
    text.seek(0)
    lines = filter(str.strip, text)
    reader = csv.reader(
        map(str.strip, lines) if mark == " " else lines,
        delimiter=mark,
        skipinitialspace=True,
        strict=True,
    )
    try:
        return of_rows(reader if have_points else _with_points(list(reader)))
    except (InputError, csv.Error):
        text.seek(0)
        commented = ((n, begin[0]) for n, line in enumerate(text, 1) if (begin := _COMMENT(line)))
        number, mark = next(commented, (0, ""))
        if number:
            raise InputError(
                f"expected a row of cells in each line, got a comment in line {number}; delete "
                f"lines that begin with {mark.strip()}."
            ) from None
        raise


def _mark_between_cells(first: list[str], strings: bool) -> str:
    """Return what separates the cells of a csv file whose first two lines are given.

    Names may have marks, too, and numbers decimal commas, but rarely in both lines. In R's tables
    of one column line 1 has no mark. Strings have blanks, unless the names of rows are numbers or
    quoted.
    """
    unquoted = [re.sub('"[^"]*"', "", line.strip()) for line in first]
    marks = ";\t," if strings else ";\t, "
    of_both = (mark for mark in marks if all(mark in line for line in unquoted))
    of_one = (mark for line in unquoted for mark in marks if mark in line)
    if mark := next(chain(of_both, of_one), ""):
        return mark
    is_named = [re.match(_NAMED_ROW, line) is not None for line in first]
    has_no_names = is_named[:1] == [True] and not first[0].startswith('""')
    return "," if has_no_names or not is_named[-1] else " "


def _with_points(rows: list[list[str]]) -> _Rows:
    """Return cells with points in decimal numbers; a comma is one unless others have points."""
    if any(re.fullmatch(_WITH_POINT, cell) for row in rows for cell in row):
        return iter(rows)
    return (
        [cell.replace(",", ".") if re.fullmatch(_WITH_COMMA, cell) else cell for cell in row]
        for row in rows
    )


def _csv_numbers(rows: _Rows, header: bool | None) -> _Content:
    first = list(islice(rows, 2))
    if not first:
        raise InputError("expected numbers, got an empty file.")
    line_1 = first[0]
    # R's write.table has no cell above the names of rows.
    is_r = len(first[-1]) == len(line_1) + 1 and line_1[0].strip() != ""
    if is_r and header is not False:
        header, line_1 = True, ["", *line_1]
    has_names = _are_names(line_1) if header is None else header
    # pandas leaves the name of its index empty.
    n_ids = int(has_names and not line_1[0].strip())
    names = line_1[n_ids:] if has_names else None
    values, ids, number = array("d"), list[str](), -1
    for number, row in enumerate(chain(first[int(has_names) :], rows)):
        _check_even(row, number, len(line_1))
        cells = row[n_ids:]
        ids += row[:n_ids]
        try:
            # Python would take a number with underscores for one of its own.
            values.extend(map(_number if "_" in "".join(cells) else float, cells))
        except ValueError:
            why = _why_no_numbers(cells, number, names)
            raise InputError(f"expected numbers separated by commas, got {why}.") from None
    matrix = np.asarray(values).reshape(number + 1, len(line_1) - n_ids)
    return matrix, names, ids if n_ids else None


def _check_even(row: list[str], number: int, n_cells: int) -> None:
    """Refuse a row with another number of cells than the first line."""
    if len(row) != n_cells:
        advice = ""
        if len(row) > n_cells and not _is_number(row[0]):
            advice = "; names of rows with blanks need quotes, or tabs between the cells"
        raise InputError(
            f"expected {n_cells} cells in each line, as in the first, got {len(row)} in row "
            f"{number}{advice}."
        )


def _are_names(cells: list[str]) -> bool:
    """Return whether the first line of a csv file holds names."""
    if all(map(_is_whole_number, cells)) and len(cells) > 1:
        numbers = list(map(int, cells))
        if numbers == sorted(set(numbers)):
            # pandas names columns 0, 1, ... by default, and classes are often numbers.
            raise InputError(
                f"expected names or scores in line 1, got {','.join(cells)[:40]!r}, which may be "
                "either; use --header or --no-header."
            )
    if len(set(cells)) == 1 and _is_no_value(cells[0]):  # a row of scores that are missing
        return False
    return not cells[0].strip() or not any(map(_is_number, cells))


def _csv_labels(given: _Rows, n: int) -> _Content:
    """Read labels; a line 1 of strings is the name of the column if n more lines follow."""
    rows = list(given)
    if not rows:
        raise InputError("expected labels, got an empty file.")
    # R's write.table has no cell above the names of rows.
    is_r = len(rows[0]) == 1 and {len(row) for row in rows[1:]} == {2}
    if is_r:
        rows = [["", *rows[0]], *rows[1:]]
    for number, row in enumerate(rows):
        _check_even(row, number, len(rows[0]))
    cells = np.array(rows)
    has_ids = cells.shape[1] == 2 and not cells[0, 0].strip()
    if cells.shape[1] != 1 + has_ids:
        raise InputError(
            "expected one column of labels (and perhaps unnamed row names), got "
            f"{cells.shape[1]} columns: {quoted(cells[0].tolist())}."
        )
    labels = cells[:, -1]
    are_numbers = all(map(_is_number, np.unique(labels[len(labels) > 1 :]).tolist()))
    has_name = has_ids or (not _is_number(labels[0]) if are_numbers else len(labels) == n + 1)
    begin = int(has_name)
    labels, ids = labels[begin:], cells[begin:, 0].tolist() if has_ids else None
    return labels.astype(np.float64) if are_numbers else labels, None, ids


def _why_no_numbers(cells: list[str], row: int, names: list[str] | None) -> str:
    """Say which cell of a row is no number, and what to do."""
    column, cell = next((i, cell) for i, cell in enumerate(cells) if not _is_number(cell))
    where = f"row {row}, column {column}" + (f" ({names[column]!r})" if names else "")
    is_unnamed = names is None or not names[column].strip()
    if not cell.strip() and is_unnamed and (row, column) == (0, len(cells) - 1):
        return f"an empty cell in {where}; if each line ends with a mark between cells, delete it"
    if _is_no_value(cell):
        return (
            f"the missing value '{cell}' in {where}; leave its row out of all files, or fill it in"
        )
    advice = ""
    if re.fullmatch(r"[^\d\W][\w .-]*", cell):
        advice = f"; if this column has labels and no scores, {_LEAVE_OUT}, and give --labels FILE"
    return f"'{cell}' in {where}{advice}"


def _is_no_value(cell: str) -> bool:
    """Return whether a cell is what programs write for a missing value."""
    return _MISSING.fullmatch(cell.strip()) is not None


def _is_whole_number(cell: str) -> bool:
    return re.fullmatch(r"\s*[+-]?\d{1,15}\s*", cell) is not None


def _is_number(cell: str) -> bool:
    try:
        _number(cell)
    except ValueError:
        return False
    return True


def _number(cell: str) -> float:
    """Return the number in a cell; Python would also take one with underscores for its own."""
    if "_" in cell:
        raise ValueError
    return float(cell)
