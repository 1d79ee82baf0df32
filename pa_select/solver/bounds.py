"""Bounds of kernels on intervals of the inverse temperature, from sums at their ends."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pa_select.utils.typing import Floats, Mask

# Part of the certificate: inverse temperatures, in units of the inverse of a typical range of
# scores, whose cubes float32 can multiply.
_BETAS_IN_TYPICAL = 1e-3, 1e3


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
    disjoint: Mask


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


def bound_between(
    left: Sums, right: Sums, ends: tuple[Floats, Floats], units: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """Bound kernels with a fixed prior on intervals; see `Kernel.bound`."""
    a, c = ends
    # The unit of derivatives becomes the length of the interval.
    left = _widened(left, (c - a) / units[0], 1)
    right = _widened(right, (c - a) / units[1], -1)
    bound, at = _chord_minus_tangents(left, right)
    # The bounds of the third derivative at the left end hold on the whole interval.
    cubic_bound, cubic_at = two_cubics(
        np.array([left.value, right.value]),
        np.array([left.slope, -right.slope]),
        np.array([left.curvature, right.curvature]),
        np.array([left.rise, left.fall]),
    )
    cubic = (cubic_bound < bound) | np.isnan(bound)
    return np.where(cubic, cubic_bound, bound), np.where(cubic, cubic_at, at)


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


def _chord_minus_tangents(left: Sums, right: Sums) -> tuple[Floats, Floats]:
    """Bound the kernel on an interval of length 1; return where the bound is attained, too."""
    # The bound is largest where the tangents of L2 meet, or at an end.
    meeting = (right.l2 - right.dl2 - left.l2) / (left.dl2 - right.dl2)
    meeting = np.where(np.isfinite(meeting), np.clip(meeting, 0, 1), 0.5)
    t = np.array([meeting, np.zeros_like(meeting), np.ones_like(meeting)])
    tangents = np.maximum(left.l2 + left.dl2 * t, right.l2 - right.dl2 * (1 - t))
    return (left.l1 + (right.l1 - left.l1) * t - tangents).max(0), meeting


def coarse_betas(beta: Floats, typical_range: Floats) -> Mask:
    """Return which inverse temperatures are in the range of single precision."""
    with np.errstate(over="ignore"):  # infinity is out of range, too
        scaled = beta * typical_range
    return np.asarray((scaled > _BETAS_IN_TYPICAL[0]) & (scaled < _BETAS_IN_TYPICAL[1]))


def two_cubics(
    value: Floats, slope: Floats, curvature: Floats, third: Floats
) -> tuple[Floats, Floats]:
    """Bound a kernel on n intervals of length 1; return where the bounds are attained, too.

    The arguments have the shape (2, n), for the left and the right ends. Seen from either end the
    kernel is at most value + slope t + curvature t^2 / 2 + third t^3 / 6 at the distance t. So a
    slope is that into the interval. `third` must not be negative; where it is not finite there is
    no bound, nan.
    """
    # The cubics may meet anywhere; here their remainders are equal.
    rise, fall = np.cbrt(third)
    meeting = np.where(rise + fall > 0, fall / (rise + fall), 0.5)
    ends = np.array([meeting, 1 - meeting])
    (from_left, from_right), (t_left, t_right) = _cubic_maximum(
        value, slope, curvature, third, ends
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
