r"""The kernel at given inverse temperatures and in its limits, as sums over pairs.

With scores :math:`A_i, B_i` whose row maxima are zero, a prior :math:`\pi` and
:math:`\ell_j = \log(\max_k \pi_k / \pi_j) \ge 0`, the kernel of one pair is

.. math:: \log\sum_j \frac{p'_i(j)\, p''_i(j)}{\pi_j} = -\log \max_k \pi_k
          + \operatorname{LSE}_j(\beta (A + B)_{ij} + \ell_j)
          - \operatorname{LSE}_j(\beta A_{ij}) - \operatorname{LSE}_j(\beta B_{ij})

The weighted mean over pairs of the first LSE is :math:`L_1`, that of the other two is
:math:`L_2`, and the constant :math:`-\log \max_k \pi_k` is added after the search.

This module has the limits at inverse temperatures 0 and infinity (`limits`), the terms of
the pairs and their means (`pair_terms`, `mean_terms`), and the summed posteriors of each
class, from which marginal priors are made (`log_masses`, `log_masses_of_top`).  The sums
that bound the kernel on intervals are in fixed_prior.py and marginal_passes.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pa_select.agreement.pairs.block import Block
from pa_select.agreement.pairs.paired_scores import PairedScores
from pa_select.utils.typing import Floats, Ints


class Limits(NamedTuple):
    """Limits of the kernel and ranges of the scores, each of shape (n_problems,).

    One pass without exponentials computes them.
    """

    #: The kernel without its constant at beta = 0 and for beta -> inf (-inf if unbounded).
    at_zero: Floats
    at_infinity: Floats
    #: An upper bound at every beta. The overlap of a pair is at most the top posterior of
    #: either side, which is at most one over its number of ties; all of it may be on the
    #: class of the smallest prior.
    ceiling: Floats
    #: For beta -> inf: the slope of L1 (at most 0) and the infimum of L2.
    slope: Floats
    l2_floor: Floats
    #: Geometric mean over pairs, and maximum, of the range of a pair's scores (0 if all tie).
    typical_range: Floats
    largest_range: Floats
    #: Share of pairs whose predicted classes agree. A tie counts by the share of its
    #: combinations of classes that agree.
    agreement_rate: Floats
    #: Whether some pair's posteriors are disjoint at every beta > 0.
    disjoint: NDArray[np.bool_]


def limits(pairs: PairedScores, log_weights: Floats) -> Limits:
    """Compute the limits of all problems in one pass."""
    n = pairs.n_problems
    every = np.arange(n)
    weights = pairs.tensor(np.exp(log_weights)) if log_weights.any() else None

    def part(block: Block) -> tuple[torch.Tensor, ...]:
        counts = block.weight > 0
        joint = block.a + block.b
        peak = joint.amax(0)
        # Sums of booleans would be slower.
        top = torch.empty_like(joint)
        ties_a, ties_b = (torch.eq(x, 0, out=top).sum(0) for x in (block.a, block.b))
        shared = torch.eq(joint, 0, out=top).sum(0)
        meet = shared if weights is None else weights @ top
        disjoint = torch.isneginf(peak)
        ranges = _range(block, pairs.has_zero_posteriors)
        spread = ranges > 0
        rows = torch.stack(
            [
                torch.where(disjoint, 0.0, peak),
                ties_a.log() + ties_b.log(),
                torch.where(meet > 0, meet, 1.0).log(),
                shared / (ties_a * ties_b),
                torch.maximum(ties_a, ties_b).log(),
                torch.where(spread, ranges, 1.0).log(),
                spread.double(),
            ]
        )
        marks = torch.stack([disjoint & counts, (peak < 0) & counts]).double()
        highest = torch.where(counts, ranges, 0.0)[None]
        return (
            torch.cat([block.weighted_sum(rows), block.reduce(marks)]),
            block.reduce(highest, "max")[0],
        )

    sums, largest = pairs.reduce_blocks(part, every, "sum", "max")
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
        typical_range=np.where(spread_weight > 0, typical, 0.0),
        largest_range=largest.cpu().numpy(),
        agreement_rate=np.clip(agree, 0.0, 1.0),
        disjoint=n_disjoint > 0,
    )


def _range(block: Block, may_be_infinite: bool) -> torch.Tensor:
    """Return the largest distance of each pair's finite scores from their top."""
    both = block.a, block.b
    if may_be_infinite:
        both = tuple(torch.where(torch.isneginf(x), 0.0, x) for x in both)  # type: ignore[assignment]
    return -torch.minimum(*(x.amin(0) for x in both))


def pair_terms(
    pairs: PairedScores, beta: Floats, problems: Ints, log_prior: Floats
) -> list[Floats]:
    r"""Return the kernel of every pair, :math:`\log\sum_j p'_i(j) p''_i(j) / \pi_j`, by problem.

    Parameters
    ----------
    pairs : PairedScores
    beta : ndarray of shape (len(problems),)
        Inverse temperatures in [0, inf]; at 0 every posterior is uniform.
    problems : ndarray of int
    log_prior : ndarray of shape (len(problems), n_classes)
        Log prior; -inf for a class that has probability 0 in all posteriors.
    """
    overlap = _overlap_terms(pairs, beta, log_prior)
    ends = np.cumsum(pairs.counts[problems])
    terms, begin = np.empty(ends[-1]), 0
    for _, part in pairs.map_blocks(overlap, problems):
        terms[begin : begin + len(part)] = part.cpu().numpy()
        begin += len(part)
    return np.split(terms, ends[:-1])


def mean_terms(pairs: PairedScores, beta: Floats, problems: Ints, log_prior: Floats) -> Floats:
    """Return the weighted means of `pair_terms`, without keeping the terms."""
    overlap = _overlap_terms(pairs, beta, log_prior)

    def part(block: Block) -> list[torch.Tensor]:
        return [block.weighted_sum(torch.where(block.weight > 0, overlap(block), 0.0)[None])[0]]

    (sums,) = pairs.reduce_blocks(part, problems, "sum")
    return sums.cpu().numpy()


def log_masses(pairs: PairedScores, beta: Floats, problems: Ints) -> tuple[Floats, Floats]:
    """Return the logs of both sides' summed weighted posteriors.

    Each of the two arrays has the shape (len(problems), n_classes).
    """
    betas = pairs.tensor(beta)

    def part(block: Block) -> list[torch.Tensor]:
        sides = _tempered(block, block.spread(betas))
        log_p = torch.cat([x - torch.logsumexp(x, 0) for x in sides])
        rows = log_p + block.weight.log()
        # A log-sum-exp over the pairs of each problem keeps masses from underflowing to 0.
        top = block.reduce(rows, "max").clamp_min(-1e300)
        centred = rows - block.spread_own(top)
        return [top + block.reduce(centred.exp()).log()]

    (log_sums,) = pairs.reduce_blocks(part, problems, "logsumexp")
    mass_a, mass_b = log_sums.T.cpu().numpy().reshape(len(problems), 2, -1).swapaxes(0, 1)
    return mass_a, mass_b


def log_masses_of_top(pairs: PairedScores, beta: Floats, problems: Ints) -> tuple[Floats, Floats]:
    """Return `log_masses`, counting only the classes that each row ranks first."""
    betas = pairs.tensor(beta)

    def part(block: Block) -> list[torch.Tensor]:
        # The top score is 0, so that the top posterior is 1 / Z.
        z = [x.exp().sum(0) for x in _tempered(block, block.spread(betas))]
        sides = zip((block.a, block.b), z, strict=True)
        sums = [block.class_sums((x == 0).double(), (block.weight / z)[None])[0] for x, z in sides]
        return [torch.stack(sums)]

    (sums,) = pairs.reduce_blocks(part, problems, "sum")
    mass_a, mass_b = sums.log().mT.cpu().numpy()
    return mass_a, mass_b


def _overlap_terms(
    pairs: PairedScores, beta: Floats, log_prior: Floats
) -> Callable[[Block], torch.Tensor]:
    """Return a function that computes the kernel of every pair of a block."""
    finite = np.where(np.isneginf(log_prior), 0.0, log_prior)
    betas, log_priors = pairs.tensors(beta, finite.T, dtype=torch.float64)
    usual = bool(((beta > 0) & (beta < np.inf)).all())

    def overlap(block: Block) -> torch.Tensor:
        beta_i = block.spread(betas)
        a, b = (beta_i * block.a, beta_i * block.b) if usual else _tempered(block, beta_i)
        joint = torch.logsumexp((a + b).sub_(block.spread(log_priors)), 0)
        # The top score is 0, so that the exponentials do not overflow.
        z = a.exp_().sum(0) * b.exp_().sum(0)
        return joint - z.log()

    return overlap


def _tempered(block: Block, beta: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return scores times beta, with 0 * inf = 0 if beta is 0 or inf or a score is -inf."""
    return tuple(  # type: ignore[return-value]
        torch.nan_to_num(beta * x, nan=0.0, neginf=-torch.inf) for x in (block.a, block.b)
    )
