"""How many pairs to measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from pa_select.two_sites.paired_rows import aligned_pairs
from pa_select.two_sites.site_adapter import cross_adapted
from pa_select.two_sites.trained import ExpectedScore, estimates
from pa_select.utils.sklearn_private import _num_samples
from pa_select.utils.typing import (
    Adapter,
    Estimators,
    Groups,
    Labels,
    Reference,
    Rows,
    Scorer,
)

# With so many times the pairs, the error that stays is that of the labelled rows.
_MANY = 50


def plan_pairs(
    estimators: Estimators,
    X_a: Rows,
    X_b: Rows,
    X_val: Rows,
    y_val: Labels | None,
    *,
    n_pairs: Sequence[int] = (20, 50, 100, 200, 500),
    scoring: str | Scorer | None = None,
    adapter: Adapter = None,
    reference: Reference = "ensemble",
    groups: Groups = None,
) -> Any:
    """Predict how exact the expected score will be with more pairs, from a first handful.

    Parameters
    ----------
    estimators, X_a, X_b, X_val, y_val
        As in `expected_score`: `X_val` are labelled rows that no estimator, such as a fitted
        search, has seen. The first pairs are a random draw of the objects; ten or more.
    n_pairs : sequence of int, default=(20, 50, 100, 200, 500)
        The numbers of pairs to predict for, each at least 2.
    scoring, adapter, reference, groups
        As in `expected_score`.

    Returns
    -------
    list of ExpectedScore, or dict of str to list
        For each number of pairs the result that `expected_score` would return if further pairs
        are like the first ones: `standard_error`, and the interval from `low` to `high`. A dict
        for several estimators.

    Raises
    ------
    TypeError, ValueError
        As `expected_score`, or if `n_pairs` are not whole numbers of at least 2, or there are
        fewer than two pairs.

    See Also
    --------
    PASearchCV.plan_pairs : Predict the error of a fitted search, without further labelled rows.

    Notes
    -----
    The squared standard error has a constant part, from the labelled rows, and a part that falls
    with the number of pairs n as 1 / (n + 2). Both are measured on the first pairs, to which
    `expected_score` adds two pseudo-pairs, so the prediction tends to be too large. On simulated
    shifts the predicted error for 40 to 100 pairs was 0.93 to 1.26 times the later one in nine of
    ten cases with 20 first pairs, and 1.00 to 1.53 times with ten. The interval does not shrink to
    a point: unless it is cut at 0 or 1, it is wider than twice the disagreement.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.utils import shuffle
    >>> from pa_select import plan_pairs
    >>> X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
    >>> again = np.random.default_rng(0).normal(0.8 * X, 3)  # on another scanner
    >>> model = LogisticRegression(max_iter=1000).fit(X[:500], y[:500])
    >>> first = slice(1000, 1020)
    >>> plan = plan_pairs(model, X[first], again[first], X[500:1000], y[500:1000])
    >>> [(one.n_pairs, round(one.standard_error, 2)) for one in plan]
    [(20, 0.06), (50, 0.04), (100, 0.03), (200, 0.02), (500, 0.02)]
    """
    sizes = checked_sizes(n_pairs)
    X_a, X_b = aligned_pairs(X_a, X_b, adapter=adapter)
    n = _num_samples(X_a)
    if n < 2:
        raise ValueError(f"X_a: expected at least two first pairs, got {n}.")
    if adapter is not None:
        X_b = cross_adapted(adapter, X_b, X_a, seed=0)

    def with_pairs(size: int) -> dict[str, ExpectedScore]:
        # Each of the first pairs as often as the others, in a random order.
        rows = np.random.default_rng(0).permutation(np.arange(size) % n)
        pairs = _safe_indexing(X_a, rows), _safe_indexing(X_b, rows)
        return estimates(estimators, *pairs, X_val, y_val, scoring, None, reference, groups)

    first, last = with_pairs(n), with_pairs(_MANY * n)
    plans: dict[str, list[ExpectedScore]] = {name: [] for name in first}
    for size in sizes:
        for name, one in with_pairs(size).items():
            now, stays = first[name].standard_error, last[name].standard_error
            of_pairs = float(np.sqrt(max(now**2 - stays**2, 0.0)))
            error = error_with_pairs(now, of_pairs, n, size)
            plans[name].append(one._replace(standard_error=error))
    several = isinstance(estimators, (Mapping, list, tuple))
    return plans if several else next(iter(plans.values()))


def error_with_pairs(error: float, of_pairs: float, n: int, size: int) -> float:
    """Return the standard error with other pairs than n; the part `of_pairs` depends on them."""
    falls = of_pairs**2 * (n + 2) / (size + 2)
    return float(np.sqrt(max(error**2 - of_pairs**2, 0.0) + falls))


def checked_sizes(n_pairs: object) -> list[int]:
    """Return numbers of pairs; refuse others."""
    sizes = list(n_pairs) if isinstance(n_pairs, (Sequence, np.ndarray)) else []
    whole = all(isinstance(one, (int, np.integer)) and one >= 2 for one in sizes)
    if not sizes or not whole:
        raise ValueError(
            f"n_pairs: expected a list of whole numbers of at least 2, got {n_pairs!r}."
        )
    return [int(one) for one in sizes]
