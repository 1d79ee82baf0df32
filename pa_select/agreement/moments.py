r"""Moments of pairs' scores under their tempered posteriors, for both sides and their sum.

:math:`X \ge 0` are the distances of a pair's scores from the largest one, also of the sums of
both sides' scores; :math:`Z = \sum_j e^{-\beta X_j}`, with the inverse of the prior as a factor
for the sums.  The third derivative of :math:`\log Z` is minus the third central moment
:math:`\mu_3` of :math:`X`, and :math:`-E X^3 / 8 \le \mu_3 \le E X^3`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from pa_select.agreement.pairs import Block
from pa_select.agreement.precision import LARGEST_CUBED, LOWEST_EXPONENT

# A distribution on a range R has a third central moment of at most R^3 / (6 sqrt 3).
THIRD_MOMENT_PER_RANGE = 1 / (6 * math.sqrt(3))
# Units of the inverse temperature whose cubes are numbers.
_UNITS = 1e-90, 1e90


class Moments(NamedTuple):
    """Of the distances X, in inverse units; (3, n_rows): both sides and their sum."""

    log_z: torch.Tensor
    mean: torch.Tensor
    second: torch.Tensor
    third: torch.Tensor
    #: How much E X^2 and E X^3 may grow up to 2 beta, and on the chord on the way there.
    growth: torch.Tensor
    #: Largest X, inf where it cannot tell a small change: some posterior is zero.
    range: torch.Tensor
    #: Upper bound of the size of the third central moment at any temperature.
    third_central: torch.Tensor


class Distances:
    """The distances of a block's pairs, negative as the scores are.

    Parameters
    ----------
    block : Block
    may_be_infinite : bool
        Whether scores may be -inf.
    factor : torch.Tensor of shape (n_classes, 1), default=None
        Factors of the classes for the sum of scores, at least 1.
    """

    def __init__(
        self, block: Block, may_be_infinite: bool, factor: torch.Tensor | None = None
    ) -> None:
        joint = block.a + block.b
        #: (n_rows,) the largest sum of scores of each pair.
        self.peak = joint.amax(0)
        if may_be_infinite:
            # Only pairs of weight 0 are disjoint here.
            self.peak = torch.where(torch.isneginf(self.peak), 0.0, self.peak)
        self._x = [block.a, block.b, joint.sub_(self.peak)]
        self._factors = [None, None, factor]
        self._complete: torch.Tensor | None = None
        if may_be_infinite:
            finite = [torch.isfinite(x) for x in self._x]
            self._complete = torch.stack([x.all(0) for x in finite])
            # A disjoint pair (of weight 0) keeps a harmless distance of 0.
            allowed = [(x | ~x.any(0)).to(joint.dtype) for x in finite]
            self._x = [torch.where(f, x, 0.0) for f, x in zip(finite, self._x, strict=True)]
            self._factors = [*allowed[:2], allowed[2] if factor is None else allowed[2] * factor]
        self._range = -torch.stack([x.amin(0) for x in self._x])
        self._largest = float(self._range.max())

    def moments(self, beta: torch.Tensor, unit: torch.Tensor) -> Moments:
        """Moments at an inverse temperature and in a unit of it, each (n_rows,) or (1,)."""
        scores, dtype = self._x, self.peak.dtype
        extent = self._range * unit
        low, high = float(unit.min()), float(unit.max())
        if high * self._largest > LARGEST_CUBED[dtype]:
            # Where exp(-x) is zero, x^3 need only be finite.
            most = LARGEST_CUBED[dtype] / unit
            scores = [torch.where(beta > 0, torch.maximum(x, -most), x) for x in scores]
        if low < _UNITS[0] or high > _UNITS[1]:
            scores, unit = [x * unit for x in scores], torch.ones_like(unit)
        sums = extent.new_empty(4, *extent.shape)
        for i, (raw, x, factor) in enumerate(zip(self._x, scores, self._factors, strict=True)):
            e = torch.mul(raw, beta)
            if dtype == torch.float32:
                e.clamp_min_(LOWEST_EXPONENT)
            e.exp_()
            if factor is not None:
                e *= factor
            torch.sum(e, 0, out=sums[0, i])
            for power in (1, 2, 3):
                torch.sum(e.mul_(x), 0, out=sums[power, i])
        z = sums[0]
        square = unit * unit
        mean, second, third = (sums[1:] / z).mul_(
            torch.stack([-unit, square, -unit * square])[:, None]
        )
        log_z = z.log()
        # The sums of e X^n decrease in beta.  So does Z: in all to no less than 1, since
        # every factor is at least 1, and from beta to (1 + t) beta, log Z being convex with
        # slope -mean, by a factor of exp(-t mean) at most; 1 + t (growth - 1) is the chord
        # over [0, 1] above the smaller of the two inverses.
        lower = torch.minimum(log_z, mean)
        growth = 1 + mean * torch.expm1(lower) / lower.clamp_min(torch.finfo(dtype).tiny)
        central = THIRD_MOMENT_PER_RANGE * extent**3
        if self._complete is not None:
            extent = torch.where(self._complete, extent, torch.inf)
        return Moments(log_z, mean, second, third, growth, extent, central)


def third_derivatives(at: Moments, positive: torch.Tensor, prior_range: float) -> torch.Tensor:
    """Bounds of the third derivative of each pair's kernel and of its negative, (6, n_rows).

    The first two are from third moments at beta, the next two at 2 beta: what the former
    grow to, linearly, as Z shrinks. The last two also know the ranges and are constant; they
    hold on [beta, 2 beta], at beta = 0 on [0, inf).

    Where one side has a small range R, log Z of the sum of scores nearly cancels that of
    the other side.  Tilting the one into the other by t (beta R + log prior weight),
    t in [0, 1], changes the third cumulant at a rate of k4(T, Y, Y, Y) + 3 k3(R, Y, Y):
    joint cumulants that are at most 5/2 T E Z^3 and R E Z^2, where T is the range of the
    tilt and Z <= X + R, under a measure within exp(T) of the side's own.
    """
    grown = at.third * at.growth
    infinity = torch.where(positive, 0.0, torch.inf)
    bounded = torch.minimum(grown + infinity, at.third_central)
    eighth = torch.minimum(grown / 8 + infinity, at.third_central)
    rise = eighth[2] + bounded[0] + bounded[1]
    fall = bounded[2] + eighth[0] + eighth[1]
    for flat, other in ((0, 1), (1, 0)):
        r = at.range[flat]
        if float(r.min()) > 1:
            continue  # exp(2 r) leaves hardly a gain
        tilt = 2 * r + prior_range
        second, third = (x[other] * at.growth[other] for x in (at.second, at.third))
        change = 10 * tilt * (third + r**3) + 6 * r * (second + r**2)
        change = torch.exp(tilt) * change + at.third_central[flat] + infinity
        rise, fall = torch.fmin(rise, change), torch.fmin(fall, change)
    third = torch.stack([at.third, grown])
    sides = third[:, 0] + third[:, 1]
    alone = torch.stack([third[:, 2] / 8 + sides, third[:, 2] + sides / 8], 1).flatten(0, 1)
    return torch.cat([alone, torch.stack([rise, fall])])
