r"""Moments of pairs' scores under their tempered posteriors, for both sides and their sum.

:math:`X \ge 0` are the distances of a pair's scores from the largest one, also of the sums of
both sides' scores; :math:`Z = \sum_j e^{-\beta X_j}`, with the inverse of the prior as a factor
for the sums.  The third derivative of :math:`\log Z` is minus the third central moment
:math:`\mu_3` of :math:`X`, and :math:`-E X^3 / 8 \le \mu_3 \le E X^3`.  Means of powers of
:math:`X` only fall as :math:`\beta` grows: they have the derivative
:math:`-\operatorname{Cov}(X^n, X) \le 0`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from pa_select.agreement.pairs import Block
from pa_select.agreement.precision import LARGEST_CUBED, LOWEST_EXPONENT
from pa_select.agreement.threads import scratch, scratch_like

# A distribution on a range R has a third central moment of at most R^3 / (6 sqrt 3).
THIRD_MOMENT_PER_RANGE = 1 / (6 * math.sqrt(3))
# Scores are flat at inverse temperatures up to this over their mean range, in all problems of
# a block: then constant bounds of the third derivative may be the better ones; and up to
# this, the other side's scores may nearly be the sum.
_FLAT, _FLATTER = 8.0, 1.0
# Units of the inverse temperature whose cubes are numbers.
_UNITS = 1e-90, 1e90


class Moments(NamedTuple):
    """Of the distances X, in inverse units; (3, n_rows): both sides and their sum."""

    log_z: torch.Tensor
    mean: torch.Tensor
    second: torch.Tensor
    third: torch.Tensor
    #: Largest X, inf where it cannot tell a small change: some posterior is zero.
    range: torch.Tensor
    #: Upper bound of the size of the third central moment at any temperature.
    third_central: torch.Tensor
    #: Smallest mean range of a problem's pairs, by side.
    mean_ranges: list[float]


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
        self._cubed = THIRD_MOMENT_PER_RANGE * self._range**3
        self._largest = float(self._range.max())
        self._mean_ranges = block.means(self._range[:2]).amin(1).tolist()

    def moments(self, beta: torch.Tensor, unit: torch.Tensor) -> Moments:
        """Moments at an inverse temperature and in a unit of it, each (n_rows,) or (1,)."""
        scores, dtype = self._x, self.peak.dtype
        low, high = float(unit.min()), float(unit.max())
        extent, cubed = self._range * unit, self._cubed
        if high * self._largest > LARGEST_CUBED[dtype]:
            # Where exp(-x) is zero, x^3 need only be finite.
            most = LARGEST_CUBED[dtype] / unit
            scores = [torch.where(beta > 0, torch.maximum(x, -most), x) for x in scores]
        if low < _UNITS[0] or high > _UNITS[1]:
            scores, unit = [x * unit for x in scores], torch.ones_like(unit)
            cubed = THIRD_MOMENT_PER_RANGE * extent**3
        sums = scratch("sums", extent, 4, *extent.shape)
        e = scratch_like("exponentials", scores[0])
        for i, (raw, x, factor) in enumerate(zip(self._x, scores, self._factors, strict=True)):
            torch.mul(raw, beta, out=e)
            if dtype == torch.float32:
                e.clamp_min_(LOWEST_EXPONENT)
            e.exp_()
            if factor is not None:
                e *= factor
            torch.sum(e, 0, out=sums[0, i])
            for power in (1, 2, 3):
                torch.sum(e.mul_(x), 0, out=sums[power, i])
        z = sums[0]
        cube = unit * unit * unit
        mean, second, third = (
            sums[1:].div_(z).mul_(torch.stack([-unit, unit * unit, -cube])[:, None])
        )
        if self._complete is not None:
            extent = torch.where(self._complete, extent, torch.inf)
        mean_ranges = [low * mean_range for mean_range in self._mean_ranges]
        return Moments(z.log(), mean, second, third, extent, cubed * cube, mean_ranges)


def third_derivatives(at: Moments, prior_range: float) -> list[torch.Tensor]:
    """Bounds of the third derivative of each pair's kernel and of its negative, four rows.

    The first two hold from beta on, the others on [beta, 2 beta] for beta > 0.

    Where one side has a small range R, log Z of the sum of scores nearly cancels that of
    the other side.  Tilting the one into the other by t (beta R + log prior weight),
    t in [0, 1], changes the third cumulant at a rate of k4(T, Y, Y, Y) + 3 k3(R, Y, Y):
    joint cumulants that are at most 5/2 T E Z^3 and R E Z^2, where T is the range of the
    tilt and Z <= X + R, under a measure within exp(T) of the side's own.
    """
    third = at.third
    if min(at.mean_ranges) > _FLAT:
        sides = third[0] + third[1]
        rise = torch.add(sides, third[2], alpha=1 / 8)
        fall = torch.add(third[2], sides, alpha=1 / 8)
        return [rise, fall, rise, fall]
    bounded = torch.minimum(third, at.third_central)
    eighth = torch.minimum(third / 8, at.third_central)
    rise = near_rise = eighth[2] + bounded[0] + bounded[1]
    fall = near_fall = bounded[2] + eighth[0] + eighth[1]
    for flat, other in ((0, 1), (1, 0)):
        if at.mean_ranges[flat] > _FLATTER:
            continue
        r = at.range[flat]
        tilt = 2 * r + prior_range
        change = 10 * tilt * (third[other] + r**3) + 6 * r * (at.second[other] + r**2)
        change = torch.exp(tilt) * change + at.third_central[flat]
        near_rise, near_fall = torch.fmin(near_rise, change), torch.fmin(near_fall, change)
    return [rise, fall, near_rise, near_fall]
