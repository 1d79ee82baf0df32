"""Pairs of rows that a pairing object of the user makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from pa_select.model_selection.kinds.kind import Comparison, DataKind, RowsOfX
from pa_select.model_selection.split_scores import Data, PairsOfModels
from pa_select.model_selection.splits import Split
from pa_select.utils.typing import Floats, HasPairs


class CustomPairs(DataKind):
    """A pairing object; `environments`, a kind of data, are scored, and passed on to it."""

    def __init__(self, rows: RowsOfX, pairing: HasPairs, environments: DataKind | None) -> None:
        super().__init__(rows)
        self.pairing = pairing
        self._scored = self if environments is None else environments
        self.strata = self._scored.strata

    def compare(self, splits: list[Split], data: Data, weight: Floats | None) -> Comparison:
        X, y, groups, _ = self.rows
        items = self.pairing.pairs(splits, X, y, environments=self.strata, groups=groups)
        return self._scored.compare_pairs(list(_checked(items, splits, len(y))), splits, data)


def _checked(items: Iterable[Any], splits: Sequence[Split], n: int) -> Iterator[PairsOfModels]:
    """Yield the pairs of a pairing object, after checking them."""
    for i, item in enumerate(items):
        name = f"pairing: item {i} of pairs(...)"
        try:
            split_a, rows_a, split_b, rows_b = item
        except (TypeError, ValueError):
            raise TypeError(
                f"{name}: expected (split_a, rows_a, split_b, rows_b), got {item!r}."
            ) from None
        _check_pair(name, PairsOfModels(split_a, rows_a, split_b, rows_b), splits, n)
        # A split may have no pair.
        if len(rows_a):
            a, b = (np.asarray(rows, dtype=np.int64) for rows in (rows_a, rows_b))
            yield PairsOfModels(int(split_a), a, int(split_b), b)


def _check_pair(name: str, pair: PairsOfModels, splits: Sequence[Split], n: int) -> None:
    """Check pairs of n rows of X."""
    for split, rows in ((pair.split_a, pair.rows_a), (pair.split_b, pair.rows_b)):
        if not isinstance(split, (int, np.integer)) or not 0 <= split < len(splits):
            raise ValueError(
                f"{name}: expected the number of a split, 0 to {len(splits) - 1}, got {split!r}."
            )
        rows = np.asarray(rows)
        if rows.ndim != 1 or rows.dtype.kind not in "iu" or not np.isin(rows, range(n)).all():
            raise ValueError(f"{name}: expected row numbers from 0 to {n - 1}, got {rows!r}.")
        seen = np.intersect1d(rows, splits[split][0])
        if len(seen):
            raise ValueError(
                f"{name}: expected rows that the model of split {split} was not fitted to, "
                f"got row {seen[0]} ({len(seen)} such rows)."
            )
    if len(pair.rows_a) != len(pair.rows_b):
        raise ValueError(
            f"{name}: expected as many rows on both sides, got {len(pair.rows_a)} and "
            f"{len(pair.rows_b)}."
        )
