"""Rows beside X: its views, a target, and objects that were measured twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from pa_select.model_selection.data_kind import DataKind, Rows, check_text, of_rows_tested_twice
from pa_select.model_selection.sites import (
    ExpectedColumns,
    adapted_to_sites,
    make_sites,
    warn_of_equal_predictions,
)
from pa_select.model_selection.stacks import Block, Layout, Stacks
from pa_select.model_selection.table_columns import (
    Agreements,
    ScoresOfMetric,
    class_balances,
    error_over_splits,
    metric_columns,
    warn_of_label_shift,
)
from pa_select.model_selection.worker import OF_X, Data, Extra, SplitTask
from pa_select.utils.columns import check_column
from pa_select.utils.frames import check_columns, named_like, view_of
from pa_select.utils.halves import Split
from pa_select.utils.sklearn_private import _num_samples
from pa_select.utils.typing import Estimator, Floats, Ints

if TYPE_CHECKING:
    from pa_select.agreement.pooled_agreement import PooledPairs


class Views(DataKind):
    """The rows of X as other environments show them; one model scores a row and its views."""

    pairing = "views"

    def __init__(self, rows: Rows, views: Any) -> None:
        super().__init__(rows)
        n = len(rows.y)
        self.sources = [_check_view(view, rows.X, n, name) for name, view in _by_name(views, n)]

    def blocks(self, splits: Sequence[Split]) -> list[Block]:
        return [
            Block(s, test, s, test, OF_X, source)
            for s, (_, test) in enumerate(splits)
            for source in self._numbers()
        ]

    def _numbers(self) -> range:
        return range(1, 1 + len(self.sources))

    def extras(self, splits: Sequence[Split]) -> list[list[Extra]]:
        return [[Extra("views", source, test) for source in self._numbers()] for _, test in splits]

    def score_columns(self, scores: ScoresOfMetric) -> dict[str, Any]:
        means, name = np.mean(scores.extras["views"], axis=0), f"{scores.metric}_views"
        columns = metric_columns(name, means, rank=True)
        columns[f"se_test_{name}"] = error_over_splits(means, scores.n_disjoint)
        columns[f"chance_test_{name}"] = scores.chance
        return columns


class Target(DataKind):
    """Unlabelled rows from where the model will be used; every two models score each."""

    pairing = "target"
    tested_twice = True
    pairs_have_weights = False

    def __init__(self, rows: Rows, target: Any) -> None:
        super().__init__(rows)
        self.sources = [_check_target(target, rows.X)]

    def blocks(self, splits: Sequence[Split]) -> list[Block]:
        rows = np.arange(_num_samples(self.sources[0]))
        return [Block(s, rows, t, rows, 1, 1) for s, t in combinations(range(len(splits)), 2)]

    def no_pairs(self) -> str:
        return "cv: expected at least two splits with a target, got one."

    def blocks_beside(self, splits: Sequence[Split]) -> list[Block]:
        self._blocks_of_X = of_rows_tested_twice(splits)
        return self._blocks_of_X

    def prepare(
        self, layout: Layout, splits: Sequence[SplitTask], data: Data, weight: Floats | None
    ) -> None:
        self._layout = layout
        blocks = self._blocks_of_X
        self._pairs_of_X = layout.pooled(blocks, weight) if blocks else None

    def agreement_columns(
        self, agreements_of: Callable[[PooledPairs], Agreements], n_candidates: int
    ) -> dict[str, Floats]:
        if self._pairs_of_X is None:
            return {"source_agreement": np.full(n_candidates, np.nan)}
        return {"source_agreement": agreements_of(self._pairs_of_X).columns["agreement"]}

    def class_balance(self, stacks: Stacks) -> dict[str, Floats]:
        of_source, of_target = class_balances(stacks, self._layout, self.rows.y, 1)
        return {
            "source_class_balance_": of_source,
            "target_class_balance_": of_target,
            "class_balance_shift": np.abs(of_target - of_source).sum(1) / 2,
        }

    def warn_of_choice(self, table: dict[str, Any], metric: str, chosen: int) -> None:
        warn_of_label_shift(table, chosen)


class PairedObjects(DataKind):
    """Unlabelled objects that were measured twice; one model scores both measurements."""

    pairing = "paired"
    pairs_have_weights = False

    def __init__(
        self, rows: Rows, paired: Any, estimator: Estimator, adapter: Any, reference: Any
    ) -> None:
        super().__init__(rows)
        self.sites, self.sources = make_sites(paired, rows.X, estimator, adapter, rows.seed)
        self._adapter, self._reference = adapter, reference
        #: The groups of the rows of X, which say how alike their scores are.
        self._groups = None
        if rows.groups is not None:
            self._groups = check_column(rows.groups, len(rows.y), "groups")

    def blocks(self, splits: Sequence[Split]) -> list[Block]:
        # Objects of the same number at several sites count as one object in standard errors.
        return [
            Block(s, np.arange(site.n_pairs), s, np.arange(site.n_pairs), site.a, site.b)
            for s in range(len(splits))
            for site in self.sites
        ]

    def blocks_beside(self, splits: Sequence[Split]) -> list[Block]:
        """Return the test rows, which calibrate, and adapted rows."""
        blocks = []
        for s, (_, test) in enumerate(splits):
            blocks.append(Block(s, test, s, test))
            for site in self.sites:
                if site.adapted is not None:
                    rows = np.arange(site.n_pairs)
                    blocks.append(Block(s, rows, s, rows, site.adapted, site.adapted))
        return blocks

    def predicted(self, splits: Sequence[Split]) -> list[int]:
        sources = [source for site in self.sites for source in (site.a, *site.shown)]
        if len(splits) == 1 or self._groups is not None:
            # One score does not show how it varies, nor several how alike rows of a group are.
            sources.append(OF_X)
        return sources

    def prepare(
        self, layout: Layout, splits: Sequence[SplitTask], data: Data, weight: Floats | None
    ) -> None:
        self._expected = ExpectedColumns(
            self.sites, layout, self._groups, data, self._reference, weight
        )
        self.needs_probabilities = self._expected.needs_probabilities

    def expected_columns(
        self, stacks: Stacks, candidates: Ints, table: dict[str, Any], metric: str
    ) -> dict[str, Any]:
        return self._expected.table(stacks, candidates, table, metric)

    def warn_of_choice(self, table: dict[str, Any], metric: str, chosen: int) -> None:
        warn_of_equal_predictions(table)

    def attributes_of_choice(
        self, table: dict[str, Any], metric: str, chosen: int
    ) -> dict[str, Any]:
        score, interval = self._expected.of_chosen(table, metric, chosen)
        by_site = {site.name: site.n_pairs for site in self.sites}
        n_objects: Any = by_site if self.sites[0].name else by_site[""]
        return {
            "expected_score_": score,
            "expected_interval_": interval,
            "n_objects_": n_objects,
        }

    def attributes_of_refit(self, estimator: Estimator, row: Mapping[str, Any]) -> dict[str, Any]:
        sources = [self.rows.X, *self.sources]
        adapted = adapted_to_sites(estimator, self._adapter, self.sites, sources, row)
        return {"best_adapted_": adapted}


def _by_name(views: Any, n: int) -> list[tuple[str, Any]]:
    """Return the views with their names for messages."""
    if isinstance(views, dict):
        raise TypeError("views: expected one view or a list of them, got a dict.")
    several = isinstance(views, (list, tuple)) and all(
        callable(v) or hasattr(v, "transform") or (hasattr(v, "shape") and _num_samples(v) == n)
        for v in views
    )
    if several and not len(views):
        raise ValueError("views: expected at least one, got an empty list.")
    return [(f"views[{i}]", v) for i, v in enumerate(views)] if several else [("views", views)]


def _check_view(view: Any, X: Any, n: int, name: str) -> Any:
    check_text(view, name, X)
    made = callable(view) or hasattr(view, "transform")
    indexed = hasattr(view, "loc") and hasattr(X, "loc") and not view.index.equals(X.index)
    if made and not hasattr(view, "loc") or indexed:
        view = view_of(view, X, name)
    if _num_samples(view) != n:
        raise ValueError(
            f"{name}: expected a view of each of {n} rows of X, got {_num_samples(view)} rows."
        )
    check_columns(view, X, name)
    return named_like(X, view, same_rows=True)


def _check_target(target: Any, X: Any) -> Any:
    check_text(target, "target", X)
    if isinstance(target, tuple):
        raise TypeError(
            f"target: expected unlabelled rows like X, got a tuple of {len(target)}. The target's "
            "labels are not used: give its rows alone."
        )
    if not hasattr(target, "__len__") and not hasattr(target, "shape"):
        raise TypeError(f"target: expected unlabelled rows like X, got {type(target).__name__}.")
    if not _num_samples(target):
        raise ValueError("target: expected at least one row, got none.")
    check_columns(target, X, "target")
    return named_like(X, target)
