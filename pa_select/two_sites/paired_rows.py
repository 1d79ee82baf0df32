"""Checks of objects that were measured at two sites: their rows, and shares of their classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from scipy.spatial.distance import pdist, squareform
from scipy.stats import rankdata
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from pa_select.utils.arrays import (
    are_rows,
    as_numpy,
    check_column,
    is_slice_dataset,
    shape_of,
    stacked,
)
from pa_select.utils.estimators import takes_missing
from pa_select.utils.frames import check_columns, look_up, named_like, some_of
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Adapter, Floats, Groups, Ints, Labels, Rows

#: Fewer pairs give an estimate that says little.
FEW_PAIRS = 20
# Rows of a Dataset that have more numbers are not read into memory.
_MOST_NUMBERS = 10**8
# Objects whose distances are compared, and random orders that they are compared with.
_MOST_COMPARED, _ORDERS = 150, 999
# What is possible if the instruments have different columns.
_IF_OTHER_COLUMNS = (
    " If the other site measures other columns, an adapter can map them to these: adapter='ridge'."
)
# Up to this share of objects may be among the labelled rows by chance.
_KNOWN = 0.05


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
    X_a, X_b = aligned_pairs(X_a, X_b, name_a, name_b, adapter)
    check_for_adapter(X_b, X_a, adapter, name_b, name_a)
    warn_of_pairs(X_a, X_b, "pairs", name_a, name_b, groups)
    return X_a, X_b


def warn_of_pairs(
    X_a: Rows,
    X_b: Rows,
    what: str,
    name_a: str = "X_a",
    name_b: str = "X_b",
    groups: Groups = None,
) -> None:
    """Warn of pairs that look wrong, or that are so few that the expected score says little.

    Of the objects in `groups`, which have several pairs, one pair each is looked at.
    """
    n, numbers = _num_samples(X_a), None
    if groups is not None:
        rows = one_of_each(groups, n, "pair_groups")
        n, what = len(rows), "objects"
        numbers = rows[compared_objects(n)]
        X_a, X_b = _safe_indexing(X_a, numbers), _safe_indexing(X_b, numbers)
    for message in doubts_of_pairing(X_a, X_b, name_a, name_b, numbers):
        warn_caller(message)
    if n < FEW_PAIRS:
        warn_caller(
            f"{name_a} and {name_b}: expected at least {FEW_PAIRS} {what}, got {n}. The expected "
            "score says little; look at its standard error and at its interval."
        )


def one_of_each(groups: Labels, n: int, name: str) -> Ints:
    """Return the number of a random row of each group of n rows; the argument has this name."""
    order = np.random.default_rng(0).permutation(n)
    found: Ints = order[np.unique(check_column(groups, n, name)[order], return_index=True)[1]]
    return found


def aligned_pairs(
    X_a: Rows, X_b: Rows, name_a: str = "X_a", name_b: str = "X_b", adapter: Adapter = None
) -> tuple[Any, Any]:
    """Align both measurements of the same objects, row by row, and refuse what are none.

    DataFrames are aligned by their index, and the rows of Datasets are stacked. With an adapter
    the other site may have columns of its own.
    """
    for rows, name in ((X_a, name_a), (X_b, name_b)):
        if isinstance(rows, Mapping) and not are_rows(rows):
            raise TypeError(
                f"{name}: expected the rows of one site, got a {type(rows).__name__}. Call this "
                "once for each other site. Parts of rows for a net are a skorch.helper.SliceDict."
            )
    X_a, X_b = stacked(X_a, name_a), stacked(X_b, name_b)
    _refuse_other_objects(X_a, X_b, name_a, name_b)
    n = _num_samples(X_a)
    if not n:
        raise ValueError(f"{name_a}: expected at least one row, got none.")
    if _num_samples(X_b) != n:
        raise ValueError(
            f"{name_b}: expected the {n} objects of {name_a}, measured again, got "
            f"{_num_samples(X_b)} rows."
        )
    if len(shape_of(X_b) or (n, 1)) == 1 < len(shape_of(X_a) or (n, 1)):
        raise ValueError(
            f"{name_b}: expected rows like those of {name_a}, got one value for each object, such "
            "as labels. The labelled rows and their labels are other arguments."
        )
    if adapter is None or not has_own_columns(X_b, X_a):
        check_columns(X_b, X_a, name_b, name_a, _IF_OTHER_COLUMNS)
    X_b = aligned_by_index(X_b, X_a, name_b, name_a)
    if same_values(X_a, X_b):
        raise ValueError(
            f"{name_b}: expected the objects of {name_a}, measured again, got the same values. "
            "Two versions of a model on the same rows are compared by their class scores: "
            "expected_score(None, old, new, old_val, y_val)."
        )
    return X_a, named_like(X_a, X_b, same_rows=True)


def _refuse_other_objects(X_a: Any, X_b: Any, name_a: str, name_b: str) -> None:
    """Refuse DataFrames of which one lacks objects of the other, with their names."""
    if not all(hasattr(rows, "loc") for rows in (X_a, X_b)):
        return
    lacking = X_a.index.difference(X_b.index, sort=False)
    more = X_b.index.difference(X_a.index, sort=False)
    if not (X_a.index.is_unique and X_b.index.is_unique and len(lacking) + len(more)):
        return
    if not len(X_a.index.intersection(X_b.index)):
        return  # other numbers of rows say more
    got = [
        f"{what} {some_of(index.tolist())}"
        for what, index in (("none for", lacking), ("also", more))
        if len(index)
    ]
    one, other = (name_a, name_b) if len(lacking) else (name_b, name_a)
    cure = f"{one}.loc[{other}.index]"
    if len(lacking) and len(more):
        both = f"{name_a}.index.intersection({name_b}.index)"
        cure = f"{name_a}.loc[both] and {name_b}.loc[both] with both = {both}"
    raise ValueError(
        f"{name_b}: expected the objects of {name_a} by their index, got {' and '.join(got)}. The "
        f"objects that both have are {cure}."
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


def check_for_adapter(
    X_b: Rows, X_a: Rows, adapter: Adapter, name_b: str = "X_b", name_a: str = "X_a"
) -> None:
    """Refuse missing or infinite values that an adapter does not take.

    For the default one warn of columns with other names.
    """
    regressor: Any = getattr(adapter, "regressor", adapter)
    if regressor is None:
        return
    is_ridge = isinstance(regressor, str)
    # A regressor of others may not say that it takes missing values.
    is_known = type(regressor).__module__.startswith("sklearn.")
    may_impute = not is_ridge and (not is_known or takes_missing(regressor))
    # It predicts the rows of a, of which no value may be missing.
    for rows, name in ((X_a, name_a), (X_b, name_b))[: 1 if may_impute else 2]:
        refuse_not_finite(rows, name, regressor, may_drop=name == name_b)
    if not is_ridge:
        return
    b, a = (list(getattr(rows, "columns", [])) for rows in (X_b, X_a))
    if len(a) == len(b) and set(a) != set(b):
        here, there = (next(x for x in one if x not in other) for one, other in ((a, b), (b, a)))
        warn_caller(
            f"{name_b}: expected the columns of {name_a}, got as many with other names, such as "
            f"{there!r} where {name_a} has {here!r}. The adapter takes these for other "
            "measurements, and has no slope of about 1 for them. If they measure the same, "
            f"give them the same names: {name_b} = {name_b}.set_axis({name_a}.columns, axis=1), "
            "for spectra after interpolation to the same wavelengths."
        )


def refuse_not_finite(rows: Rows, name: str, regressor: Any, *, may_drop: bool = False) -> None:
    """Refuse missing or infinite values, which the regressor of an adapter does not take.

    The error says that an empty column may be dropped, if it may.
    """
    values = _numbers(rows)
    if values is None or np.isfinite(values).all():
        return
    unknown = np.flatnonzero(~np.isfinite(values).all(axis=1))
    shown = ", ".join(map(str, unknown[:3])) + (", ..." if len(unknown) > 3 else "")
    empty = np.flatnonzero(~np.isfinite(values).any(axis=0))
    cure = (
        "Leave these objects out at both sites, or impute in the adapter's pipeline, such as "
        "make_pipeline(SimpleImputer(), Ridge()); X_a must not have missing values."
    )
    if len(empty) and may_drop:
        cure = (
            f"Column {empty[0]} has none. Drop this column: with an adapter {name} may have other "
            "columns."
        )
    raise ValueError(
        f"{name}: expected finite values for adapter={regressor!r}, got nan or infinite ones in "
        f"{len(unknown)} of {len(values)} rows ({shown}). {cure}"
    )


def compared_objects(n: int) -> Ints:
    """Return the numbers of those of n objects that `doubts_of_pairing` looks at, ascending."""
    return np.sort(np.random.default_rng(0).permutation(n)[:_MOST_COMPARED])


def doubts_of_pairing(
    X_a: Rows, X_b: Rows, name_a: str, name_b: str, numbers: Ints | None = None
) -> list[str]:
    """Return what to warn of if the two rows of objects do not seem to be of the same one.

    They may resemble each other no more than those of other objects, or some were exchanged.
    `numbers` are those of the objects, if only the `compared_objects` of more are given.
    """
    a, b = _numbers(X_a), _numbers(X_b)
    if a is None or b is None or len(a) < FEW_PAIRS or np.isnan(a).any() or np.isnan(b).any():
        return []
    some = compared_objects(len(a))
    a, b = _moderate(a[some]), _moderate(b[some])
    expected = f"{name_a} and {name_b}: expected row i of both to be the same object, got"
    if not _resemble_pairwise(a, b):
        return [
            f"{expected} rows that resemble each other no more than rows in a random order. "
            "Either the rows are in different orders, or the other site hardly measures what the "
            "first one does."
        ]
    return []


def _resemble_pairwise(a: Floats, b: Floats) -> bool:
    """Whether row i of both looks like the same object, more than in all of many random orders.

    Row i should be like its partner, in the units of each site's columns, if these are as many.
    And objects that are far apart at one site should be far apart at the other one, whatever the
    sites measure (Mantel test): columns may differ in their units, or nearly constant ones may
    only be noise. A random order passes one of the three tests in three of a thousand cases.
    """
    n, rng = len(a), np.random.default_rng(1)
    orders = [rng.permutation(n) for _ in range(_ORDERS)]
    scaled = _scaled(a), _scaled(b)
    if a.shape == b.shape:
        alike = scaled[0] @ scaled[1].T
        if np.trace(alike) > max(float(alike[np.arange(n), order].sum()) for order in orders):
            return True
    for here, there in ((a, b), scaled):
        here, there = (rankdata(squareform(pdist(rows))).reshape(n, n) for rows in (here, there))
        here -= here.mean()
        by_chance = [float((here * there[np.ix_(order, order)]).sum()) for order in orders]
        if float((here * there).sum()) > max(by_chance):
            return True
    return False


def hard_as_equal(rows: Floats) -> Floats:
    """Return rows in which a single finite class score is 0: it names the class, at any size."""
    is_hard = np.isneginf(rows).any(axis=1) & (np.isfinite(rows).sum(axis=1) == 1)
    return np.where(is_hard[:, None] & np.isfinite(rows), 0.0, rows)


def _moderate(rows: Floats) -> Floats:
    """Return rows, or the ranks in each column if single precision, as of trees, lacks a number.

    So are -inf, or logarithms of counts, no reason to stop what a model accepts.
    """
    if not (np.abs(rows) > np.finfo(np.float32).max).any():
        return rows
    ranks: Floats = rankdata(hard_as_equal(rows), axis=0, nan_policy="omit")
    return ranks


def _scaled(rows: Floats) -> Floats:
    """Return rows less their mean, in units of the columns' spread."""
    spread = rows.std(0)
    return (rows - rows.mean(0)) / np.where(spread > 0, spread, 1.0)


def _often_repeat(rows: Floats) -> bool:
    """Whether rows of a table often equal each other."""
    return len(set(map(bytes, rows + 0.0))) <= (1 - _KNOWN) * len(rows)


_SURER = (
    "Candidates are surer of rows that they were fitted to, so the expected scores are too high. "
    "If these objects are labelled, their rows at the other site are views: fit(X, y, views=...)."
)


def warn_of_known_rows(
    X_a: Rows, X: Rows, name: str, name_of_X: str = "X", advice: str = _SURER
) -> None:
    """Warn if paired objects are among labelled rows, to which candidates may be fitted.

    Rows that are not numbers are not looked at, nor are tables whose rows often repeat.
    """
    some, known = _numbers(X_a), _numbers(X)
    if some is None or known is None or some.shape[1] != known.shape[1]:
        return
    seen = set(map(bytes, known + 0.0))  # 0.0 and -0.0 are the same number
    n_found = sum(row in seen for row in map(bytes, some + 0.0))
    if n_found > _KNOWN * len(some) and not _often_repeat(known):
        warn_caller(
            f"{name}: expected objects that are not among the rows of {name_of_X}, got {n_found} "
            f"of {len(some)} that are. {advice}"
        )


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
    """Whether both hold the same values, also if one is sparse; nan equals nan."""
    if issparse(one) or issparse(other):
        a, b = csr_array(one), csr_array(other)
        for side in (a, b):
            side.sum_duplicates()
            side.eliminate_zeros()
        return (
            a.shape == b.shape
            and np.array_equal(a.indptr, b.indptr)
            and np.array_equal(a.indices, b.indices)
            and same_values(a.data, b.data)
        )
    if isinstance(one, Mapping) and isinstance(other, Mapping):  # skorch's SliceDict
        return set(one) == set(other) and all(same_values(one[key], other[key]) for key in one)
    if is_slice_dataset(one) and is_slice_dataset(other):
        # Up to the first difference, since rows may be files.
        same_rows = (same_values(one[row], other[row]) for row in range(len(one)))
        return len(one) == len(other) and all(same_rows)
    try:
        a, b = np.asarray(one), np.asarray(other)
    except (TypeError, ValueError, RuntimeError):  # lists of several lengths, a tensor on a GPU
        return False
    if a.shape != b.shape:
        return False
    if a.dtype != object and b.dtype != object:
        return bool(((a == b) | ((a != a) & (b != b))).all())
    return all(map(_same, a.ravel().tolist(), b.ravel().tolist()))


def _same(x: Any, y: Any) -> bool:
    try:
        return x is y or bool(x == y) or bool(x != x and y != y)
    except (TypeError, ValueError):  # pandas' missing value is neither equal nor different
        return False
