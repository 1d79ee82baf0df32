"""Pairs: unlabelled objects that were measured twice; one model scores both measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, cast

import numpy as np
from sklearn.pipeline import make_pipeline

from pa_select.model_selection.kinds.expected import (
    ExpectedAtSites,
    ExpectedScores,
    Site,
    is_adapted,
    warn_of_equal_predictions,
)
from pa_select.model_selection.kinds.kind import Comparison, DataKind, Mapped, RowsOfX
from pa_select.model_selection.rules import BestExpected
from pa_select.model_selection.selection_rule import SelectionRule
from pa_select.model_selection.split_scores import SAMPLE_X, Data, PairsOfModels
from pa_select.model_selection.splits import Split
from pa_select.scores.precomputed import Stacks, response_methods
from pa_select.utils.arrays import are_rows, check_column
from pa_select.utils.frames import check_columns, check_not_missing, named_like
from pa_select.utils.sklearn_private import _num_samples
from pa_select.utils.typing import (
    Adapter,
    Estimator,
    Floats,
    Ints,
    Mask,
    PairedRows,
    Rows,
    Search,
)

# The names of a site's columns must differ from those of the worst site.
_ENDS = {"se", "low", "high", "measured", "adapted"}


class PairedObjects(DataKind):
    """The two measurements of an object are compared."""

    pairing = "paired"

    def __init__(self, rows: RowsOfX, paired: PairedRows, search: Search) -> None:
        super().__init__(rows)
        self._adapter, self._reference = search.adapter, search.reference
        self._paired = paired
        options = search.estimator, search.adapter, rows.seed
        self._sites, self.samples, self.names_of_samples = _make_sites(paired, rows.X, *options)
        self.sites = [site.name for site in self._sites]
        #: The groups of the rows of X, which say how alike their scores are.
        self._groups = None
        if rows.groups is not None:
            self._groups = check_column(rows.groups, len(rows.y), "groups")

    @staticmethod
    def default_rule(score: str) -> SelectionRule:
        # The expected score says what agreement only hints at.
        return BestExpected(score)

    def check_candidates(self, candidates: Sequence[Estimator]) -> None:
        # As they were given: the samples lack pairs of the same object.
        for site, pair in zip(self._sites, _named(self._paired).values(), strict=True):
            for rows, sample in zip(pair, (site.a, site.b), strict=True):
                if sample == site.b and site.has_own_columns:
                    continue  # which no candidate predicts
                may_drop = sample == site.b and self._adapter is not None
                name = self.names_of_samples[sample - 1]
                check_not_missing(rows, self.rows.X, name, candidates, may_drop)

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
        self,
        table: Mapping[str, Any],
        metric: str,
        expected: Any,
        folds: Sequence[Ints] | None = None,
    ) -> tuple[Floats, Floats]:
        folds = self.folds if folds is None else folds
        return expected.scores_of_parts(folds, self.kind.rows.seed)

    def warn_of_table(self, table: Mapping[str, Any]) -> None:
        methods = map(response_methods, self.scores.scorers.values())
        # Metrics of scores may differ where the predicted classes do not.
        if not any(of_metric not in ([], ["predict"]) for of_metric in methods):
            warn_of_equal_predictions(table)

    def attributes_of_refit(self, mapped: Mapped, table: Mapping[str, Any]) -> dict[str, Any]:
        sites: Sequence[Site] = self.scores.sites
        adapted = _adapted_to_sites(mapped, self.adapter, sites, self.samples, table)
        return {"best_adapted_": adapted}


def _make_sites(
    paired: PairedRows, X: Rows, estimator: Estimator, adapter: Adapter, seed: int
) -> tuple[list[Site], list[Any], list[str]]:
    """Check the pairs of each site; return the sites, the samples after X, and their names."""
    # Imported here: workers that fit and score do not need torch.
    from pa_select.two_sites.paired_rows import (
        check_pairs,
        has_own_columns,
        warn_of_known_rows,
    )
    from pa_select.two_sites.site_adapter import SiteAdapter, cross_adapted

    steps = getattr(estimator, "steps", None)
    # It would learn from rows of one site only, and map those that need no map.
    if steps and isinstance(steps[0][1], SiteAdapter):
        raise ValueError(
            "estimator: expected a model of rows of the first site, got one that begins with a "
            "SiteAdapter, which learns from pairs. Leave it out, and set adapter='ridge'."
        )
    sites: list[Site] = []
    samples: list[Any] = []
    names: list[str] = []
    rows_of_a: list[Any] = []
    for name, (X_a, X_b) in _named(paired).items():
        places = [f"paired[{name!r}][{i}]" if name else f"paired[{i}]" for i in (0, 1)]
        X_a, X_b = check_pairs(X_a, X_b, places[0], places[1], adapter)
        # Models that were fitted to a frame expect its names.
        X_a, X_b = named_like(X, X_a), named_like(X, X_b)
        check_columns(X_a, X, places[0])
        if not any(rows is X_a for rows in rows_of_a):  # sites may share these rows
            warn_of_known_rows(X_a, X, places[0])
        rows_of_a.append(X_a)
        first = 1 + len(samples)
        samples += [X_a, X_b]
        names += places
        if adapter is not None:
            samples.append(cross_adapted(adapter, X_b, X_a, seed))
            names.append(places[1])
        adapted = None if adapter is None else first + 2
        has_own = adapter is not None and has_own_columns(X_b, X_a)
        sites.append(Site(name, _num_samples(X_a), first, first + 1, adapted, has_own))
    return sites, samples, names


def _adapted_to_sites(
    mapped: Mapped,
    adapter: Any,
    sites: Sequence[Site],
    samples: Sequence[Any],
    table: Mapping[str, Any],
) -> Estimator | dict[str, Estimator]:
    """Return what to use at the site: the fitted models, after an adapter where that helps.

    `samples` are X and those that `_make_sites` returns. `table` is ``cv_results_``, which says
    which candidates an adapter helps. Returns a dict if the sites have names.
    """
    # Imported here: workers that fit and score do not need torch.
    from pa_select.two_sites.site_adapter import SiteAdapter

    by_site = {}
    for site in sites:
        helped, learnt = is_adapted(site, table), None
        # Nothing is learnt that no candidate uses.
        if helped.any():
            learnt = SiteAdapter(adapter)._learn(samples[site.b], samples[site.a])

        def adapted(
            model: Any, candidate: int, helped: Mask = helped, learnt: Any = learnt
        ) -> Any:
            return make_pipeline(learnt, model) if helped[candidate] else model

        by_site[site.name] = mapped(adapted)
    return by_site if sites[0].name else by_site[""]


def _named(paired: PairedRows) -> dict[str, tuple[Any, Any]]:
    if isinstance(paired, Mapping) and not are_rows(paired):
        if not paired:
            raise ValueError("paired: expected at least one site, got an empty dict.")
        named = {str(name): rows for name, rows in paired.items()}
        # A column such as expected_score_se would have two meanings.
        taken = [name for name in named if not name or set(name.split("_")) & _ENDS]
        if taken or len(named) < len(paired):
            raise ValueError(
                "paired: expected different names of sites without the words "
                f"{sorted(_ENDS)}, which columns end with, got {list(paired)}."
            )
    else:
        named = {"": cast("tuple[Rows, Rows]", paired)}
    for name, rows in named.items():
        got = type(rows).__name__
        if isinstance(rows, (tuple, list)):
            if len(rows) == 2 and not all(map(_is_two_tables, rows)):
                continue
            got = f"{len(rows)} of them" if len(rows) != 2 else "two such tuples"
        raise TypeError(
            f"paired{f'[{name!r}]' if name else ''}: expected the rows of the same objects at "
            f"both sites, (X_a, X_b), or a dict of these by site, got {got}."
        )
    return {name: (rows[0], rows[1]) for name, rows in named.items()}


def _is_two_tables(rows: Any) -> bool:
    """Whether these are not rows of one site, but of two, as in a list of pairs."""
    if not isinstance(rows, (tuple, list)) or len(rows) != 2:
        return False
    return all(getattr(row, "ndim", 1) == 2 for row in rows)
