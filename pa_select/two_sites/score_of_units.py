"""Scores of objects: what each contributes to their errors, differences and intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.special import ndtri, stdtrit
from scipy.stats import beta
from sklearn.base import is_classifier

from pa_select.scores.precomputed import content_order, joined, row_numbers
from pa_select.utils.arrays import distinct_rows
from pa_select.utils.p_values import LEVEL_TOLD_APART
from pa_select.utils.sklearn_private import _PassthroughScorer
from pa_select.utils.typing import Array, Floats, Ints, Mask, Scorer

#: `Classification` or `Regression`, and what models predict; see `engine`, which imports this.
Task: TypeAlias = Any
Outputs: TypeAlias = Sequence[Any]
# The standard error of a metric without a formula leaves out so many parts, one at a time.
_PARTS = 20
# Both tails of a 95 % interval.
_TAILS = np.array([0.025, 0.975])
# Sums of rates that differ by no more than this are equal.
_ROUNDING = 1e-12

# The modules of metrics of which the names say what is best.
_HOMES = {f"sklearn.metrics._{kind}" for kind in ("classification", "ranking", "regression")}


class LabelledRows(NamedTuple):
    """The labels of all rows, and the rows on which the model of each split is scored."""

    y: Array
    rows: Sequence[Ints]
    groups: Array | None = None
    #: The weights with which all rows calibrate.
    weight: Array | None = None
    #: Those with which a metric counts them.
    score_weight: Array | None = None

    @property
    def tested(self) -> Ints:
        """The scored rows of all splits, one after the other."""
        return np.concatenate(self.rows)

    @property
    def n(self) -> int:
        """The number of different rows that are scored."""
        return len(distinct_rows(self.tested))

    @property
    def units(self) -> Ints:
        """For each scored row the position of its number among those of all different rows."""
        units: Ints = distinct_rows(self.tested, return_inverse=True)[1]
        return units

    @property
    def groups_of_units(self) -> Array | None:
        """The groups of the different rows; None if there are no groups."""
        return None if self.groups is None else self.groups[distinct_rows(self.tested)]

    @property
    def weight_of_rows(self) -> Floats | None:
        """The weight of each scored row in a mean over the splits; None if the metric has none."""
        if self.score_weight is None:
            return None
        of_splits = [self.score_weight[rows] / self.score_weight[rows].sum() for rows in self.rows]
        return np.concatenate(of_splits)

    @property
    def n_effective(self) -> float:
        """How many rows of equal weight have the error of the weighted mean (Kish).

        Without weights it is the number of different rows.
        """
        weight = self.weight_of_rows
        if weight is None:
            return self.n
        of_units = np.bincount(self.units, weight)
        return float(of_units.sum() ** 2 / (of_units @ of_units))

    @property
    def weight_of_splits(self) -> Floats:
        """For each scored row, by how much more it counts in a mean over splits of equal sizes."""
        sizes = np.array([len(rows) for rows in self.rows])
        return np.repeat(sizes.mean() / sizes, sizes)

    @property
    def n_independent(self) -> float:
        """How many rows in splits of equal sizes have the error of the mean over the splits."""
        if self.score_weight is not None:
            return self.n_effective
        return self.n / float(np.mean(self.weight_of_splits**2))


class Expectation(NamedTuple):
    """An expected value, its standard error, and the units that it was computed from."""

    score: float
    standard_error: float
    units: ScoreOfUnits


class ScoreOfUnits(NamedTuple):
    """A score of independent units, and the contribution of each unit to its error.

    To first order, a contribution is by how much the score changes if the weight of a unit
    doubles. The units are objects, or parts of them that were left out in turn, which differ from
    model to model (`of_parts`). For metrics of predicted classes, `step` is the root mean square,
    over wrong classes, of what a unit adds to the sum of all units if its prediction becomes
    right; 1 for the accuracy. Units may be groups of `n_rows` objects; 0: they are not. Errors of
    few groups are multiplied (`widening`), so that plus and minus 1.96 of them are the interval of
    Student's t.
    """

    score: float
    contributions: Floats
    step: float = 0.0
    of_parts: bool = False
    widening: float = 1.0
    n_rows: int = 0

    @classmethod
    def mean_of(cls, scores: Sequence[ScoreOfUnits]) -> ScoreOfUnits:
        """Return the mean of scores of the same units."""
        values, contributions, steps, of_parts, *_ = zip(*scores, strict=True)
        means = float(np.mean(values)), np.mean(contributions, axis=0), float(np.mean(steps))
        return cls(*means, any(of_parts))

    @classmethod
    def of_mean(
        cls, terms: Floats, step: float = 0.0, weight: Floats | None = None
    ) -> ScoreOfUnits:
        """Return the mean of one term of each unit."""
        mean = float(np.average(terms, weights=weight))
        share = 1 / len(terms) if weight is None else weight / weight.sum()
        return cls(mean, share * (terms - mean), step)

    @classmethod
    def by_leaving_out(cls, score_of: Callable[[Ints], float], part: Ints) -> ScoreOfUnits:
        """Leave out the parts of the rows in turn (jackknife); ``score_of`` takes row numbers.

        The error is not known if the metric is not defined without one of the parts.
        """

        def known(rows: Ints) -> float:
            try:
                return score_of(rows)
            except Exception:  # the last row with an error may be missing
                return math.nan

        score, n_parts = score_of(np.arange(len(part))), int(part.max()) + 1
        if n_parts < 2:
            return cls(score, np.zeros(1), of_parts=True)
        without = np.array([known(np.flatnonzero(part != p)) for p in range(n_parts)])
        changes = (without.mean() - without) * (n_parts - 1) / n_parts
        return cls(score, changes, of_parts=True)

    def by_group(self, groups: Array) -> ScoreOfUnits:
        """Return the score with groups of its units as its units."""
        codes = group_codes(groups)
        by_group: Floats = np.bincount(codes, self.contributions).astype(np.float64)
        n = len(codes)
        factor = widening(len(by_group), n)
        return self._replace(contributions=by_group, widening=factor, n_rows=n)

    def times(self, factor: float) -> ScoreOfUnits:
        """Return a multiple of the score."""
        changes, step = factor * self.contributions, abs(factor) * self.step
        return self._replace(score=factor * self.score, contributions=changes, step=step)

    def less(self, other: ScoreOfUnits) -> ScoreOfUnits:
        """Return the difference from another score of the same units."""
        changes = self.contributions - other.contributions
        return self._replace(score=self.score - other.score, contributions=changes)

    def change_from(self, other: ScoreOfUnits) -> Expectation:
        """Return the change from another score of the same units, and its standard error.

        Two objects are added to a metric of predicted classes: half of one becomes right, and half
        of one becomes wrong. Without them the few objects whose two predictions differ would say
        too little of how many do: if there is none, the error would be 0. They are objects, and
        not groups of them, also where objects are in groups.

        References
        ----------
        .. [1] A. Agresti, Y. Min, "Simple improved confidence intervals for comparing matched
           proportions", Statistics in Medicine 2005 (one half is added to each of four counts).
        """
        change, n = self.less(other), self.n
        if len(change.contributions) < 2 or self.step == 0:
            return change.expectation()
        squares = n**2 * change.squares() + self.step**2 + 2 * n / (n + 2) * change.score**2
        return Expectation(change.score, float(np.sqrt(squares)) / (n + 2), change)

    def expectation(self) -> Expectation:
        """Return the score and its standard error."""
        return Expectation(self.score, self.standard_error(), self)

    def standard_error(self) -> float:
        """Return the standard error (delta method); nan for a single unit."""
        if len(self.contributions) < 2:
            return math.nan
        return math.sqrt(self.n / (self.n - 1) * self.squares())

    @property
    def n(self) -> int:
        """The number of objects."""
        return self.n_rows or len(self.contributions)

    def squares(self) -> float:
        """Return the sum of the squared contributions; of groups, of objects that have its error.

        Those of groups of one object each are the same.
        """
        n_units = len(self.contributions)
        factor = n_units / (n_units - 1) * (self.n - 1) / self.n * self.widening**2
        return float(factor * (self.contributions @ self.contributions))


def parts_of(*content: Floats, n_parts: int = _PARTS, seed: int = 0) -> Ints:
    """Assign objects to parts of equal size at random, whatever their order.

    `content` is what is known of the objects, arrays of shape (n,) or (n, n_columns); objects
    with the same content are interchangeable. There are as many parts as objects at most.
    """
    order = content_order(*content)
    n = len(order)
    part = np.empty(n, dtype=np.intp)
    part[order] = np.random.default_rng(seed).permutation(n) % min(n, n_parts)
    return part


def parts_of_groups(groups: Array, n_parts: int = _PARTS) -> Ints:
    """Return the numbers of parts of whole groups."""
    return group_codes(groups) % n_parts


def accuracy_interval(
    accuracy: float | Floats,
    n_labelled: float | Floats,
    disagreement: float | Floats,
    n_pairs: float | Floats,
) -> tuple[Any, Any]:
    """Return the 95 % interval of the accuracy at the other site; arguments broadcast.

    The accuracies at the two sites differ by the rate of disagreement at most. Each of the two
    rates has an exact interval of its own [1]_, and the two samples are independent, so the
    half-widths are added in squares [3]_: each limit of a sum has the variance of the limits of
    its terms, and not that at the estimates, which is 0 where no pair disagrees. Newcombe [2]_
    took score limits of the rates; these cover too little here if there are few pairs. The numbers
    of independent labelled rows and of pairs need not be integers.

    References
    ----------
    .. [1] C. J. Clopper, E. S. Pearson, "The use of confidence or fiducial limits illustrated in
       the case of the binomial", Biometrika 1934.
    .. [2] R. G. Newcombe, "Interval estimation for the difference between independent
       proportions: comparison of eleven methods", Statistics in Medicine 1998.
    .. [3] G. Y. Zou, A. Donner, "Construction of confidence limits about effect measures: a
       general approach", Statistics in Medicine 2008.
    """
    least, most = _exact_limits(accuracy, n_labelled)
    more_disagreement = _exact_limits(disagreement, n_pairs)[1] - disagreement
    below = disagreement + np.hypot(accuracy - least, more_disagreement)
    above = disagreement + np.hypot(most - accuracy, more_disagreement)
    return np.maximum(accuracy - below, 0.0), np.minimum(accuracy + above, 1.0)


def error_of_rate(rate: Floats, n: float) -> Floats:
    """Return the standard errors of shares of n rows, after adding two successes and failures.

    So a share of 0 or 1 has an error, too (Agresti and Coull).
    """
    added = (rate * n + 2) / (n + 4)
    error: Floats = np.sqrt(added * (1 - added) / (n + 4))
    return error


def _exact_limits(rate: float | Floats, n: float | Floats) -> tuple[Any, Any]:
    """Return the limits of Clopper and Pearson."""
    successes, failures = rate * np.asarray(n), (1 - rate) * np.asarray(n)
    none, all_of_them = successes <= _ROUNDING * n, failures <= _ROUNDING * n
    low = beta.ppf(_TAILS[0], np.where(none, 1.0, successes), failures + 1)
    high = beta.ppf(_TAILS[1], successes + 1, np.where(all_of_them, 1.0, failures))
    return np.where(none, 0.0, low), np.where(all_of_them, 1.0, high)


def effective_number(right: Mask, groups: Array, n: float, weight: Floats | None = None) -> float:
    """Return how many independent rows say as much of the accuracy as n rows in groups; n at most.

    So many rows have the variance of the accuracy of the rows in groups. With few groups that
    variance is itself uncertain, so the number is reduced by the squared quantiles of Student's
    t, as Korn and Graubard [1]_ do for surveys. `right` says whether each prediction of a labelled
    row is right; a row may be predicted several times. `weight` has the weights of these rows.

    References
    ----------
    .. [1] E. L. Korn, B. I. Graubard, "Confidence intervals for proportions with small expected
       number of positive counts estimated from survey data", Survey Methodology 1998.
    """
    codes = group_codes(groups)
    rate, n_groups = float(np.average(right, weights=weight)), int(codes.max()) + 1
    share = 1 / len(right) if weight is None else weight / weight.sum()
    deviations = np.bincount(codes, share * (right - rate))
    variance = float(deviations @ deviations) * n_groups / (n_groups - 1)
    # Where all rows are right, or wrong, how alike the rows of a group are is not known.
    if not _ROUNDING < rate < 1 - _ROUNDING:
        return n_groups
    return n / max(n * variance / (rate * (1 - rate)), 1.0) / widening(n_groups, n) ** 2


def widening(n_groups: int, n: float) -> float:
    """Return the quantile of Student's t for groups, relative to the one for n rows.

    Plus and minus 1.96 standard errors, multiplied by this, is the 95 % interval of a mean of few
    groups.
    """
    few, all_rows = stdtrit(np.array([n_groups, max(n, n_groups)]) - 1, _TAILS[1])
    return float(few / all_rows)


def student_factor(contributions: Floats) -> float:
    """Return by how much an error from values with heavy tails is too small, for 1.96 of it.

    The variance of n values with the kurtosis k is known as well as that of 2 n / (k - 1) normal
    ones [1]_; the factor is the quantile of Student's t for so many, relative to 1.96.

    References
    ----------
    .. [1] F. E. Satterthwaite, "An approximate distribution of estimates of variance components",
       Biometrics Bulletin 1946.
    """
    n, squares = len(contributions), np.square(contributions)
    total = float(squares.sum())
    if n < 2 or not total > 0:
        return 1.0
    kurtosis = n * float(squares @ squares) / total**2
    degrees = n - 1 if kurtosis <= 1 else min(2 * n / (kurtosis - 1), n - 1)
    return float(stdtrit(max(degrees, 1.0), _TAILS[1]) / ndtri(_TAILS[1]))


def group_codes(groups: Array, name: str = "groups") -> Ints:
    """Number the groups; refuse a single one, which does not show how rows vary between groups."""
    codes: Ints = np.unique(groups, return_inverse=True)[1]
    if not codes.any():
        raise ValueError(
            f"{name}: expected rows of at least two groups, got rows of one group, which do not "
            f"show how much groups differ. Leave {name} out if the rows are independent."
        )
    return codes


def check_reference(reference: object, of_regressors: bool) -> None:
    """Refuse what cannot stand in for the labels of paired objects."""
    if isinstance(reference, str):
        if reference not in ("self", "ensemble"):
            raise ValueError(
                f"reference: expected 'self', 'ensemble' or a fitted estimator, got {reference!r}."
            )
    elif of_regressors and is_classifier(reference):
        name = type(reference).__name__
        raise TypeError(f"reference: expected a regressor, got {name}, which is a classifier.")


def scored_rows(
    task: Task, scorer: Scorer, labelled: LabelledRows, outputs: Outputs
) -> ScoreOfUnits | None:
    """Score the labelled rows of all splits together, by the formula of a metric, if it has one.

    The units are the different rows, in the order of their numbers, or their groups. A row that
    several models predict is one unit. Each split counts as much as the others, as in the mean
    over the splits, however few rows it has. The rows are not scored split by split, since the
    mean of few rows would hide how much they vary.
    """
    model, tested = joined(outputs), labelled.tested
    labels, weight = task.known_labels(model, labelled.y[tested]), labelled.weight_of_rows
    scored = task.closed_form(scorer, labels, model, is_counted=False, weight=weight)
    if scored is None:
        return None
    weighted = scored.contributions
    if weight is None:
        weighted = labelled.weight_of_splits * weighted
    by_row: Floats = np.bincount(labelled.units, weighted).astype(np.float64)
    of_rows, groups = scored._replace(contributions=by_row), labelled.groups_of_units
    return of_rows if groups is None else of_rows.by_group(groups)


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
    if scored is not None and scored.step:
        rate = float(np.average(model.predicted == y, weights=labelled.weight_of_rows))
        with_two = _with_two_of_each(scored, rate, labelled.n_effective)
        return with_two if groups is None else max(with_two, scored.standard_error())
    if scored is not None and groups is not None:
        return scored.standard_error()
    if scored is not None:
        return scored.standard_error() * student_factor(scored.contributions)

    weight = labelled.weight_of_rows

    def score_of(rows: Ints) -> float:
        given = {} if weight is None else {"sample_weight": weight[rows]}
        return float(scorer(model, row_numbers(rows), y[rows], **given))

    if groups is None and len(tested) == labelled.n:
        part = parts_of(task.known_labels(model, y), *task.all_outputs(model))
        return ScoreOfUnits.by_leaving_out(score_of, part).standard_error()
    # Rows that several models predict are left out together.
    whole = labelled.units if groups is None else groups[tested]
    error = ScoreOfUnits.by_leaving_out(score_of, parts_of_groups(whole)).standard_error()
    return error * widening(len(np.unique(whole)), labelled.n)


def _with_two_of_each(scored: ScoreOfUnits, rate: float, n: float) -> float:
    """Return the standard error after two right and two wrong predictions were added.

    `rate` is the share of right predictions of n rows. Of the accuracy this is the error that
    `error_of_rate` has (Agresti and Coull).
    """
    added = scored.step * np.array([1 - rate, -rate])
    squares = n**2 * scored.squares() + 2 * (added @ added)
    mean = 2 * added.sum() / (n + 4)
    return float(np.sqrt((squares / (n + 4) - mean**2) / (n + 4)))


def normal_p_value(difference: float, error: float) -> float:
    """Return the two-sided p-value of no difference, given its standard error; nan without one.

    1 if there is no difference, however small its error.
    """
    if not error >= 0 or math.isnan(difference):
        return math.nan
    if difference == 0 or error == 0:
        return float(difference == 0)
    return math.erfc(abs(difference) / error / math.sqrt(2))


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
        )

    def between(self, i: int, j: int) -> Difference:
        """Return the expected score of model i minus that of model j; nan if one has none."""
        if i == j and np.isfinite(self.expected[i]):
            return Difference(0.0, 0.0, 1.0)
        value = float(self.expected[i] - self.expected[j])
        errors = self.errors_of_rows[[i, j]].tolist()
        of_rows = _error(self.of_rows[i], self.of_rows[j])
        # That of an accuracy is bounded, however few groups there are; so is that of a difference.
        of_rows = math.hypot(*errors) if of_rows is None else min(of_rows, sum(errors))
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


def _error(one: ScoreOfUnits | None, other: ScoreOfUnits | None) -> float | None:
    """Return the standard error of the difference between two scores; None without units.

    Two objects are added to metrics of predicted classes: half of one is right in one score only,
    and half of one in the other only; see `ScoreOfUnits.change_from`.
    """
    if one is None or other is None:
        return None
    return one._replace(step=max(one.step, other.step)).change_from(other).standard_error


def best_score(scorer: object) -> float:
    """Return the largest value of a metric of scikit-learn, and infinity for any other.

    Errors and losses are not negative, and shares, correlations and R2 are 1 at most.
    """
    if isinstance(scorer, _PassthroughScorer):  # an estimator's own: the accuracy, or R2
        return 1.0
    metric, options = getattr(scorer, "_score_func", None), getattr(scorer, "_kwargs", {})
    name, home = getattr(metric, "__name__", ""), getattr(metric, "__module__", "")
    if home not in _HOMES or not options.get("normalize", True):  # a number of rows
        return np.inf
    if getattr(scorer, "_sign", 1) == -1:
        return 0.0 if name.endswith(("_loss", "_error", "_deviance")) else np.inf
    return 1.0 if name.endswith(("_score", "_corrcoef")) else np.inf
