r"""The posterior agreement kernel as sums over pairs.

With scores :math:`A_i, B_i` whose row maxima are zero, :math:`S_i = A_i + B_i`, a
prior :math:`\pi` and :math:`\ell_j = \log(\max_k \pi_k / \pi_j) \ge 0`, the kernel of
one pair is

.. math:: \log\sum_j \frac{p'_i(j)\, p''_i(j)}{\pi_j} = -\log \max_k \pi_k
          + \operatorname{LSE}_j(\beta S_{ij} + \ell_j)
          - \operatorname{LSE}_j(\beta A_{ij}) - \operatorname{LSE}_j(\beta B_{ij})

The functions here return weighted means over pairs: of these terms, of the two convex
parts :math:`L_1` (first LSE) and :math:`L_2` (the other two) with what a certificate
needs, and of the limits at inverse temperature 0 and infinity.  Maximisation sees
nothing but these numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pa_select.agreement.pairs import Block, Ints, PairedScores

Floats = NDArray[np.float64]

# A distribution on a range R has a third central moment of at most R^3 / (6 sqrt 3).
_THIRD_MOMENT_PER_RANGE = 1 / (6 * math.sqrt(3))


class Sums(NamedTuple):
    """Means over pairs at inverse temperatures, each of shape (n_problems, m).

    The kernel without its constant is ``l1 - l2``; ``l1`` and ``l2`` are convex. Derivatives
    are in a given unit of the inverse temperature, so that they are of order one for
    scores of any size: n-th derivatives are multiplied by the n-th power of the unit.
    """

    l1: Floats
    l2: Floats
    #: First derivatives.
    dl1: Floats
    dl2: Floats
    #: Second derivative of ``l1 - l2``.
    curvature: Floats
    #: Bounds of the third derivative of ``l1 - l2`` and of its negative on
    #: [beta, 2 beta]; at beta = 0 on [0, inf).
    rise: Floats
    fall: Floats


class Limits(NamedTuple):
    """What one pass without an exponential tells, each of shape (n_problems,)."""

    #: The kernel without its constant at beta = 0 and for beta -> inf (-inf if unbounded).
    at_zero: Floats
    at_infinity: Floats
    #: No beta gives more: a pair's overlap is at most the top posterior of either side,
    #: one over its number of ties, as if it were all on the rarest class.
    ceiling: Floats
    #: For beta -> inf: slope of ``l1`` (at most 0) and infimum of ``l2``.
    slope: Floats
    l2_floor: Floats
    #: Smallest, typical and largest distance between two scores of a pair (0 if all tie).
    smallest_margin: Floats
    typical_range: Floats
    largest_range: Floats
    #: Share of pairs whose predicted classes agree; ties count by their overlap.
    agreement_rate: Floats
    #: Whether some pair's posteriors are disjoint at every beta > 0.
    disjoint: NDArray[np.bool_]


def log_prior_weights(prior: Floats | None, n_classes: int) -> tuple[Floats, float]:
    r"""Return :math:`\ell` and :math:`-\log\max\pi`; ``None`` is the uniform prior."""
    if prior is None:
        return np.zeros(n_classes), math.log(n_classes)
    log_prior = np.log(prior)
    return log_prior.max() - log_prior, float(-log_prior.max())


def limits(pairs: PairedScores, log_weights: Floats) -> Limits:
    """Compute the limits of all problems in one pass."""
    n = pairs.n_problems
    every = np.arange(n)
    sums = torch.zeros(9, n, dtype=torch.float64, device=pairs.device)
    smallest = torch.full((n,), torch.inf, dtype=torch.float64, device=pairs.device)
    largest = torch.zeros(n, dtype=torch.float64, device=pairs.device)
    weights = pairs.tensor(np.exp(log_weights))[:, None]

    def part(block: Block) -> tuple[torch.Tensor, ...]:
        counts = block.weight > 0
        peak = (block.a + block.b).amax(0)
        top_a, top_b = block.a == 0, block.b == 0
        both = top_a & top_b
        ties_a, ties_b = top_a.sum(0).double(), top_b.sum(0).double()
        meet = (both * weights).sum(0)
        disjoint = torch.isneginf(peak)
        ranges, margins = _range_and_margin(block)
        spread = ranges > 0
        rows = torch.stack(
            [
                torch.where(disjoint, 0.0, peak),
                ties_a.log() + ties_b.log(),
                torch.where(meet > 0, meet, 1.0).log(),
                both.sum(0) / (ties_a * ties_b),
                torch.maximum(ties_a, ties_b).log(),
                torch.where(spread, ranges, 1.0).log(),
                spread.double(),
            ]
        )
        marks = torch.stack([disjoint & counts, (peak < 0) & counts]).double()
        lowest = torch.where(counts, margins, torch.inf)[None]
        highest = torch.where(counts, ranges, 0.0)[None]
        return (
            torch.cat([block.weighted_sum(rows), block.reduce(marks)]),
            block.reduce(lowest, "min")[0],
            block.reduce(highest, "max")[0],
        )

    for here, (added, lowest, highest) in pairs.map_blocks(part, every):
        sums[:, here] += added
        smallest[here] = torch.minimum(smallest[here], lowest)
        largest[here] = torch.maximum(largest[here], highest)
    slope, l2_floor, l1_floor, agree, log_ties, log_range, spread_weight, n_disjoint, n_apart = (
        sums.cpu().numpy()
    )
    at_zero = math.log(np.exp(log_weights).sum()) - 2 * math.log(pairs.n_classes)
    typical = np.exp(log_range / np.where(spread_weight > 0, spread_weight, 1.0))
    return Limits(
        at_zero=np.full(n, at_zero),
        at_infinity=np.where(n_apart > 0, -np.inf, l1_floor - l2_floor),
        ceiling=log_weights.max() - log_ties,
        slope=slope,
        l2_floor=l2_floor,
        smallest_margin=smallest.cpu().numpy(),
        typical_range=np.where(spread_weight > 0, typical, 0.0),
        largest_range=largest.cpu().numpy(),
        agreement_rate=np.clip(agree, 0.0, 1.0),
        disjoint=n_disjoint > 0,
    )


def _range_and_margin(block: Block) -> tuple[torch.Tensor, torch.Tensor]:
    """Largest and smallest positive distance of a pair's finite scores to their top."""
    largest = torch.zeros_like(block.weight)
    smallest = torch.full_like(block.weight, torch.inf)
    for scores in (block.a, block.b):
        finite = torch.isfinite(scores)
        largest = torch.maximum(largest, -torch.where(finite, scores, 0.0).amin(0))
        below = torch.where(finite & (scores < 0), scores, -torch.inf)
        smallest = torch.minimum(smallest, -below.amax(0))
    return largest, smallest


def evaluate(
    pairs: PairedScores, beta: Floats, unit: Floats, problems: Ints, log_weights: Floats
) -> Sums:
    """Evaluate the two convex sums of the given problems in one pass.

    Parameters
    ----------
    pairs : PairedScores
    beta : ndarray of shape (len(problems), m)
        Finite inverse temperatures; 0 stands for the limit from above.
    unit : ndarray of shape (len(problems), m)
        Unit of the derivatives: `beta` where that is positive.
    problems : ndarray of int
        Ascending indices of problems without disjoint posteriors.
    log_weights : ndarray of shape (n_classes,)
        From `log_prior_weights`.
    """
    betas, units = pairs.tensor(beta.T), pairs.tensor(unit.T)
    sums = torch.zeros(7, *betas.shape, dtype=torch.float64, device=pairs.device)
    factor = pairs.tensor(np.exp(log_weights))[:, None] if log_weights.any() else None
    prior_range = float(log_weights.max())

    def part(block: Block) -> torch.Tensor:
        joint = block.a + block.b
        peak = joint.amax(0)
        if pairs.has_zero_posteriors:
            # Only pairs of weight 0 are disjoint here.
            peak = torch.where(torch.isneginf(peak), 0.0, peak)
        x_a = _Distances(-block.a, pairs.has_zero_posteriors)
        x_b = _Distances(-block.b, pairs.has_zero_posteriors)
        x_s = _Distances(peak - joint, pairs.has_zero_posteriors, factor)
        parts = []
        for beta_j, unit_j in zip(block.spread(betas), block.spread(units), strict=True):
            a, b, s = (x.moments(beta_j, unit_j) for x in (x_a, x_b, x_s))
            rise, fall = _third_derivative_bounds(beta_j > 0, a, b, s, prior_range)
            rows = torch.stack(
                [
                    # Below this the pair decides against such a beta on its own.
                    s.log_z + (beta_j * peak).clamp_min(-1e300),
                    a.log_z + b.log_z,
                    (unit_j * peak).clamp_min(-1e300) - s.mean,
                    -(a.mean + b.mean),
                    s.variance - a.variance - b.variance,
                    rise,
                    fall,
                ]
            )
            parts.append(block.weighted_sum(rows))
        return torch.stack(parts, dim=1)

    for here, added in pairs.map_blocks(part, problems):
        sums[:, :, here] += added
    return Sums(*sums.permute(0, 2, 1).cpu().numpy())


class _Moments(NamedTuple):
    """Of the distances X of each pair's scores from their top, under exp(-beta X).

    X is in inverse units of beta.
    """

    log_z: torch.Tensor
    mean: torch.Tensor
    variance: torch.Tensor
    #: Upper bounds of E X^2, E X^3 on [beta, 2 beta].
    second: torch.Tensor
    third: torch.Tensor
    #: Largest X, inf where it cannot tell a small change: some posterior is zero.
    range: torch.Tensor
    #: Upper bound of the size of the third central moment at any temperature.
    third_central: torch.Tensor


class _Distances:
    """Distances X of the scores of a block's pairs from their top, with prior factors."""

    def __init__(
        self, x: torch.Tensor, may_be_infinite: bool, factor: torch.Tensor | None = None
    ) -> None:
        self.complete = None
        if may_be_infinite:
            finite = torch.isfinite(x)
            self.complete = finite.all(0)
            # A disjoint pair (of weight 0) keeps a harmless distance of 0.
            allowed = finite | ~finite.any(0)
            x = torch.where(finite, x, 0.0)
            factor = allowed.double() if factor is None else allowed * factor
        self.x = x
        self.factor = factor
        self.largest = x.amax(0)

    def moments(self, beta: torch.Tensor, unit: torch.Tensor) -> _Moments:
        e = torch.exp(-beta * self.x)
        x = unit * self.x
        # Where exp(-x) is zero, x^3 need only be finite.
        x = torch.where(beta > 0, x.clamp_max(1e100), x)
        if self.factor is not None:
            e = e * self.factor
        z = e.sum(0)
        e = e * x
        mean = e.sum(0) / z
        e = e * x
        second = e.sum(0) / z
        e = e * x
        third = e.sum(0) / z
        # The sums of e X^n decrease in beta.  So does Z: in all to no less than 1, since
        # every factor is at least 1, and from beta to 2 beta, log Z being convex with
        # slope -mean, by a factor of exp(-beta mean) at most.
        decrease = torch.minimum(z, torch.exp(mean))
        extent = unit * self.largest
        return _Moments(
            z.log(),
            mean,
            (second - mean * mean).clamp_min(0),
            second * decrease,
            third * decrease,
            extent if self.complete is None else torch.where(self.complete, extent, torch.inf),
            _THIRD_MOMENT_PER_RANGE * extent**3,
        )


def _third_derivative_bounds(
    positive: torch.Tensor, a: _Moments, b: _Moments, s: _Moments, prior_range: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Bounds of the third derivative of each pair's kernel and of its negative.

    They hold on [beta, 2 beta], at beta = 0 on [0, inf).  Third derivatives of log Z are
    minus the third central moments m3 of X >= 0, and -E X^3 / 8 <= m3 <= E X^3.

    Where one side has a small range R, log Z of the sum of scores nearly cancels that of
    the other side.  Tilting the one into the other by t (beta R + log prior weight),
    t in [0, 1], changes the third cumulant at a rate of k4(T, Y, Y, Y) + 3 k3(R, Y, Y):
    joint cumulants that are at most 5/2 T E Z^3 and R E Z^2, where T is the range of the
    tilt and Z <= X + R, under a measure within exp(T) of the side's own.
    """
    infinity = torch.where(positive, 0.0, torch.inf)
    third_a, third_b, third_s = (m.third + infinity for m in (a, b, s))
    minimum = torch.minimum
    rise = (
        minimum(third_s / 8, s.third_central)
        + minimum(third_a, a.third_central)
        + minimum(third_b, b.third_central)
    )
    fall = (
        minimum(third_s, s.third_central)
        + minimum(third_a / 8, a.third_central)
        + minimum(third_b / 8, b.third_central)
    )
    for flat, other in ((a, b), (b, a)):
        r = flat.range
        tilt = 2 * r + prior_range
        change = 10 * tilt * (other.third + r**3) + 6 * r * (other.second + r**2)
        change = torch.exp(tilt) * change + flat.third_central + infinity
        rise, fall = torch.fmin(rise, change), torch.fmin(fall, change)
    return rise, fall


def pair_terms(
    pairs: PairedScores, beta: Floats, problems: Ints, log_prior: Floats
) -> list[Floats]:
    r"""Kernel of every pair, :math:`\log\sum_j p'_i(j) p''_i(j) / \pi_j`, by problem.

    Parameters
    ----------
    pairs : PairedScores
    beta : ndarray of shape (len(problems),)
        Inverse temperatures in [0, inf]; at 0 every posterior is uniform.
    problems : ndarray of int
    log_prior : ndarray of shape (len(problems), n_classes)
        Log prior; -inf where no posterior gives the class any mass.
    """
    overlap = _overlap_terms(pairs, beta, log_prior)
    terms = [part for _, part in pairs.map_blocks(overlap, problems)]
    ends = np.cumsum(pairs.counts[problems])
    return np.split(torch.cat(terms).cpu().numpy(), ends[:-1])


def mean_terms(pairs: PairedScores, beta: Floats, problems: Ints, log_prior: Floats) -> Floats:
    """Weighted means of `pair_terms`, without keeping the terms."""
    overlap = _overlap_terms(pairs, beta, log_prior)

    def part(block: Block) -> torch.Tensor:
        return block.weighted_sum(torch.where(block.weight > 0, overlap(block), 0.0)[None])[0]

    sums = torch.zeros(len(problems), dtype=torch.float64, device=pairs.device)
    for here, added in pairs.map_blocks(part, problems):
        sums[here] += added
    return sums.cpu().numpy()


def log_masses(pairs: PairedScores, beta: Floats, problems: Ints) -> tuple[Floats, Floats]:
    """Logs of both sides' summed weighted posteriors, each (len(problems), n_classes)."""
    betas = pairs.tensor(beta)

    def part(block: Block) -> torch.Tensor:
        sides = _tempered(block, block.spread(betas))
        log_p = torch.cat([x - torch.logsumexp(x, 0) for x in sides])
        rows = log_p + block.weight.log()
        # Log-sum-exp over the pairs of each problem, so that no mass underflows to 0.
        top = block.reduce(rows, "max").clamp_min(-1e300)
        centred = rows - block.spread_own(top)
        return top + block.reduce(centred.exp()).log()

    shape = (2 * pairs.n_classes, len(problems))
    log_sums = torch.full(shape, -torch.inf, dtype=torch.float64, device=pairs.device)
    for here, added in pairs.map_blocks(part, problems):
        log_sums[:, here] = torch.logaddexp(log_sums[:, here], added)
    mass_a, mass_b = log_sums.T.cpu().numpy().reshape(len(problems), 2, -1).swapaxes(0, 1)
    return mass_a, mass_b


def _overlap_terms(
    pairs: PairedScores, beta: Floats, log_prior: Floats
) -> Callable[[Block], torch.Tensor]:
    """The kernel of every pair of a block."""
    betas = pairs.tensor(beta)
    log_priors = pairs.tensor(np.where(np.isneginf(log_prior), 0.0, log_prior).T)

    def overlap(block: Block) -> torch.Tensor:
        a, b = _tempered(block, block.spread(betas))
        joint = torch.logsumexp(a + b - block.spread(log_priors), 0)
        return joint - torch.logsumexp(a, 0) - torch.logsumexp(b, 0)

    return overlap


def _tempered(block: Block, beta: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores times beta, also where beta is 0 or inf or a score is -inf (0 * inf = 0)."""
    return tuple(  # type: ignore[return-value]
        torch.nan_to_num(beta * x, nan=0.0, neginf=-torch.inf) for x in (block.a, block.b)
    )
