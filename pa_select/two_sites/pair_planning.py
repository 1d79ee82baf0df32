"""How many pairs to measure, and of which objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.utils import _safe_indexing, check_random_state

from pa_select.scores.class_scores import class_scores
from pa_select.scores.precomputed import RecordedRegressor
from pa_select.two_sites.paired_rows import aligned_pairs, check_for_adapter
from pa_select.two_sites.site_adapter import cross_adapted
from pa_select.two_sites.trained import ExpectedScore, estimates
from pa_select.utils.arrays import (
    as_numpy,
    check_scoring_argument,
)
from pa_select.utils.sklearn_private import _num_samples
from pa_select.utils.typing import (
    Adapter,
    Estimators,
    Floats,
    Groups,
    Ints,
    Labels,
    Predictor,
    RandomState,
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
    draw_objects : Which objects to measure.

    Notes
    -----
    The squared standard error has a constant part, from the labelled rows, and a part that falls
    with the number of pairs n as 1 / (n + 2). Both are measured on the first pairs, to which
    `expected_score` adds two pseudo-pairs, so the prediction tends to be too large. On simulated
    shifts the predicted error for 40 to 100 pairs was 1.02 to 1.18 times the later one in nine of
    ten cases with 20 first pairs, and 1.08 to 1.48 times with ten. The interval does not shrink to
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
    check_scoring_argument(scoring)
    X_a, X_b = aligned_pairs(X_a, X_b, adapter=adapter)
    check_for_adapter(X_b, X_a, adapter)
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


def draw_objects(
    estimator: Predictor, X: Rows, n_objects: int, *, random_state: RandomState = None
) -> Ints:
    """Draw objects to measure at the other site, spread over the predictions of a model.

    Parameters
    ----------
    estimator : estimator
        A fitted classifier or regressor.
    X : array-like of n rows
        Rows of the labelled site, of all objects that could be measured.
    n_objects : int
        How many to draw, from 1 to n.
    random_state : int, RandomState instance or None, default=None
        Draws the objects. None always draws the same.

    Returns
    -------
    ndarray of shape (n_objects,)
        Numbers of rows of `X`, sorted.

    Raises
    ------
    TypeError
        If the estimator is neither a classifier nor a regressor.
    ValueError
        If there are fewer rows than objects to draw.

    See Also
    --------
    plan_pairs : How many objects to measure.

    Notes
    -----
    The objects are sorted by predicted class, and within a class by how certain the prediction is;
    for a regressor by the predicted number. From a random start every k-th object is drawn, where
    k is n / n_objects (systematic sampling, [1]_). Each object is drawn with the same probability,
    so that the expected score has no bias; objects that were picked because they are difficult,
    or extreme, would give a biased one. Each class and each degree of certainty has its share, so
    that the expected change varies less than with a random draw: with 40 objects and a classifier
    0.77 times as much, in the mean of sixteen shifts that we made (0.43 to 1.10 times in nine of
    ten). The standard error of `expected_score` does not count that.

    References
    ----------
    .. [1] W. G. Cochran, "Sampling techniques", 3rd edition, Wiley 1977, chapter 8.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from pa_select import draw_objects
    >>> X, y = load_wine(return_X_y=True)
    >>> model = GaussianNB().fit(X[::2], y[::2])
    >>> rows = draw_objects(model, X[1::2], 9)
    >>> model.predict(X[1::2][rows])
    array([0, 0, 1, 1, 1, 1, 2, 2, 2])
    """
    keys = _keys(estimator, X)
    n = len(keys[0])
    if not 1 <= n_objects <= n:
        raise ValueError(f"n_objects: expected 1 to {n}, the number of rows, got {n_objects!r}.")
    rng = check_random_state(0 if random_state is None else random_state)
    order = np.lexsort((rng.permutation(n), *keys))
    places = np.floor((np.arange(n_objects) + rng.uniform()) * (n / n_objects)).astype(np.intp)
    drawn: Ints = np.sort(order[np.minimum(places, n - 1)])
    return drawn


def _keys(estimator: Predictor, X: Rows) -> tuple[Floats, ...]:
    """Return what the objects are sorted by; the last key counts most."""
    if is_regressor(estimator):
        return (RecordedRegressor.of(estimator, X).predicted,)
    values = np.asarray(as_numpy(class_scores(estimator, X)[0]))
    predicted = values.argmax(axis=1)
    two_best = np.sort(values, axis=1)[:, -2:]
    margin = two_best[:, 1] - two_best[:, 0]
    # Up in one class and down in the next one, so that neighbours are alike.
    return np.where(predicted % 2, -margin, margin), predicted


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
