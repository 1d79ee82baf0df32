r"""Maximisation where the prior is the classes' mean posterior.

With :math:`\pi_j(\beta)` the weighted mean of both samples' posteriors, the kernel is
no longer a difference of convex functions of the inverse temperature.  Its maximum is
found by a scan on the logarithmic scale, over the whole range in which it can lie, and
refinement of the best local maxima; the result carries no certificate.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import elementwise

from pa_select.agreement.kernel import Floats, Limits, log_marginal_prior, mean_terms
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


def marginal_kernel(pairs: PairedScores, beta: Floats, problems: Ints) -> Floats:
    """Mean kernel with the marginal prior, one inverse temperature for each problem.

    ``problems`` may name a problem several times, each with another beta.
    """
    return mean_terms(pairs, beta, problems, log_marginal_prior(pairs, beta, problems))


def maximize_marginal(pairs: PairedScores, limits: Limits) -> Maxima:
    """Search the maximum over [0, inf] of every problem; upper bounds are nan."""
    n = pairs.n_problems
    value, beta = np.zeros(n), np.zeros(n)
    count = np.zeros(n, dtype=np.int64)
    bounded = np.flatnonzero(np.isfinite(limits.at_infinity) & ~limits.disjoint)
    if len(bounded):
        at_infinity = marginal_kernel(pairs, np.full(len(bounded), np.inf), bounded)
        count[bounded] += 1
        keep = at_infinity >= 0
        value[bounded[keep]], beta[bounded[keep]] = at_infinity[keep], np.inf

    if pairs.has_zero_posteriors:
        # The limit from above differs from the kernel at 0.
        some = np.flatnonzero(~limits.disjoint)
        smallest = np.full(len(some), np.finfo(float).tiny)
        _improve(value, beta, some, marginal_kernel(pairs, smallest, some), smallest)
        count[some] += 1

    problems = np.flatnonzero((limits.largest_range > 0) & ~limits.disjoint)
    if len(problems):
        grid = _grid(pairs, limits, problems)
        row, _ = inside = np.nonzero(np.isfinite(grid))
        kernel = np.full_like(grid, -np.inf)
        kernel[inside] = marginal_kernel(pairs, np.exp(grid[inside]), problems[row])
        count[problems] += np.isfinite(grid).sum(1)
        _improve(value, beta, problems, kernel.max(1), np.exp(_pick(grid, kernel.argmax(1))))

        which, at = _best_local_maxima(kernel)
        if len(which):
            found = elementwise.find_minimum(
                lambda x, problem: -marginal_kernel(pairs, np.exp(x), problem),
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
    # log(2 K / w) - beta D / 2, since p' p'' / pi <= 2 / w min(p', p''): beyond this
    # beta the mean is negative.
    slope = np.abs(limits.slope[problems])
    log_sizes = np.log(2 * pairs.n_classes) + pairs.weight_entropy[problems]
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
