r"""The kernel with a fixed prior: its sums over pairs and their bounds on intervals.

The kernel :math:`k = L_1 - L_2` is a difference of two convex functions of the inverse
temperature.  On an interval :math:`[a, c]` between two points the smaller of two upper
bounds is used:

- *chord minus tangents*: :math:`L_1` lies below its chord and :math:`L_2` above its
  tangents.  The error is of second order in the width of the interval.
- *two cubics*: Taylor's theorem from both ends, with bounds of the third derivative.  The
  error is of third order and does not depend on the size of :math:`L_1''` and
  :math:`L_2''`, so that a few points around a flat maximum certify it.

Beyond the last point :math:`L_1` lies below a line of its asymptotic slope, which is at
most 0, and :math:`L_2` above its infimum.  docs/certificate.rst derives these bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from pa_select.agreement.pairs.block import Block
from pa_select.agreement.pairs.paired_scores import PairedScores
from pa_select.agreement.solver.kernel_sums import Limits
from pa_select.agreement.solver.moments import Distances
from pa_select.agreement.solver.single_precision import MARGIN, coarse_error
from pa_select.utils.typing import Floats, Ints


class Sums(NamedTuple):
    """Weighted means over pairs at n inverse temperatures, each of shape (n,).

    The kernel without its constant is ``l1 - l2``, a difference of two convex functions.
    Derivatives are in the unit given to `Kernel.evaluate`.
    """

    l1: Floats
    l2: Floats
    #: First derivatives.
    dl1: Floats
    dl2: Floats
    #: Second derivative of ``l1 - l2``.
    curvature: Floats
    #: Upper bounds M of the third derivative of ``l1 - l2`` and m of its negative, which
    #: hold at beta and at all larger inverse temperatures.
    rise: Floats
    fall: Floats
    #: Bound of the rounding errors of ``value`` and of its derivatives.
    error: Floats

    @property
    def value(self) -> Floats:
        return self.l1 - self.l2

    @property
    def slope(self) -> Floats:
        return self.dl1 - self.dl2


@dataclass(frozen=True)
class FixedPrior:
    """The kernels of a batch of problems with one prior, for `maximize`.

    Parameters
    ----------
    pairs : PairedScores
    log_weights : ndarray of shape (n_classes,)
        From `Prior.log_weights`.
    limits : Limits
        The kernels' limits.
    """

    pairs: PairedScores
    log_weights: Floats
    limits: Limits

    def evaluate(
        self, beta: Floats, unit: Floats, problems: Ints, *, coarse: bool = False
    ) -> Sums:
        """Evaluate `Sums` in one pass; the problems must have no disjoint posteriors."""
        return evaluate(self.pairs, beta, unit, problems, self.log_weights, coarse=coarse)

    def bound(
        self, left: Sums, right: Sums, ends: tuple[Floats, Floats], units: tuple[Floats, Floats]
    ) -> tuple[Floats, Floats]:
        """Bound the kernel on intervals; see `Kernel`."""
        a, c = ends
        # The unit of derivatives becomes the length of the interval.
        left = _widened(left, (c - a) / units[0], 1)
        right = _widened(right, (c - a) / units[1], -1)
        bound, at = _chord_minus_tangents(left, right)
        cubic_bound, cubic_at = _two_cubics(left, right)
        cubic = (cubic_bound < bound) | np.isnan(bound)
        return np.where(cubic, cubic_bound, bound), np.where(cubic, cubic_at, at)

    def beyond(self, last: Sums, beta: Floats, problems: Ints) -> Floats:
        """Bound the kernel beyond the last points; see `Kernel`."""
        return last.l1 + last.error - self.limits.l2_floor[problems]


def _widened(sums: Sums, unit: Floats, direction: int) -> Sums:
    """Return the sums that make the bound as high as the errors allow, in another unit.

    `direction` is 1 at the left end of an interval and -1 at the right end.
    """
    error = sums.error
    return sums._replace(
        l1=sums.l1 + error,
        l2=sums.l2 - error,
        dl1=(sums.dl1 + direction * error) * unit,
        dl2=(sums.dl2 - direction * error) * unit,
        curvature=(sums.curvature + error) * unit**2,
        rise=sums.rise * unit**3,
        fall=sums.fall * unit**3,
    )


def evaluate(
    pairs: PairedScores,
    beta: Floats,
    unit: Floats,
    problems: Ints,
    log_weights: Floats,
    *,
    coarse: bool = False,
) -> Sums:
    """Evaluate `Sums` of problems at inverse temperatures in one pass.

    The exponentials of coarse sums are in single precision.
    """
    dtype = torch.float32 if coarse else torch.float64
    small = [beta, unit, np.exp(log_weights)[:, None]] if log_weights.any() else [beta, unit]
    betas, units, *factors = pairs.tensors(*small, dtype=dtype)
    factor = factors[0] if factors else None
    host_unit = unit.astype(np.float32) if coarse else unit
    prior_range = float(log_weights.max())
    key = log_weights.tobytes()

    def part(block: Block) -> list[torch.Tensor]:
        if key not in block.derived:
            block.derived[key] = Distances(block, pairs.has_zero_posteriors, factor)
        of_block: Distances = block.derived[key]
        here = host_unit[block.first : block.last]
        ends = float(here.min()), float(here.max())
        rows = of_block.summands(block.spread(betas), block.spread(units), ends)
        return [block.weighted_sum(rows)]

    (sums,) = pairs.reduce_blocks(part, problems, "sum", dtype=dtype)
    found = Sums._make([*sums.cpu().numpy(), np.zeros(len(beta))])
    if not coarse:
        return found
    return found._replace(
        error=coarse_error(found.l1, pairs.n_classes, prior_range),
        rise=found.rise * MARGIN,
        fall=found.fall * MARGIN,
    )


def _chord_minus_tangents(left: Sums, right: Sums) -> tuple[Floats, Floats]:
    """Bound the kernel on an interval of length 1; return where the bound is attained, too."""
    # The bound is largest where the tangents of L2 meet, or, in widened sums, at an end.
    meeting = (right.l2 - right.dl2 - left.l2) / (left.dl2 - right.dl2)
    meeting = np.where(np.isfinite(meeting), np.clip(meeting, 0, 1), 0.5)
    t = np.array([meeting, np.zeros_like(meeting), np.ones_like(meeting)])
    tangents = np.maximum(left.l2 + left.dl2 * t, right.l2 - right.dl2 * (1 - t))
    return (left.l1 + (right.l1 - left.l1) * t - tangents).max(0), meeting


def _two_cubics(left: Sums, right: Sums) -> tuple[Floats, Floats]:
    """Bound the kernel on an interval of length 1; return where the bound is attained, too."""
    # The bounds of the third derivative at the left end hold on the whole interval.
    # The cubics may meet anywhere; here their remainders are equal.
    rise, fall = np.cbrt(left.rise), np.cbrt(left.fall)
    meeting = np.where(rise + fall > 0, fall / (rise + fall), 0.5)
    (from_left, from_right), (t_left, t_right) = _cubic_maximum(
        np.array([left.value, right.value]),
        np.array([left.slope, -right.slope]),
        np.array([left.curvature, right.curvature]),
        np.array([left.rise, left.fall]),
        np.array([meeting, 1 - meeting]),
    )
    return (
        np.maximum(from_left, from_right),
        np.where(from_left >= from_right, t_left, 1 - t_right),
    )


def _cubic_maximum(
    c0: Floats, c1: Floats, c2: Floats, c3: Floats, end: Floats
) -> tuple[Floats, Floats]:
    """Return the maximum of c0 + c1 t + c2 t^2 / 2 + c3 t^3 / 6 on [0, end], and its place.

    c3 must not be negative.
    """
    discriminant = c2 * c2 - 2 * c1 * c3
    t = 2 * c1 / (np.sqrt(np.maximum(discriminant, 0)) - c2)
    inside = (discriminant >= 0) & (t > 0) & (t < end)
    t = np.where(inside, t, 0.0)

    def cubic(t: Floats) -> Floats:
        value: Floats = c0 + t * (c1 + t * (c2 / 2 + t * c3 / 6))
        return value

    inner, outer = cubic(t), cubic(end)
    known = np.isfinite(discriminant)
    return np.where(known, np.maximum(inner, outer), np.nan), np.where(outer > inner, end, t)
