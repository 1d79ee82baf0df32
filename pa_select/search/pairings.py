"""What a search compares: which rows, scored by the models of which splits.

A pairing turns splits of the data into blocks of pairs.  It sees row numbers only; what
the rows are scored on (X itself, a view of it, unlabelled rows) is a number of a source.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from inspect import signature
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import (
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)
from sklearn.utils import _safe_indexing

from pa_select.pairing import pair_environments

if TYPE_CHECKING:
    from pa_select.agreement.pooled import PooledPairs

Ints = NDArray[np.int64]
Split = tuple[Ints, Ints]

NAMES = ("repeated", "split-half", "environments", "views", "target")

#: Number of X among the sources.
OF_X = 0


class Block(NamedTuple):
    """Pairs whose two sides are scored by the models of two splits."""

    split_a: int
    rows_a: Ints
    split_b: int
    rows_b: Ints
    source_a: int = OF_X
    source_b: int = OF_X


# -- splits ------------------------------------------------------------------------------


def make_splits(
    cv: Any,
    pairing: str,
    X: Any,
    y: Any,
    *,
    groups: Any,
    environments: Any,
    seed: int,
    split_params: dict[str, Any],
) -> list[Split]:
    """All splits of a search.

    A splitter given is used as it is, with the parameters meant for it; where rows must be
    tested twice, folds that can be shuffled are used a second time in another order.  By
    default and for a number of folds it depends on the pairing: two shuffled repetitions
    where rows must be tested twice, folds stratified by class and environment where these
    are compared, else what GridSearchCV would use; with groups, group folds.
    """
    if is_sequence_of_splitters(cv):
        return [split for part in cv for split in part.split(X, y, **split_params)]
    if cv is not None and not isinstance(cv, (int, np.integer)):
        given = [check_cv(cv, y, classifier=True)]
        if pairing == "repeated" and "shuffle" in signature(type(cv)).parameters:
            # Folds that can be shuffled: once as they are, once in another order.
            given.append(copy(cv))
            given[1].shuffle, given[1].random_state = True, seed
        return [split for part in given for split in part.split(X, y, **split_params)]
    k = 5 if cv is None else int(cv)
    labels = y if environments is None else _cells(environments, y)
    largest = int(np.unique(labels, return_counts=True)[1].max())
    if largest < k:
        raise ValueError(
            f"cv: expected no more folds than there are rows of the largest class"
            f"{'' if environments is None else ' in one environment'}, {largest}, got {k} with "
            f"n_samples={len(labels)}."
        )
    twice = pairing in ("repeated", "target")
    splitters: list[Any]
    if groups is not None:
        seeds = (seed, seed + 1) if twice else (seed,)
        splitters = [StratifiedGroupKFold(k, shuffle=True, random_state=s) for s in seeds]
    elif twice:
        splitters = [RepeatedStratifiedKFold(n_splits=k, n_repeats=2, random_state=seed)]
    elif environments is not None:
        # Unshuffled folds of sorted data would hold one environment each.
        splitters = [StratifiedKFold(k, shuffle=True, random_state=seed)]
    else:
        splitters = [check_cv(cv, y, classifier=True)]
    return [split for part in splitters for split in part.split(X, labels, groups)]


def is_sequence_of_splitters(cv: Any) -> bool:
    """Whether ``cv`` is a list of splitters, not one, nor a list of splits."""
    return isinstance(cv, (list, tuple)) and len(cv) > 0 and all(hasattr(x, "split") for x in cv)


def _cells(environments: Any, y: Any) -> Ints:
    """Number of each row's environment and class."""
    codes = [np.unique(np.asarray(values), return_inverse=True)[1] for values in (environments, y)]
    return np.unique(np.column_stack(codes), axis=0, return_inverse=True)[1].ravel()


def halves(splits: Sequence[Split], y: Any, groups: Any, seed: int) -> list[Split]:
    """Two splits for each: both halves of the training rows, with the same test rows."""
    y = np.asarray(y)
    out = []
    for train, test in splits:
        if groups is None:
            splitter = StratifiedKFold(2, shuffle=True, random_state=seed)
            parts = splitter.split(train, y[train])
        else:
            splitter = StratifiedGroupKFold(2, shuffle=True, random_state=seed)
            parts = splitter.split(train, y[train], np.asarray(groups)[train])
        out += [(train[half], test) for half, _ in parts]
    return out


# -- pairs -------------------------------------------------------------------------------


def tested_twice(splits: Sequence[Split]) -> list[Block]:
    """Every row with itself, for every two models that were not fitted to it."""
    blocks = []
    for (s, (train_s, test_s)), (t, (train_t, test_t)) in combinations(enumerate(splits), 2):
        rows = np.intersect1d(test_s, test_t)
        # Two fits to the same rows are one model: that it agrees with itself says nothing.
        if len(rows) and not np.array_equal(np.sort(train_s), np.sort(train_t)):
            blocks.append(Block(s, rows, t, rows))
    return blocks


def halves_compared(splits: Sequence[Split]) -> list[Block]:
    """Every test row with itself, for the models of both halves of its training rows."""
    return [Block(s, splits[s][1], s + 1, splits[s][1]) for s in range(0, len(splits), 2)]


def across_environments(
    splits: Sequence[Split],
    environments: Any,
    y: Any,
    seed: int,
    X: Any = None,
    pairing: Any = None,
) -> list[Block]:
    """Rows of different environments of the same test fold: of equal label, or paired so.

    Where every fold holds out whole environments, so that no fold has two to compare,
    rows of different folds are paired: each is scored by the model that knows nothing of
    its environment.
    """
    environments, y = np.asarray(environments), np.asarray(y)
    blocks = []
    for s, (_, test) in enumerate(splits):
        a, b = _pair(environments, y, seed, X, pairing, test)
        if len(a):
            blocks.append(Block(s, test[a], s, test[b]))
    if blocks:
        return blocks
    split_of = np.concatenate([np.full(len(test), s) for s, (_, test) in enumerate(splits)])
    rows = np.concatenate([test for _, test in splits])
    a, b = _pair(environments, y, seed, X, pairing, rows)
    for s, t in np.unique(np.column_stack([split_of[a], split_of[b]]), axis=0):
        here = (split_of[a] == s) & (split_of[b] == t)
        blocks.append(Block(int(s), rows[a[here]], int(t), rows[b[here]]))
    return blocks


def _pair(
    environments: Any, y: Any, seed: int, X: Any, pairing: Any, rows: Ints
) -> tuple[Ints, Ints]:
    pairs = pair_environments(
        environments[rows],
        y[rows],
        seed,
        X=None if pairing is None else _safe_indexing(X, rows),
        pairing=pairing,
    )
    return pairs.a, pairs.b


def with_views(splits: Sequence[Split], n_views: int) -> list[Block]:
    """Every test row with its own views, by the model that has seen neither."""
    return [
        Block(s, test, s, test, OF_X, 1 + view)
        for s, (_, test) in enumerate(splits)
        for view in range(n_views)
    ]


def models_on_target(n_splits: int, n_target: int) -> list[Block]:
    """Every target row with itself, for every two models."""
    rows = np.arange(n_target)
    return [Block(s, rows, t, rows, 1, 1) for s, t in combinations(range(n_splits), 2)]


def from_object(
    pairing: Any, splits: Sequence[Split], X: Any, y: Any, n: int, **context: Any
) -> list[Block]:
    """The pairs of a pairing object, checked."""
    blocks = []
    for i, item in enumerate(pairing.pairs(splits, X, y, **context)):
        name = f"pairing: item {i} of pairs(...)"
        try:
            split_a, rows_a, split_b, rows_b = item
        except (TypeError, ValueError):
            raise TypeError(
                f"{name}: expected (split_a, rows_a, split_b, rows_b), got {item!r}."
            ) from None
        sides: list[Any] = []
        for split, rows in ((split_a, rows_a), (split_b, rows_b)):
            if not isinstance(split, (int, np.integer)) or not 0 <= split < len(splits):
                raise ValueError(
                    f"{name}: expected the number of a split, 0 to {len(splits) - 1}, got "
                    f"{split!r}."
                )
            rows = np.asarray(rows)
            if rows.ndim != 1 or rows.dtype.kind not in "iu" or not np.isin(rows, range(n)).all():
                raise ValueError(f"{name}: expected row numbers from 0 to {n - 1}, got {rows!r}.")
            seen = np.intersect1d(rows, splits[int(split)][0])
            if len(seen):
                raise ValueError(
                    f"{name}: expected rows that the model of split {split} was not fitted to, "
                    f"got row {seen[0]} ({len(seen)} such rows)."
                )
            sides += [int(split), rows.astype(np.int64)]
        if len(sides[1]) != len(sides[3]):
            raise ValueError(
                f"{name}: expected as many rows on both sides, got {len(sides[1])} and "
                f"{len(sides[3])}."
            )
        if len(sides[1]):
            blocks.append(Block(*sides))
    return blocks


# -- layout ------------------------------------------------------------------------------


class Layout:
    """Which rows each split's model scores, and where they lie in the stacked scores.

    Parameters
    ----------
    splits : list of (train, test)
    blocks : iterable of Block
        All that will be compared.
    """

    def __init__(self, splits: Sequence[Split], blocks: Iterable[Block]) -> None:
        wanted: dict[tuple[int, int], list[Ints]] = {}
        for block in blocks:
            wanted.setdefault((block.split_a, block.source_a), []).append(block.rows_a)
            wanted.setdefault((block.split_b, block.source_b), []).append(block.rows_b)
        #: For each split, the rows that its model scores of each source.
        self.wanted: list[dict[int, Ints]] = [{} for _ in splits]
        self._start: dict[tuple[int, int], int] = {}
        start = 0
        for split, source in sorted(wanted):
            parts = wanted[split, source]
            rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
            self.wanted[split][source] = np.unique(rows)
            self._start[split, source] = start
            start += len(self.wanted[split][source])

    def pooled(self, blocks: Sequence[Block], weight: NDArray[np.float64] | None) -> PooledPairs:
        """Positions of the pairs of the given blocks in the stacked scores."""
        # The mathematics needs torch; a worker that fits and scores does not.
        from pa_select.agreement.pooled import PooledPairs

        def side(split: int, source: int, rows: Ints) -> Ints:
            return self._start[split, source] + np.searchsorted(self.wanted[split][source], rows)

        row_a = [side(b.split_a, b.source_a, b.rows_a) for b in blocks]
        row_b = [side(b.split_b, b.source_b, b.rows_b) for b in blocks]
        lengths = [len(b.rows_a) for b in blocks]
        object_a = np.concatenate([b.rows_a for b in blocks])
        object_b = np.concatenate([b.rows_b for b in blocks])
        weights = np.ones(len(object_a))
        if weight is not None:
            weights = np.sqrt(weight[object_a]) * np.sqrt(weight[object_b])
        return PooledPairs(
            np.concatenate(row_a),
            np.concatenate(row_b),
            np.repeat([b.split_a for b in blocks], lengths),
            np.repeat([b.split_b for b in blocks], lengths),
            object_a,
            object_b,
            weights,
        )
