"""Certified maximisation of agreement kernels over the inverse temperature.

The kernel is not concave and can have several maxima, so its maximum is found by branch and
bound; docs/certificate.rst derives the bounds.  A `Kernel` is evaluated at points (inverse
temperatures), and bounded on each interval between two neighbouring points and beyond the last
point.  All points of all problems are rows of one table, which is sorted by problem and inverse
temperature.  So an interval is a row and the next one, and nothing else keeps state.

Each round splits every interval whose bound exceeds the best value by more than the tolerance,
and takes a Newton step from the best point of each problem.  All problems of a batch advance
together.  Only the kernel depends on the pairs and on the prior.

A constant that is marked "Speed only" changes no certified result; a test turns each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from pa_select.agreement.solver.kernel_sums import Limits, coarse_betas
from pa_select.utils.typing import Floats, Ints, Mask

#: Part of the result: the search ends after this many evaluations of one problem.
MAX_EVALUATIONS = 1500

# Part of the result: what is reported for the limit from above at 0.
_SMALLEST_BETA = float(np.finfo(float).tiny)
# Part of the certificate: a smaller difference of two values of the kernel is a rounding error.
_ROUNDING = 1e-13
# Part of the result: Newton steps go on, even if tol is reached, while they promise a gain above
# this, in nats.
_POLISH = 1e-12
# Part of the result: longest last Newton step, which moves what is reported, as a share of beta.
_NEAR = 1e-3
# Speed only: longest Newton step from a coarse point that replaces the point.
_NEARBY = 0.05
# Speed only: an interval is split by an exact evaluation if its bound exceeds the best value by
# less than this, in nats, or a maximum in it is expected to gain less.
_EXACT_BELOW = 1e-3
# Speed only: a coarse end is evaluated again if this many times its error, added to tol, would
# close the interval.
_ROOM = 4.0
# Speed only: with points in common the next point beyond the last one is so many times as large.
_FURTHER = 4.0
# Speed only: from this many evaluations on an interval is split at one point only.
_MANY = 200
# Part of the result: no larger inverse temperature is tried.
LARGEST_BETA = 1e307
# Speed only: intervals over more than this factor are split on the logarithmic scale.
_WIDE = 16.0
# Speed only: an expected maximum counts if it exceeds the values at the ends by more than this,
# in nats.
_WORTH_A_STEP = 1e-7
# Speed only: of several points in an interval each is closer than the last to where it is split by
# this factor, which is below 1.
_CLOSER = 0.35
# Speed only: steps to the expected maximum end below this share of the interval.
_EXACT_ZERO = 1e-9

P = TypeVar("P", bound=tuple[Any, ...])


class Points(NamedTuple):
    """The points that one round evaluated, arrays of shape (n,)."""

    problem: Ints
    beta: Floats
    value: Floats
    #: By how much a value in single precision may be wrong; 0 for an exact one.
    error: Floats


Report = Callable[[Floats, Floats, Points], None]


class Kernel(Protocol[P]):
    """A batch of kernels that can be evaluated and bounded."""

    def evaluate(self, beta: Floats, unit: Floats, problems: Ints, *, coarse: bool = False) -> P:
        """Evaluate problems at inverse temperatures; the three arrays have shape (n,).

        A beta of 0 stands for the limit from above. `problems` may repeat a problem.
        Returns a named tuple of arrays of shape (n, ...) with the fields ``value`` (the
        kernel), ``slope``, ``curvature`` and ``error`` among others. The n-th derivative is
        multiplied by the n-th power of ``unit``, so that it is of order one for scores of
        any size. A coarse evaluation is in single precision: it is cheaper, and wrong by at
        most ``error``. The ``error`` of an exact evaluation is 0.
        """

    def bound(
        self, left: P, right: P, ends: tuple[Floats, Floats], units: tuple[Floats, Floats]
    ) -> tuple[Floats, Floats]:
        """Bound the kernel on n intervals between two points.

        Returns the upper bounds, and where in the intervals they are attained, from 0 at
        the left end to 1 at the right end.
        """

    def beyond(self, last: P, beta: Floats, problems: Ints) -> Floats:
        """Bound the kernel at all beta beyond the last points of n problems."""


@dataclass(frozen=True)
class Maxima:
    """Maxima of a batch of problems, arrays of shape (n_problems,)."""

    value: Floats
    beta: Floats
    upper_bound: Floats
    n_evaluations: Ints
    #: The problems that took too many evaluations.
    exhausted: list[int]


class _Table(NamedTuple):
    """Evaluated points, sorted by problem and inverse temperature: arrays of n rows.

    A row also has what is known of the interval that begins at its point.
    """

    problem: Ints
    beta: Floats
    #: The units of derivatives: the points themselves, or the inverse of a scale at 0.
    unit: Floats
    #: What the kernel returned, a named tuple.
    at: Any
    #: Numbers of the points in their order of evaluation.
    number: Ints
    #: The point that ended the interval when it was bounded; -1 if there was none.
    end: Ints
    #: The bound, where to split the interval, and what a maximum in it is expected to gain over
    #: the ends.
    bound: Floats
    split: Floats
    gain: Floats

    def rows(self, which: Any) -> _Table:
        at = self.at._make(x[which] for x in self.at)
        return _Table._make(at if x is self.at else x[which] for x in self)

    def joined(self, other: _Table) -> _Table:
        at = self.at._make(map(np.concatenate, zip(self.at, other.at, strict=True)))
        columns = zip(self, other, strict=True)
        both = _Table._make(at if x is self.at else np.concatenate([x, y]) for x, y in columns)
        return both.rows(np.lexsort((both.beta, both.problem)))

    def is_last(self) -> Mask:
        """Return which points are the last ones of their problems."""
        return np.append(self.problem[1:] != self.problem[:-1], True)

    def extremes(self) -> tuple[Floats, Floats]:
        """Return the smallest and the largest value of each point that its error allows."""
        value = self.at.value
        value = np.where(np.isfinite(value), value, -np.inf)
        error = np.nan_to_num(self.at.error)
        return value - error, value + error


def maximize(
    kernel: Kernel[P],
    limits: Limits,
    tol: float,
    *,
    first: Floats,
    at_once: int = 1,
    in_common: bool = False,
    most: int | None = None,
    coarse: Mask | None = None,
    report: Report | None = None,
) -> Maxima:
    """Find the maximum over [0, inf] of every problem, within ``tol`` nats of an upper bound.

    `first` has the first points, in units of the inverse of the scores' typical range. A round
    with fewer points of each problem than `at_once` splits intervals at several points. With
    `in_common` points are chosen so that problems have many of them in common: intervals are
    halved, and no Newton step is taken. The search of a problem ends after `most` evaluations.
    Problems in `coarse` may be evaluated in single precision far from their maximum. `report` gets
    the best values, the upper bounds and the new points after each round.
    """
    most = MAX_EVALUATIONS if most is None else most
    n = len(limits.at_zero)
    # With disjoint posteriors the kernel is -inf at every beta > 0.
    at_infinity = np.where(limits.disjoint, -np.inf, limits.at_infinity)
    outer = np.maximum(limits.at_zero, at_infinity)
    # Where 0 and infinity tie, infinity is reported.
    outer_beta = np.where(at_infinity >= outer - _ROUNDING, np.inf, 0.0)
    value, beta = outer.copy(), outer_beta.copy()
    upper = np.where(limits.disjoint, limits.at_zero, limits.ceiling)
    count = np.zeros(n, dtype=np.int64)
    active = np.flatnonzero(upper - value > tol)
    typical = limits.typical_range
    scale = np.where(typical > 0, np.clip(typical, 1e-300, None), 1.0)
    may_be_coarse = np.zeros(n, dtype=bool) if coarse is None else coarse

    problem = np.repeat(active, 1 + len(first))
    new = np.outer(1 / scale[active], np.append(0.0, first)).ravel()
    is_coarse = np.ones(len(new), dtype=bool)
    table: _Table | None = None
    exhausted: list[int] = []
    while len(new):
        # Evaluate the new points, and sort them into the table.
        is_coarse &= may_be_coarse[problem] & coarse_betas(new, scale[problem])
        fresh = _evaluate(kernel, problem, new, scale[problem], is_coarse, int(count.sum()))
        table = fresh if table is None else table.joined(fresh)
        count += np.bincount(problem, minlength=n)
        last = table.is_last()
        start = np.append(0, np.flatnonzero(last)[:-1] + 1)
        owner: Ints = np.cumsum(last) - last
        active = table.problem[start]

        # The best point of each problem.
        lowest, largest = table.extremes()
        highest = np.flatnonzero(lowest == np.maximum.reduceat(lowest, start)[owner])
        best = highest[np.searchsorted(owner[highest], np.arange(len(active)))]
        better = lowest[best] > outer[active] + _ROUNDING
        value[active] = np.where(better, lowest[best], outer[active])
        # The first point is the limit from above. It differs from the kernel at 0 if a
        # posterior is zero, and the smallest positive number attains it.
        best_beta = np.maximum(table.beta[best], _SMALLEST_BETA)
        beta[active] = np.where(better, best_beta, outer_beta[active])

        # The largest bound of each problem.
        _bound_intervals(kernel, table, last, largest)
        top = np.maximum.reduceat(table.bound, start)
        upper[active] = np.minimum(upper[active], np.maximum(top, value[active]))
        if report is not None:
            at = fresh.at
            report(value, upper, Points(fresh.problem, fresh.beta, at.value, at.error))

        # Which problems go on: with open intervals, or with a Newton step that gains.
        newton, unpolished, argmax = _newton_steps(table, best, last)
        is_open = upper[active] - value[active] > tol
        inner = beta[active] == best_beta
        beta[active] = np.where(inner, np.maximum(argmax, _SMALLEST_BETA), beta[active])
        spent = is_open & (count[active] >= most)
        exhausted += active[spent].tolist()
        unpolished &= inner & ~spent & (not in_common)
        goes_on = ((is_open & ~spent) | unpolished)[owner]

        # Where to go on, and what is not needed any more.
        excess = np.where(is_open[owner] & goes_on, table.bound - value[table.problem], -np.inf)
        with np.errstate(all="ignore"):
            if in_common:
                split = (table.beta + np.append(table.beta[1:], 0)) / 2
                beyond = _FURTHER * table.beta
            else:
                split = table.split
                beyond = _split_beyond(table.beta, limits.slope[table.problem], excess)
        table = table._replace(split=np.where(last, beyond, split))
        steps = np.full(len(table.beta), np.nan)
        steps[best[unpolished]] = newton[unpolished]
        several = at_once if count.max() < _MANY else 1
        dropped, problem, new, is_coarse = _next_points(table, last, steps, excess, tol, several)
        table = table.rows(goes_on & ~dropped)
    return Maxima(value, beta, upper, count, exhausted)


def _evaluate(
    kernel: Kernel[Any], problem: Ints, beta: Floats, scale: Floats, coarse: Mask, number: int
) -> _Table:
    """Evaluate points, coarsely where asked for, and number them from `number` on."""
    unit = np.where(beta > 0, beta, 1 / scale)
    order = np.lexsort((beta, problem, coarse))
    n_exact = int((~coarse).sum())
    parts = [
        kernel.evaluate(beta[some], unit[some], problem[some], coarse=kind)
        for kind, some in ((False, order[:n_exact]), (True, order[n_exact:]))
        if len(some)
    ]
    at = parts[0]._make(map(np.concatenate, zip(*parts, strict=True))) if parts[1:] else parts[0]
    table = _Table(
        problem[order],
        beta[order],
        unit[order],
        at,
        number + np.arange(len(beta)),
        np.full(len(beta), -2),
        *np.full((3, len(beta)), np.inf),
    )
    return table.rows(np.lexsort((table.beta, table.problem))) if parts[1:] else table


def _bound_intervals(kernel: Kernel[Any], table: _Table, last: Mask, largest: Floats) -> None:
    """Bound the kernel on the intervals of which an end has changed, in place."""
    end = np.where(last, -1, np.append(table.number[1:], -1))
    changed = end != table.end
    table.end[:] = end
    sums = table.at
    tail = np.flatnonzero(changed & last)
    if len(tail):
        points = sums._make(x[tail] for x in sums)
        bound = kernel.beyond(points, table.beta[tail], table.problem[tail])
        table.bound[tail] = np.where(np.isnan(bound), np.inf, bound)
    row = np.flatnonzero(changed & ~last)
    if not len(row):
        return
    left, right = (sums._make(x[some] for x in sums) for some in (row, row + 1))
    a, c = table.beta[row], table.beta[row + 1]
    with np.errstate(all="ignore"):
        units = table.unit[row], table.unit[row + 1]
        bound, attained = kernel.bound(left, right, (a, c), units)
        split, table.gain[row] = _split_between(left, right, a, c, attained)
    table.split[row] = split
    ends = np.maximum(largest[row], largest[row + 1])
    # Two neighbouring floating-point numbers have none between them.
    bound = np.where((split <= a) | (split >= c), ends, np.maximum(bound, ends))
    # If the arithmetic overflows, there is no bound.
    table.bound[row] = np.where(np.isnan(bound), np.inf, bound)


def _newton_steps(table: _Table, best: Ints, last: Mask) -> tuple[Floats, Mask, Floats]:
    """Return the next point uphill, whether to evaluate it, and the argmax to report.

    The argmax is one Newton step from the best point if no step is worth an evaluation: the
    value is then known, but the argmax is known to only half as many digits.
    """
    gradient, curvature = table.at.slope[best], table.at.curvature[best]
    beta, unit = table.beta[best], table.unit[best]
    low = np.where(last[best - 1], beta, table.beta[best - 1])
    high = np.where(last[best], beta, np.append(table.beta, 0)[best + 1])
    with np.errstate(all="ignore"):
        full = beta - gradient / curvature * unit
        full_gain = -(gradient**2) / (2 * curvature)
        inside = (curvature < 0) & (full > low) & (full < high)
        # If Newton's step passes a neighbouring point, go halfway to the one uphill.
        uphill = np.where(gradient > 0, high, low)
        newton = np.where(inside, full, (beta + uphill) / 2)
        gain = np.where(inside, full_gain, np.abs(gradient * (uphill - beta) / unit))
        # Points that are as good but for rounding may be passed by the last step.
        near = (np.abs(full - beta) < _NEAR * beta) & (full_gain >= 0) & (full_gain < _POLISH)
    # A step that ends at an old point would be repeated for ever.
    is_new = (newton > low * (1 + 1e-12)) & (newton < high * (1 - 1e-12))
    is_new &= np.abs(newton - beta) > 1e-12 * beta
    # The value that is reported must come from an exact evaluation.
    inexact = table.at.error[best] > 0
    unpolished = inexact | ((gain > _POLISH) & is_new)
    argmax = np.where(near & ~unpolished, full, beta)
    return np.where(is_new, newton, beta), unpolished, argmax


def _next_points(
    table: _Table, last: Mask, steps: Floats, excess: Floats, tol: float, at_once: int
) -> tuple[Mask, Ints, Floats, Mask]:
    """Choose the points of the next round.

    `steps` has the Newton step from the best point of each problem, or nan where it is not worth
    an evaluation; `excess` by how much the bounds of the intervals exceed the best values. Returns
    which points are replaced by new ones, and the problems and inverse temperatures of these and
    whether they may be coarse.
    """
    row = np.arange(len(last))
    error, best = table.at.error, ~np.isnan(steps)
    is_divided, moved, dropped = excess > tol, np.zeros_like(last), np.zeros_like(last)
    if error.any():
        # A coarse end whose error alone keeps an interval open gives way to an exact point: if it
        # is the best one, the point to which Newton's step leads, where that is near.
        errors = error + np.where(last, 0.0, np.append(error[1:], 0.0))
        again = is_divided & (errors > 0) & (excess < tol + _ROOM * errors)
        worth = np.where(best & (error > 0), np.inf, error)
        left = row[again]
        right = np.minimum(left + 1, len(last) - 1)
        dropped[np.where(last[left] | (worth[left] >= worth[right]), left, right)] = True
        moved = dropped & (np.abs(steps - table.beta) < _NEARBY * table.beta)
        is_divided &= ~again
    given_up, divided = row[dropped], row[is_divided]
    exact = np.where(moved, steps, table.beta)[given_up]
    # A Newton step lies in the interval to the left or to the right of the best point.
    stepping = row[best & ~moved & ~is_divided[row - (steps < table.beta)]]
    dropped[stepping] |= steps[stepping] == table.beta[stepping]
    far = np.minimum(excess, table.gain)[divided] > _EXACT_BELOW
    owner, new = divided, table.split[divided]
    if at_once > 1 and len(divided):
        n_divided = int(np.bincount(table.problem[divided]).max())
        # An interval's bound falls with the square of its length.
        parts = min(at_once // n_divided, int(np.sqrt(min(excess.max() / tol, at_once**2))))
        begin, end = table.beta[divided], np.append(table.beta[1:], np.inf)[divided]
        around = _points_around(new, begin, np.where(last[divided], 2 * new, end), parts)
        owner, far = np.repeat(divided, len(around)), np.repeat(far, len(around))
        new = around.T.ravel()
    return (
        dropped,
        table.problem[np.concatenate([owner, given_up, stepping])],
        np.concatenate([new, exact, steps[stepping]]),
        np.append(far, np.zeros(len(given_up) + len(stepping), dtype=bool)),
    )


def _split_between(
    left: Any, right: Any, a: Floats, c: Floats, attained: Floats
) -> tuple[Floats, Floats]:
    """Return where to split intervals, and the expected gain of a maximum there.

    If the kernel rises at the left end a and falls at the right end c, that is where a maximum is
    expected; else where the bound is attained, but away from the ends. `attained` is from 0 at the
    left end to 1, or nan. The gain is that over the values at the ends, in nats; inf where no
    maximum is expected.
    """
    split = _away_from_the_ends(a + (c - a) * np.where(np.isnan(attained), 0.5, attained), a, c)
    maximum, gain = _expected_maximum(left, right, a, c)
    return np.where((maximum > a) & (maximum < c), maximum, split), gain


def _split_beyond(last: Floats, slope: Floats, excess: Floats) -> Floats:
    """Return the next point beyond the last one.

    `slope` is the asymptotic slope of the kernel's convex part, and `excess` says by how much the
    bound beyond the last point exceeds the best value. So with a negative slope the bound is below
    the best value from the point returned on.
    """
    enough = last + excess / -slope
    step = np.clip(np.where(slope < 0, enough, np.inf), 1.5 * last, 30 * last)
    return np.minimum(np.where(slope < 0, step, 4 * last), LARGEST_BETA)


def _points_around(split: Floats, begin: Floats, end: Floats, most: int) -> Floats:
    """Return `split` and, on either side, points that get closer and closer, (n_points, n)."""
    share = _CLOSER ** np.arange(1, (most + 1) // 2)[:, None]
    return np.concatenate(
        [split - (split - begin) * share, split[None], split + (end - split) * share]
    )


def _expected_maximum(left: Any, right: Any, a: Floats, c: Floats) -> tuple[Floats, Floats]:
    """Return where a maximum between two points is expected, and its expected gain.

    The cubic that has the slopes and the curvatures of both ends interpolates the slope as a
    function of log(beta). The maximum is expected where the cubic is zero; nan if the kernel
    does not rise at the left end and fall at the right end.
    """
    h = np.log(c / a)
    # In units of beta, derivatives with respect to beta are those with respect to log(beta).
    g, k = left.slope, right.slope
    dg, dk = h * (left.curvature + g), h * (right.curvature + k)
    gain = np.full_like(h, np.inf)
    for slope, change in ((g, dg), (k, dk)):
        gain = np.fmin(gain, np.where(change < 0, -(slope**2) * h / (2 * change), np.inf))
    inside = (a > 0) & (g > 0) & (k < 0) & (gain > _WORTH_A_STEP)
    at = np.full_like(h, np.nan)
    if inside.any():
        zero = _zero_of_cubic(*(x[inside] for x in (g, k, dg, dk)))
        at[inside] = a[inside] * np.exp(h[inside] * zero)
    return at, np.where(inside, gain, np.inf)


def _zero_of_cubic(g: Floats, k: Floats, dg: Floats, dk: Floats) -> Floats:
    """Find the zero in [0, 1] of cubics with values g > 0 and k < 0 and slopes dg and dk."""
    low, high = np.zeros_like(g), np.ones_like(g)
    t = g / (g - k)
    for _ in range(8):
        u = 1 - t
        value = u * u * ((1 + 2 * t) * g + t * dg) + t * t * ((3 - 2 * t) * k - u * dk)
        slope = u * ((1 - 3 * t) * dg - 6 * t * (g - k)) - t * (2 - 3 * t) * dk
        low, high = np.where(value > 0, t, low), np.where(value > 0, high, t)
        step = value / slope
        t = np.where((t - step >= low) & (t - step <= high), t - step, (low + high) / 2)
        if (np.abs(step) < _EXACT_ZERO).all():
            break
    return t


def _away_from_the_ends(split: Floats, a: Floats, c: Floats) -> Floats:
    """Move a splitting point away from the ends of its interval."""
    ratio = c / a
    wide = (a > 0) & (ratio > _WIDE)
    low = np.where(wide, a * ratio**0.25, a + 0.1 * (c - a))
    high = np.where(wide, a * ratio**0.75, c - 0.1 * (c - a))
    low = np.where(a == 0, 0.02 * c, low)
    return np.clip(split, low, high)
