"""Checks of objects that were measured at two sites: their rows, and shares of their classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from scipy.spatial.distance import cdist, pdist, squareform
from scipy.stats import norm, rankdata
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
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
from pa_select.utils.typing import Adapter, Array, Floats, Groups, Ints, Labels, Rows

#: Fewer pairs give an estimate that says little.
FEW_PAIRS = 20
# Rows of each kind that a forest learns to tell apart.
_MOST_ROWS = 500
# The quantiles between which most values of a column lie, the share of columns of another scale
# that is told, and the share of values that columns of a fold hardly have in common.
_MOST_VALUES, _MANY_COLUMNS, _HARDLY_COMMON = (0.05, 0.95), 1 / 3, 0.15
# Rows of a Dataset that have more numbers are not read into memory.
_MOST_NUMBERS = 10**8
# Objects whose distances are compared, and random orders that they are compared with.
_MOST_COMPARED, _ORDERS = 150, 999
# Rows of two sites are of one object if so many rows have a partner, which is nearer than the row
# that they are paired with by this factor.
_RECOGNISED, _CLEARLY = 0.8, 1.5
# The forest's area under the curve must exceed chance by this and by so many standard errors.
_LEAST_AREA, _N_ERRORS = 0.65, 4
# What is possible if the instruments have different columns.
_IF_OTHER_COLUMNS = (
    " If the other site measures other columns, an adapter can map them to these: adapter='ridge'."
)
# Up to this share of objects may be among the labelled rows by chance.
_KNOWN = 0.05
# Shares of the classes that differ by more than this matter, if chance makes such a difference
# less often than once in this many searches.
_LARGE_DIFFERENCE, _SELDOM = 0.1, 10_000


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
    strangers = _exchanged(a, b) if a.shape == b.shape else ()
    if not len(strangers):
        return []
    known = some if numbers is None else numbers
    named = [f"{i} of {name_a} with {j} of {name_b}" for i, j in known[strangers[:3]].tolist()]
    more = f" and {len(strangers) - 3} more" if len(strangers) > 3 else ""
    return [
        f"{expected} {len(strangers)} of {len(some)} rows that resemble another object's row much "
        f"more than their own ({', '.join(named)}{more}), and it resembles them. Were these "
        "objects exchanged?"
    ]


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


def _exchanged(a: Floats, b: Floats) -> Ints:
    """Return rows of both sites that seem to be one object, although they are not paired, (n, 2).

    Each is the nearest to the other one, and clearly nearer than the rows that they are paired
    with. That says something only where objects are recognised: where nearly all rows have such a
    partner.
    """
    distances = cdist(_scaled(a), _scaled(b))
    rows, nearest = np.arange(len(a)), distances.argmin(axis=1)
    is_mutual = distances.argmin(axis=0)[nearest] == rows
    if is_mutual.mean() < _RECOGNISED:
        return np.empty((0, 2), dtype=np.int64)
    own = np.diag(distances)
    is_nearer = _CLEARLY * distances[rows, nearest] <= np.minimum(own, own[nearest])
    found = np.flatnonzero(is_mutual & is_nearer & (nearest != rows))
    return np.column_stack([found, nearest[found]])


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


def column_of_other_scale(known: Floats, rows: Floats, common: float = 0.3) -> int | None:
    """Return a column whose values have another scale than in known rows, if many columns do.

    Of such a column fewer than the share `common` of either values lie among most of the other
    ones. Means and spreads of rare, or heavy-tailed, values vary too much by chance.
    """
    with np.errstate(invalid="ignore"):  # between -inf and a number
        ends, ends_of_known = (np.quantile(x, _MOST_VALUES, axis=0) for x in (rows, known))
    inside, known_inside = (
        ((low <= x) & (x <= high)).mean(axis=0)
        for x, (low, high) in ((rows, ends_of_known), (known, ends))
    )
    # Of constant columns, and of those with nan, nothing is known.
    varied = (ends[0] < ends[1]) | (ends_of_known[0] < ends_of_known[1])
    varied &= np.isfinite([*ends, *ends_of_known]).all(axis=0)
    shared = np.where(varied, np.minimum(inside, known_inside), np.inf)
    # A shift may move some columns far.
    if not varied.any() or np.mean(shared[varied] < common) < _MANY_COLUMNS:
        return None
    return int(shared.argmin())


def doubt_of_scale(X: Rows, sides: Mapping[str, Rows]) -> list[str]:
    """Return what to warn of if no side of pairs, by name, has the scale of the rows X.

    Folds of few rows, or of one class, have other quantiles, so that fewer values may be common.
    """
    known, means = _numbers(X), ["", ""]
    if known is None or len(known) < FEW_PAIRS:
        return []
    known = known[np.random.default_rng(0).permutation(len(known))[:_MOST_ROWS]]
    for rows in map(_numbers, sides.values()):
        if rows is None or len(rows) < FEW_PAIRS or rows.shape[1] != known.shape[1]:
            return []
        column = column_of_other_scale(known, rows, _HARDLY_COMMON)
        if column is None:
            return []
        means = [f"{x[:, column].mean():.3g}, column {column}" for x in (known, rows)]
    return [
        f"{' and '.join(sides)}: expected rows on the scale of those of X (mean {means[0]}), got "
        f"another one (mean {means[1]}). If a scaler, or another step, was applied to only one of "
        "them, apply it to both."
    ]


def _scaled(rows: Floats) -> Floats:
    """Return rows less their mean, in units of the columns' spread."""
    spread = rows.std(0)
    return (rows - rows.mean(0)) / np.where(spread > 0, spread, 1.0)


def warn_of_other_rows(X_a: Rows, X: Rows, name: str = "X_a") -> None:
    """Warn if a forest tells rows of the paired objects from the labelled rows.

    Then the labelled rows do not show how a classifier scores at the site of `X_a`. The
    forest is judged by rows that its trees have not seen, which it also recognises if other rows
    are scans of the same object. Rows that are not numbers are not looked at.
    """
    sides = [x for x in (_numbers(rows) for rows in (X, X_a)) if x is not None]
    if len(sides) < 2 or min(map(len, sides)) < FEW_PAIRS:
        return
    rng = np.random.default_rng(0)
    some = [x[rng.permutation(len(x))[:_MOST_ROWS]] for x in sides]
    is_paired = np.repeat([0, 1], [len(x) for x in some])
    forest = RandomForestClassifier(
        50, max_features="sqrt", min_samples_leaf=3, oob_score=True, random_state=0
    ).fit(_moderate(np.concatenate(some)), is_paired)
    area = roc_auc_score(is_paired, forest.oob_decision_function_[:, 1])
    n, m = map(len, some)
    error = np.sqrt((n + m + 1) / (12 * n * m))
    if area > max(_LEAST_AREA, 0.5 + _N_ERRORS * error):
        warn_caller(
            f"{name}: expected rows like the labelled ones, got rows that a random forest tells "
            f"from them (area under the curve {area:.2f}; 0.5 is chance). The score on the "
            "labelled rows, and so the expected score, may not hold for these objects. Perhaps "
            "the two measurements are swapped (that of the labelled site comes first), the "
            "labelled rows are of the other site, or an object has several pairs."
        )


def one_pair_for_each_object(
    X_a: Rows, X_b: Rows, X: Rows, name_a: str = "X_a", name_b: str = "X_b"
) -> tuple[Any, Any]:
    """Leave out the pairs of objects that were given before, with a warning.

    Pairs with equal rows at the first site are of one object, if labelled rows hardly ever equal
    each other. The pair with the smallest row at the other site is kept, in any order of the
    pairs. Rows that are not numbers are not looked at.
    """
    a, b, known = _numbers(X_a), _numbers(X_b), _numbers(X)
    if a is None or known is None or _often_repeat(known):
        return X_a, X_b
    n, kept = len(a), dict[bytes, int]()
    order = range(n) if b is None else sorted(range(n), key=lambda i: b[i].tolist())
    for i in order:
        kept.setdefault(bytes(a[i] + 0.0), i)
    if len(kept) >= (1 - _KNOWN) * n:
        return X_a, X_b
    warn_caller(
        f"{name_a} and {name_b}: expected one pair for each object, got {n} pairs of {len(kept)} "
        f"objects: the others repeat a row of {name_a}. Each object is counted once."
    )
    rows = np.sort(list(kept.values()))
    return _safe_indexing(X_a, rows), _safe_indexing(X_b, rows)


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


def doubt_of_classes(
    found: Floats, expected: Floats, variance: Floats, name: str, classes: Array
) -> list[str]:
    """Return what to warn of if paired objects, which `name` has, seem to be of other classes.

    Compares the shares of the classes among them with those of labelled rows. `variance` is that
    of the difference of each share, if there are no other objects. Nothing is returned if no share
    differs clearly (normal distribution, Bonferroni).
    """
    away = np.abs(found - expected)
    if away.sum() / 2 < _LARGE_DIFFERENCE:
        return []
    errors = np.divide(away, np.sqrt(variance), out=np.zeros_like(away), where=variance > 0)
    if 2 * len(away) * float(norm.sf(errors.max())) * _SELDOM > 1:
        return []
    most = int(away.argmax())
    return [
        f"{name}: expected objects of the classes that y has, got objects that seem to be "
        f"{classes.tolist()[most]!r} in {found[most]:.0%} of the cases, which "
        f"{expected[most]:.0%} of the labels are. The score on the labelled rows, and so the "
        "expected score, may not hold for these objects."
    ]
