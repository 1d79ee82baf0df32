r"""The kernel with the marginal prior: its sums over pairs and their bounds on intervals.

If the prior :math:`\pi_j(\beta)` is the mean posterior, the kernel is not a difference of
convex functions of :math:`\beta`.  But any lower bounds of :math:`y_j = \log \pi_j` on an
interval that are affine in :math:`\beta` give an upper bound of the kernel that is such a
difference.  Both ends of the interval give such a bound, to first and to third order, from means
over the shares :math:`P(i \mid j)` of the posteriors in :math:`\pi_j`.  Beyond the last point the
term of a pair is bounded class by class.  docs/certificate.rst has the derivation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch

from pa_select.agreement.kernels.kernel_sums import MARGIN, coarse_errors, log_masses_of_top
from pa_select.agreement.kernels.marginal_sums import (
    MarginalPasses,
    ModelMeans,
    ModelRuns,
    log_marginal_priors,
    marginal_kernel,
)
from pa_select.agreement.pairs.block import Block
from pa_select.solver.bounds import Limits, two_cubics
from pa_select.utils.typing import Floats, Ints

# Speed only: this many means (runs times classes) are held at once.
_MEANS_AT_ONCE = 1 << 21
# Part of the certificate: what a share may be that underflows.
_SMALLEST_SHARE = 1e-300


class MarginalSums(NamedTuple):
    """The kernel at n points and its bounds' ingredients: (n,) or (n, n_runs, n_classes).

    Derivatives are in the unit given to `Kernel.evaluate`. The mean of a class is over all
    rows of both sides, weighted by their posteriors of this class: the shares P(i | j). X
    is the distance of a score from the top of its row, and g the derivative of the log of its
    posterior. Means E and variances V of a row are under its posterior.
    """

    value: Floats
    slope: Floats
    curvature: Floats
    #: The two convex parts of the kernel, L1 with the prior at this point.
    l1: Floats
    l2: Floats
    dl2: Floats
    #: The log prior y of each run, and its first and second derivative.
    log_prior: Floats
    d_log_prior: Floats
    d2_log_prior: Floats
    #: Class variances of g.
    spread: Floats
    #: What is known of the third derivative of y: the class means of (g - y')^3 - 3 (g - y') V.
    skew: Floats
    #: Class means of E X^3, of X, and of log(n_classes) minus the entropy of the posterior.
    cube: Floats
    distance: Floats
    certainty: Floats
    #: Weighted sums of the classes' shares Q of the overlaps of a run's pairs.
    overlap: Floats
    #: Weighted sums over pairs: of E X^3 on both sides; and of the variance and the mean cube of
    #: X' + X'' + y', less its smallest value, under the shares of the overlap.
    side_cube: Floats
    joint_variance: Floats
    joint_cube: Floats
    #: (n, 4) the largest E X, V and E X^3 of a row, and the largest mean of X' + X'' + y', less
    #: its smallest value, of a pair.
    largest: Floats
    #: Bound of the rounding errors of ``value``.
    error: Floats

    def in_lengths(self, length: Floats) -> MarginalSums:
        """Return the sums with other units, which are so many times as large."""
        scaled = {}
        for power, names in enumerate(_BY_ORDER, 1):
            for name in names:
                x = getattr(self, name)
                scaled[name] = x * (length**power).reshape(-1, *[1] * (x.ndim - 1))
        return self._replace(**scaled, largest=self.largest * length[:, None] ** [1, 2, 3, 1])


# Part of the certificate: fields of `MarginalSums` that a unit, its square and its cube multiply.
_BY_ORDER = (
    ("slope", "dl2", "d_log_prior", "distance"),
    ("curvature", "d2_log_prior", "spread", "joint_variance"),
    ("skew", "cube", "side_cube", "joint_cube"),
)


class Errors(NamedTuple):
    """By how much log priors and their derivatives may be wrong, (n, n_runs, n_classes)."""

    value: Floats
    slope: Floats
    curvature: Floats
    #: What `MarginalSums` know of the third derivative.
    third: Floats


@dataclass(frozen=True)
class MarginalPrior:
    """The kernels of a batch of problems with the marginal prior, for `maximize`."""

    runs: ModelRuns

    def evaluate(
        self, beta: Floats, unit: Floats, problems: Ints, *, coarse: bool = False
    ) -> MarginalSums:
        """Evaluate `MarginalSums` in two passes."""
        n_runs = int(self.runs.n_runs.max())
        at_once = max(_MEANS_AT_ONCE // (n_runs * self.runs.pairs.n_classes), 1)
        slices = [slice(i, i + at_once) for i in range(0, len(problems), at_once)]
        # The means of a class of tiny mass may overflow; it then gives no bound.
        with np.errstate(invalid="ignore", over="ignore"):
            parts = [self._evaluate(beta[s], unit[s], problems[s], coarse) for s in slices]
        if len(parts) == 1:
            return parts[0]
        return MarginalSums(*(np.concatenate(x) for x in zip(*parts, strict=True)))

    def _evaluate(self, beta: Floats, unit: Floats, problems: Ints, coarse: bool) -> MarginalSums:
        runs, every = self.runs, np.arange(len(problems))
        dtype = torch.float32 if coarse else torch.float64

        def passes(runs: ModelRuns, nearest: Floats | None) -> tuple[MarginalPasses, Ints]:
            index, owner = runs.of(problems)
            of_runs = beta[owner], unit[owner], index, dtype
            return MarginalPasses(runs.pairs, nearest, self._farthest, *of_runs), owner

        first, owner_of_side = passes(runs.sides, self._nearest)
        second, owner = (first, owner_of_side) if runs.of_rows is None else passes(runs, None)
        log_mass, classes, totals, largest = first.sides()
        means = ModelMeans(runs, problems, log_mass)
        y = np.where(np.isneginf(means.log_prior), 0.0, means.log_prior)
        variance, mean, third, entropy, d, product, square, cube = np.moveaxis(
            means.by_posterior(classes), -1, 0
        )
        spread = np.maximum(square - d * d, 0)
        skew = cube - 3 * d * square + 2 * d**3 - 3 * (product - d * variance)
        of_pairs, steepest, overlap = second.overlaps(y, d)
        l1, slope, joint_variance, joint_cube = of_pairs.T
        starts, starts_of_sides = (np.searchsorted(x, every) for x in (owner, owner_of_side))
        l2, dl2, v2, side_cube = np.add.reduceat(totals.sum(0), starts_of_sides).T
        n_runs = int(runs.n_runs.max())
        position = np.arange(len(owner)) - starts[owner]

        def by_problem(values: Floats) -> Floats:
            sums: Floats = np.add.reduceat(values, starts)
            return sums

        def by_run(values: Floats) -> Floats:
            room = np.zeros((len(problems), n_runs, values.shape[1]))
            room[owner, position] = values
            return room

        error = np.zeros(len(problems))
        if coarse:
            # Log priors of rare classes have larger errors, which the overlaps' shares weigh.
            size = np.abs(by_problem(l1)) + by_problem((overlap * np.abs(y)).sum(1))
            error = coarse_errors(size, runs.pairs.n_classes)[0]
        return MarginalSums(
            value=by_problem(l1) - l2,
            slope=by_problem(slope) - dl2,
            curvature=by_problem(joint_variance - (overlap * (spread - variance)).sum(1)) - v2,
            l1=by_problem(l1),
            l2=l2,
            dl2=dl2,
            log_prior=by_run(y),
            d_log_prior=by_run(d),
            d2_log_prior=by_run(spread - variance),
            spread=by_run(spread),
            skew=by_run(skew),
            cube=by_run(third),
            distance=by_run(mean - d),
            certainty=by_run(np.log(runs.pairs.n_classes) - entropy),
            overlap=by_run(overlap),
            side_cube=side_cube,
            joint_variance=by_problem(joint_variance),
            joint_cube=by_problem(joint_cube),
            largest=np.column_stack(
                [
                    np.maximum.reduceat(largest, starts_of_sides),
                    np.maximum.reduceat(steepest, starts),
                ]
            ),
            error=error,
        )

    def bound(
        self,
        left: MarginalSums,
        right: MarginalSums,
        ends: tuple[Floats, Floats],
        units: tuple[Floats, Floats],
    ) -> tuple[Floats, Floats]:
        """Bound the kernel on intervals; see `Kernel`."""
        a, c = ends
        # The unit of derivatives becomes the length of the interval.
        lengths = [(c - a) / unit for unit in units]
        left, right = map(MarginalSums.in_lengths, (left, right), lengths)
        priors = [_errors_of_prior(x, h) for x, h in zip((left, right), lengths, strict=True)]
        bound, at = _lines_minus_tangents(left, right, lengths, priors, (c - a) / c)
        errors = map(_errors_of_cubic, (left, right), lengths, priors)
        of_value, of_third = map(np.array, zip(*errors, strict=True))
        margin = np.where(of_third.any(0), MARGIN, 1.0)
        cubic_bound, cubic_at = two_cubics(
            np.array([left.value, right.value]) + of_value,
            np.array([left.slope, -right.slope]),
            np.array([left.curvature, right.curvature]),
            np.maximum(_third_derivatives(left, right, priors) * margin + of_third.sum(0), 0),
        )
        cubic = (cubic_bound < bound) | np.isnan(bound)
        return np.where(cubic, cubic_bound, bound), np.where(cubic, cubic_at, at)

    def beyond(self, last: MarginalSums, beta: Floats, problems: Ints) -> Floats:
        """Bound the kernel beyond the last points, in two passes; see `Kernel`.

        The prior includes the pair's own posteriors. So the overlap of a class is at most
        2 max(W', W'') / w times the smaller posterior, with the weights w of the pair and
        W', W'' of its two models.
        """
        runs, pairs = self.runs, self.runs.pairs
        log_floor, index, owner = log_marginal_priors(runs, beta, problems, log_masses_of_top)
        weights = runs.log_weights[problems]
        models = np.maximum(
            weights[owner, runs.model_a[index]], weights[owner, runs.model_b[index]]
        )
        floors, betas, log_share = pairs.tensors(log_floor.T, beta[owner], np.log(2) + models)

        def part(block: Block) -> list[torch.Tensor]:
            beta_i, floor = block.spread(betas), block.spread(floors)
            top_a, top_b = block.a == 0, block.b == 0
            log_ties = top_a.sum(0).double().log() + top_b.sum(0).double().log()
            larger = beta_i * torch.minimum(block.a, block.b)
            cap = block.spread(log_share) - block.weight.log() + larger
            # fmin ignores the nan of a class that no row ranks first and has posterior 0.
            others = torch.fmin(beta_i * (block.a + block.b) - floor, cap)
            terms = torch.logsumexp(torch.where(top_a & top_b, -log_ties - floor, others), 0)
            return [block.weighted_sum(block.of_counted(terms)[None])[0]]

        (sums,) = pairs.reduce_blocks(part, index, "sum")
        terms = sums.cpu().numpy()
        bound: Floats = np.bincount(owner, terms, len(problems)).astype(np.float64)
        return bound

    def limits(self, limits: Limits) -> Limits:
        """Return the limits of these kernels, from those of the same pairs with a fixed prior."""
        runs = self.runs
        at_infinity = limits.at_infinity.copy()
        bounded = np.flatnonzero(np.isfinite(at_infinity) & ~limits.disjoint)
        if len(bounded):
            infinite = np.full(len(bounded), np.inf)
            at_infinity[bounded] = marginal_kernel(runs, infinite, bounded)
        return limits._replace(
            at_zero=np.zeros_like(limits.at_zero), at_infinity=at_infinity, ceiling=self._ceiling()
        )

    def _ceiling(self) -> Floats:
        """Bound the kernels of all problems at every beta, (n_problems,).

        Any kernel is at most log K by Jensen's inequality, since the mean over pairs of
        (p' + p'') / 2 is the prior pi. Of one pair no kernel is positive, because then
        p' p'' / pi <= pi. If each model gives all rows nearly the same scores, kernels are of
        second order in what is different; docs/certificate.rst has the bound.
        """
        runs = self.runs
        low, high = self._extremes_of_models()
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = np.where(high > low, high - low, 0.0).max(1)
            low = low.min(1)
            near, far = (
                np.where(spread > 0, spread / np.maximum(distance, 0.0), 0.0) / np.e
                for distance in (low, low - 2 * spread)
            )
        normaliser = near.sum(1)
        squares = normaliser**2 + 4 * (1 + normaliser) ** 2 * (far**2).sum(1)
        # An infinite spread over an infinite distance is no bound.
        ceiling = np.fmin(np.log1p(6 * squares), np.log(runs.pairs.n_classes))
        problem = np.repeat(np.arange(len(runs.n_runs)), runs.n_runs)
        return np.where(np.bincount(problem, runs.pairs.n_used) == 1, 0.0, ceiling)

    @cached_property
    def _extremes(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Smallest and largest distance X of each class, each (2, K, n_sides)."""
        pairs = self.runs.sides.pairs

        def part(block: Block) -> list[torch.Tensor]:
            x = -torch.cat([block.a, block.b])
            return [
                block.reduce(block.of_counted(x, torch.inf), "min"),
                block.reduce(block.of_counted(x, -torch.inf), "max"),
            ]

        every = np.arange(pairs.n_problems)
        nearest, farthest = pairs.reduce_blocks(part, every, "min", "max")
        return nearest.view(2, pairs.n_classes, -1), farthest.view(2, pairs.n_classes, -1)

    @cached_property
    def _nearest(self) -> Floats | None:
        """Smallest distances; None if every class is the top of some row on every side."""
        nearest: Floats = self._extremes[0].cpu().numpy()
        nearest = np.where(np.isfinite(nearest), nearest, 0.0)
        return nearest if nearest.any() else None

    @cached_property
    def _farthest(self) -> float:
        """The largest distance X."""
        return float(self._extremes[1].max())

    def _extremes_of_models(self) -> tuple[Floats, Floats]:
        """Smallest and largest distance X of each model, each (n_problems, n_models, K)."""
        runs = self.runs
        shape = (len(runs.n_runs), runs.n_models, runs.pairs.n_classes)
        model = runs.sides.models(np.arange(shape[0]), shape[1])
        low, high = (x.movedim(1, 2).flatten(0, 1).cpu().numpy() for x in self._extremes)
        lowest, highest = (np.full(shape, end) for end in (np.inf, -np.inf))
        np.minimum.at(lowest.reshape(-1, shape[2]), model, low)
        np.maximum.at(highest.reshape(-1, shape[2]), model, high)
        return lowest, highest


def _lines_minus_tangents(
    left: MarginalSums,
    right: MarginalSums,
    lengths: Sequence[Floats],
    priors: Sequence[Errors],
    share: Floats,
) -> tuple[Floats, Floats]:
    """Bound the kernels on intervals of length 1 to first order; return where, too.

    X and the entropy bound the change of the log prior on any interval. `lengths` are those of the
    intervals in units of the inverse temperatures of their ends, `priors` the errors of the log
    priors there, and `share` the lengths' share of the inverse temperature of the right end.
    """
    of_prior = sum(x.value + x.slope for x in priors)
    errors = [x.error * (1 + h) for x, h in zip((left, right), lengths, strict=True)]
    error = errors[0] + errors[1]

    def joint(sums: MarginalSums, lower: Floats) -> Floats:
        # L1 at one end, with the lower bound of y from the other end as its log prior.
        change = sums.log_prior - lower + of_prior
        return sums.l1 + _log_mean_exp(sums.overlap, change) + error

    ahead = left.log_prior - left.distance
    back = right.log_prior - right.d_log_prior - share[:, None, None] * right.certainty
    lines = [
        (left.l1 + left.error, joint(right, ahead)),
        (joint(left, back), right.l1 + right.error),
    ]
    # The tangents of L2, which meet where it is least, and the lines, which may cross.
    l2_a, l2_c = left.l2 - errors[0], right.l2 - errors[1]
    meeting = (l2_c - right.dl2 - l2_a) / (left.dl2 - right.dl2)
    first, second = (x - y for x, y in zip(*lines, strict=True))
    crossing = first / (first - second)
    best, at = np.full(l2_a.shape, -np.inf), np.full(l2_a.shape, 0.5)
    for t in (np.zeros_like(at), np.ones_like(at), meeting, crossing):
        t = np.where((t >= 0) & (t <= 1), t, 0.0)
        line = np.minimum(*(begin + (end - begin) * t for begin, end in lines))
        height = line - np.maximum(l2_a + left.dl2 * t, l2_c - right.dl2 * (1 - t))
        higher = height > best
        best, at = np.where(higher, height, best), np.where(higher, t, at)
    # If the arithmetic overflows, there is no bound.
    return np.where(np.isneginf(best), np.nan, best), at


def _log_mean_exp(overlap: Floats, exponent: Floats) -> Floats:
    """Return the sum over runs of W log(sum_j Q_j exp(e_j) / W), with W the sum of all Q_j."""
    weight = overlap.sum(2)
    # A share that underflows may still count, times the exponential.
    share = np.maximum(overlap, _SMALLEST_SHARE)
    top = exponent.max(2)
    mean = (share * np.exp(exponent - top[..., None])).sum(2) / weight
    terms: Floats = np.where(weight > 0, weight * (top + np.log(mean)), 0.0).sum(1)
    return terms


def _third_derivatives(
    left: MarginalSums, right: MarginalSums, priors: Sequence[Errors]
) -> Floats:
    """Bound what kernels add to their parabolas from either end of intervals of length 1, (2, n).

    At the distance t from an end it is at most the bound times t^3 / 6. `priors` are the errors of
    the log priors at the two ends.
    """
    of_a, of_c = priors
    mean, variance, cube, steepest = left.largest.T
    # How much more a term may weigh, and how much larger a mean X may be, at the other end.
    unlike = np.ptp(left.log_prior - right.log_prior + right.d_log_prior, axis=2).max(1)
    aside = np.ptp(right.d_log_prior - left.d_log_prior, axis=2).max(1)
    unlike += 2 * (of_a.value + of_c.value + of_c.slope).max((1, 2))
    aside += 2 * (of_a.slope + of_c.slope).max((1, 2))
    rise = left.side_cube + _remainder(
        left,
        of_a,
        third=left.skew - left.cube / 8,
        cube=cube / 8,
        variance=variance,
        joint_cube=left.joint_cube / 8,
        shares=left.overlap * np.exp(steepest)[:, None, None],
    )
    change = left.log_prior - right.log_prior + mean[:, None, None] + of_a.value + of_c.value
    tilted = np.exp(unlike + np.exp(unlike) * (steepest + aside))
    fall = left.side_cube / 8 + _remainder(
        right,
        of_c,
        third=-right.skew - np.minimum(np.exp(change) * left.cube, cube[:, None, None]),
        cube=cube,
        variance=right.largest[:, 1],
        joint_cube=np.exp(unlike) * (np.cbrt(left.joint_cube) + aside) ** 3,
        shares=left.overlap * tilted[:, None, None],
    )
    return np.array([rise, fall])


def _remainder(
    sums: MarginalSums,
    errors: Errors,
    third: Floats,
    cube: Floats,
    variance: Floats,
    joint_cube: Floats,
    shares: Floats,
) -> Floats:
    """Bound the third derivative of L1 from one end of an interval of length 1.

    The expansion of the log priors has the coefficients `third`, and `cube` and `variance` bound
    those that a row adds to the next order. `joint_cube` bounds the third derivative for log
    priors that are lines, and `shares` the shares of the overlaps in the interval.
    """
    bend, spread = sums.d2_log_prior, sums.spread + errors.curvature
    scale, third_size = np.sqrt(spread), np.abs(third) + errors.third
    cube, of_row = (x[:, None, None] for x in (cube, variance / 2 + cube / 6))
    fourth = scale * (cube / 12 + of_row**2 / 2) + spread * of_row / 2 + of_row**3 / 6
    # exp(y) is 1 + B times the exponential of its tangent, and |B| <= largest on the interval.
    largest = (np.abs(bend) + errors.curvature) / 2 + third_size / 6 + fourth
    fourth = fourth + np.where(largest < 1, largest**2 / (1 - largest), np.inf)
    overlap = np.maximum(sums.overlap, _SMALLEST_SHARE)
    centre = (overlap * bend).sum(2, keepdims=True) / overlap.sum(2, keepdims=True)

    # What correlates with X' + X'' + y', of which only the variance is known.
    shares = np.maximum(shares, _SMALLEST_SHARE)
    of_bend = shares * (np.abs(bend - centre) + errors.curvature) ** 2 / 4
    of_third = shares * (third_size / 6 + fourth) ** 2
    deviations = np.sqrt(of_bend.sum((1, 2))) + np.sqrt(of_third.sum((1, 2)))
    product = np.sqrt(sums.joint_variance + joint_cube) * deviations
    of_priors: Floats = (overlap * (6 * fourth - third + errors.third)).sum((1, 2))
    return joint_cube + of_priors + 6 * product


def _errors_of_prior(sums: MarginalSums, length: Floats) -> Errors:
    """Bound the errors of the log priors y of coarse sums, over intervals of this length.

    Under the shares P(i | j) the n-th moment of beta X is of the order of that power of |y|, and
    differences of moments lose as many digits as the moments are larger.
    """
    is_coarse = (sums.error > 0)[:, None, None]
    if not is_coarse.any():
        return Errors(*np.zeros((4, 1, 1, 1)))
    n_classes, size = sums.overlap.shape[2], np.abs(sums.log_prior)
    error = np.where(is_coarse, coarse_errors(0.0, n_classes, size)[0], 0.0)
    h, lost = length[:, None, None], 1 + np.log(n_classes) + size
    return Errors(error, h * error, h**2 * lost * error, h**3 * lost**2 * error)


def _errors_of_cubic(
    sums: MarginalSums, length: Floats, of_prior: Errors
) -> tuple[Floats, Floats]:
    """Bound the errors of a parabola of this length, and of a bound of the third derivative."""
    few = 1 + np.log(sums.overlap.shape[2])
    of_classes = sums.overlap * (of_prior.value + of_prior.slope + of_prior.curvature / 2)
    error = sums.error * (1 + length + few * length**2 / 2) + of_classes.sum((1, 2))
    return error, sums.error * few**2 * length**3
