"""What users give, converted and checked: numbers, scores, labels, rows, metrics, a device.

Torch is not imported: scores may be arrays or tensors.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from numbers import Real
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from pa_select.utils.estimators import is_instance, refuse_iterable_dataset, refuse_loader
from pa_select.utils.typing import Array, Device, Floats, Ints, Labels, Rows, Vector

if TYPE_CHECKING:
    import torch

#: Larger scores could overflow in a sum over pairs.
LARGEST_SCORE = 1e100
#: For a row of smaller scores, other than zeros, the inverse temperature could overflow.
SMALLEST_SCORE = 1e-300
#: Smallest probability if the classifier's own resolution is not known.
DEFAULT_CLIP = 1e-8
#: Tolerance for sums of rows and for negative values: half precision and printing round this much.
ROUNDING = 1e-3


class BadScoresError(ValueError):
    """Scores of the right shape that cannot be compared, such as nan."""


#: What to do with the scores of pixels, and with several labels of one row.
OF_PIXELS = (
    " For classes of pixels, (n, n_classes, height, width), put the classes last, "
    "numpy.moveaxis(scores, 1, -1).reshape(-1, n_classes), and give the image of each pixel as "
    "groups (documentation: 'Pixels, and several labels of a row')."
)
OF_NUMBERS = " For several numbers of a row fit one model or search for each of them."
OF_LABELS = (
    " For several labels of a row compare one binary problem for each label (documentation: "
    "'Pixels, and several labels of a row')."
)
# Number of elements to check at once; it bounds the memory of the comparisons.
_CHECKED_ELEMENTS = 1 << 20
# On a device each check is waited for.
_CHECKED_ON_DEVICE = 1 << 27
# Numbers of rows to read at once: a few first, because they suffice to recognise most logits.
_FIRST_ROWS, _ROWS_AT_ONCE = 1 << 10, 1 << 16

_TEXTS = (str, bytes)
# Deeper lists are not arrays; a list that contains itself would never end.
_MOST_AXES = 8
# Longer representations of an object are not shown in a message.
_LONG = 60


def n_axes(x: Any) -> int:
    """Return the number of axes of an array, or of nested sequences (by first elements)."""
    axes = 0
    while isinstance(x, (list, tuple)) and axes < _MOST_AXES:
        axes += 1
        x = x[0] if len(x) else None
    if isinstance(x, (list, tuple)):
        return axes
    return axes + (len(x.shape) if hasattr(x, "shape") else np.ndim(x))


def as_numpy(values: Any) -> Any:
    """Return a tensor's numbers as an array; other values are returned as they are."""
    if not hasattr(values, "detach"):
        return values
    tensor = values.detach().cpu()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()


def as_numbers(values: Any, name: str) -> Array:
    """Convert to an array of real or complex numbers, if possible without a copy."""
    array = as_array(values, name)
    dtypes: Any = getattr(values, "dtypes", None)
    if array.dtype == object and all(getattr(x, "kind", "O") in "biuf" for x in np.ravel(dtypes)):
        # pandas' nullable columns with missing values convert to objects.
        array = values.to_numpy(dtype=np.float64, na_value=np.nan)
    if array.dtype.kind not in "biufc":
        some = repr(array.ravel()[0]) if array.size else ""
        if len(some) > _LONG:
            some = f"a {type(array.ravel()[0]).__name__}"
        got = f"objects such as {some}" if some else "an empty sequence"
        raise TypeError(f"{name}: expected real numbers, got {got} (dtype {array.dtype}).")
    return array


def as_array(values: Any, name: str) -> Array:
    """Convert values of any type to a dense array; masked values are an error."""
    if hasattr(values, "toarray") and hasattr(values, "nnz"):
        raise TypeError(f"{name}: expected a dense array, got a sparse one; use .toarray().")
    is_list = isinstance(values, (list, tuple))
    if is_list and n_axes(values) >= _MOST_AXES:
        raise ValueError(f"{name}: expected an array, got a list nested {_MOST_AXES} times.")
    masked = [np.ma.is_masked(row) for row in values] if is_list else [np.ma.is_masked(values)]
    if any(masked):
        row = masked.index(True) if is_list else int(np.argwhere(np.ma.getmask(values))[0][0])
        raise ValueError(
            f"{name}: expected no masked values, got one in row {row}; fill them, or leave "
            "their rows out everywhere."
        )
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        rows = values if is_list else ()
        lengths = sorted({len(row) for row in rows if isinstance(row, (list, tuple))})
        if len(lengths) > 1:
            raise ValueError(
                f"{name}: expected rows of equal length, got rows of {lengths} entries."
            ) from error
        raise TypeError(f"{name}: expected an array ({error}).") from error


def check_column(values: Labels, n: int, name: str) -> Array:
    """Check labels or environments of n rows and return them as an array of shape (n,).

    The shape (n, 1) is taken, too; missing and masked values are refused.
    """
    if np.ma.is_masked(values):
        raise ValueError(f"{name}: expected a value for each row, got masked ones.")
    try:
        column = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name}: expected an array of shape ({n},) ({error}).") from error
    if column.shape == (n, 1):
        column = column[:, 0]
    if column.shape != (n,):
        got = column.shape or type(values).__name__
        several = OF_NUMBERS if column.dtype.kind == "f" else OF_LABELS
        is_table = column.ndim == 2 and len(column) == n
        hint = several if is_table else OF_PIXELS if column.ndim > 2 else ""
        hint *= name in ("y", "y_val")
        raise ValueError(f"{name}: expected shape ({n},), got {got}.{hint}")
    of_objects = column.dtype == object
    wrong = np.array([_is_missing(x) for x in column]) if of_objects else column != column
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"{name}: expected a value for each row, got {column[row]} in row {row}.")
    if of_objects:
        try:
            np.sort(column)
        except TypeError as error:
            kinds = " and ".join(sorted({type(value).__name__ for value in column}))
            raise TypeError(
                f"{name}: expected values of one type, got {kinds}; such as .astype(str)."
            ) from error
        parts = [x for x in column if isinstance(x, Collection) and not isinstance(x, _TEXTS)]
        if parts:
            hint = OF_LABELS if name in ("y", "y_val") else ""
            raise TypeError(
                f"{name}: expected a number or a string for each row, got a "
                f"{type(parts[0]).__name__}.{hint}"
            )
    return column


def _is_missing(value: Any) -> bool:
    """Whether a value is None, differs from itself like nan, or cannot be compared like NA."""
    differs = value != value
    return value is None or not isinstance(differs, (bool, np.bool_)) or bool(differs)


def check_weight(sample_weight: Vector, n: int) -> Floats:
    """Check the weights of n rows, finite and not all 0, and return them in double precision."""
    given = check_column(sample_weight, n, "sample_weight")
    # pandas' nullable columns may convert to objects.
    if given.dtype.kind not in "biuf" and not all(isinstance(x, Real) for x in given):
        raise TypeError(f"sample_weight: expected real numbers, got dtype {given.dtype}.")
    weight = given.astype(np.float64)
    check_weight_values(weight, "sample_weight")
    return weight


def check_weight_values(weight: Floats, name: str, *, may_be_zero: bool = False) -> None:
    """Check that weights are finite and not negative, with a positive sum."""
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"{name}: expected finite non-negative weights, got {weight[row]} in row {row}."
        )
    with np.errstate(over="ignore"):
        total = weight.sum()
    if not 0 < total < np.inf and not (may_be_zero and total == 0):
        raise ValueError(f"{name}: expected a positive and finite sum, got {total}.")


def check_scoring_argument(
    scoring: object, name: str = "scoring", *, several: bool = False
) -> None:
    """Refuse what is no scorer: a misspelt name, a metric's function, or several of them.

    `several`: a list or dict of scorers is one, too.
    """
    if several and isinstance(scoring, (list, tuple, set, Mapping)):
        named = scoring if isinstance(scoring, Mapping) else dict(enumerate(scoring))
        for key, one in named.items():
            check_scoring_argument(one, f"{name}[{key!r}]")
        return
    if scoring is None:
        return
    if isinstance(scoring, str):
        # Imported here: scores are checked without scikit-learn.
        from sklearn.metrics import get_scorer_names

        if scoring in (known := get_scorer_names()):
            return
        near = " or ".join(map(repr, get_close_matches(scoring, known, 3)))
        advice = (
            f"Did you mean {near}?" if near else "sklearn.metrics.get_scorer_names() has them."
        )
        raise ValueError(
            f"{name}: expected the name of a metric of scikit-learn, got {scoring!r}. {advice}"
        )
    if not callable(scoring):
        raise TypeError(
            f"{name}: expected {'scorers' if several else 'one scorer'}, by name or callable, got "
            f"a {type(scoring).__name__}."
        )
    if isinstance(scoring, FunctionType) and scoring.__module__.startswith("sklearn.metrics."):
        raise TypeError(
            f"{name}: expected a scorer, got the function {scoring.__name__}, which looks like it "
            f"is a metric; give make_scorer({scoring.__name__}), or the name of a scorer."
        )


def is_dataset(rows: object) -> bool:
    """Whether rows are a torch Dataset; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(rows, torch.utils.data.Dataset)


def are_rows(value: object) -> bool:
    """Whether a mapping, or an object with a ``transform``, is the rows of one sample.

    skorch's ``SliceDict`` is a dict, and its ``SliceDataset`` has a ``transform``. Unlike a dict
    of samples and unlike a transformer, both have a shape.
    """
    return hasattr(value, "shape")


def rows_of_parts(X: Any) -> Any:
    """Return a plain dict of parts, as skorch gives a scorer for a ``SliceDict``, as one again."""
    if not isinstance(X, dict) or are_rows(X) or "skorch" not in sys.modules:
        return X
    from skorch.helper import SliceDict

    return SliceDict(**X)


def is_slice_dataset(rows: object) -> bool:
    """Whether rows are a ``SliceDataset`` of skorch; skorch is not imported to find out."""
    return is_instance(rows, "skorch.helper", "SliceDataset")


def distinct_rows(rows: Ints, return_inverse: bool = False) -> Any:
    """Return the different row numbers, sorted, as np.unique does; row numbers need no sort."""
    there = np.zeros(int(rows.max(initial=-1)) + 1, dtype=bool)
    there[rows] = True
    distinct = np.flatnonzero(there)
    return (distinct, np.cumsum(there)[rows] - 1) if return_inverse else distinct


def shape_of(rows: Any) -> tuple[int, ...] | None:
    """Return the shape of rows, if they have one.

    Items of skorch's ``SliceDataset``, whose own shape is their number, have shapes, too.
    """
    shape = getattr(rows, "shape", None)
    if shape is None:
        return None
    if len(shape) == 1 and is_slice_dataset(rows) and len(rows):
        return (len(rows), *np.shape(as_numpy(rows[0])))
    return tuple(shape)


def refuse_no_rows(rows: object, name: str, *, may_be_dataset: bool = True) -> None:
    """Raise a TypeError for a DataLoader or a dict of parts, which are no rows.

    A search chooses rows by their numbers, so that they may not be a Dataset.
    """
    refuse_loader(rows, name)
    if isinstance(rows, Mapping) and not are_rows(rows):
        raise TypeError(
            f"{name}: expected rows that can be chosen by their numbers, got a "
            f"{type(rows).__name__}; give skorch.helper.SliceDict(**{name})."
        )
    if not may_be_dataset and is_dataset(rows):
        raise TypeError(
            f"{name}: expected rows that can be chosen by their numbers, got the Dataset "
            f"{type(rows).__name__}; give skorch.helper.SliceDataset({name}), and y."
        )


def stacked(rows: Any, name: str) -> Rows:
    """Return the rows of a Dataset as one array; other rows are returned as they are."""
    refuse_no_rows(rows, name)
    if not is_dataset(rows):
        return rows
    refuse_iterable_dataset(rows, name)
    items = [rows[i] for i in range(len(rows))]
    inputs = [item[0] if isinstance(item, (tuple, list)) else item for item in items]
    try:
        array = np.stack([np.asarray(row) for row in inputs]) if inputs else np.empty((0,))
        if array.dtype == object:
            raise TypeError("they are not numbers")
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name}: expected a Dataset of arrays or tensors of one shape, got items that begin "
            f"with a {type(inputs[0]).__name__} ({error})."
        ) from error
    return array


def labels_of(rows: Any, y: Labels | None, name: str) -> Any:
    """Return labels; if y is None, those of a Dataset with items of a row and its label."""
    if y is not None or not is_dataset(rows):
        return y
    labels = []
    for item in (rows[i] for i in range(len(rows))):
        if not isinstance(item, (tuple, list)) or len(item) < 2:
            raise TypeError(
                f"{name}: expected a Dataset whose items are a row and its label, got "
                f"{type(item).__name__} items without a label."
            )
        labels.append(np.asarray(item[1]))
    return np.array(labels)


def check_tol(tol: object, name: str = "tol") -> float:
    """Check the largest gap to certify and return it, in nats per pair."""
    if isinstance(tol, bool) or not isinstance(tol, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name}: expected a number of nats, got {type(tol).__name__}.")
    try:
        nats = float(tol)
    except OverflowError:
        nats = np.inf
    if not 1e-12 <= nats < np.inf:
        raise ValueError(
            f"{name}: expected at least 1e-12 nats (the rounding of the sums) and finite, "
            f"got {nats!r}."
        )
    return nats


def check_level(confidence_level: float) -> None:
    """Raise a ValueError unless the level of an interval is between 0 and 1."""
    number = isinstance(confidence_level, (int, float, np.number))
    if not (number and 0 < confidence_level < 1):
        raise ValueError(
            f"confidence_level: expected a number between 0 and 1, got {confidence_level!r}."
        )


def check_count(value: object, name: str, what: str) -> int:
    """Check a number of things, which is whole and at least 1, and return it."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name}: expected a whole number of {what}, got {value!r}.")
    if value < 1:
        raise ValueError(f"{name}: expected a positive number of {what}, got {value!r}.")
    return int(value)


def check_matrix(matrix: Any, name: str) -> None:
    """Check one matrix of scores (n_pairs, n_classes), an array or a tensor."""
    check_shape(matrix, name)
    check_values(matrix, name)


def as_matrix(values: Any, name: str, fewest_classes: int = 2) -> Array:
    """Convert class scores to floating-point numbers; their shape is checked, not the values."""
    matrix = as_numbers(as_numpy(values), name)
    check_shape(matrix, name, fewest_classes)
    dtype = matrix.dtype if matrix.dtype.char in "efd" else np.float64
    with np.errstate(over="ignore"):  # the check of the values reports what becomes infinite
        return matrix.astype(dtype, copy=False)


def check_shape(matrix: Any, name: str, fewest_classes: int = 2) -> None:
    """Check that a matrix has real numbers, at least one row, and a column for each class."""
    if getattr(matrix.dtype, "kind", "f") not in "biuf":
        raise TypeError(f"{name}: expected real numbers, got dtype {matrix.dtype}.")
    shape = tuple(matrix.shape)
    if len(shape) != 2:
        hint = (
            " One number per row, a margin or a predicted class, is not enough: give each class "
            "a column, for a margin numpy.column_stack([-margin / 2, margin / 2])."
            if len(shape) == 1
            else OF_PIXELS
        )
        raise ValueError(
            f"{name}: expected scores of shape (n_pairs, n_classes), got shape {shape}.{hint}"
        )
    if shape[0] == 0:
        raise ValueError(f"{name}: expected at least one row, got shape {shape}.")
    if shape[1] < fewest_classes:
        raise ValueError(
            f"{name}: expected a column for each of at least {fewest_classes} classes, got shape "
            f"{shape}. Two classes have two columns, such as 1 - p and p."
        )


def check_same_shape(
    shape_a: tuple[int, ...], shape_b: tuple[int, ...], name_a: str, name_b: str
) -> None:
    """Check that both samples have the same shape."""
    if shape_a != shape_b:
        raise ValueError(f"{name_b}: expected the shape of {name_a}, {shape_a}, got {shape_b}.")


def check_values(
    matrix: Any, name: str, n_rows: int | None = None, numbers: Ints | None = None
) -> None:
    """Refuse scores that are nan, inf, too large or too small, by a `BadScoresError`.

    A score may be at most `LARGEST_SCORE` in size, and a row may not be all -inf, nor all below
    `SMALLEST_SCORE` in size but not all 0. The matrix may be a stack of matrices with ``n_rows``
    rows each. `numbers` are what error messages call the rows, by default 0, 1, ...
    """
    library: Any = np if isinstance(matrix, np.ndarray) else sys.modules["torch"]
    if not (matrix.dtype.kind == "f" if library is np else matrix.is_floating_point()):
        return
    elements = _CHECKED_ELEMENTS if getattr(matrix, "is_cpu", True) else _CHECKED_ON_DEVICE
    at_once = max(elements // matrix.shape[1], 1)
    # Types of less precision have no positive numbers as small.
    may_be_tiny = matrix.dtype == library.float64
    for begin in range(0, len(matrix), at_once):
        rows = matrix[begin : begin + at_once]
        # Maxima are enough in the usual case, because nan and inf survive them.
        with np.errstate(invalid="ignore"):
            tops = library.amax(abs(rows), 1) if may_be_tiny else library.amax(abs(rows))
            largest = float(library.amax(tops))
            tiny = may_be_tiny and bool(((tops < SMALLEST_SCORE) & (tops > 0)).any())
        if tiny or not largest <= LARGEST_SCORE:
            _check_rows(rows, name, library, n_rows, begin, numbers)


def _check_rows(
    rows: Any, name: str, library: Any, n_rows: int | None, begin: int, numbers: Ints | None
) -> None:
    """Raise an error for rows, numbered from ``begin``, of which some look invalid."""

    def place(row: int) -> str:
        row += begin
        if numbers is not None:
            return f"row {numbers[row]}"
        return f"row {row}" if n_rows is None else f"problem {row // n_rows}, row {row % n_rows}"

    with np.errstate(over="ignore", invalid="ignore"):  # half precision has no 1e100
        size = abs(rows)
        too_large = size > LARGEST_SCORE
    for wrong, what in (
        (library.isnan(rows), "nan"),
        (library.isposinf(rows), "inf"),
        (library.isfinite(rows) & too_large, "a value beyond 1e100"),
    ):
        if wrong.any():
            row, column = (int(i) for i in library.argwhere(wrong)[0])
            raise BadScoresError(
                f"{name}: expected finite scores (or -inf for probability 0) of at most "
                f"1e100 in size, got {what} in {place(row)}, column {column}."
            )
    empty = library.isneginf(rows).all(1)
    if empty.any():
        row = int(library.argwhere(empty)[0, 0])
        raise BadScoresError(
            f"{name}: expected at least one class of positive probability in each row, "
            f"got only -inf in {place(row)}."
        )
    tops = library.amax(library.where(library.isfinite(rows), size, library.zeros_like(size)), 1)
    tiny = (tops > 0) & (tops < SMALLEST_SCORE)
    if tiny.any():
        row = int(library.argwhere(tiny)[0, 0])
        raise BadScoresError(
            f"{name}: expected scores of which the largest in each row is 0 or at least "
            f"{SMALLEST_SCORE:g} in size, got at most {float(tops[row]):.3g} in {place(row)}."
        )


def are_probabilities(rows: Any) -> Any:
    """Return a mask (n,) of the rows that are non-negative and sum to 1."""
    double: Any = np.float64 if isinstance(rows, np.ndarray) else sys.modules["torch"].float64
    with np.errstate(over="ignore", invalid="ignore"):
        sums = rows.sum(axis=1, dtype=double)
        return (rows >= -ROUNDING).all(axis=1) & (abs(sums - 1) <= ROUNDING)


def look_like_probabilities(*matrices: Any) -> list[bool]:
    """Return which matrices look like probabilities; all False if a row of any cannot be one.

    A matrix whose rows are all one-hot holds decisions. It does not look like probabilities
    itself, but does not prevent another matrix from doing so. Reading stops at the first block
    with a row that cannot be probabilities.
    """
    n = len(matrices[0])
    uncertain = [False] * len(matrices)
    # For many small problems a check of one row is faster than one of an array.
    if not n or not all(abs(sum(matrix[0].tolist()) - 1) <= ROUNDING for matrix in matrices):
        return uncertain
    begin, size = 0, _FIRST_ROWS
    while begin < n:
        for i, matrix in enumerate(matrices):
            rows = matrix[begin : begin + size]
            if not are_probabilities(rows).all():
                return [False] * len(matrices)
            uncertain[i] = uncertain[i] or bool(((rows != 0) & (rows != 1)).any())
        begin, size = begin + size, _ROWS_AT_ONCE
    return uncertain


def resolve_device(device: Device, *scores: torch.Tensor) -> torch.device:
    """Return the requested device; None: the device of the scores."""
    import torch

    if device is None:
        for x in scores:
            if x.device.type != "cpu":
                return x.device
        return torch.device("cpu")
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"device: expected None, 'auto', 'cpu', 'cuda' or a torch.device, got {device!r}."
        ) from error
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device: got {device!r}, but torch finds no CUDA device.")
    if resolved.type == "mps":
        raise ValueError("device: got 'mps', which has no float64; use 'cpu' or 'cuda'.")
    if resolved.type not in ("cpu", "cuda"):  # no question to torch covers all other kinds
        try:
            torch.zeros(1, dtype=torch.float64, device=resolved).item()
        except (AssertionError, ImportError, RuntimeError, TypeError) as error:
            why = f"device: got {device!r}, which torch cannot use here; use 'cpu' or 'cuda'."
            raise ValueError(why) from error
    return resolved
