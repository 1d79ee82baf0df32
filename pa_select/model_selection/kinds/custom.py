"""Pairs of rows that a pairing object of the user makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from pa_select.model_selection.fits import Split
from pa_select.model_selection.kinds.environments import Environments
from pa_select.model_selection.kinds.kind import Comparison, DataKind, RowsOfX, made_by
from pa_select.model_selection.split_scores import Data, PairsOfModels
from pa_select.utils.typing import Floats, HasPairs, Labels


class CustomPairs(DataKind):
    """A pairing object; `environments` are scored, and passed on to it."""

    def __init__(self, rows: RowsOfX, pairing: HasPairs, environments: Labels | None) -> None:
        super().__init__(rows)
        self.pairing, self.compares = pairing, made_by(pairing)
        self._environments = None
        if environments is not None:
            self._environments = Environments(rows, environments)
            self.strata = self._environments.strata

    def compare(self, splits: list[Split], data: Data, weight: Floats | None) -> Comparison:
        X, y, groups, _ = self.rows
        items = self.pairing.pairs(splits, X, y, environments=self.strata, groups=groups)
        pairs = list(_checked(items, splits, len(y)))
        if self._environments is None:
            return Comparison(self, splits, pairs)
        return self._environments.compare_pairs(pairs, splits, data)


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
            yield PairsOfModels(*sides)
