"""Pairings of a search: which rows are compared, and which models score them.

A pairing turns the splits of the data into blocks of pairs.  A block has row numbers and
numbers of sources: source 0 is X, the others are views of X, the target rows, or the rows of
paired objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple, get_args

import numpy as np
from sklearn.utils import _safe_indexing

from pa_select.model_selection.sites import Site
from pa_select.model_selection.splits import Split
from pa_select.pairing import pair_environments
from pa_select.utils.typing import Ints, PairingName

NAMES = get_args(PairingName)

#: Number of X among the sources.
OF_X = 0


class Block(NamedTuple):
    """Pairs of rows; a split's model scores each side, and may score both."""

    split_a: int
    rows_a: Ints
    split_b: int
    rows_b: Ints
    source_a: int = OF_X
    source_b: int = OF_X


def tested_twice(splits: Sequence[Split]) -> list[Block]:
    """Pair every row with itself, for every two models that were not fitted to it."""
    blocks = []
    for (s, (train_s, test_s)), (t, (train_t, test_t)) in combinations(enumerate(splits), 2):
        rows = np.intersect1d(test_s, test_t)
        # Two fits to the same rows may be one model, which always agrees with itself.
        if len(rows) and not np.array_equal(np.sort(train_s), np.sort(train_t)):
            blocks.append(Block(s, rows, t, rows))
    return blocks


def halves_compared(splits: Sequence[Split]) -> list[Block]:
    """Pair every test row with itself, for the models of the two halves of a split."""
    return [Block(s, splits[s][1], s + 1, splits[s][1]) for s in range(0, len(splits), 2)]


def across_environments(
    splits: Sequence[Split],
    environments: Any,
    y: Any,
    seed: int,
    X: Any = None,
    pairing: Any = None,
) -> list[Block]:
    """Pair rows of different environments in the same test fold, by label or by `pairing`.

    If every fold holds out whole environments, no fold has two of them to compare. Then rows
    of different folds are paired, and the model that has not seen its environment scores
    each row.
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
    """Pair every test row with its views, for the model that has seen neither."""
    return [
        Block(s, test, s, test, OF_X, 1 + view)
        for s, (_, test) in enumerate(splits)
        for view in range(n_views)
    ]


def models_on_target(n_splits: int, n_target: int) -> list[Block]:
    """Pair every target row with itself, for every two models."""
    rows = np.arange(n_target)
    return [Block(s, rows, t, rows, 1, 1) for s, t in combinations(range(n_splits), 2)]


def measured_twice(n_splits: int, sites: Sequence[Site]) -> list[Block]:
    """Pair both rows of every object, for each model.

    Objects of the same number at several sites count as one object in standard errors.
    """
    return [
        Block(s, np.arange(site.n_pairs), s, np.arange(site.n_pairs), site.a, site.b)
        for s in range(n_splits)
        for site in sites
    ]


def for_calibration(splits: Sequence[Split], sites: Sequence[Site]) -> list[Block]:
    """Return blocks whose rows are scored, but not compared: test rows and adapted rows."""
    blocks = []
    for s, (_, test) in enumerate(splits if sites else []):
        blocks.append(Block(s, test, s, test))
        for site in sites:
            if site.adapted is not None:
                rows = np.arange(site.n_pairs)
                blocks.append(Block(s, rows, s, rows, site.adapted, site.adapted))
    return blocks


def from_object(
    pairing: Any, splits: Sequence[Split], X: Any, y: Any, n: int, **context: Any
) -> list[Block]:
    """Return the pairs of a pairing object, after checking them."""
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
