r"""The kernel at given inverse temperatures and in its limits, as sums over pairs.

With scores :math:`A_i, B_i` whose row maxima are zero, a prior :math:`\pi` and
:math:`\ell_j = \log(\max_k \pi_k / \pi_j) \ge 0`, the kernel of one pair is

.. math:: \log\sum_j \frac{p'_i(j)\, p''_i(j)}{\pi_j} = -\log \max_k \pi_k
          + \operatorname{LSE}_j(\beta (A + B)_{ij} + \ell_j)
          - \operatorname{LSE}_j(\beta A_{ij}) - \operatorname{LSE}_j(\beta B_{ij})

The weighted mean over pairs of the first LSE is :math:`L_1`, that of the other two is
:math:`L_2`, and the constant :math:`-\log \max_k \pi_k` is added after the search.

The sums that bound the kernel on intervals are in fixed_prior.py and marginal_prior.py; both bound
it by a cubic from either end.

Far from the maximum an evaluation may be coarse: its exponentials are in single precision, which
costs less than half, and the bounds allow for the errors, which docs/certificate.rst derives.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

from pa_select.agreement.pairs.block import Block
from pa_select.agreement.pairs.paired_scores import PairedScores
from pa_select.solver.bounds import Limits
from pa_select.utils.typing import Floats, Ints, Mask

#: Part of the certificate: the cubes of numbers up to these do not overflow; exp(-x) is 0 long
#: before x reaches them.
LARGEST_CUBED = {torch.float64: 1e100, torch.float32: 1e6}
#: Part of the certificate: in single precision exponentials of less are slow (subnormal numbers),
#: and negligible even if they are multiplied by the cube of `LARGEST_CUBED`.
LOWEST_EXPONENT = -80.0
#: Part of the certificate: factor of the bounds of derivatives in coarse evaluations.
MARGIN = 1.0001

# Part of the certificate: error of the mean of a log posterior, in units of its squared largest
# size.
_ERROR = 4e-7
# Speed only: for fewer scores another copy of them, in single precision, does not pay.
_FEWEST_SCORES = 1 << 15
# Part of the certificate: ranges of log priors, and typical and largest ranges of scores, whose
# cubes float32 can multiply.
_LARGEST_PRIOR_RANGE = 30.0
_RANGES = 1e-3, 1e3
_LARGEST_IN_TYPICAL = 1e6


def limits(pairs: PairedScores, log_weights: Floats) -> Limits:
    """Compute the limits of all problems in one pass."""
    n = pairs.n_problems
    every = np.arange(n)
    weights = pairs.tensors(np.exp(log_weights))[0] if log_weights.any() else None

    def part(block: Block) -> tuple[torch.Tensor, ...]:
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
        marks = block.of_counted(torch.stack([disjoint, peak < 0]).double())
        highest = block.of_counted(ranges)[None]
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
    """Return the kernel of every pair, the log of the sum of p' p'' / pi, by problem.

    At an inverse temperature of 0 every posterior is uniform. The log prior, (len(problems),
    n_classes), is -inf for a class that has probability 0 in all posteriors.
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
        return [block.weighted_sum(block.of_counted(overlap(block))[None])[0]]

    (sums,) = pairs.reduce_blocks(part, problems, "sum")
    return sums.cpu().numpy()


def log_masses(pairs: PairedScores, beta: Floats, problems: Ints) -> tuple[Floats, Floats]:
    """Return the logs of both sides' summed weighted posteriors.

    Each of the two arrays has the shape (len(problems), n_classes).
    """
    (betas,) = pairs.tensors(beta)

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
    (betas,) = pairs.tensors(beta)

    def part(block: Block) -> list[torch.Tensor]:
        # The top score is 0, so that the top posterior is 1 / Z.
        z = [x.exp().sum(0) for x in _tempered(block, block.spread(betas))]
        sides = zip((block.a, block.b), z, strict=True)
        sums = [
            block.class_sums(((x == 0).double(), (block.weight / z)[None]))[0] for x, z in sides
        ]
        return [torch.stack(sums)]

    (sums,) = pairs.reduce_blocks(part, problems, "sum")
    mass_a, mass_b = sums.log().mT.cpu().numpy()
    return mass_a, mass_b


def _overlap_terms(
    pairs: PairedScores, beta: Floats, log_prior: Floats
) -> Callable[[Block], torch.Tensor]:
    """Return a function that computes the kernel of every pair of a block."""
    finite = np.where(np.isneginf(log_prior), 0.0, log_prior)
    betas, log_priors = pairs.tensors(beta, finite.T)
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


def coarse_errors(
    log_size: Floats | float, n_classes: int, prior_range: Floats | float = 0.0
) -> tuple[Floats, Floats]:
    """Bound the rounding errors of a kernel whose sums over pairs are about `log_size`.

    The first bound also holds for the first two derivatives in units of beta: under a tempered
    posterior the mean of beta X is at most log(n_classes), and X, beta and the exponentials have
    relative rounding errors. The second bound is for the third derivative of the mean LSE of
    beta (A + B): distances from the top of A + B are rounded relative to the top, whose mean times
    beta is `log_size` but for log(n_classes), and count by the mean of the cube of beta X.
    """
    size = 1 + np.log(n_classes) + prior_range
    error: Floats = _ERROR * (size**2 + np.abs(log_size))
    return error, size**3 * error


def may_be_coarse(limits: Limits, n_scores: int, prior_range: float = 0.0) -> Mask:
    """Return which problems single precision can hold, if it pays, (n_problems,)."""
    typical, largest = limits.typical_range, limits.largest_range
    fits: Mask = (typical > _RANGES[0]) & (typical < _RANGES[1])
    fits &= largest < _LARGEST_IN_TYPICAL * typical
    return fits & (n_scores >= _FEWEST_SCORES) & (prior_range < _LARGEST_PRIOR_RANGE)
