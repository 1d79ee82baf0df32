"""Pairs of rows: within one sample, and between the environments in it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import _safe_indexing, check_random_state

from pa_select.utils.arrays import distinct_rows
from pa_select.utils.typing import Array, Index, Labels, RandomState, Rows


class Pairs(NamedTuple):
    """Positions of the paired rows, and how many rows have no partner.

    Parameters
    ----------
    a, b : ndarray of shape (n_pairs,)
        Positions of the two rows of each pair; a row may be in several pairs.
    n_left_out : int
        Number of rows that are in no pair.
    why : str, default=""
        Why they are left out; empty if none is.

    Examples
    --------
    >>> from pa_select.pairing import pair_within_label
    >>> pairs = pair_within_label([0, 0, 1])
    >>> pairs.n_left_out, pairs.why
    (1, '1 row has a label that no other row has')
    """

    a: Index
    b: Index
    n_left_out: int
    why: str = ""


def pair_within_label(y: Labels, random_state: RandomState = None) -> Pairs:
    """Pair each row with a random other row of its label.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels.
    random_state : int, RandomState instance or None, default=None
        Chooses the partners.

    Returns
    -------
    Pairs
        Each row whose label occurs more than once is first in one pair and second in
        another. Rows with a label that no other row has are left out.

    Examples
    --------
    >>> from pa_select.pairing import pair_within_label
    >>> pairs = pair_within_label(["u", "v", "u", "w", "v"], random_state=0)
    >>> sorted(zip(pairs.a.tolist(), pairs.b.tolist())), pairs.n_left_out
    ([(0, 2), (1, 4), (2, 0), (4, 1)], 1)
    """
    rng = check_random_state(random_state)
    cycles = [rng.permutation(rows) for rows in _rows_by_value(np.asarray(y)) if len(rows) > 1]
    partners = [np.roll(cycle, -1) for cycle in cycles]
    why = "has a label that no other row has", "have labels of their own"
    return _collect(cycles, partners, len(y), *why)


def pair_environments(
    environments: Labels,
    y: Labels | None = None,
    random_state: RandomState = None,
    *,
    X: Rows | None = None,
    pairing: Callable[..., Any] | None = None,
    reference: object = None,
) -> Pairs:
    """Pair rows of different environments, by default rows of equal label at random.

    Parameters
    ----------
    environments : array-like of shape (n,)
        The environment of each row.
    y : array-like of shape (n,), default=None
        Labels; needed without a `pairing`.
    random_state : int, RandomState instance or None, default=None
        Chooses the partners.
    X : array-like of n rows, default=None
        The rows, for a `pairing` that compares them.
    pairing : callable, default=None
        Pairs the rows of two environments, for example a `NearestPairing`. None: rows of
        equal label at random.
    reference : object, default=None
        The environment that each other one is paired with. None: every two are paired.

    Returns
    -------
    Pairs
        The pairs of every two environments, one after the other. Without a `pairing`, each
        label has as many pairs as the environment with fewer rows of it. Rows that are in no
        pair at all are left out.

    Raises
    ------
    ValueError
        If `reference` is not an environment, or labels are needed but missing.

    Examples
    --------
    >>> from pa_select.pairing import pair_environments
    >>> pairs = pair_environments([1, 1, 2, 2, 2], [0, 1, 1, 0, 0], random_state=0)
    >>> sorted(zip(pairs.a.tolist(), pairs.b.tolist())), pairs.n_left_out
    ([(0, 4), (1, 2)], 1)
    """
    environments = np.asarray(environments)
    if reference is not None and not (environments == reference).any():
        raise ValueError(
            f"reference: expected one of the environments {np.unique(environments).tolist()}, "
            f"got {reference!r}."
        )
    if pairing is not None:
        return _pair_every_two(environments, y, X, pairing, reference)
    if y is None:
        raise ValueError("y: expected labels without a pairing, got None.")
    rng = check_random_state(random_state)
    y = np.asarray(y)
    labels = {
        rows[0]: rng.permutation(rows)
        for name in _rows_by_value(environments)
        for rows in (name[block] for block in _rows_by_value(y[name]))
    }
    cells = [(environments[start], y[start], rows) for start, rows in labels.items()]
    first, second = [], []
    for (env_a, label_a, rows_a), (env_b, label_b, rows_b) in combinations(cells, 2):
        if env_a != env_b and label_a == label_b:
            if reference is not None:
                if reference not in (env_a, env_b):
                    continue
                if env_b == reference:
                    rows_a, rows_b = rows_b, rows_a
            n = min(len(rows_a), len(rows_b))
            first.append(rows_a[:n])
            second.append(rows_b[:n])
    return _collect(first, second, len(y), *_NO_PARTNER)


_NO_PARTNER = ("has no partner in another environment", "have no partners in another environment")


def _pair_every_two(
    environments: Array,
    y: Labels | None,
    X: Rows | None,
    pairing: Callable[..., Any],
    reference: object,
) -> Pairs:
    """Pair every two environments, or the reference with each other one."""
    groups = _rows_by_value(environments)
    if reference is not None:
        groups.sort(key=lambda rows: environments[rows[0]] != reference)
    labels = None if y is None else np.asarray(y)
    first, second = [], []
    for number, rows_a in enumerate(groups if reference is None else groups[:1]):
        for rows_b in groups[number + 1 :]:
            both = rows_a, rows_b
            samples = [rows if X is None else _safe_indexing(X, rows) for rows in both]
            known = [None if labels is None else labels[rows] for rows in both]
            names = [f"environment {environments[rows].tolist()[0]!r}" for rows in both]
            found = pairing(*samples, *known)
            pairs = check_rows(found, (len(rows_a), len(rows_b)), (names[0], names[1]))
            first.append(rows_a[pairs.a])
            second.append(rows_b[pairs.b])
    return _collect(first, second, len(environments), *_NO_PARTNER)


def _rows_by_value(values: Array) -> list[Index]:
    """Return the positions of each distinct value, in the order of the sorted values."""
    _, codes = np.unique(values, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def _collect(first: list[Index], second: list[Index], n: int, one: str, several: str) -> Pairs:
    a = np.concatenate(first) if first else np.empty(0, dtype=np.intp)
    b = np.concatenate(second) if second else np.empty(0, dtype=np.intp)
    n_left_out = n - len(np.union1d(a, b))
    return Pairs(a, b, n_left_out, in_words((n_left_out, one, several)))


def check_rows(pairs: object, lengths: tuple[int, int], samples: tuple[str, str]) -> Pairs:
    """Return what a pairing returned as checked row numbers of two samples, named in errors."""
    found = list(pairs[:2]) if isinstance(pairs, (list, tuple)) else []
    rows = [np.asarray(part) for part in found]
    if len(rows) != 2 or len(rows[0]) != len(rows[1]):
        raise ValueError(
            f"pairing: expected two arrays of row numbers of equal length, got {pairs!r}."
        )
    for part, n, sample in zip(rows, lengths, samples, strict=True):
        fits = part.ndim == 1 and (part.dtype.kind in "iu" or not len(part))
        if not fits or ((part < 0) | (part >= n)).any():
            raise ValueError(f"pairing: expected row numbers of {sample}, 0 to {n - 1}.")
    a, b = (part.astype(np.intp) for part in rows)
    return Pairs(a, b, sum(lengths) - len(distinct_rows(a)) - len(distinct_rows(b)))


def in_words(*parts: tuple[int, str, str]) -> str:
    """Join reasons: (number of rows, the phrase for one row, the phrase for several)."""
    return "; ".join(
        f"{n} {'row' if n == 1 else 'rows'} {one if n == 1 else several}"
        for n, one, several in parts
        if n
    )
