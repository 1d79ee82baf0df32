r"""Maxima of many replicates of one problem, searched at common inverse temperatures.

Replicates share their pairs and differ in the weights :math:`w_{ri}` of these. At a common
inverse temperature the exponentials are the same for all of them, and sums over pairs are products
of matrices, as are the overlaps :math:`z_{ri} = \sum_j p'_i(j)\, p''_i(j) / \pi_{rj}` with the
marginal prior. So a point is evaluated once for all replicates that have it in common.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch

from pa_select.agreement.inputs.validation import CheckedPrior
from pa_select.agreement.pairs.block import Block
from pa_select.agreement.pairs.paired_scores import PairedScores
from pa_select.agreement.solver.branch_and_bound import Kernel, maximize
from pa_select.agreement.solver.find_maxima import SEARCHED, find_maxima, first_betas
from pa_select.agreement.solver.fixed_prior import FixedPrior, Sums
from pa_select.agreement.solver.kernel_sums import Limits, limits
from pa_select.agreement.solver.marginal_prior import MarginalPrior, MarginalSums
from pa_select.agreement.solver.marginal_sums import MarginalPasses, ModelRuns
from pa_select.utils.typing import Floats, Ints

S = TypeVar("S", bound=tuple[Any, ...])

#: Part of the result: what is returned is below a replicate's maximum by at most this, in nats.
TOLERANCE = 1e-5
# Speed only: the number of first points, and the most points of a replicate. Those that need more
# are solved one by one.
_FIRST_POINTS, _MOST_POINTS = 10, 150
# Speed only: this many overlaps are computed at once, so that they stay in a core's cache.
_OVERLAPS_AT_ONCE = 1 << 16
# Part of the certificate: overlaps with the inverse of a smaller prior could overflow.
_LOWEST_LOG_PRIOR = -300.0


def replicate_maxima(
    a: torch.Tensor, b: torch.Tensor, weights: Floats, prior: CheckedPrior
) -> Floats:
    """Return the maximum over [0, inf] of the kernel of each replicate of one problem.

    The replicates have weights of the pairs, (n_replicates, n_pairs), that sum to one. Their
    maxima are known to `TOLERANCE`; those of replicates that need too many points are as
    `find_maxima` returns them without a certificate.
    """
    pairs = each_pair(a, b)
    scores = np.full(len(weights), np.nan)
    if not (prior.is_marginal and pairs.has_zero_posteriors):
        kernel, limits, constant = _kernel(pairs, weights, prior)
        # One scale gives all replicates the same first points.
        typical = np.full(len(weights), np.median(limits.typical_range))
        with np.errstate(all="ignore"):
            maxima = maximize(
                kernel,
                limits._replace(typical_range=typical),
                TOLERANCE,
                first=first_betas(_FIRST_POINTS),
                in_common=True,
                most=_MOST_POINTS,
            )
        scores = maxima.value + constant
        scores[maxima.exhausted] = np.nan
    open_ = np.isnan(scores)
    if open_.any():
        separate = _separate(pairs, weights[open_])
        scores[open_] = find_maxima(separate, prior, SEARCHED, certify=False).score
    return scores


def _kernel(
    pairs: PairedScores, weights: Floats, prior: CheckedPrior
) -> tuple[Kernel[Any], Limits, float]:
    """Return the kernel of replicates, its limits, and the constant that it lacks."""
    log_weights = prior.log_weights(pairs.n_classes)
    constant = prior.constant(pairs.n_classes)
    limits = replicate_limits(pairs, weights, log_weights)
    if not prior.is_marginal:
        return SharedFixedPrior(pairs, log_weights, limits, weights), limits, constant
    runs = ModelRuns.one_model_each(_separate(pairs, weights))
    kernel = SharedMarginalPrior(runs, pairs, torch.from_numpy(weights).to(pairs.device))
    return kernel, kernel.limits(limits), constant


def _separate(pairs: PairedScores, weights: Floats) -> PairedScores:
    """Return replicates as problems that may have different inverse temperatures."""
    m, n = weights.shape
    zeros = np.zeros(m, dtype=np.int64)
    weight = torch.from_numpy(weights.ravel()).to(pairs.device)
    return PairedScores(pairs.a, pairs.b, weight, zeros + n, zeros, zeros, np.arange(m) * n)


def each_pair(a: torch.Tensor, b: torch.Tensor) -> PairedScores:
    """Make each pair a problem of its own, of weight 1."""
    every, ones = np.arange(len(a)), np.ones(len(a), dtype=np.int64)
    weight = torch.ones(1, dtype=torch.float64, device=a.device).expand(len(a))
    return PairedScores(a, b, weight, ones, every, every, every)


def replicate_limits(pairs: PairedScores, weights: Floats, log_weights: Floats) -> Limits:
    """Return the limits of each replicate with a fixed prior, from those of `each_pair`.

    The largest range is that of all pairs.
    """
    each = limits(pairs, log_weights)
    apart = np.isneginf(each.at_infinity)
    spread = each.typical_range > 0
    finite = each._replace(
        at_infinity=np.where(apart, 0.0, each.at_infinity),
        typical_range=np.log(np.where(spread, each.typical_range, 1.0)),
    )
    means = Limits._make(weights @ x.astype(np.float64) for x in finite)
    spread_weight = weights @ spread
    typical = np.exp(means.typical_range / np.where(spread_weight > 0, spread_weight, 1.0))
    return means._replace(
        at_zero=np.full(len(weights), each.at_zero[0]),  # as for every pair, without rounding
        at_infinity=np.where(weights @ apart > 0, -np.inf, means.at_infinity),
        typical_range=np.where(spread_weight > 0, typical, 0.0),
        largest_range=np.full(len(weights), each.largest_range.max()),
        disjoint=means.disjoint > 0,
    )


def _at_each_beta(
    together: Callable[[float, float, Ints], S], beta: Floats, unit: Floats, problems: Ints
) -> S:
    """Evaluate the replicates of each inverse temperature together."""
    betas, first, group = np.unique(beta, return_index=True, return_inverse=True)
    order = np.argsort(group, kind="stable")
    ends = np.searchsorted(group[order], np.arange(1, len(betas)))
    parts = [
        together(beta[i], unit[i], problems[some])
        for i, some in zip(first, np.split(order, ends), strict=True)
    ]
    back = np.argsort(order)
    make: Any = parts[0]._make  # type: ignore[attr-defined]
    sums: S = make(np.concatenate(x)[back] for x in zip(*parts, strict=True))
    return sums


@dataclass(frozen=True)
class SharedFixedPrior(FixedPrior):
    """The kernels of replicates with a fixed prior; `pairs` are those of `each_pair`."""

    #: (n_replicates, n_pairs) weights of the pairs; they sum to one.
    weights: Floats

    def evaluate(
        self, beta: Floats, unit: Floats, problems: Ints, *, coarse: bool = False
    ) -> Sums:
        """Evaluate the pairs, and average them with the weights of each replicate."""
        n = self.pairs.n_problems

        def together(beta: float, unit: float, problems: Ints) -> Sums:
            at = np.full(n, beta), np.full(n, unit), np.arange(n)
            each = FixedPrior.evaluate(self, *at, coarse=coarse)
            return Sums._make(np.stack(each) @ self.weights[problems].T)

        return _at_each_beta(together, beta, unit, problems)


@dataclass(frozen=True)
class SharedMarginalPrior(MarginalPrior):
    """The kernels of replicates with the marginal prior, one run each; no score may be -inf.

    The value is nan where the mass of a class underflows.
    """

    #: From `each_pair`.
    pairs: PairedScores
    #: (n_replicates, n_pairs) weights of the pairs, on their device.
    weights: torch.Tensor

    def evaluate(
        self, beta: Floats, unit: Floats, problems: Ints, *, coarse: bool = False
    ) -> MarginalSums:
        """Evaluate the replicates of each inverse temperature in two passes over the pairs."""

        def together(beta: float, unit: float, problems: Ints) -> MarginalSums:
            at = np.full(len(problems), beta), np.full(len(problems), unit)
            return super(SharedMarginalPrior, self).evaluate(*at, problems)

        return _at_each_beta(together, beta, unit, problems)

    def _passes(
        self, beta: Floats, unit: Floats, index: Ints, dtype: torch.dtype
    ) -> MarginalPasses:
        chosen = torch.from_numpy(index).to(self.weights.device)
        at = beta[0], unit[0]
        return _SharedPasses(self.pairs, self.weights[chosen], self._farthest, *at)


class _SharedPasses(MarginalPasses):
    """The two passes over the pairs of some replicates."""

    def __init__(
        self,
        pairs: PairedScores,
        weights: torch.Tensor,
        farthest: float,
        beta: float,
        unit: float,
    ) -> None:
        n = pairs.n_problems
        at = np.full(n, beta), np.full(n, unit), np.arange(n)
        super().__init__(pairs, None, farthest, *at, torch.float64)
        self._weights = weights

    def sides(self) -> tuple[Floats, Floats, Floats, Floats]:
        log_mass, classes, totals, largest = super().sides()
        return np.where(np.isneginf(log_mass), np.nan, log_mass), classes, totals, largest

    def _over_pairs(self, part: Callable[[Block], tuple[torch.Tensor, torch.Tensor]]) -> Floats:
        sums: list[torch.Tensor] = []
        largest: list[torch.Tensor] = []
        for place, (added, maxima) in self._pairs.map_blocks(part, self._index):
            added = added @ self._weights[:, place].T
            sums = [sums[0] + added] if sums else [added]
            largest.append(maxima.amax(1, keepdim=True))
        of_all = torch.stack(largest).amax(0).expand(-1, len(self._weights))
        every: Floats = torch.cat([*sums, of_all]).cpu().numpy()
        return every

    def overlaps(self, log_prior: Floats, d_log_prior: Floats) -> tuple[Floats, Floats, Floats]:
        """Run the second pass, with U less the smallest y'; see `MarginalPasses`."""
        log_prior = np.where(log_prior > _LOWEST_LOG_PRIOR, log_prior, np.nan)
        low = d_log_prior.min(1, keepdims=True)
        factor, d, least = self._pairs.tensors(
            np.exp(-log_prior).T, (d_log_prior - low).T, low[:, 0]
        )
        l1, squares, steepest = torch.zeros_like(least).expand(3, -1).clone()
        # Sums of the classes' shares, without their factors, times powers of X.
        moments = factor.new_zeros((4, *factor.shape))
        step = max(_OVERLAPS_AT_ONCE // len(l1), 1)
        for place, (e, x, top) in self._pairs.map_blocks(self._joint, self._index):
            weights = self._weights[:, place]
            l1 += weights @ top
            for begin in range(0, len(top), step):
                some = slice(begin, begin + step)
                weight, power, distance = weights[:, some], e[:, some], x[:, some]
                z = factor.T @ power
                mean = (factor.T @ (power * distance) + (factor * d).T @ power) / z
                steepest = torch.maximum(steepest, mean.amax(1))
                squares += mean.square_().mul_(weight).sum(1)
                share = (weight / z).T
                l1 += z.log_().mul_(weight).sum(1)
                for i, of_power in enumerate(moments):
                    power = power * distance if i else power
                    of_power += power @ share
        shares, m1, m2, m3 = moments.mul_(factor)
        mean = (m1 + d * shares).sum(0)
        square = (m2 + d * (2 * m1 + d * shares)).sum(0)
        cube = (m3 + d * (3 * m2 + d * (3 * m1 + d * shares))).sum(0)
        slope = -mean - least * shares.sum(0)
        sums = torch.stack([l1, slope, (square - squares).clamp_min_(0), cube], 1)
        return sums.cpu().numpy(), steepest.cpu().numpy(), shares.T.cpu().numpy()

    def _joint(self, block: Block) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return exponentials of A + B, distances X, and the log of what divides the former.

        The largest class of each pair counts 1. So no overlap underflows: factors are at least 1.
        """
        beta, unit = block.spread(self._betas)
        x, exponent = self._distances(block.a + block.b, unit, beta)
        top = exponent.amax(0)
        return exponent.sub_(top).exp_(), x, top
