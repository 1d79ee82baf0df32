"""Views: the rows of X as other environments show them; one model scores a row and its views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pa_select.model_selection.kinds.kind import Comparison, DataKind, RowsOfX, check_text
from pa_select.model_selection.rules import GuardedSelection
from pa_select.model_selection.selection_rule import SelectionRule
from pa_select.model_selection.split_scores import SAMPLE_X, Data, Extra, PairsOfModels
from pa_select.model_selection.splits import Split
from pa_select.model_selection.table_columns import ScoresOfMetric, metric_columns
from pa_select.utils.arrays import are_rows, stacked
from pa_select.utils.frames import check_columns, check_not_shifted, named_like, view_of
from pa_select.utils.sklearn_private import _num_samples
from pa_select.utils.typing import Floats, Rows


class Views(DataKind):
    """Each row is compared with its views."""

    pairing = "views"

    def __init__(self, rows: RowsOfX, views: Any) -> None:
        super().__init__(rows)
        n = len(rows.y)
        named = _by_name(views, n)
        self.samples = [_check_view(view, rows.X, n, name) for name, view in named]
        self.names_of_samples = [name for name, _ in named]

    @staticmethod
    def default_rule(score: str) -> SelectionRule:
        # The score on the rows of X excludes candidates that resist the shift: in our studies the
        # score on the views, with a wider guard, kept more of the gain.
        return GuardedSelection(score=f"{score}_views", n_se=2)

    def compare(self, splits: list[Split], data: Data, weight: Floats | None) -> Comparison:
        numbers = range(1, 1 + len(self.samples))
        compared = [
            PairsOfModels(split, test, split, test, SAMPLE_X, sample)
            for split, (_, test) in enumerate(splits)
            for sample in numbers
        ]
        extra = [[Extra("views", sample, test) for sample in numbers] for _, test in splits]
        return ComparisonOfViews(self, splits, compared, extra_test_rows=extra)


@dataclass(frozen=True, eq=False)
class ComparisonOfViews(Comparison):
    """The scores on the views are columns, and compare the candidates."""

    def score_columns(self, scores: ScoresOfMetric) -> dict[str, Any]:
        means, name = np.mean(scores.extras["views"], axis=0), f"{scores.metric}_views"
        columns = metric_columns(name, means, rank=True)
        columns[f"se_test_{name}"] = scores.errors(
            means, "_views", range(1, 1 + len(self.kind.samples))
        )
        columns[f"chance_test_{name}"] = scores.chance
        return columns

    def scores_of_folds(self, table: Mapping[str, Any], metric: str) -> Floats:
        return super().scores_of_folds(table, f"{metric}_views")


def _by_name(views: Any, n: int) -> list[tuple[str, Any]]:
    """Return the views with their names for messages."""
    if isinstance(views, dict) and not are_rows(views):
        raise TypeError("views: expected one view or a list of them, got a dict.")
    for view in views if isinstance(views, list) else [views]:
        check_not_shifted(view, "views")
    several = isinstance(views, (list, tuple)) and all(
        callable(v) or hasattr(v, "transform") or (hasattr(v, "shape") and _num_samples(v) == n)
        for v in views
    )
    if several and not len(views):
        raise ValueError("views: expected at least one, got an empty list.")
    return [(f"views[{i}]", v) for i, v in enumerate(views)] if several else [("views", views)]


def _check_view(view: Any, X: Any, n: int, name: str) -> Rows:
    # Imported here: a search that is not fitted does not need torch.
    from pa_select.two_sites.paired_rows import same_values

    check_text(view, name, X)
    # Rows of a Dataset are stacked once, for all fits.
    view = stacked(view, name)
    made = callable(view) or hasattr(view, "transform") and not are_rows(view)
    indexed = hasattr(view, "loc") and hasattr(X, "loc") and not view.index.equals(X.index)
    if made and not hasattr(view, "loc") or indexed:
        view = view_of(view, X, name)
    if _num_samples(view) != n:
        raise ValueError(
            f"{name}: expected a view of each of {n} rows of X, got {_num_samples(view)} rows."
        )
    check_columns(view, X, name)
    # Equal rows agree for every model, and would decide nothing.
    if same_values(view, X):
        raise ValueError(f"{name}: expected rows that differ from X, got the values of X.")
    return named_like(X, view, same_rows=True)
