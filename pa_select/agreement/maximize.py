r"""Certified maximisation of the agreement kernel over the inverse temperature.

The kernel :math:`k = L_1 - L_2` is not concave and can have several maxima, so its
maximum is found by branch and bound.  On an interval :math:`[a, c]` between two
evaluated points two upper bounds of :math:`k` hold, and the smaller one counts:

- *chord minus tangents*: :math:`L_1, L_2` are convex, so :math:`L_1` lies below its
  chord and :math:`L_2` above its tangents.  Good everywhere, exact to second order.
- *two cubics*: Taylor's theorem from both ends with a bound of the third derivative.
  Exact to third order and insensitive to how large :math:`L_1''` and :math:`L_2''` are
  themselves, so that a flat maximum is certified by a few points around it.

Beyond the last point :math:`L_1` lies below a line of its asymptotic slope and
:math:`L_2` above its infimum.  The interval with the largest bound is split where its
bound is attained, which near a maximum is a third-order Newton step.

All problems of a batch advance together, one evaluation of each unfinished problem a
round; what depends on the number of pairs is hidden behind ``evaluate``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pa_select.agreement.kernel import Floats, Limits, Sums
from pa_select.agreement.pairs import Ints

Evaluate = Callable[[Floats, Floats, Ints], Sums]

#: Inverse temperatures of the first round: where the largest range of scores matters, in
#: units of its inverse, and where the typical one does.
FIRST_BETA_LARGEST, FIRST_BETAS_TYPICAL = 1.0, np.array([5.0, 50.0])
#: Give up after so many evaluations of one problem.
MAX_EVALUATIONS = 500

_SMALLEST_BETA = float(np.finfo(float).tiny)
LARGEST_BETA = 1e307
# Values of the kernel closer than this are equal but for rounding.
_ROUNDING = 1e-13
# Newton steps go on, beyond what tol asks, while they promise more than this.
_POLISH = 1e-12
# Intervals over more than this factor are split on the logarithmic scale.
_WIDE = 16.0


@dataclass(frozen=True)
class Maxima:
    """Maxima of a batch of problems, arrays of shape (n_problems,)."""

    value: Floats
    beta: Floats
    upper_bound: Floats
    n_evaluations: Ints


def maximize(
    evaluate: Evaluate, limits: Limits, tol: float, names: Sequence[Any] | None = None
) -> Maxima:
    """Find the maximum over [0, inf] of every problem, within ``tol`` of an upper bound.

    Parameters
    ----------
    evaluate : callable
        ``evaluate(beta, unit, problems)`` returns the `Sums` of the given problems
        (indices) at the given inverse temperatures, in the given units of them, both of
        shape (len(problems), m).
    limits : Limits
        The kernel's limits.
    tol : float
        Largest difference of upper bound and value, in the kernel's unit.
    names : sequence, default=None
        What to call the problems in messages; their indices if None.

    Returns
    -------
    Maxima

    Raises
    ------
    RuntimeError
        If a problem's bounds do not meet within `MAX_EVALUATIONS` evaluations.
    """
    n = len(limits.at_zero)
    # With disjoint posteriors the kernel is -inf at every beta > 0.
    at_infinity = np.where(limits.disjoint, -np.inf, limits.at_infinity)
    value = np.maximum(limits.at_zero, at_infinity)
    # An infinite optimum is reported as such also where it ties with a finite one.
    beta = np.where(at_infinity >= value - _ROUNDING, np.inf, 0.0)
    upper = np.where(limits.disjoint, limits.at_zero, limits.ceiling)
    count = np.zeros(n, dtype=np.int64)
    active = np.flatnonzero(upper - value > tol)
    if not len(active):
        return Maxima(value, beta, np.maximum(upper, value), count)

    scale = np.clip(limits.typical_range, 1e-300, None)[:, None]
    scale = np.where(limits.typical_range[:, None] > 0, scale, 1.0)
    largest = np.maximum(limits.largest_range[:, None], scale)
    points = np.concatenate(
        [0 * scale, FIRST_BETA_LARGEST / largest, FIRST_BETAS_TYPICAL / scale], axis=1
    )[active]
    units = _units(points, scale[active])
    sums = evaluate(points, units, active)
    while True:
        here = np.nan_to_num(sums.l1 - sums.l2, nan=-np.inf, neginf=-np.inf)
        best = here.argmax(1)
        rows = np.arange(len(active))
        better = here[rows, best] > value[active] + _ROUNDING
        value[active] = np.where(better, here[rows, best], value[active])
        # The first point is the limit from above; only where a posterior is zero does it
        # differ from the kernel at 0, and the smallest number attains it.
        at = np.maximum(points[rows, best], _SMALLEST_BETA)
        beta[active] = np.where(better, at, beta[active])
        count[active] = points.shape[1]
        better_than_ends = np.isfinite(beta[active]) & (beta[active] == at)

        bound, split = _bounds(
            points, units, sums, limits.slope[active], limits.l2_floor[active], value[active]
        )
        top = bound.argmax(1)
        upper[active] = np.minimum(upper[active], np.maximum(bound[rows, top], value[active]))
        open_ = upper[active] - value[active] > tol
        newton, unpolished = _polish(points, units, sums, best)
        keep = open_ | (unpolished & better_than_ends)
        if not keep.any():
            return Maxima(value, beta, upper, count)
        if open_.any() and points.shape[1] >= MAX_EVALUATIONS:
            worst = active[(upper - value)[active].argmax()]
            raise RuntimeError(
                f"The agreement of problem {worst if names is None else names[worst]} could not "
                f"be certified to tol={tol:g} with {MAX_EVALUATIONS} evaluations: its maximum "
                f"is known to {upper[worst] - value[worst]:.2g} nats. Ask for a larger tol."
            )
        new = np.where(open_, split[rows, top], newton)[keep, None]
        active, points = active[keep], points[keep]
        sums = Sums(*(x[keep] for x in sums))
        fresh = evaluate(new, _units(new, scale[active]), active)
        points = np.concatenate([points, new], axis=1)
        order = points.argsort(1, kind="stable")
        points = np.take_along_axis(points, order, 1)
        units = _units(points, scale[active])
        sums = Sums(
            *(
                np.take_along_axis(np.concatenate(both, axis=1), order, 1)
                for both in zip(sums, fresh, strict=True)
            )
        )


def _units(points: Floats, scale: Floats) -> Floats:
    """Units of the derivatives at the points: the point itself, at 0 that of the scores."""
    return np.where(points > 0, points, 1 / scale)


def _bounds(
    points: Floats, units: Floats, sums: Sums, slope: Floats, l2_floor: Floats, value: Floats
) -> tuple[Floats, Floats]:
    """Upper bounds on the intervals and beyond, and where to split each of them.

    Returns two arrays of shape (n_problems, m): m - 1 intervals and the tail.
    """
    left = Sums(*(x[:, :-1] for x in sums))
    right = Sums(*(x[:, 1:] for x in sums))
    a, c = points[:, :-1], points[:, 1:]
    with np.errstate(all="ignore"):
        # Derivatives by the position in the interval, from 0 at its left end to 1.
        left = _in_units_of(left, (c - a) / units[:, :-1])
        # The bounds of the third derivative are those of the left end.
        right = _in_units_of(right, (c - a) / units[:, 1:])._replace(
            rise=left.rise, fall=left.fall
        )
        bound, split = _chord_minus_tangents(left, right)
        cubic_bound, cubic_split = _two_cubics(left, right)
    # They hold on [a, 2 a], from 0 everywhere.
    cubic = ((a == 0) | (c <= 2 * a)) & (cubic_bound < bound)
    bound = np.where(cubic, cubic_bound, bound)
    split = _inner(a + (c - a) * np.where(cubic, cubic_split, split), a, c)
    ends = np.maximum(left.l1 - left.l2, right.l1 - right.l2)
    # Nothing lies between neighbouring numbers.
    bound = np.where((split <= a) | (split >= c), ends, np.maximum(bound, ends))

    last = points[:, -1]
    tail = sums.l1[:, -1] - l2_floor
    with np.errstate(all="ignore"):
        # From here on the bound beyond is below the value, where the slope is negative.
        enough = last + (tail - value) / -slope
        step = np.clip(np.where(slope < 0, enough, np.inf), 1.5 * last, 30 * last)
    step = np.minimum(np.where(slope < 0, step, 4 * last), LARGEST_BETA)
    bound = np.concatenate([bound, tail[:, None]], axis=1)
    # Where the arithmetic overflows nothing is known.
    bound = np.where(np.isnan(bound), np.inf, bound)
    return bound, np.concatenate([split, step[:, None]], axis=1)


def _in_units_of(sums: Sums, unit: Floats) -> Sums:
    return sums._replace(
        dl1=sums.dl1 * unit,
        dl2=sums.dl2 * unit,
        curvature=sums.curvature * unit**2,
        rise=sums.rise * unit**3,
        fall=sums.fall * unit**3,
    )


def _polish(
    points: Floats, units: Floats, sums: Sums, best: Ints
) -> tuple[Floats, NDArray[np.bool_]]:
    """Newton's next point from the best one, and whether it promises a gain."""
    rows = np.arange(len(best))
    gradient = (sums.dl1 - sums.dl2)[rows, best]
    curvature = sums.curvature[rows, best]
    with np.errstate(all="ignore"):
        target = points[rows, best] - gradient / curvature * units[rows, best]
        gain = -(gradient**2) / (2 * curvature)
    low = points[rows, np.maximum(best - 1, 0)]
    high = points[rows, np.minimum(best + 1, points.shape[1] - 1)]
    # A step that is not taken to a new point would be repeated for ever.
    inside = (target > low * (1 + 1e-12)) & (target < high * (1 - 1e-12))
    return target, (curvature < 0) & (gain > _POLISH) & inside


def _inner(split: Floats, a: Floats, c: Floats) -> Floats:
    """Keep a splitting point away from the ends of its interval."""
    with np.errstate(all="ignore"):
        ratio = c / a
        wide = (a > 0) & (ratio > _WIDE)
        low = np.where(wide, a * ratio**0.25, a + 0.1 * (c - a))
        high = np.where(wide, a * ratio**0.75, c - 0.1 * (c - a))
    low = np.where(a == 0, 0.02 * c, low)
    return np.clip(split, low, high)


def _chord_minus_tangents(left: Sums, right: Sums) -> tuple[Floats, Floats]:
    """Bound on an interval of length 1, and where in it the bound is attained."""
    # The bound is concave and has its maximum where the tangents of L2 meet.
    t = (right.l2 - right.dl2 - left.l2) / (left.dl2 - right.dl2)
    t = np.where(np.isfinite(t), np.clip(t, 0, 1), 0.5)
    tangents = np.maximum(left.l2 + left.dl2 * t, right.l2 - right.dl2 * (1 - t))
    return left.l1 + (right.l1 - left.l1) * t - tangents, t


def _two_cubics(left: Sums, right: Sums) -> tuple[Floats, Floats]:
    """Bound on an interval of length 1, and where in it the bound is attained."""
    # Any meeting point is valid; at this one both remainders are alike.
    rise, fall = np.cbrt(left.rise), np.cbrt(left.fall)
    meeting = np.where(rise + fall > 0, fall / (rise + fall), 0.5)
    from_left, t_left = _cubic_maximum(
        left.l1 - left.l2, left.dl1 - left.dl2, left.curvature, left.rise, meeting
    )
    from_right, t_right = _cubic_maximum(
        right.l1 - right.l2, right.dl2 - right.dl1, right.curvature, right.fall, 1 - meeting
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
