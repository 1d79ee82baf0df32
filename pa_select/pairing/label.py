"""Pairs of different observations with the same label."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

Index = NDArray[np.intp]


class Pairs(NamedTuple):
    """Positions of the paired rows, and how many rows have no partner."""

    a: Index
    b: Index
    n_left_out: int


def pair_within_label(y: Any, random_state: Any = None) -> Pairs:
    """Pair each row with another row of its label: a random derangement of each label.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels.
    random_state : int, RandomState instance or None, default=None
        Chooses the partners.

    Returns
    -------
    Pairs
        Each row whose label occurs more than once is first of one pair and second of
        another; rows with a label of their own are left out.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       section 3 (paired samples of one experiment).

    Examples
    --------
    >>> from pa_select.pairing import pair_within_label
    >>> a, b, n_left_out = pair_within_label(["u", "v", "u", "w", "v"], random_state=0)
    >>> sorted(zip(a.tolist(), b.tolist())), n_left_out
    ([(0, 2), (1, 4), (2, 0), (4, 1)], 1)
    """
    rng = check_random_state(random_state)
    first, second = [], []
    for rows in _rows_by_value(np.asarray(y)):
        if len(rows) > 1:
            cycle = rng.permutation(rows)
            first.append(cycle)
            second.append(np.roll(cycle, -1))
    return _collect(first, second, len(y))


def pair_environments(environments: Any, y: Any, random_state: Any = None) -> Pairs:
    """Pair rows of different environments with equal label, at random.

    Parameters
    ----------
    environments : array-like of shape (n,)
        The environment of each row.
    y : array-like of shape (n,)
        Labels.
    random_state : int, RandomState instance or None, default=None
        Chooses the partners.

    Returns
    -------
    Pairs
        For every two environments and every label, as many pairs as the environment with
        fewer such rows has, of all pairs of environments one after the other. Rows that
        are in no pair at all are left out.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       section 5.2 (domain generalisation).

    Examples
    --------
    >>> from pa_select.pairing import pair_environments
    >>> a, b, n_left_out = pair_environments([1, 1, 2, 2, 2], [0, 1, 1, 0, 0], random_state=0)
    >>> sorted(zip(a.tolist(), b.tolist())), n_left_out
    ([(0, 4), (1, 2)], 1)
    """
    rng = check_random_state(random_state)
    environments, y = np.asarray(environments), np.asarray(y)
    labels = {
        rows[0]: rng.permutation(rows)
        for name in _rows_by_value(environments)
        for rows in (name[block] for block in _rows_by_value(y[name]))
    }
    cells = [(environments[start], y[start], rows) for start, rows in labels.items()]
    first, second = [], []
    for (env_a, label_a, rows_a), (env_b, label_b, rows_b) in combinations(cells, 2):
        if env_a != env_b and label_a == label_b:
            n = min(len(rows_a), len(rows_b))
            first.append(rows_a[:n])
            second.append(rows_b[:n])
    return _collect(first, second, len(y))


def _rows_by_value(values: NDArray[Any]) -> list[Index]:
    """Positions of each distinct value, in the order of the sorted values."""
    _, codes = np.unique(values, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def _collect(first: list[Index], second: list[Index], n: int) -> Pairs:
    a = np.concatenate(first) if first else np.empty(0, dtype=np.intp)
    b = np.concatenate(second) if second else np.empty(0, dtype=np.intp)
    return Pairs(a, b, n - len(np.union1d(a, b)))
