"""Files of scores and labels: numpy or pandas reads them; here they are made to fit together."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

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

# What others save tables as, and how to make a file of it that can be read.
_OTHER_FORMATS = {
    ".xlsx": "an xlsx workbook: save it as csv",
    ".xls": "an xls workbook: save it as csv",
    ".mat": "a MATLAB file: save the matrix as npy by scipy.io.loadmat and numpy.save, or as csv "
    "by MATLAB's writematrix",
}


class InputError(Exception):
    """The input cannot be used; the message is one line that names it."""


class Table(NamedTuple):
    """What is in a file, with the names of its columns and rows if it has some."""

    name: str
    values: Array
    columns: list[str] | None = None
    rows: list[str] | None = None


@contextmanager
def input_errors() -> Iterator[None]:
    """Turn an error that a check raises into an `InputError`."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise InputError(str(error)) from error


def read_scores(names: Mapping[str, Sequence[str]], options: Namespace) -> dict[str, list[Table]]:
    """Read each model's scores of two samples, and of labelled rows if there is a third file.

    The options say whether csv files have a ``header``, and whether all files hold
    ``probabilities``; otherwise the rows of each model decide.
    """
    by_model: dict[str, list[Table]] = {}
    recognised: list[str] = []
    for model, files in names.items():
        tables = [_scores(read(name, options.header)) for name in files]
        with input_errors():
            for table in () if options.probabilities else tables:
                check_values(table.values, table.name)
            if options.probabilities or _are_probabilities(tables):
                tables = list(map(_with_logs, tables))
                recognised += files
        by_model[model] = tables
    _check_alignment(list(by_model.values()))
    if recognised and not options.probabilities:
        output.warn(
            f"{', '.join(recognised)}: read as probabilities, since all rows are non-negative and "
            "sum to 1."
        )
    return by_model


def _scores(table: Table) -> Table:
    """Return a table with a column of numbers for each class."""
    values: Any = table.values
    if hasattr(values, "to_numpy"):
        texts = values.select_dtypes(exclude=["number", "bool"])
        if texts.size:
            raise InputError(
                f"{table.name}: expected numbers, got {texts.iloc[0, 0]!r} in column "
                f"{texts.columns[0]!r}."
            )
        table = table._replace(values=values.to_numpy(np.float64, na_value=np.nan))
    with input_errors():
        check_shape(table.values, table.name)
    return table


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


def _with_logs(table: Table) -> Table:
    values = scores_of_probabilities(table.values, table.name, DEFAULT_CLIP)
    return table._replace(values=values)


def _check_alignment(models: Sequence[Sequence[Table]]) -> None:
    """Check that all models have the same classes, pairs and labelled rows, in one order."""
    pairs = [table for a, b, *_ in models for table in (a, b)]
    labelled = [table for _, _, *others in models for table in others]
    n_classes = pairs[0].values.shape[1]
    for same_rows in (pairs, labelled):
        for table in same_rows:
            if table.values.shape[1] != n_classes:
                raise InputError(
                    f"{table.name}: expected the {n_classes} columns of {pairs[0].name}, got "
                    f"{table.values.shape[1]} columns."
                )
            one = same_rows[0]
            with input_errors():
                check_same_shape(one.values.shape, table.values.shape, one.name, table.name)
        check_names(same_rows, "rows")
    check_names([*pairs, *labelled], "columns")


def check_names(tables: Sequence[Table], what: str) -> None:
    """Check that the rows, or columns, have the same names in all tables that have names."""
    named = [table for table in tables if getattr(table, what) is not None]
    for other in named[1:]:
        one = named[0]
        both = zip(getattr(one, what), getattr(other, what), strict=False)
        for number, (a, b) in enumerate(both):
            if a != b:
                raise InputError(
                    f"{other.name}: expected the {what} of {one.name} in the same order, got "
                    f"{b!r} instead of {a!r} as {what[:-1]} {number}."
                )


def column_names(models: Mapping[str, Sequence[Table]]) -> list[str] | None:
    """Return the names of the columns in the first table that has them."""
    tables = (table for of_model in models.values() for table in of_model)
    return next((table.columns for table in tables if table.columns is not None), None)


def read_labels(
    name: str, scores: Table, columns: list[str] | None, header: bool | None
) -> tuple[Ints, list[str] | None]:
    """Read one label for each row of the scores, and find the column of each.

    Numbers are those of columns, from 0, or their names if all names are whole numbers. Strings
    are names of columns; if these have none, the sorted labels are their names, as with
    scikit-learn's classes. Returns the numbers of the columns, and the names if there are any.
    """
    n, n_classes = scores.values.shape
    table = read(name, header, labels=True)
    check_names([scores, table], "rows")
    labels = np.asarray(table.values)
    if labels.shape not in ((n,), (n, 1)):
        raise InputError(
            f"{name}: expected one label for each of {n} rows, got shape {labels.shape}."
        )
    given = labels.reshape(n).tolist()
    known: list[Any] = list(range(n_classes))
    expected = f"numbers of columns, 0 to {n_classes - 1}"
    of_strings = any(isinstance(label, str) for label in given)
    if of_strings and columns is None:
        columns = sorted(set(map(str, given)))
        if len(columns) != n_classes:
            raise InputError(
                f"{name}: expected {n_classes} different labels, one for each column of the "
                f"scores, whose columns have no names, got {len(columns)}."
            )
    if columns and (of_strings or all(column.isdecimal() for column in columns)):
        known = columns if of_strings else list(map(int, columns))
        expected = f"names of columns of the scores, {', '.join(map(repr, columns[:5]))}"
        expected += ", ..." * (len(columns) > 5)
    places = {label: column for column, label in enumerate(known)}
    for row, label in enumerate(given):
        if label not in places:
            raise InputError(f"{name}: expected {expected}, got {label!r} in row {row}.")
    return np.array([places[label] for label in given]), columns


def read(name: str, header: bool | None, labels: bool = False) -> Table:
    """Read a file of npy or npz by numpy, and any other one as a table by pandas.

    ``:array`` after the name of an npz file chooses one of its arrays. ``header`` says whether
    line 1 of a csv file holds names; None: it must hold them, and numbers are an error.
    """
    try:
        archive = re.fullmatch(r"(.*\.npz):(.+)", name)
        if archive:
            with open(archive[1], "rb") as file, np.load(file) as arrays:
                return Table(name, arrays[archive[2]])
        if not name.endswith((".npy", ".npz")):
            return _table(name, header, labels)
        values = np.load(name, mmap_mode="r")  # a large file need not fit into memory
    except InputError:
        raise
    except OSError as error:
        why = error.strerror or str(error)
        raise InputError(f"{name}: expected a file that can be read, got: {why}.") from error
    except Exception as error:  # numpy and pandas raise errors of many types for damaged files
        why = " ".join(str(error).split()).rstrip(".")
        raise InputError(
            f"{name}: expected a file that numpy or pandas can read, got: {why}."
        ) from error
    if not isinstance(values, np.ndarray):
        raise InputError(
            f"{name}: expected one array, got {', '.join(values.files)}; choose one, such as "
            f"{name}:{values.files[0]}."
        )
    return Table(name, values)


def _table(name: str, header: bool | None, labels: bool) -> Table:
    """Return a table as pandas reads it; a first column without a name has those of the rows."""
    try:
        import pandas
    except ImportError as error:
        raise InputError(
            f"{name}: expected pandas, which reads all files but .npy and .npz: pip install "
            '"pa-select[command-line]".'
        ) from error
    path = Path(name)
    path.stat()  # pandas would fetch what looks like an address
    other = _OTHER_FORMATS.get(path.suffix.lower())
    if other:
        raise InputError(f"{name}: expected a file of npy, npz, csv or parquet, got {other}.")
    if name.endswith(".parquet"):
        frame = pandas.read_parquet(name)
        header = True
    else:
        # pandas' guess of the separator needs two columns.
        sep, decimal = "," if labels else None, "."
        if path.suffix == ".csv":
            with open(path, encoding="utf-8", errors="replace") as file:
                head = file.readline() + file.readline()
            if ";" in head:  # as R's write.csv2 and Excel in many countries write
                sep, decimal = ";", "," if "," in head else "."
        frame = pandas.read_csv(
            name,
            sep=sep,
            decimal=decimal,
            engine="python",
            encoding="utf-8-sig",  # Excel begins a file with a mark
            header=None if header is False else 0,
            keep_default_na=not labels,  # a class may be called NA
        )
    columns = list(map(str, frame.columns))
    rows = None if isinstance(frame.index, pandas.RangeIndex) else list(map(str, frame.index))
    if columns[:1] == ["Unnamed: 0"]:
        rows, columns = frame.iloc[:, 0].astype(str).tolist(), columns[1:]
        frame = frame.iloc[:, 1:]
    elif header is None and any(map(_is_number, columns)):
        raise InputError(
            f"{name}: expected names in line 1, got {', '.join(columns[:5])}; use --header if "
            "these are names, and --no-header if there are none."
        )
    return Table(name, frame, None if header is False else columns, rows)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
