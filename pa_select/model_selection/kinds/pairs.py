"""Pairs: unlabelled objects that were measured twice; one model scores both measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from pa_select.model_selection.kinds.expected import (
    ExpectedAtSites,
    ExpectedScores,
    warn_of_equal_predictions,
)
from pa_select.model_selection.kinds.kind import Comparison, DataKind, Mapped, RowsOfX
from pa_select.model_selection.kinds.sites import Site, adapted_to_sites, make_sites
from pa_select.model_selection.rules import BestExpected
from pa_select.model_selection.selection_rule import SelectionRule
from pa_select.model_selection.split_scores import SAMPLE_X, Data, PairsOfModels
from pa_select.model_selection.splits import Split
from pa_select.scores.precomputed import Stacks
from pa_select.utils.arrays import check_column
from pa_select.utils.typing import Adapter, Floats, PairedRows, Search


class PairedObjects(DataKind):
    """The two measurements of an object are compared."""

    pairing = "paired"
    asks = "predicts well, and alike for the same objects at both sites"
    compares = (
        "what each candidate predicts for unlabelled objects that were measured twice: where the "
        "labelled rows come from, and elsewhere"
    )

    def __init__(self, rows: RowsOfX, paired: PairedRows, search: Search) -> None:
        super().__init__(rows)
        self._adapter, self._reference = search.adapter, search.reference
        options = search.estimator, search.adapter, rows.seed
        self._sites, self.samples, self.names_of_samples = make_sites(paired, rows.X, *options)
        self.sites = [site.name for site in self._sites]
        #: The groups of the rows of X, which say how alike their scores are.
        self._groups = None
        if rows.groups is not None:
            self._groups = check_column(rows.groups, len(rows.y), "groups")

    @staticmethod
    def default_rule(score: str) -> SelectionRule:
        # The expected score says what agreement only hints at.
        return BestExpected(score)

    def compare(self, splits: list[Split], data: Data, weight: Floats | None) -> Comparison:
        scores = ExpectedScores(self._sites, splits, self._groups, data, self._reference, weight)
        # The labelled rows say how certain the scores are.
        to_predict = [SAMPLE_X, *(x for site in self._sites for x in (site.a, *site.b_samples))]
        return ComparisonOfPairs(
            self,
            splits,
            self._compared(len(splits)),
            scored_too=self._scored_too(splits),
            samples_to_predict=to_predict,
            pairs_have_weights=False,
            needs_probabilities=scores.needs_probabilities,
            scores=scores,
            samples=data.samples,
            adapter=self._adapter,
        )

    def _compared(self, n_splits: int) -> list[PairsOfModels]:
        # Objects of the same number at several sites count as one object in standard errors.
        return [
            PairsOfModels(split, rows, split, rows, site.a, site.b_samples[0])
            for split in range(n_splits)
            for site in self._sites
            for rows in [np.arange(site.n_pairs)]
        ]

    def _scored_too(self, splits: Sequence[Split]) -> list[PairsOfModels]:
        """Return the test rows, which calibrate, and adapted rows beside those as measured."""
        pairs = []
        for split, (_, test) in enumerate(splits):
            pairs.append(PairsOfModels(split, test, split, test))
            for site in self._sites:
                rows = np.arange(site.n_pairs)
                for sample in site.b_samples[1:]:
                    pairs.append(PairsOfModels(split, rows, split, rows, sample, sample))
        return pairs


@dataclass(frozen=True, eq=False)
class ComparisonOfPairs(Comparison):
    """The candidates are judged by what they are expected to score at each site."""

    _: KW_ONLY
    scores: ExpectedScores
    #: X, and what follows it.
    samples: Sequence[Any]
    adapter: Adapter

    @property
    def n_unseen_sites(self) -> int:
        return len(self.scores.sites)

    def expected(self, stacks: Stacks, table: Mapping[str, Any], metric: str) -> ExpectedAtSites:
        return self.scores.at_sites(stacks, table, metric)

    def scores_of_parts(
        self, table: Mapping[str, Any], metric: str, expected: Any
    ) -> tuple[Floats, Floats]:
        return expected.scores_of_parts(self.folds, self.kind.rows.seed)

    def warn_of_table(self, table: Mapping[str, Any]) -> None:
        warn_of_equal_predictions(table)

    def attributes_of_refit(self, mapped: Mapped, table: Mapping[str, Any]) -> dict[str, Any]:
        sites: Sequence[Site] = self.scores.sites
        adapted = adapted_to_sites(mapped, self.adapter, sites, self.samples, table)
        return {"best_adapted_": adapted}
