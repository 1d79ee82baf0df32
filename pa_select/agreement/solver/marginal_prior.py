r"""The kernel with the marginal prior: its sums over pairs and their bounds on intervals.

If the prior :math:`\pi_j(\beta)` is the mean posterior, the kernel is not a difference of
convex functions of :math:`\beta`.  But any lower bounds of :math:`y_j = \log \pi_j` on an
interval that are affine in :math:`\beta` give an upper bound of the kernel that is such a
difference.  Both ends of the interval give such a bound, to first and to second order, from means
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

from pa_select.agreement.pairs.block import Block
from pa_select.agreement.solver.kernel_sums import MARGIN, Limits, coarse_errors, log_masses_of_top
from pa_select.agreement.solver.marginal_sums import (
    MarginalPasses,
    ModelMeans,
    ModelRuns,
    log_marginal_priors,
    marginal_kernel,
)
from pa_select.utils.typing import Floats, Ints

# Speed only: this many means (runs times classes) are held at once.
_MEANS_AT_ONCE = 1 << 21


class MarginalSums(NamedTuple):
    """The kernel at n points and its bounds' ingredients: (n,) or (n, n_runs, n_classes).

    Derivatives are in the unit given to `Kernel.evaluate`. The mean of a class is over all
    rows of both sides, weighted by their posteriors of this class: the shares P(i | j). X
    is the distance of a score from the top of its row.
    """

    value: Floats
    slope: Floats
    curvature: Floats
    #: The two convex parts of the kernel, L1 with the prior at this point.
    l1: Floats
    l2: Floats
    dl2: Floats
    #: The log prior y of each run, and its derivative.
    log_prior: Floats
    d_log_prior: Floats
    #: Weighted sums of the classes' shares Q of the overlaps of a run's pairs.
    overlap: Floats
    #: Class means of the variances V, less the mean of V over all rows.
    excess: Floats
    #: How fast the excess can grow, at most, above beta, and below it on [beta / 2, beta].
    growth: Floats
    decline: Floats
    #: Class means of X, and of log(n_classes) minus the entropy of the posterior.
    distance: Floats
    certainty: Floats
    #: Bound of the rounding errors of ``value`` and of its derivatives.
    error: Floats


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
        runs, pairs = self.runs, self.runs.pairs
        index, owner = runs.of(problems)
        dtype = torch.float32 if coarse else torch.float64
        passes = self._passes(beta[owner], unit[owner], index, dtype)
        log_mass, classes, totals = passes.sides()
        means = ModelMeans(runs, problems, index, owner, log_mass)
        y = np.where(np.isneginf(means.log_prior), 0.0, means.log_prior)
        d, d2, variance, third, reverse, entropy, x = np.moveaxis(
            means.by_posterior(classes), -1, 0
        )
        mean_variance, mean_third, mean_reverse = means.by_weight(totals[..., 2:]).T[..., None]
        sums, overlap = passes.overlaps(y, d)
        y_curvature = d2 - d * d - variance
        value, slope, spread = sums.T
        l2, dl2, v2 = totals[..., :3].sum(0).T
        spread = spread - v2 - (overlap * y_curvature).sum(1)

        def by_problem(values: Floats) -> Floats:
            sums: Floats = np.bincount(owner, values, len(problems)).astype(np.float64)
            return sums

        n_runs = int(runs.n_runs.max())
        position = index - (np.cumsum(runs.n_runs) - runs.n_runs)[problems][owner]

        def by_run(values: Floats) -> Floats:
            room = np.zeros((len(problems), n_runs, values.shape[1]))
            room[owner, position] = values
            return room

        l1 = by_problem(value + l2)
        error, margin = np.zeros_like(l1), 1.0
        if coarse:
            # Log priors of rare classes have larger errors, which the overlaps' shares weigh.
            size = np.abs(l1) + by_problem((overlap * np.abs(y)).sum(1))
            error, margin = coarse_errors(size, pairs.n_classes)[0], MARGIN
        return MarginalSums(
            value=by_problem(value),
            slope=by_problem(slope - dl2),
            curvature=by_problem(spread),
            l1=l1,
            l2=by_problem(l2),
            dl2=by_problem(dl2),
            log_prior=by_run(y),
            d_log_prior=by_run(d),
            overlap=by_run(overlap),
            excess=by_run(variance - mean_variance),
            # With rising beta V falls at most eight times as fast as it can grow.
            growth=margin * by_run(third + 8 * mean_third),
            decline=margin * by_run(reverse + mean_reverse / 8),
            distance=by_run(x),
            certainty=by_run(np.log(pairs.n_classes) - entropy),
            error=error,
        )

    def _passes(
        self, beta: Floats, unit: Floats, index: Ints, dtype: torch.dtype
    ) -> MarginalPasses:
        return MarginalPasses(self.runs.pairs, self._nearest, beta, unit, index, dtype)

    def bound(
        self,
        left: MarginalSums,
        right: MarginalSums,
        ends: tuple[Floats, Floats],
        units: tuple[Floats, Floats],
    ) -> tuple[Floats, Floats]:
        """Bound the kernel on intervals; see `Kernel`."""
        a, c = ends
        # The length of the interval in the unit of each end.
        from_a, from_c = ((c - a) / unit for unit in units)
        of_prior = _errors_of_prior(left, from_a) + _errors_of_prior(right, from_c)
        left, right = _widened(left, from_a, 1), _widened(right, from_c, -1)
        error = left.error + right.error
        s, t = from_a[:, None, None], from_c[:, None, None]
        ahead = left.log_prior + s * left.d_log_prior
        back = right.log_prior - t * right.d_log_prior

        def joint(sums: MarginalSums, lower: Floats) -> Floats:
            # L1 at one end, with the lower bound of y from the other end as its log prior.
            change = sums.log_prior - lower + of_prior
            return sums.l1 + _log_mean_exp(sums.overlap, change) + error

        # First order: X and the entropy bound the change of y on any interval.
        lines = [
            (left.l1, joint(right, left.log_prior - s * left.distance)),
            (joint(left, back - ((c - a) / c)[:, None, None] * right.certainty), right.l1),
        ]
        l2 = left.l2, right.l2, from_a * left.dl2, from_c * right.dl2
        bound, at = _lines_minus_tangents(lines, *l2)
        # Second order, from the right end only if the bounds of third moments hold.
        rise = np.maximum(s * s * (left.excess / 2 + s * left.growth / 6), 0)
        fall = np.maximum(t * t * (right.excess / 2 + t * right.decline / 6), 0)
        near = c <= 2 * a
        lines = [
            (left.l1 - left.l2 / 2, joint(right, ahead - rise) - (left.l2 + l2[2]) / 2),
            (
                np.where(near, joint(left, back - fall) - (right.l2 - l2[3]) / 2, np.inf),
                np.where(near, right.l1 - right.l2 / 2, np.inf),
            ),
        ]
        second, second_at = _lines_minus_tangents(lines, *(x / 2 for x in l2))
        use = (second < bound) | np.isnan(bound)
        return np.where(use, second, bound), np.where(use, second_at, at)

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
            return [block.weighted_sum(torch.where(block.weight > 0, terms, 0.0)[None])[0]]

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
        """Smallest and largest distance X of each class, each (2 sides, K, n_runs)."""
        pairs = self.runs.pairs

        def part(block: Block) -> list[torch.Tensor]:
            x = -torch.cat([block.a, block.b])
            used = block.weight > 0
            return [
                block.reduce(torch.where(used, x, torch.inf), "min"),
                block.reduce(torch.where(used, x, -torch.inf), "max"),
            ]

        every = np.arange(pairs.n_problems)
        nearest, farthest = pairs.reduce_blocks(part, every, "min", "max")
        return nearest.view(2, pairs.n_classes, -1), farthest.view(2, pairs.n_classes, -1)

    @cached_property
    def _nearest(self) -> Floats | None:
        """Smallest distances; None if every class is the top of some row in every run."""
        nearest: Floats = self._extremes[0].cpu().numpy()
        nearest = np.where(np.isfinite(nearest), nearest, 0.0)
        return nearest if nearest.any() else None

    def _extremes_of_models(self) -> tuple[Floats, Floats]:
        """Smallest and largest distance X of each model, each (n_problems, n_models, K)."""
        runs = self.runs
        problem = np.repeat(np.arange(len(runs.n_runs)), runs.n_runs)
        model = np.stack([runs.model_a, runs.model_b]) + problem * runs.n_models
        low, high = (x.movedim(1, 2).cpu().numpy() for x in self._extremes)
        shape = (len(runs.n_runs), runs.n_models, runs.pairs.n_classes)
        lowest, highest = (np.full(shape, end) for end in (np.inf, -np.inf))
        np.minimum.at(lowest.reshape(-1, shape[2]), model, low)
        np.maximum.at(highest.reshape(-1, shape[2]), model, high)
        return lowest, highest


def _errors_of_prior(sums: MarginalSums, length: Floats) -> Floats:
    """Bound the errors of parabolas of this length that extend the log priors y of coarse sums.

    Under the shares P(i | j) the n-th moment of beta X is of the order of that power of |y|.
    """
    is_coarse = (sums.error > 0)[:, None, None]
    if not is_coarse.any():
        return np.zeros_like(sums.log_prior)
    errors, _ = coarse_errors(0.0, sums.overlap.shape[2], np.abs(sums.log_prior))
    return np.where(is_coarse, (1 + length + length**2 / 2)[:, None, None] * errors, 0.0)


def _widened(sums: MarginalSums, length: Floats, direction: int) -> MarginalSums:
    """Return the sums that make the bound as high as the errors allow.

    Their error is that of a parabola of this length. `direction` is 1 at the left end of an
    interval and -1 at the right end.
    """
    return sums._replace(
        l1=sums.l1 + sums.error,
        l2=sums.l2 - sums.error,
        dl2=sums.dl2 - direction * sums.error,
        error=sums.error * (1 + length + length**2 / 2),
    )


def _log_mean_exp(overlap: Floats, exponent: Floats) -> Floats:
    """Return the sum over runs of W log(sum_j Q_j exp(e_j) / W), with W the sum of all Q_j."""
    weight = overlap.sum(2)
    # A share that underflows may still count, times the exponential.
    share = np.maximum(overlap, 1e-300)
    top = exponent.max(2)
    mean = (share * np.exp(exponent - top[..., None])).sum(2) / weight
    terms: Floats = np.where(weight > 0, weight * (top + np.log(mean)), 0.0).sum(1)
    return terms


def _lines_minus_tangents(
    lines: Sequence[Sequence[Floats]], l2_a: Floats, l2_c: Floats, step_a: Floats, step_c: Floats
) -> tuple[Floats, Floats]:
    """Return the maximum on [0, 1] of the lower line minus the higher tangent, and its place.

    Each line is given by its values at 0 and 1, and the tangents of L2 at the two ends by the
    values ``l2_a`` and ``l2_c`` there and their change over the interval.
    """
    meeting = (l2_c - step_c - l2_a) / (step_a - step_c)
    (first, second) = (line[0] - line[1] for line in zip(*lines, strict=True))
    crossing = first / (first - second)
    best, at = np.full(l2_a.shape, -np.inf), np.full(l2_a.shape, 0.5)
    for t in (np.zeros_like(at), np.ones_like(at), meeting, crossing):
        t = np.where((t >= 0) & (t <= 1), t, 0.0)
        line = np.minimum(*(begin + (end - begin) * t for begin, end in lines))
        height = line - np.maximum(l2_a + step_a * t, l2_c - step_c * (1 - t))
        higher = height > best
        best, at = np.where(higher, height, best), np.where(higher, t, at)
    # If the arithmetic overflows, there is no bound.
    return np.where(np.isneginf(best), np.nan, best), at
