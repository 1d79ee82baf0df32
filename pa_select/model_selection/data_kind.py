"""What a search is given beside X and y, and all that it changes: nothing, or other rows.

A kind of data checks what was given. It says which rows are compared, which rows the model of
every split scores, which columns ``cv_results_`` has, and what else a fitted search has.
"""

from __future__ import annotations

import multiprocessing
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pa_select.model_selection.fits import Split, halves
from pa_select.model_selection.sites import (
    ExpectedColumns,
    Mapped,
    Site,
    adapted_to_sites,
    attributes_of,
    make_sites,
    warn_of_equal_predictions,
)
from pa_select.model_selection.split_scores import (
    OF_X,
    Block,
    Data,
    Extra,
    Layout,
    SplitTask,
    Stacks,
)
from pa_select.model_selection.table_columns import (
    ScoresOfMetric,
    metric_columns,
    split_scores_of,
)
from pa_select.scores.candidate_posterior import scores_of_pairs
from pa_select.utils.arrays import are_rows, check_column, stacked
from pa_select.utils.frames import check_columns, check_not_shifted, named_like, view_of
from pa_select.utils.messages import warn_caller
from pa_select.utils.sklearn_private import _num_samples
from pa_select.utils.typing import (
    Array,
    Floats,
    Groups,
    Ints,
    PairedRows,
    Rows,
    Search,
)

if TYPE_CHECKING:
    from pa_select.model_selection.committee_vote import CommitteeVote
    from pa_select.two_sites.errors_of_scores import Differences


_suggested = False


class RowsOfX(NamedTuple):
    """The labelled rows of a search."""

    X: Rows
    y: Array
    groups: Groups
    #: Chooses pairs, halves and parts.
    seed: int


class DataKind(ABC):
    """What a search was given beside X and y; a search calls the methods in this order."""

    #: What `PASearchCV.pairing_` will be.
    pairing: Any
    #: Whether each row must be tested twice, for which a splitter of the user is used twice.
    tested_twice = False
    #: The environments of the rows, if folds are stratified by them, too.
    strata: Array | None = None
    #: Whether the weight of a pair is that of its rows.
    pairs_have_weights = True
    #: The rows of the sources that follow X.
    sources: Sequence[Any] = ()
    #: Sites where nobody labels, at which scores are expected.
    sites: Sequence[Site] = ()
    #: Whether a metric is computed of recorded probabilities.
    needs_probabilities = False

    def __init__(self, rows: RowsOfX) -> None:
        self.rows = rows

    @property
    def sites_of_rows(self) -> Array | None:
        """The environment of each row of X, or its group, if these are known."""
        known = self.rows.groups if self.strata is None else self.strata
        return None if known is None else np.asarray(known)

    def settled(self, splits: list[Split]) -> tuple[DataKind, list[Split]]:
        """Return the kind and the splits that are used, given the splits of ``cv``."""
        return self, splits

    @abstractmethod
    def blocks(self, splits: Sequence[Split]) -> list[Block]:
        """Return the pairs that are compared."""

    def no_pairs(self) -> str:
        """Say why there are no pairs."""
        return "pairing: expected pairs of the test rows, got none."

    def only_class(self, blocks: Sequence[Block]) -> str:
        """Return the name of the class of all pairs of equal label; empty if there are several."""
        return ""

    def blocks_beside(self, splits: Sequence[Split]) -> list[Block]:
        """Return pairs whose rows are scored, too."""
        return []

    def extras(self, splits: Sequence[Split]) -> list[list[Extra]]:
        """Return, for each split, the rows on which its model is scored by the metrics."""
        return [[] for _ in splits]

    def predicted(self, splits: Sequence[Split]) -> list[int]:
        """Return the sources whose predicted classes are needed."""
        return []

    def prepare(
        self, layout: Layout, splits: Sequence[SplitTask], data: Data, weight: Floats | None
    ) -> None:
        """Check metrics and rows before the first fit."""

    def score_columns(self, scores: ScoresOfMetric) -> dict[str, Any]:
        """Make the columns of a metric's scores on the extras."""
        return {}

    def unseen(self, metric: str) -> list[Any]:
        """Return the environments that are scored by models that have not seen them."""
        return []

    def expected_columns(
        self, stacks: Stacks, table: dict[str, Any], metric: str
    ) -> dict[str, Any]:
        """Make the columns of scores expected elsewhere."""
        return {}

    def differences(self, table: Mapping[str, Any]) -> dict[str, Differences]:
        """Return the differences between these scores, by site; "" are those that decide."""
        return {}

    def warn_of_choice(self, table: dict[str, Any], metric: str, chosen: int) -> None:
        """Warn if little can be said of the chosen candidate."""

    def attributes_of_choice(
        self, table: dict[str, Any], metric: str, chosen: int
    ) -> dict[str, Any]:
        """Return attributes of the fitted search, given the chosen candidate."""
        return {}

    def attributes_of_committee(
        self, vote: CommitteeVote, table: dict[str, Any], metric: str
    ) -> dict[str, Any]:
        """Return attributes of a committee, which replace those of the chosen candidate."""
        return {}

    def attributes_of_refit(self, mapped: Mapped, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return attributes of the fitted search; see `adapted_to_sites`."""
        return {}

    def suggest_more_data(self, n_splits: int) -> None:
        """Warn once if other data would gain more."""

    def folds(self, splits: Sequence[Split]) -> list[Ints]:
        """Return the test folds whose scores compare the candidates."""
        return [test for _, test in splits]

    def scores_of_folds(self, table: Mapping[str, Any], metric: str) -> Floats:
        """Return what the candidates score on these folds, (n_folds, n_candidates)."""
        return split_scores_of(table, metric)

    def scores_of_parts(
        self, splits: Sequence[Split], table: Mapping[str, Any], metric: str
    ) -> tuple[Floats, Floats]:
        """Return what the candidates score on the two parts of each pair of disjoint parts."""
        return scores_of_pairs(self.scores_of_folds(table, metric), self.folds(splits))


class RepeatedFolds(DataKind):
    """No other data: two models, not fitted to a row, score it."""

    pairing = "repeated"
    tested_twice = True

    def settled(self, splits: list[Split]) -> tuple[DataKind, list[Split]]:
        if self.blocks(splits):
            return self, splits
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
        return SplitHalves(self.rows).settled(splits)

    def blocks(self, splits: Sequence[Split]) -> list[Block]:
        """Pair every row with itself, for every two models that were not fitted to it."""
        blocks = []
        every_two = combinations(enumerate(splits), 2)
        for (split_a, (train_a, test_a)), (split_b, (train_b, test_b)) in every_two:
            rows = np.intersect1d(test_a, test_b)
            # Two fits to the same rows may be one model, which always agrees with itself.
            if len(rows) and not np.array_equal(np.sort(train_a), np.sort(train_b)):
                blocks.append(Block(split_a, rows, split_b, rows))
        return blocks

    def suggest_more_data(self, n_splits: int) -> None:
        global _suggested
        if _suggested or multiprocessing.current_process().name != "MainProcess":
            return
        _suggested = True
        warn_caller(
            "fit was given no pairs, views or environments: the search compares the models of "
            f"repeated cross-validation ({n_splits} fits of each candidate). Expect about the "
            "accuracy of GridSearchCV's model, also under a shift. In our studies "
            "fit(X, y, paired=...), with objects measured at both sites, and "
            "fit(X, y, views=...), with views that show the rows as the shift would, gained "
            "most. This warning is given once.",
            # What a search keeps must not depend on the searches before it.
            keep=False,
        )


class SplitHalves(DataKind):
    """No other data: the models of the two halves of a split's training rows score its test."""

    pairing = "split-half"

    def settled(self, splits: list[Split]) -> tuple[DataKind, list[Split]]:
        return self, halves(splits, self.rows.y, self.rows.groups, self.rows.seed)

    def blocks(self, splits: Sequence[Split]) -> list[Block]:
        blocks = [Block(split, test, split + 1, test) for split, (_, test) in enumerate(splits)]
        return blocks[::2]  # both halves have the same test rows

    def folds(self, splits: Sequence[Split]) -> list[Ints]:
        return super().folds(splits)[::2]

    def scores_of_folds(self, table: Mapping[str, Any], metric: str) -> Floats:
        scores = super().scores_of_folds(table, metric)
        return (scores[::2] + scores[1::2]) / 2


def check_text(value: object, name: str, X: Rows) -> None:
    """Refuse the name of a column where one value for each row, or rows, are expected.

    If X has that column, the message has the right call.
    """
    if not isinstance(value, str):
        return
    how = ""
    if value in list(getattr(X, "columns", [])):
        how = (
            f" X has a column of this name: call fit(X.drop(columns={value!r}), y, "
            f"{name}=X[{value!r}]), so that the model does not see this column."
        )
    rows = "one value for each row of X" if name in ("environments", "groups") else "rows like X"
    raise TypeError(f"{name}: expected {rows}, got the text {value!r}.{how}")


class Views(DataKind):
    """The rows of X as other environments show them; one model scores a row and its views."""

    pairing = "views"

    def __init__(self, rows: RowsOfX, views: Any) -> None:
        super().__init__(rows)
        n = len(rows.y)
        self.sources = [_check_view(view, rows.X, n, name) for name, view in _by_name(views, n)]

    def blocks(self, splits: Sequence[Split]) -> list[Block]:
        return [
            Block(split, test, split, test, OF_X, source)
            for split, (_, test) in enumerate(splits)
            for source in self._numbers()
        ]

    def _numbers(self) -> range:
        return range(1, 1 + len(self.sources))

    def extras(self, splits: Sequence[Split]) -> list[list[Extra]]:
        return [[Extra("views", source, test) for source in self._numbers()] for _, test in splits]

    def score_columns(self, scores: ScoresOfMetric) -> dict[str, Any]:
        means, name = np.mean(scores.extras["views"], axis=0), f"{scores.metric}_views"
        columns = metric_columns(name, means, rank=True)
        columns[f"se_test_{name}"] = scores.errors(means, "_views", self._numbers())
        columns[f"chance_test_{name}"] = scores.chance
        return columns

    def scores_of_folds(self, table: Mapping[str, Any], metric: str) -> Floats:
        return super().scores_of_folds(table, f"{metric}_views")


class PairedObjects(DataKind):
    """Unlabelled objects that were measured twice; one model scores both measurements."""

    pairing = "paired"
    pairs_have_weights = False

    def __init__(self, rows: RowsOfX, paired: PairedRows, search: Search) -> None:
        super().__init__(rows)
        self._adapter, self._reference = search.adapter, search.reference
        options = search.estimator, search.adapter, rows.seed
        self.sites, self.sources = make_sites(paired, rows.X, *options)
        #: The groups of the rows of X, which say how alike their scores are.
        self._groups = None
        if rows.groups is not None:
            self._groups = check_column(rows.groups, len(rows.y), "groups")

    def blocks(self, splits: Sequence[Split]) -> list[Block]:
        # Objects of the same number at several sites count as one object in standard errors.
        return [
            Block(split, rows, split, rows, site.a, site.shown[0])
            for split in range(len(splits))
            for site in self.sites
            for rows in [np.arange(site.n_pairs)]
        ]

    def blocks_beside(self, splits: Sequence[Split]) -> list[Block]:
        """Return the test rows, which calibrate, and adapted rows beside those as measured."""
        blocks = []
        for split, (_, test) in enumerate(splits):
            blocks.append(Block(split, test, split, test))
            for site in self.sites:
                rows = np.arange(site.n_pairs)
                for source in site.shown[1:]:
                    blocks.append(Block(split, rows, split, rows, source, source))
        return blocks

    def predicted(self, splits: Sequence[Split]) -> list[int]:
        # The labelled rows say how certain the scores are.
        return [OF_X, *(source for site in self.sites for source in (site.a, *site.shown))]

    def prepare(
        self, layout: Layout, splits: Sequence[SplitTask], data: Data, weight: Floats | None
    ) -> None:
        self._expected = ExpectedColumns(
            self.sites, layout, self._groups, data, self._reference, weight
        )
        self.needs_probabilities = self._expected.needs_probabilities

    def expected_columns(
        self, stacks: Stacks, table: dict[str, Any], metric: str
    ) -> dict[str, Any]:
        return self._expected.table(stacks, table, metric)

    def differences(self, table: Mapping[str, Any]) -> dict[str, Differences]:
        return self._expected.differences(table)

    def scores_of_parts(
        self, splits: Sequence[Split], table: Mapping[str, Any], metric: str
    ) -> tuple[Floats, Floats]:
        return self._expected.scores_of_parts(self.folds(splits), table, metric, self.rows.seed)

    def warn_of_choice(self, table: dict[str, Any], metric: str, chosen: int) -> None:
        warn_of_equal_predictions(table)

    def attributes_of_choice(
        self, table: dict[str, Any], metric: str, chosen: int
    ) -> dict[str, Any]:
        self._expected.warn_of_other_classes(chosen)
        self._expected.warn_of_scores(chosen)
        self._expected.warn_of_better_site(table, metric, chosen)
        by_site = {site.name: site.n_pairs for site in self.sites}
        n_objects: Any = by_site if self.sites[0].name else by_site[""]
        return attributes_of(table, metric, chosen) | {"n_objects_": n_objects}

    def attributes_of_committee(
        self, vote: CommitteeVote, table: dict[str, Any], metric: str
    ) -> dict[str, Any]:
        return self._expected.of_committee(vote, table, metric)

    def attributes_of_refit(self, mapped: Mapped, table: Mapping[str, Any]) -> dict[str, Any]:
        sources = [self.rows.X, *self.sources]
        adapted = adapted_to_sites(mapped, self._adapter, self.sites, sources, table)
        return {"best_adapted_": adapted}


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
    if same_values(view, X):
        raise ValueError(f"{name}: expected rows that differ from X, got the values of X.")
    return named_like(X, view, same_rows=True)
