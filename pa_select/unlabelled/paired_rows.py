"""Checks of the rows of objects that were measured at two sites."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import _num_samples

from pa_select.utils.frames import check_columns, named_like
from pa_select.utils.typing import Floats
from pa_select.utils.views import look_up
from pa_select.utils.warn_caller import warn_caller

#: Fewer pairs give an estimate that says little.
FEW_PAIRS = 20
# Rows of each kind that a forest learns to tell apart.
_MOST_ROWS = 500
# The forest's area under the curve must exceed chance by this and by so many standard errors.
_LEAST_AREA, _N_ERRORS = 0.65, 4


def check_pairs(X_a: Any, X_b: Any, name_a: str = "X_a", name_b: str = "X_b") -> tuple[Any, Any]:
    """Return both measurements of the same objects, row by row, for an expected score.

    Raises
    ------
    ValueError
        As `aligned_pairs`.

    Warns
    -----
    UserWarning
        If there are fewer than 20 pairs.
    """
    X_a, X_b = aligned_pairs(X_a, X_b, name_a, name_b)
    n = _num_samples(X_a)
    if n < FEW_PAIRS:
        warn_caller(
            f"{name_a} and {name_b}: expected at least {FEW_PAIRS} pairs, got {n}. The expected "
            "score says little; look at its standard error and at its interval."
        )
    return X_a, X_b


def aligned_pairs(X_a: Any, X_b: Any, name_a: str = "X_a", name_b: str = "X_b") -> tuple[Any, Any]:
    """Return both measurements of the same objects, row by row.

    DataFrames are aligned by their index.

    Raises
    ------
    ValueError
        If their numbers of rows or their columns differ, there are none, a row of `X_a` has
        no partner, or both are the same measurement.
    """
    n = _num_samples(X_a)
    if not n:
        raise ValueError(f"{name_a}: expected at least one row, got none.")
    if _num_samples(X_b) != n:
        raise ValueError(
            f"{name_b}: expected the {n} objects of {name_a}, measured again, got "
            f"{_num_samples(X_b)} rows."
        )
    check_columns(X_b, X_a, name_b, name_a)
    if hasattr(X_a, "loc") and hasattr(X_b, "loc") and not X_a.index.equals(X_b.index):
        X_b = look_up(X_b, X_a, name_b, name_a)
    if _equal(X_a, X_b):
        raise ValueError(
            f"{name_b}: expected the objects of {name_a}, measured again, got the same values."
        )
    return X_a, named_like(X_a, X_b)


def warn_of_other_rows(X_a: Any, X: Any, name: str = "X_a") -> None:
    """Warn if a forest tells rows of the paired objects from the labelled rows.

    Then the labelled rows do not show how a classifier scores at the site of `X_a`. The
    forest is judged by rows that its trees have not seen. Rows that are not numbers are not
    looked at.
    """
    sides = [x for x in (_numbers(rows) for rows in (X, X_a)) if x is not None]
    if len(sides) < 2 or min(map(len, sides)) < FEW_PAIRS:
        return
    rng = np.random.default_rng(0)
    some = [x[rng.permutation(len(x))[:_MOST_ROWS]] for x in sides]
    which = np.repeat([0, 1], [len(x) for x in some])
    forest = RandomForestClassifier(
        50,
        max_features="sqrt",
        min_samples_leaf=3,
        oob_score=True,
        random_state=0,
    ).fit(np.concatenate(some), which)
    area = roc_auc_score(which, forest.oob_decision_function_[:, 1])
    n, m = map(len, some)
    error = np.sqrt((n + m + 1) / (12 * n * m))
    if area > max(_LEAST_AREA, 0.5 + _N_ERRORS * error):
        warn_caller(
            f"{name}: expected rows like the labelled ones, got rows that a random forest tells "
            f"from them (area under the curve {area:.2f}; 0.5 is chance). The score on the "
            "labelled rows, and so the expected score, may not hold for these objects."
        )


def _numbers(rows: Any) -> Floats | None:
    """Return rows as a matrix of numbers, or None if they are none."""
    if issparse(rows):
        rows = rows.toarray() if rows.shape[1] <= 1000 else None
    try:
        values = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return values.reshape(len(values), -1) if values.ndim > 1 else None


def _equal(one: Any, other: Any) -> bool:
    if issparse(one) and issparse(other):
        return (one != other).nnz == 0
    return bool(np.array_equal(np.asarray(one), np.asarray(other)))
