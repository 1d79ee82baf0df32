"""Errors of scores on out-of-fold rows, and of differences between expected scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pa_select.scores.precomputed import joined, row_numbers
from pa_select.two_sites.score_of_units import (
    LabelledRows,
    ScoreOfUnits,
    parts_of,
    parts_of_groups,
    student_factor,
    widening,
)
from pa_select.utils.p_values import LEVEL_TOLD_APART, normal_p_value
from pa_select.utils.typing import Floats, Ints, Mask, Scorer

#: `Classification` or `Regression`, and what models predict; see `engine`, which imports this.
Task: TypeAlias = Any
Outputs: TypeAlias = Sequence[Any]


def scored_rows(
    task: Task, scorer: Scorer, labelled: LabelledRows, outputs: Outputs
) -> ScoreOfUnits | None:
    """Score the labelled rows of all splits together, by the formula of a metric, if it has one.

    The units are the different rows, in the order of their numbers. A row that several models
    predict is one unit. Each split counts as much as the others, as in the mean over the splits,
    however few rows it has. The rows are not scored split by split, since the mean of few rows
    would hide how much they vary.
    """
    model, tested = joined(outputs), labelled.tested
    labels = task.known_labels(model, labelled.y[tested])
    scored = task.closed_form(scorer, labels, model, is_counted=False)
    if scored is None:
        return None
    weighted = labelled.weight_of_splits * scored.contributions
    by_row: Floats = np.bincount(labelled.units, weighted).astype(np.float64)
    return scored._replace(contributions=by_row)


def error_of_score(
    task: Task, scorer: Scorer, score: float, labelled: LabelledRows, outputs: Outputs
) -> float:
    """Return the standard error of a score of the labelled rows, which may be in groups.

    Rates, and other metrics of predicted classes, get two successes and two failures. The errors
    of other metrics are multiplied so that plus and minus 1.96 of them are the interval of
    Student's t for values with such tails. `score` is the mean over the splits, each of which has
    a model; `outputs` are what they predict.
    """
    model, tested, groups = joined(outputs), labelled.tested, labelled.groups
    y = labelled.y[tested]
    of_rate = task.error_of_rate(scorer, score, model, y, labelled)
    if of_rate is not None:
        return of_rate
    scored = scored_rows(task, scorer, labelled, outputs)
    if scored is not None and groups is not None:
        return scored.standard_error(labelled.groups_of_units)
    if scored is not None and scored.step:
        return _with_two_of_each(scored, float(np.mean(model.predicted == y)))
    if scored is not None:
        return scored.standard_error() * student_factor(scored.contributions)

    def score_of(rows: Ints) -> float:
        return float(scorer(model, row_numbers(rows), y[rows]))

    if groups is None and len(tested) == labelled.n:
        part = parts_of(task.known_labels(model, y), *task.all_outputs(model))
        return ScoreOfUnits.by_leaving_out(score_of, part).standard_error()
    # Rows that several models predict are left out together.
    whole = labelled.units if groups is None else groups[tested]
    error = ScoreOfUnits.by_leaving_out(score_of, parts_of_groups(whole)).standard_error()
    return error * widening(len(np.unique(whole)), labelled.n)


def _with_two_of_each(scored: ScoreOfUnits, rate: float) -> float:
    """Return the standard error after two right and two wrong predictions were added.

    `rate` is the share of right predictions. Of the accuracy this is the error that
    `error_of_rate` has (Agresti and Coull).
    """
    n, added = len(scored.contributions), scored.step * np.array([1 - rate, -rate])
    squares = n**2 * (scored.contributions @ scored.contributions) + 2 * (added @ added)
    mean = 2 * added.sum() / (n + 4)
    return float(np.sqrt((squares / (n + 4) - mean**2) / (n + 4)))


class Difference(NamedTuple):
    """The difference between two expected scores."""

    value: float
    standard_error: float
    #: Of no difference, two-sided.
    p_value: float


class Differences(NamedTuple):
    """The differences between the expected scores of models, and how certain they are.

    The models predict the same labelled rows and the same pairs. So the error of a difference is
    the spread of the differences of both models: over the labelled rows that of their scores, and
    over the pairs that of their changes. It does not count that the stand-ins for the labels may
    be wrong about one of the models more than about the other. A model whose units are None has an
    error that counts as independent.
    """

    expected: Floats
    #: The scores on the labelled rows, and the changes to the rows of the other site.
    of_rows: Sequence[ScoreOfUnits | None]
    of_pairs: Sequence[ScoreOfUnits | None]
    #: The standard errors of both.
    errors_of_rows: Floats
    errors_of_pairs: Floats
    #: The site at which each model is judged. Pairs of two sites count as independent.
    sites: Ints
    #: Those of the labelled rows.
    groups: Floats | None = None

    def among(self, candidates: Ints, n: int) -> Differences:
        """Return them among n candidates, of which these are the models; others have none."""
        place = dict(zip(candidates.tolist(), range(len(candidates)), strict=True))

        def spread(values: Floats) -> Floats:
            of_all = np.full(n, np.nan)
            of_all[candidates] = values
            return of_all

        def units(values: Sequence[ScoreOfUnits | None]) -> list[ScoreOfUnits | None]:
            return [values[place[c]] if c in place else None for c in range(n)]

        sites = np.zeros(n, dtype=np.intp)
        sites[candidates] = self.sites
        return Differences(
            spread(self.expected),
            units(self.of_rows),
            units(self.of_pairs),
            spread(self.errors_of_rows),
            spread(self.errors_of_pairs),
            sites,
            self.groups,
        )

    def between(self, i: int, j: int) -> Difference:
        """Return the expected score of model i minus that of model j; nan if one has none."""
        if i == j and np.isfinite(self.expected[i]):
            return Difference(0.0, 0.0, 1.0)
        value = float(self.expected[i] - self.expected[j])
        of_rows = _error(self.of_rows[i], self.of_rows[j], self.groups)
        if of_rows is None:
            of_rows = math.hypot(self.errors_of_rows[i], self.errors_of_rows[j])
        of_pairs = None
        if self.sites[i] == self.sites[j]:
            of_pairs = _error(self.of_pairs[i], self.of_pairs[j])
        if of_pairs is None:
            of_pairs = math.hypot(self.errors_of_pairs[i], self.errors_of_pairs[j])
        error = math.hypot(of_rows, of_pairs)
        return Difference(value, error, normal_p_value(value, error))

    @property
    def best(self) -> int:
        """The model with the highest expected score; of several the best on the labelled rows."""
        of_rows = np.array([-np.inf if one is None else one.score for one in self.of_rows])
        return int(np.lexsort([-of_rows, -np.nan_to_num(self.expected, nan=-np.inf)])[0])

    def errors_from(self, chosen: int) -> Floats:
        """Return the standard error of each model's difference from one; 0 for itself."""
        models = range(len(self.expected))
        return np.array([self.between(chosen, model).standard_error for model in models])

    def not_told_from(self, chosen: int) -> Mask:
        """Return which other models have an expected score that differs little from one's."""
        models = range(len(self.expected))
        p_values = np.array([self.between(chosen, model).p_value for model in models])
        found: Mask = p_values >= LEVEL_TOLD_APART
        found[chosen] = False
        return found


def _error(
    one: ScoreOfUnits | None, other: ScoreOfUnits | None, groups: Floats | None = None
) -> float | None:
    """Return the standard error of the difference between two scores; None without units.

    Two units are added to metrics of predicted classes: half of one is right in one score only,
    and half of one in the other only; see `ScoreOfUnits.change_from`.
    """
    if one is None or other is None:
        return None
    if groups is not None:
        return one.less(other).standard_error(groups)
    return one._replace(step=max(one.step, other.step)).change_from(other).standard_error
