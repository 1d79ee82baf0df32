"""No other data than X and y: two models that were not fitted to a row score it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from pa_select.model_selection.kinds.kind import Comparison, DataKind
from pa_select.model_selection.split_scores import Data, PairsOfModels
from pa_select.model_selection.splits import Split, halves
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Floats, Ints


class RepeatedFolds(DataKind):
    """The models of two repetitions of a cross-validation are compared."""

    pairing = "repeated"
    shows_elsewhere = False
    tested_twice = True

    def compare(self, splits: list[Split], data: Data, weight: Floats | None) -> Comparison:
        # Two models that have not seen a row exist only if it was tested twice.
        compared = _pairs_of_repetitions(splits)
        if compared:
            return Comparison(self, splits, compared)
        sites = ""
        if self.rows.groups is not None:
            sites = (
                " To compare the groups, such as sites, give them as environments: fit(X, y, "
                "environments=...)."
            )
        warn_caller(
            "cv tests no row by two models, but pairing='repeated' compares two models on each "
            "row. The search compares models of the two halves of each split's training rows "
            "instead (pairing='split-half'). To train on all of these rows, give as cv a number "
            "of folds, a repeated splitter, or a list of two splitters with different seeds."
            + sites
        )
        return SplitHalves(self.rows).compare(splits, data, weight)


def _pairs_of_repetitions(splits: Sequence[Split]) -> list[PairsOfModels]:
    """Pair every row with itself, for every two models that were not fitted to it."""
    pairs = []
    every_two = combinations(enumerate(splits), 2)
    for (split_a, (train_a, test_a)), (split_b, (train_b, test_b)) in every_two:
        rows = np.intersect1d(test_a, test_b)
        # Two fits to the same rows may be one model, which always agrees with itself.
        if len(rows) and not np.array_equal(np.sort(train_a), np.sort(train_b)):
            pairs.append(PairsOfModels(split_a, rows, split_b, rows))
    return pairs


class SplitHalves(DataKind):
    """The models of the two halves of a split's training rows are compared on its test rows."""

    pairing = "split-half"
    shows_elsewhere = False

    def compare(self, splits: list[Split], data: Data, weight: Floats | None) -> Comparison:
        # Twice the fits, each of half the rows: about the time of one cross-validation.
        both = halves(splits, self.rows.y, self.rows.groups, self.rows.seed)
        compared = [
            PairsOfModels(2 * split, test, 2 * split + 1, test)
            for split, (_, test) in enumerate(splits)
        ]
        return ComparisonOfHalves(self, both, compared)


@dataclass(frozen=True, eq=False)
class ComparisonOfHalves(Comparison):
    """The two halves of a split, which follow one another, have the same test rows."""

    @property
    def folds(self) -> list[Ints]:
        return super().folds[::2]

    def scores_of_folds(self, table: Mapping[str, Any], metric: str) -> Floats:
        scores = super().scores_of_folds(table, metric)
        return (scores[::2] + scores[1::2]) / 2
