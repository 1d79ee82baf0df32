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

#: Part of the result: what is returned is below a replicate's maximum by at most this, in nats,
#: with a fixed prior and with the marginal one, whose bounds close more slowly.
TOLERANCE, MARGINAL_TOLERANCE = 1e-5, 5e-5
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
    maxima are known to `TOLERANCE`, or to `MARGINAL_TOLERANCE` with the marginal prior; those of
    replicates that need too many points are as `find_maxima` returns them without a certificate.
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
                MARGINAL_TOLERANCE if prior.is_marginal else TOLERANCE,
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

    The value is nan where the mass of a class underflows, the curvature always.
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
        return _SharedPasses(self.pairs, self.weights[chosen], beta[0], unit[0])


class _SharedPasses(MarginalPasses):
    """The two passes over the pairs of some replicates."""

    def __init__(
        self, pairs: PairedScores, weights: torch.Tensor, beta: float, unit: float
    ) -> None:
        n = pairs.n_problems
        at = np.full(n, beta), np.full(n, unit), np.arange(n)
        super().__init__(pairs, None, *at, torch.float64)
        self._weights = weights

    def sides(self) -> tuple[Floats, Floats, Floats]:
        log_mass, classes, totals = super().sides()
        return np.where(np.isneginf(log_mass), np.nan, log_mass), classes, totals

    def _over_pairs(self, part: Callable[[Block], torch.Tensor]) -> torch.Tensor:
        each = self._pairs.map_blocks(part, self._index)
        sums: torch.Tensor = sum(x @ self._weights[:, here].T for here, x in each)  # type: ignore[assignment]
        return sums

    def overlaps(self, log_prior: Floats, d_log_prior: Floats) -> tuple[Floats, Floats]:
        """Run the second pass, without the variance; see `MarginalPasses`."""
        log_prior = np.where(log_prior > _LOWEST_LOG_PRIOR, log_prior, np.nan)
        factor, d = self._pairs.tensors(np.exp(-log_prior).T, d_log_prior.T)
        value = torch.zeros_like(factor[0])
        shares, moments = torch.zeros_like(factor), torch.zeros_like(factor)
        step = max(_OVERLAPS_AT_ONCE // len(value), 1)
        for place, (e, x, constant) in self._pairs.map_blocks(self._joint, self._index):
            weights = self._weights[:, place]
            value += weights @ constant
            for begin in range(0, len(constant), step):
                some = slice(begin, begin + step)
                weight, e_some = weights[:, some], e[:, some]
                z = factor.T @ e_some
                share = (weight / z).T
                value += z.log_().mul_(weight).sum(1)
                shares += e_some @ share
                moments += (e_some * x[:, some]) @ share
        shares *= factor
        slope = -(moments * factor + d * shares).sum(0)
        sums = torch.stack([value, slope, torch.full_like(value, torch.nan)], 1)
        return sums.cpu().numpy(), shares.T.cpu().numpy()

    def _joint(self, block: Block) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return exponentials of A + B, distances X, and the log of what divides the former.

        The largest class of each pair counts 1. So no overlap underflows: factors are at least 1.
        """
        a, b = self._sides(block)
        joint = (block.a + block.b).mul_(block.spread(self._beta))
        top = joint.amax(0)
        return joint.sub_(top).exp_(), a.x + b.x, top - a.log_z - b.log_z
