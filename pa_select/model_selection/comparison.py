"""What a search compares: one class, which four kinds of data fill in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import _safe_indexing

from pa_select.model_selection.data import (
    SAMPLE_X,
    Extra,
    Given,
    PairsOfModels,
    Site,
    Split,
    Task,
    halves,
    make_splits,
)
from pa_select.model_selection.rules import split_scores_of
from pa_select.pairing import pair_environments
from pa_select.scores.candidate_posterior import halves_of, scores_of_halves, scores_of_pairs
from pa_select.utils.arrays import distinct_rows
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Array, Floats, Ints

if TYPE_CHECKING:
    from pa_select.agreement.solved_problems import PooledPairs


@dataclass(frozen=True, eq=False)
class Comparison:
    """Which rows the models of which splits score, and which of them are compared.

    It does not know what kind of data made it: environments, views and sites are there or not.
    """

    #: What `PASearchCV.pairing_` will be.
    pairing: Any
    splits: Sequence[Split]
    #: The pairs of rows whose agreement is computed, and those that are scored and not compared.
    compared: Sequence[PairsOfModels]
    scored_too: Sequence[PairsOfModels] = ()
    _: KW_ONLY
    #: For each split, other rows on which its model is scored by the metrics.
    extras: Sequence[Sequence[Extra]] = ()
    #: The samples whose predicted classes are needed beside their class scores.
    predicted: Sequence[int] = ()
    #: So many successive splits have the same test rows.
    n_alike: int = 1
    #: The environment of each row of X, where environments are compared.
    environments: Array | None = None
    #: The samples that are views of X.
    views: Sequence[int] = ()
    #: The sites where the paired objects were measured, too.
    sites: Sequence[Site] = ()

    @property
    def folds(self) -> list[Ints]:
        """The test folds whose scores compare the candidates."""
        return [test for _, test in self.splits[:: self.n_alike]]

    def scores_of_parts(
        self, table: Mapping[str, Any], metric: str, seed: int, folds: Sequence[Ints]
    ) -> tuple[Floats, Floats]:
        """Return what the candidates score on the two parts of each pair of disjoint parts.

        `folds` are the test folds, of which empty ones are left out. Each part has rows of its own
        and, if models have seen environments that they score, half of
        the environments. With views the scores are those on the views.
        """
        if self.environments is None or self.holds_out:
            scores = split_scores_of(table, f"{metric}_views" if self.views else metric)
            of_folds = np.mean([scores[i :: self.n_alike] for i in range(self.n_alike)], axis=0)
            return scores_of_pairs(of_folds, folds, of_regressors=False)
        names = self.environments
        distinct = np.unique(names).tolist()
        scores = np.stack([split_scores_of(table, f"{metric}_environment_{x}") for x in distinct])
        counts = [[np.count_nonzero(names[fold] == x) for fold in folds] for x in distinct]
        # A metric may not be defined on the rows of an environment in a fold.
        known = np.where(np.isfinite(scores).any(axis=2), counts, 0)[..., None]
        summed = np.where(known > 0, scores, 0.0) * known
        both = np.concatenate([summed, known], axis=2)  # the number of rows is one more column
        a, b = scores_of_halves(
            folds,
            halves_of(len(distinct), seed),
            lambda half: both[half].sum(axis=0),
            of_regressors=False,
        )
        tested = (a[:, -1] > 0) & (b[:, -1] > 0)
        return a[tested, :-1], b[tested, :-1]

    @cached_property
    def holds_out(self) -> bool:
        """Whether no model has seen an environment that it scores."""
        if (names := self.environments) is None:
            return False
        return not any(np.isin(names[train], names[test]).any() for train, test in self.splits)

    @cached_property
    def scored_rows(self) -> list[dict[int, Ints]]:
        """For each split, the rows of each sample that its model scores, each once."""
        # The test rows give the errors of scores, and what a committee's members vote.
        tests = [PairsOfModels(i, test, i, test) for i, (_, test) in enumerate(self.splits)]
        parts: dict[tuple[int, int], list[Ints]] = {}
        for block in (*self.compared, *self.scored_too, *tests):
            parts.setdefault((block.split_a, block.sample_a), []).append(block.rows_a)
            parts.setdefault((block.split_b, block.sample_b), []).append(block.rows_b)
        rows: list[dict[int, Ints]] = [{} for _ in self.splits]
        for split, sample in sorted(parts):
            rows[split][sample] = distinct_rows(np.concatenate(parts[split, sample]))
        return rows

    def tasks(self, given: Given) -> list[Task]:
        """Return the work for each split."""
        # Imported here: workers that fit and score do not need torch.
        from pa_select.two_sites.classification import is_accuracy

        needs = bool(self.sites) and not all(map(is_accuracy, given.scorers.values()))
        extras = self.extras or [()] * len(self.splits)
        return [
            Task(*split, scored, of_split, self.predicted, needs)
            for split, scored, of_split in zip(self.splits, self.scored_rows, extras, strict=True)
        ]

    def pooled(self, weight: Floats | None) -> PooledPairs:
        """Return the compared pairs as rows of the stacked scores; `weight` is of rows of X."""
        # Imported here: workers that fit and score do not need torch.
        from pa_select.agreement.solved_problems import PooledPairs

        starts, start = {}, 0
        for split, of_split in enumerate(self.scored_rows):
            for sample, rows in of_split.items():
                starts[split, sample] = start
                start += len(rows)

        def side(split: int, sample: int, rows: Ints) -> Ints:
            return starts[split, sample] + np.searchsorted(self.scored_rows[split][sample], rows)

        blocks = self.compared
        lengths = [len(b.rows_a) for b in blocks]
        object_a = np.concatenate([b.rows_a for b in blocks])
        object_b = np.concatenate([b.rows_b for b in blocks])
        weights = np.ones(len(object_a))
        if weight is not None and not self.sites:
            # Roots first: the product of two tiny weights may be 0.
            weights = np.sqrt(weight[object_a]) * np.sqrt(weight[object_b])
        return PooledPairs(
            np.concatenate([side(b.split_a, b.sample_a, b.rows_a) for b in blocks]),
            np.concatenate([side(b.split_b, b.sample_b, b.rows_b) for b in blocks]),
            np.repeat([b.split_a for b in blocks], lengths),
            np.repeat([b.split_b for b in blocks], lengths),
            object_a,
            object_b,
            weights,
        )


def compare(given: Given, cv: Any, pairing: Any) -> Comparison:
    """Return what a search compares, given its data, its splitter and its `pairing`."""
    is_plain = given.environments is None and not given.n_views and not given.sites
    splits = make_splits(
        cv,
        given.samples[SAMPLE_X],
        given.y,
        tested_twice=is_plain and pairing == "repeated",
        groups=given.groups,
        environments=given.environments,
        seed=given.seed,
        split_params=dict(given.split_params),
        classifier=not given.of_regressors,
    )
    if given.sites:
        made = _of_sites(given, splits)
    elif given.n_views:
        made = _of_views(given, splits)
    elif hasattr(pairing, "pairs"):
        made = _of_own_pairs(given, splits, pairing)
    elif given.environments is not None:
        made = _of_environments(given, splits, pairing if callable(pairing) else None)
    else:
        made = _of_folds(given, splits, pairing)
    if not made.compared:
        raise ValueError("pairing: expected pairs of the test rows, got none.")
    weight = given.weight
    if weight is not None and not given.sites:
        positive = weight > 0
        if not any((positive[x.rows_a] & positive[x.rows_b]).any() for x in made.compared):
            raise ValueError(
                "sample_weight: expected a pair of two rows of positive weight, got none."
            )
    return made


def _of_folds(given: Given, splits: list[Split], pairing: str) -> Comparison:
    """Compare two models, neither of which has seen the row that they score."""
    pairs = []
    if pairing == "repeated":
        count = partial(np.bincount, minlength=len(given.y))
        for split_a, (train_a, test_a) in enumerate(splits):
            trained, tested = count(train_a), count(test_a) > 0
            for split_b, (train_b, test_b) in enumerate(splits[split_a + 1 :], split_a + 1):
                rows = distinct_rows(test_b[tested[test_b]])
                # Two fits to the same rows may be one model, which always agrees with itself.
                if len(rows) and not np.array_equal(trained, count(train_b)):
                    pairs.append(PairsOfModels(split_a, rows, split_b, rows))
        if pairs:
            return Comparison(pairing, splits, pairs)
        warn_caller(
            "cv tests no row by two models, but pairing='repeated' compares two models on each "
            "row. The search compares models of the two halves of each split's training rows "
            "instead (pairing='split-half'). To train on all of these rows, give as cv a number "
            "of folds, a repeated splitter, or a list of two splitters with different seeds."
        )
    # Twice the fits, each of half the rows: about the time of one cross-validation.
    both = halves(splits, given.y, given.groups, given.seed)
    pairs = [PairsOfModels(2 * i, test, 2 * i + 1, test) for i, (_, test) in enumerate(splits)]
    return Comparison("split-half", both, pairs, n_alike=2)


def _of_views(given: Given, splits: list[Split]) -> Comparison:
    """Compare each test row with its views, by one model, which has seen neither."""
    views = range(1, 1 + given.n_views)
    pairs = [
        PairsOfModels(split, test, split, test, SAMPLE_X, sample)
        for split, (_, test) in enumerate(splits)
        for sample in views
    ]
    extras = [[Extra("views", sample, test) for sample in views] for _, test in splits]
    return Comparison("views", splits, pairs, extras=extras, views=views)


def _of_sites(given: Given, splits: list[Split]) -> Comparison:
    """Compare the two measurements of each object, by each split's model."""
    pairs, adapted = [], []
    for split in range(len(splits)):
        for site in given.sites:
            # Objects of the same number at several sites count as one object in standard errors.
            rows = np.arange(site.n_pairs)
            first, *others = site.b_samples
            pairs.append(PairsOfModels(split, rows, split, rows, site.a, first))
            adapted += [PairsOfModels(split, rows, split, rows, x, x) for x in others]
    # The labelled rows say how certain the scores are.
    predicted = [SAMPLE_X, *(x for site in given.sites for x in (site.a, *site.b_samples))]
    return Comparison("paired", splits, pairs, adapted, predicted=predicted, sites=given.sites)


def _of_environments(given: Given, splits: list[Split], between: Any) -> Comparison:
    """Compare rows of different environments; `between` pairs them, None: those of one label."""

    def pair(rows: Ints) -> tuple[Ints, Ints]:
        X = None if between is None else _safe_indexing(given.samples[SAMPLE_X], rows)
        found = pair_environments(names[rows], given.y[rows], given.seed, X=X, pairing=between)
        return found.a, found.b

    names, pairs = np.asarray(given.environments), []
    for split, (_, test) in enumerate(splits):
        a, b = pair(test)
        if len(a):
            pairs.append(PairsOfModels(split, test[a], split, test[b]))
    if not pairs:  # each split holds out a whole environment, whose rows its own model scores
        split_of = np.repeat(range(len(splits)), [len(test) for _, test in splits])
        rows = np.concatenate([test for _, test in splits])
        a, b = pair(rows)
        code = split_of[a] * len(splits) + split_of[b]
        order = np.argsort(code, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(code[order])) + 1):
            both = a[part], b[part]
            if len(part):
                of_a, of_b = (int(split_of[side[0]]) for side in both)
                pairs.append(PairsOfModels(of_a, rows[both[0]], of_b, rows[both[1]]))
    if not pairs and between is None:
        raise ValueError(
            "environments: expected a class with rows in at least two environments among the "
            "test rows, got none."
        )
    own = "environments" if between is None else between
    return _scored_by_environment(names, Comparison(own, splits, pairs))


def _of_own_pairs(given: Given, splits: list[Split], pairing: Any) -> Comparison:
    """Compare the pairs of an object of the user."""
    options = {"environments": given.environments, "groups": given.groups}
    pairs = []
    for item in pairing.pairs(splits, given.samples[SAMPLE_X], given.y, **options):
        split_a, rows_a, split_b, rows_b = item
        sides = (int(split_a), np.asarray(rows_a)), (int(split_b), np.asarray(rows_b))
        for split, rows in sides:
            seen = np.intersect1d(rows, splits[split][0])
            if len(seen):
                raise ValueError(
                    f"pairing: expected rows that the model of split {split} was not fitted to, "
                    f"got row {seen[0]} ({len(seen)} such rows)."
                )
        if len(rows_a) != len(rows_b):
            raise ValueError(
                f"pairing: expected as many rows on both sides, got {len(rows_a)} and "
                f"{len(rows_b)}."
            )
        if len(rows_a):  # a split may have no pair
            pairs.append(PairsOfModels(*sides[0], *sides[1]))
    own = Comparison(pairing, splits, pairs)
    if given.environments is None:
        return own
    return _scored_by_environment(given.environments, own)


def _scored_by_environment(names: Array, made: Comparison) -> Comparison:
    """Score the test rows of each environment, too."""
    extras = [
        [Extra(f"environment_{x}", SAMPLE_X, test[names[test] == x]) for x in np.unique(names)]
        for _, test in made.splits
    ]
    return Comparison(made.pairing, made.splits, made.compared, extras=extras, environments=names)
