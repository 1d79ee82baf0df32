r"""The kernel with a fixed prior: its sums over pairs and their bounds on intervals.

The kernel :math:`k = L_1 - L_2` is a difference of two convex functions of the inverse
temperature.  On an interval :math:`[a, c]` between two evaluated points two upper bounds
hold, and the smaller one counts:

- *chord minus tangents*: :math:`L_1` lies below its chord and :math:`L_2` above its
  tangents.  Good everywhere, exact to second order.
- *two cubics*: Taylor's theorem from both ends with a bound of the third derivative.
  Exact to third order and insensitive to how large :math:`L_1''` and :math:`L_2''` are
  themselves, so that a flat maximum is certified by a few points around it.

Beyond the last point :math:`L_1` lies below a line of its asymptotic slope, which is at
most 0, and :math:`L_2` above its infimum.  An interval is split where its bound is
attained, which near a maximum is a third-order Newton step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from pa_select.agreement.kernel import Floats, Limits
from pa_select.agreement.pairs import Block, Ints, PairedScores
from pa_select.agreement.precision import LARGEST_CUBED, LOWEST_EXPONENT, MARGIN, coarse_error

# A distribution on a range R has a third central moment of at most R^3 / (6 sqrt 3).
THIRD_MOMENT_PER_RANGE = 1 / (6 * math.sqrt(3))


class Sums(NamedTuple):
    """Means over pairs at inverse temperatures, each of shape (n,).

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
    #: What rounding may have changed in ``value``, and in its derivatives.
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
        From `log_prior_weights`.
    limits : Limits
        The kernels' limits.
    """

    pairs: PairedScores
    log_weights: Floats
    limits: Limits

    def evaluate(
        self, beta: Floats, unit: Floats, problems: Ints, *, coarse: bool = False
    ) -> Sums:
        """Evaluate the two convex sums in one pass; no disjoint posteriors allowed."""
        return evaluate(self.pairs, beta, unit, problems, self.log_weights, coarse=coarse)

    def bound(
        self, left: Sums, right: Sums, ends: tuple[Floats, Floats], units: tuple[Floats, Floats]
    ) -> tuple[Floats, Floats]:
        """Bound the kernel on intervals; see `Kernel`."""
        a, c = ends
        # Derivatives by the position in the interval, from 0 at its left end to 1.
        left = _over(left, (c - a) / units[0], 1)
        # The bounds of the third derivative are those of the left end.
        right = _over(right, (c - a) / units[1], -1)._replace(rise=left.rise, fall=left.fall)
        bound, split = _chord_minus_tangents(left, right)
        cubic_bound, cubic_split = _two_cubics(left, right)
        # They hold on [a, 2 a], from 0 everywhere.
        cubic = ((a == 0) | (c <= 2 * a)) & ((cubic_bound < bound) | np.isnan(bound))
        return np.where(cubic, cubic_bound, bound), np.where(cubic, cubic_split, split)

    def beyond(self, last: Sums, beta: Floats, problems: Ints) -> Floats:
        """Bound the kernel beyond the last points; see `Kernel`."""
        return last.l1 + last.error - self.limits.l2_floor[problems]


def _over(sums: Sums, unit: Floats, direction: int) -> Sums:
    """Derivatives in another unit, and everything as high in that direction as errors allow."""
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
    """Evaluate the two convex sums of problems at inverse temperatures in one pass.

    Coarse sums come from exponentials in single precision.
    """
    dtype = torch.float32 if coarse else torch.float64
    betas, units = (pairs.tensor(values).to(dtype) for values in (beta, unit))
    factor = pairs.tensor(np.exp(log_weights))[:, None].to(dtype) if log_weights.any() else None
    prior_range = float(log_weights.max())
    lowest = torch.finfo(dtype).min / 1e8

    def part(block: Block) -> list[torch.Tensor]:
        if "distances" not in block.derived:
            block.derived["distances"] = _distances(block, pairs.has_zero_posteriors, factor)
        peak, *distances = block.derived["distances"]
        beta_i, unit_i = block.spread(betas), block.spread(units)
        a, b, s = (x.moments(beta_i, unit_i) for x in distances)
        rise, fall = _third_derivative_bounds(beta_i > 0, a, b, s, prior_range)
        rows = torch.stack(
            [
                # Below this the pair decides against such a beta on its own.
                s.log_z + (beta_i * peak).clamp_min(lowest),
                a.log_z + b.log_z,
                (unit_i * peak).clamp_min(lowest) - s.mean,
                -(a.mean + b.mean),
                s.variance - a.variance - b.variance,
                rise,
                fall,
            ]
        )
        return [block.weighted_sum(rows)]

    (sums,) = pairs.reduce_blocks(part, problems, "sum", dtype=dtype)
    found = Sums._make([*sums.cpu().numpy(), np.zeros(len(beta))])
    if not coarse:
        return found
    return found._replace(
        rise=MARGIN * found.rise,
        fall=MARGIN * found.fall,
        error=coarse_error(found.l1, pairs.n_classes, prior_range),
    )


def _distances(
    block: Block, may_be_infinite: bool, factor: torch.Tensor | None
) -> tuple[torch.Tensor, _Distances, _Distances, _Distances]:
    """The largest sum of scores of each pair, and the distances of both sides and the sum."""
    joint = block.a + block.b
    peak = joint.amax(0)
    if may_be_infinite:
        # Only pairs of weight 0 are disjoint here.
        peak = torch.where(torch.isneginf(peak), 0.0, peak)
    return (
        peak,
        _Distances(-block.a, may_be_infinite),
        _Distances(-block.b, may_be_infinite),
        _Distances(peak - joint, may_be_infinite, factor),
    )


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
            factor = allowed.to(x.dtype) if factor is None else allowed * factor
        self.factor = factor
        self.largest = x.amax(0)
        self.largest_of_all = float(self.largest.max())
        self.x = x

    def moments(self, beta: torch.Tensor, unit: torch.Tensor) -> _Moments:
        dtype = self.x.dtype
        e = torch.mul(self.x, -beta)
        if dtype == torch.float32:
            e.clamp_min_(LOWEST_EXPONENT)
        e.exp_()
        x = self.x * unit
        if float(unit.max()) * self.largest_of_all > LARGEST_CUBED[dtype]:
            # Where exp(-x) is zero, x^3 need only be finite.
            x = torch.where(beta > 0, x.clamp_max(LARGEST_CUBED[dtype]), x)
        if self.factor is not None:
            e *= self.factor
        z = e.sum(0)
        mean = e.mul_(x).sum(0) / z
        second = e.mul_(x).sum(0) / z
        third = e.mul_(x).sum(0) / z
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
            THIRD_MOMENT_PER_RANGE * extent**3,
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
        if float(r.min()) > 1:
            continue  # exp(2 r) leaves hardly a gain
        tilt = 2 * r + prior_range
        change = 10 * tilt * (other.third + r**3) + 6 * r * (other.second + r**2)
        change = torch.exp(tilt) * change + flat.third_central + infinity
        rise, fall = torch.fmin(rise, change), torch.fmin(fall, change)
    return rise, fall


def _chord_minus_tangents(left: Sums, right: Sums) -> tuple[Floats, Floats]:
    """Bound on an interval of length 1, and where in it the bound is attained."""
    # The bound is concave and has its maximum where the tangents of L2 meet; with room for
    # errors it may have it at an end.
    meeting = (right.l2 - right.dl2 - left.l2) / (left.dl2 - right.dl2)
    meeting = np.where(np.isfinite(meeting), np.clip(meeting, 0, 1), 0.5)
    t = np.stack([meeting, np.zeros_like(meeting), np.ones_like(meeting)])
    tangents = np.maximum(left.l2 + left.dl2 * t, right.l2 - right.dl2 * (1 - t))
    return (left.l1 + (right.l1 - left.l1) * t - tangents).max(0), meeting


def _two_cubics(left: Sums, right: Sums) -> tuple[Floats, Floats]:
    """Bound on an interval of length 1, and where in it the bound is attained."""
    # Any meeting point is valid; at this one both remainders are alike.
    rise, fall = np.cbrt(left.rise), np.cbrt(left.fall)
    meeting = np.where(rise + fall > 0, fall / (rise + fall), 0.5)
    (from_left, from_right), (t_left, t_right) = _cubic_maximum(
        np.stack([left.value, right.value]),
        np.stack([left.slope, -right.slope]),
        np.stack([left.curvature, right.curvature]),
        np.stack([left.rise, right.fall]),
        np.stack([meeting, 1 - meeting]),
    )
    return (
        np.maximum(from_left, from_right),
        np.where(from_left >= from_right, t_left, 1 - t_right),
    )


def _cubic_maximum(
    c0: Floats, c1: Floats, c2: Floats, c3: Floats, end: Floats
) -> tuple[Floats, Floats]:
    """Maximum on [0, end] of c0 + c1 t + c2 t^2 / 2 + c3 t^3 / 6 for c3 >= 0, and where."""
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
