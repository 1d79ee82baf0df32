r"""Maximisation where the prior is the classes' mean posterior.

With :math:`\pi_j(\beta)` the weighted mean of both samples' posteriors, the kernel is
no longer a difference of convex functions of the inverse temperature.  Its maximum is
found by a scan on the logarithmic scale, over the whole range in which it can lie, and
refinement of the best local maxima; the result carries no certificate.

Where the pairs of one problem were scored by several fitted models, each model has a
mean posterior :math:`\pi_m` of its own, over all that it scored, and the prior of a pair
is the mean of its two models': models that are constant, each in its own way, then
score at most 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import elementwise

from pa_select.agreement.kernel import Floats, Limits, log_masses, mean_terms, pair_terms
from pa_select.agreement.maximize import LARGEST_BETA, Maxima
from pa_select.agreement.pairs import Ints, PairedScores

# A softmax turns over about a factor of e in the inverse temperature: 8 points a decade
# are 3 to 4 for each.
_POINTS_PER_DECADE = 8
_MIN_POINTS, _MAX_POINTS = 16, 600
# Local maxima this close to the best point of the scan, in nats, are refined.
_REFINED = 0.05
# Score distances times beta below which all posteriors are uniform, and above which
# they are saturated, to rounding of the kernel.
_FLAT, _SATURATED = 0.02, 60.0
# Mean posteriors held at once: bounds the memory, not the result.
_PRIORS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class ModelRuns:
    """The runs of each problem's pairs whose two sides have one fitted model each.

    Parameters
    ----------
    pairs : PairedScores
        All problems' pairs in their order, each run a problem of its own with the
        weights that its pairs have in their problem.
    n_runs : ndarray of shape (n_problems,)
        Number of runs of each problem.
    model_a, model_b : ndarray of shape (n_runs.sum(),)
        The models of each run's sides, numbered from 0 within its problem.
    """

    pairs: PairedScores
    n_runs: Ints
    model_a: Ints
    model_b: Ints

    @classmethod
    def one_model_each(cls, pairs: PairedScores) -> ModelRuns:
        """Every problem scored by a model of its own."""
        zeros = np.zeros(pairs.n_problems, dtype=np.int64)
        return cls(pairs, zeros + 1, zeros, zeros)

    @property
    def n_models(self) -> int:
        """The largest number of models of a problem."""
        return int(max(self.model_a.max(), self.model_b.max())) + 1

    def of(self, problems: Ints) -> tuple[Ints, Ints]:
        """The runs of the given problems, and to which entry each belongs."""
        counts = self.n_runs[problems]
        ends = np.cumsum(counts)
        owner = np.repeat(np.arange(len(problems)), counts)
        first = (np.cumsum(self.n_runs) - self.n_runs)[problems]
        return np.arange(ends[-1]) + np.repeat(first - ends + counts, counts), owner

    @cached_property
    def log_weights(self) -> Floats:
        """Logs of the weights that each model has in its problem, (n_problems, n_models)."""
        problem = np.repeat(np.arange(len(self.n_runs)), self.n_runs)
        weight = self.pairs.weight.cpu().numpy()
        totals = [
            weight[start : start + count].sum()
            for start, count in zip(self.pairs.start_weight, self.pairs.counts, strict=True)
        ]
        sums = np.zeros((len(self.n_runs), self.n_models))
        np.add.at(sums, (problem, self.model_a), totals)
        np.add.at(sums, (problem, self.model_b), totals)
        with np.errstate(divide="ignore"):
            return np.log(sums)


def log_marginal_priors(
    runs: ModelRuns, beta: Floats, problems: Ints
) -> tuple[Floats, Ints, Ints]:
    """Log prior of each run of the given problems, with the runs and their owners."""
    index, owner = runs.of(problems)
    mass_a, mass_b = log_masses(runs.pairs, beta[owner], index)
    n_models = runs.n_models
    if n_models == 1:
        by_owner = np.logaddexp(mass_a, mass_b) - runs.log_weights[problems][owner]
        return by_owner, index, owner
    model_a, model_b = (
        owner * n_models + runs.model_a[index],
        owner * n_models + runs.model_b[index],
    )
    weight = runs.log_weights[problems].ravel()[:, None]
    total = _logsumexp_by(
        np.concatenate([mass_a, mass_b]), np.concatenate([model_a, model_b]), len(weight)
    )
    prior = np.where(np.isneginf(weight), -np.inf, total - weight)
    return np.logaddexp(prior[model_a], prior[model_b]) - np.log(2), index, owner


def _logsumexp_by(values: Floats, group: Ints, n_groups: int) -> Floats:
    """Log of the sums of exp(values) over the rows of each group, (n_groups, n_columns)."""
    order = np.argsort(group, kind="stable")
    present, starts = np.unique(group[order], return_index=True)
    sums = np.full((n_groups, values.shape[1]), -np.inf)
    sums[present] = np.logaddexp.reduceat(values[order], starts, axis=0)
    return sums


def marginal_kernel(runs: ModelRuns, beta: Floats, problems: Ints) -> Floats:
    """Mean kernel with the marginal prior, one inverse temperature for each problem.

    ``problems`` may name a problem several times, each with another beta.
    """
    values = np.empty(len(problems))
    at_once = max(_PRIORS_AT_ONCE // (runs.pairs.n_classes * int(runs.n_runs.max())), 1)
    for begin in range(0, len(problems), at_once):
        here = slice(begin, begin + at_once)
        log_prior, index, owner = log_marginal_priors(runs, beta[here], problems[here])
        sums = mean_terms(runs.pairs, beta[here][owner], index, log_prior)
        values[here] = np.bincount(owner, sums)
    return values


def marginal_terms(runs: ModelRuns, beta: Floats) -> list[Floats]:
    """Kernel of every pair with the marginal prior, by problem."""
    log_prior, index, owner = log_marginal_priors(runs, beta, np.arange(len(beta)))
    terms = pair_terms(runs.pairs, beta[owner], index, log_prior)
    ends = np.cumsum(runs.n_runs)
    return [np.concatenate(terms[end - n : end]) for end, n in zip(ends, runs.n_runs, strict=True)]


def maximize_marginal(pairs: PairedScores, runs: ModelRuns, limits: Limits) -> Maxima:
    """Search the maximum over [0, inf] of every problem; upper bounds are nan."""
    n = pairs.n_problems
    value, beta = np.zeros(n), np.zeros(n)
    count = np.zeros(n, dtype=np.int64)
    bounded = np.flatnonzero(np.isfinite(limits.at_infinity) & ~limits.disjoint)
    if len(bounded):
        at_infinity = marginal_kernel(runs, np.full(len(bounded), np.inf), bounded)
        count[bounded] += 1
        keep = at_infinity >= 0
        value[bounded[keep]], beta[bounded[keep]] = at_infinity[keep], np.inf

    if pairs.has_zero_posteriors:
        # The limit from above differs from the kernel at 0.
        some = np.flatnonzero(~limits.disjoint)
        smallest = np.full(len(some), np.finfo(float).tiny)
        _improve(value, beta, some, marginal_kernel(runs, smallest, some), smallest)
        count[some] += 1

    problems = np.flatnonzero((limits.largest_range > 0) & ~limits.disjoint)
    if len(problems):
        grid = _grid(pairs, limits, problems)
        row, _ = inside = np.nonzero(np.isfinite(grid))
        kernel = np.full_like(grid, -np.inf)
        kernel[inside] = marginal_kernel(runs, np.exp(grid[inside]), problems[row])
        count[problems] += np.isfinite(grid).sum(1)
        _improve(value, beta, problems, kernel.max(1), np.exp(_pick(grid, kernel.argmax(1))))

        which, at = _best_local_maxima(kernel)
        if len(which):
            found = elementwise.find_minimum(
                lambda x, problem: -marginal_kernel(runs, np.exp(x), problem),
                tuple(grid[which, at + step] for step in (-1, 0, 1)),
                args=(problems[which],),
                tolerances={"xatol": 1e-7, "xrtol": 0.0, "fatol": 1e-13, "frtol": 1e-13},
            )
            np.add.at(count, problems[which], found.nfev)
            for j in range(_rank_within(which).max() + 1):
                mine = np.flatnonzero(_rank_within(which) == j)
                at_best = np.exp(found.x[mine])
                _improve(value, beta, problems[which[mine]], -found.f_x[mine], at_best)
    return Maxima(value, beta, np.full(n, np.nan), count)


def _improve(value: Floats, beta: Floats, problems: Ints, new: Floats, at: Floats) -> None:
    # Differences within rounding leave 0 and inf in place.
    better = new > value[problems] + 1e-13
    value[problems[better]] = new[better]
    beta[problems[better]] = at[better]


def _grid(pairs: PairedScores, limits: Limits, problems: Ints) -> Floats:
    """Logarithms of the inverse temperatures to scan, padded with nan at the end."""
    with np.errstate(over="ignore"):
        low = np.log(np.minimum(_FLAT / limits.largest_range[problems], LARGEST_BETA))
        high = np.log(np.minimum(_SATURATED / limits.smallest_margin[problems], LARGEST_BETA))
    if pairs.has_zero_posteriors:
        # With a slope at 0 a maximum may lie at a smaller beta than otherwise.
        low = low - np.log(1000)
    # A pair whose posteriors' tops are D apart has a kernel of at most
    # log(4 K / w) - beta D / 2, since p' p'' / pi <= 4 / w min(p', p''): beyond this
    # beta the mean is negative.
    slope = np.abs(limits.slope[problems])
    log_sizes = np.log(4 * pairs.n_classes) + pairs.weight_entropy[problems]
    with np.errstate(divide="ignore"):
        high = np.minimum(high, np.log(2 * log_sizes / slope))
    high = np.maximum(high, low + 1)
    decades = (high - low) / np.log(10)
    steps = np.clip(np.ceil(decades * _POINTS_PER_DECADE), _MIN_POINTS, _MAX_POINTS)[:, None]
    step = np.arange(steps.max() + 1)
    return np.where(step <= steps, low[:, None] + (high - low)[:, None] * step / steps, np.nan)


def _pick(values: Floats, index: Ints) -> Floats:
    return np.take_along_axis(values, index[:, None], 1)[:, 0]


def _best_local_maxima(kernel: Floats) -> tuple[Ints, Ints]:
    """Rows and columns of each row's inner local maxima that can be the highest."""
    left, inner, right = kernel[:, :-2], kernel[:, 1:-1], kernel[:, 2:]
    peak = (inner >= left) & (inner >= right) & np.isfinite(left) & np.isfinite(right)
    # On a plateau there is nothing to refine but at its ends.
    with np.errstate(invalid="ignore"):
        peak &= inner - np.minimum(left, right) > 1e-13
    peak &= inner >= kernel.max(1, keepdims=True) - _REFINED
    row, column = np.nonzero(peak)
    return row, column + 1


def _rank_within(rows: Ints) -> Ints:
    """Position of each entry among those of its row, for sorted rows."""
    return np.arange(len(rows)) - np.searchsorted(rows, rows)
