"""Checks of objects that were measured at two sites, and the alignment of their rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.spatial.distance import pdist, squareform
from scipy.stats import rankdata
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from pa_select.utils.arrays import as_numpy, check_column, is_slice_dataset, shape_of, stacked
from pa_select.utils.frames import check_columns, look_up, named_like
from pa_select.utils.messages import warn_caller
from pa_select.utils.sklearn_private import _threadpool_controller_decorator
from pa_select.utils.typing import Adapter, Floats, Groups, Ints, Rows

#: Fewer pairs give an estimate that says little.
FEW_PAIRS = 20
# Rows of a Dataset that have more numbers are not read into memory.
_MOST_NUMBERS = 10**8
# Objects that are compared, random orders that they are compared with, and the share of these that
# look as well paired by chance.
_MOST_COMPARED, _ORDERS, _BY_CHANCE = 150, 199, 0.02
# There are so many rows for each principal component that is compared, and so many components.
_ROWS_OF_EACH, _MOST_COMPONENTS = 5, 10
# Components that vary less than this, relative to the first one, are rounding.
_ROUNDING = 1e-9
# The comparison squares numbers; larger ones have no square.
_LARGEST = 1e100
# What is possible if the instruments have different columns.
_IF_OTHER_COLUMNS = (
    " If the other site measures other columns, an adapter can map them to these: adapter='ridge'."
)
# Up to this share of objects may be among the labelled rows by chance.
_KNOWN = 0.05
# So many numbers of labelled rows are looked at at once.
_AT_ONCE = 2**20
# Up to this share of the different rows may be there several times.
_REPEATED = 0.1


def check_pairs(
    X_a: Rows,
    X_b: Rows,
    name_a: str = "X_a",
    name_b: str = "X_b",
    adapter: Adapter = None,
    groups: Groups = None,
) -> tuple[Any, Any]:
    """Align both measurements of the same objects, and warn of pairs that look wrong.

    `groups` has the object of each pair, if there are several of one.
    """
    X_a, X_b = aligned_pairs(X_a, X_b, name_a, name_b, adapter, groups)
    some_a, some_b = X_a, X_b
    if groups is not None:
        # A random pair of each object: the first pixels of images may all be alike.
        order = np.random.default_rng(0).permutation(_num_samples(X_a))
        codes = check_column(groups, len(order), "pair_groups")[order]
        rows = order[np.unique(codes, return_index=True)[1]]
        some_a, some_b = _safe_indexing(X_a, rows), _safe_indexing(X_b, rows)
    for message in doubts_of_pairing(some_a, some_b, name_a, name_b):
        warn_caller(message)
    what = "pairs" if groups is None else "objects"
    warn_of_few(_num_samples(some_a), what, name_a, name_b)
    return X_a, X_b


def warn_of_few(n: int, what: str, name_a: str = "X_a", name_b: str = "X_b") -> None:
    """Warn of so few pairs that the expected score says little."""
    if n < FEW_PAIRS:
        warn_caller(
            f"{name_a} and {name_b}: expected at least {FEW_PAIRS} {what}, got {n}. The expected "
            "score says little; look at its standard error and at its interval."
        )


def aligned_pairs(
    X_a: Rows,
    X_b: Rows,
    name_a: str = "X_a",
    name_b: str = "X_b",
    adapter: Adapter = None,
    groups: Groups = None,
) -> tuple[Any, Any]:
    """Align both measurements of the same objects, row by row, and refuse what are none.

    DataFrames are aligned by their index, and the rows of Datasets are stacked. With an adapter
    the other site may have columns of its own. Objects may have several pairs if they are in
    `groups`.
    """
    X_a, X_b = stacked(X_a, name_a), stacked(X_b, name_b)
    n, n_b = _num_samples(X_a), _num_samples(X_b)
    if not n:
        raise ValueError(f"{name_a}: expected at least one row, got none.")
    X_b = aligned_by_index(X_b, X_a, name_b, name_a)
    if n_b != n:
        raise ValueError(
            f"{name_b}: expected the {n} objects of {name_a}, measured again, got {n_b} rows."
        )
    if adapter is None or not has_own_columns(X_b, X_a):
        check_columns(X_b, X_a, name_b, name_a, _IF_OTHER_COLUMNS)
    if same_values(X_a, X_b):
        raise ValueError(
            f"{name_b}: expected the objects of {name_a}, measured again, got the same values."
        )
    if groups is None:
        refuse_repeated_objects(X_a, name_a)
    return X_a, named_like(X_a, X_b, same_rows=True)


def refuse_repeated_objects(X_a: Rows, name: str) -> None:
    """Refuse rows of which many are equal: pairs of one object would count as those of several.

    An error is raised if more than a tenth of the different rows are there several times. In
    tables of few discrete values different objects have equal rows, too. There some columns alone
    leave more rows alike than all of them do. So rows are only refused if each half of the columns
    (the first and the second half, and every other column) tells as many rows apart as all columns
    do. Rows that are not numbers, and class scores, which trees repeat, are not looked at.
    """
    rows = _numbers(X_a)
    if rows is None or rows.shape[1] < 2:
        return
    rows = rows + 0.0  # 0.0 and -0.0 are the same number
    counts = Counter(map(bytes, rows)).values()
    n_repeated = sum(count > 1 for count in counts)
    if len(counts) == 1 or n_repeated <= _REPEATED * len(counts):
        return
    half = rows.shape[1] // 2
    parts = rows[:, :half], rows[:, half:], rows[:, ::2], rows[:, 1::2]
    if all(len(set(map(bytes, part))) == len(counts) for part in parts):
        raise ValueError(
            f"{name}: expected another row for each object, got {len(counts)} different rows in "
            f"{len(rows)}, so that standard errors would count objects several times. Give one "
            "pair for each object, or to expected_score the object of each pair, pair_groups."
        )


def has_own_columns(X_b: Any, X_a: Any) -> bool:
    """Whether rows have other columns than those of the labelled site, by name or number.

    The same columns in another order are not other ones.
    """
    names_b, names_a = (set(getattr(rows, "columns", [])) for rows in (X_b, X_a))
    if names_b and names_a and names_b != names_a:
        return True
    if isinstance(X_a, Mapping) or isinstance(X_b, Mapping):  # such as skorch's SliceDict
        return False
    shape_b, shape_a = (shape_of(rows) or np.shape(rows) for rows in (X_b, X_a))
    return tuple(shape_b[1:]) != tuple(shape_a[1:])


def aligned_by_index(rows: Any, like: Any, name: str, name_of_like: str) -> Any:
    """Return rows in the order of others, if both are DataFrames and their indexes differ."""
    if hasattr(rows, "loc") and hasattr(like, "loc") and not like.index.equals(rows.index):
        return look_up(rows, like, name, name_of_like)
    return rows


def doubts_of_pairing(X_a: Rows, X_b: Rows, name_a: str, name_b: str) -> list[str]:
    """Return what to warn of if the two rows of objects do not seem to be of the same one.

    They resemble each other no more than those of other objects. Rows with other than finite
    numbers are not looked at.
    """
    a, b = _numbers(X_a), _numbers(X_b)
    if a is None or b is None or len(a) < FEW_PAIRS:
        return []
    some = np.sort(np.random.default_rng(0).permutation(len(a))[:_MOST_COMPARED])
    a, b = a[some], b[some]
    if not all((np.abs(rows) < _LARGEST).all() for rows in (a, b)) or _resemble_pairwise(a, b):
        return []
    return [
        f"{name_a} and {name_b}: expected row i of both to be the same object, got rows that "
        "resemble each other no more than rows in a random order. Either the rows are in "
        "different orders, or the other site hardly measures what the first one does."
    ]


# The products are small: other threads of a BLAS would wait, not work.
@_threadpool_controller_decorator(limits=1, user_api="blas")  # type: ignore[untyped-decorator]
def _resemble_pairwise(a: Floats, b: Floats) -> bool:
    """Whether row i of both looks like the same object, more than in most random orders.

    Row i should be like its partner, in the units of each site's columns, if these are as many.
    Objects that are far apart at one site should be far apart at the other one, whatever the sites
    measure (Mantel test): columns may differ in their units, or nearly constant ones may only be
    noise. And what varies at one site should predict what varies at the other one, however little
    of it does: offsets of spectra may vary more than what tells objects apart. A random order
    passes one of these four tests in up to eight of a hundred cases.
    """
    n, rng = len(a), np.random.default_rng(1)
    orders = [rng.permutation(n) for _ in range(_ORDERS)]

    def is_rare(statistic: Callable[[Ints], float]) -> bool:
        value = statistic(np.arange(n))
        return sum(statistic(order) >= value for order in orders) < _BY_CHANCE * (_ORDERS + 1)

    scaled = _scaled(a), _scaled(b)
    if a.shape == b.shape:
        alike = scaled[0] @ scaled[1].T
        if is_rare(lambda order: float(alike[np.arange(n), order].sum())):
            return True
    for here, there in ((a, b), scaled):
        here, there = (rankdata(squareform(pdist(rows))).reshape(n, n) for rows in (here, there))
        if is_rare(partial(_alike_distances, here - here.mean(), there)):
            return True
    one, other = map(_components, scaled)
    return is_rare(lambda order: float(np.square(one.T @ other[order]).sum()))


def _alike_distances(here: Floats, there: Floats, order: Ints) -> float:
    return float((here * there[np.ix_(order, order)]).sum())


def _components(rows: Floats) -> Floats:
    """Return the first principal components, each of which varies as much as the others."""
    components, sizes, _ = np.linalg.svd(rows, full_matrices=False)
    varies = np.flatnonzero(sizes > _ROUNDING * sizes[0])
    found: Floats = components[:, varies[: min(len(rows) // _ROWS_OF_EACH, _MOST_COMPONENTS)]]
    return found


def _scaled(rows: Floats) -> Floats:
    """Return rows less their mean, in units of the columns' spread."""
    spread = rows.std(0)
    return (rows - rows.mean(0)) / np.where(spread > 0, spread, 1.0)


def warn_of_known_rows(X_a: Rows, X: Rows, name: str) -> None:
    """Warn if paired objects are among the rows of X, to which candidates are fitted.

    Rows that are not numbers are not looked at, nor are tables whose rows often repeat.
    """
    some = _numbers(X_a)
    if some is None:
        return
    some, weights = _finite(some), np.random.default_rng(0).normal(size=(some.shape[1], 1))
    shadows, known = (_shadows(rows, weights) for rows in (some, X))
    if shadows is None or known is None:
        return
    order = np.argsort(known, kind="stable")
    known = known[order]
    room = _ROUNDING * np.abs(some) @ np.abs(weights)[:, 0]
    first = np.searchsorted(known, shadows - room)
    end = np.searchsorted(known, shadows + room, side="right")
    near = np.flatnonzero(first < end)
    if len(near) <= _KNOWN * len(some):
        return
    # Only rows that look equal are compared.
    found = _numbers(_safe_indexing(X, order[first[near]]))
    n_found = 0
    if found is not None:
        n_found = int((_finite(found) == some[near]).all(axis=1).sum())
    n_different = 1 + np.count_nonzero(np.diff(known) > room.max())
    if n_found > _KNOWN * len(some) and n_different > (1 - _KNOWN) * len(known):
        warn_caller(
            f"{name}: expected objects that are not among the rows of X, got {n_found} of "
            f"{len(some)} that are. Candidates are surer of rows that they were fitted to, so the "
            "expected scores are too high."
        )


def _finite(rows: Floats) -> Floats:
    finite: Floats = np.clip(np.nan_to_num(rows), -_LARGEST, _LARGEST)
    return finite


def _shadows(rows: Any, weights: Floats) -> Floats | None:
    """Return a number for each row, which equal rows share but for rounding; None: no numbers."""
    if issparse(rows):
        return np.asarray(rows @ weights)[:, 0] if rows.shape[1] == len(weights) else None
    step, found = max(_AT_ONCE // len(weights), 1), []
    for start in range(0, _num_samples(rows), step):
        # The parts of a Dataset or a SliceDict are read together.
        whole = isinstance(rows, Mapping) or not hasattr(rows, "shape")
        part = _numbers(rows if whole else _safe_indexing(rows, slice(start, start + step)))
        if part is None or part.shape[1] != len(weights):
            return None
        found.append((_finite(part) @ weights)[:, 0])
        if whole:
            break
    return np.concatenate(found) if found else None


def _numbers(rows: Any) -> Floats | None:
    """Return rows as a matrix of numbers; None if they are none, or too many to be read."""
    if isinstance(rows, Mapping):  # the parts of skorch's SliceDict
        parts = [_numbers(as_numpy(part)) for part in rows.values()]
        known = [part for part in parts if part is not None]
        return np.concatenate(known, axis=1) if known and len(known) == len(parts) else None
    if np.prod(shape_of(rows) or 0) > _MOST_NUMBERS > np.prod(getattr(rows, "shape", 0)):
        return None
    if issparse(rows):
        rows = rows.toarray() if rows.shape[1] <= 1000 else None
    try:
        if hasattr(rows, "isna"):  # pandas' columns may have NA
            rows = rows.to_numpy(dtype=np.float64, na_value=np.nan)
        values = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None
    return values.reshape(len(values), -1) if values.ndim > 1 else None


def same_values(one: Any, other: Any) -> bool:
    """Whether both hold the same values; nan equals nan in arrays of numbers."""
    if issparse(one) and issparse(other):
        return bool(one.shape == other.shape and not (one != other).nnz)
    if isinstance(one, Mapping) and isinstance(other, Mapping):  # skorch's SliceDict
        return set(one) == set(other) and all(same_values(one[key], other[key]) for key in one)
    if is_slice_dataset(one) and is_slice_dataset(other):
        # Up to the first difference, since rows may be files.
        same_rows = (same_values(one[row], other[row]) for row in range(len(one)))
        return len(one) == len(other) and all(same_rows)
    try:
        a, b = np.asarray(one), np.asarray(other)
        return np.array_equal(a, b, equal_nan=a.dtype.kind == b.dtype.kind == "f")
    except (TypeError, ValueError, RuntimeError):  # pandas' NA, a tensor on a GPU, ragged lists
        return False
