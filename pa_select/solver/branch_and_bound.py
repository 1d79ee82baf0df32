"""Certified maximisation of agreement kernels over the inverse temperature.

The kernel is not concave and can have several maxima, so its maximum is found by branch and
bound; docs/certificate.rst has the steps of a round and derives the bounds.  All points of all
problems are rows of one table, which is sorted by problem and inverse temperature.  So an interval
is a row and the next one, and nothing else keeps state.  All problems of a batch advance together.

A constant that is marked "Speed only" changes no certified result; a test turns each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from pa_select.solver.bounds import Limits, coarse_betas
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
_ROOM = 8.0
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
_CLOSER = 0.4
# Speed only: a split is at least this share of an interval away from its ends; of one beside the
# best point, whose near part closes if it is short, and of another one, where a short part would
# leave the bound of the long one as it is.
_LEAST_BESIDE, _LEAST = 0.1, 0.4
# Speed only: so many Newton steps lead to where a maximum is expected, and so many maxima are
# expected at once, which bounds the memory.
_STEPS_TO_MAXIMUM, _MAXIMA_AT_ONCE = 6, 1 << 12
# Speed only: a neighbouring point helps to place a maximum if it is less than so many lengths of
# the interval from its middle.
_NEIGHBOURS = 4.0

P = TypeVar("P", bound=tuple[Any, ...])
# What chooses where to split the intervals that begin at some rows of the table; see `_splits`.
Split = Callable[["_Table", Mask, Ints, Floats], tuple[Floats, Floats]]


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
    #: The problems that ended open: after too many evaluations, or at the largest beta.
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
    #: Whether the point was evaluated in this round.
    is_new: Mask
    #: The bound, and where in the interval it is attained, from 0 to 1.
    bound: Floats
    attained: Floats

    def rows(self, which: Mask | Ints) -> _Table:
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
        error = np.fmax(self.at.error, 0.0)  # of nan and 0 this is 0
        return value - error, value + error


def maximize(
    kernel: Kernel[P],
    limits: Limits,
    tol: float,
    *,
    first: Floats,
    at_once: int = 1,
    coarse: Mask | None = None,
    report: Report | None = None,
) -> Maxima:
    """Find the maximum over [0, inf] of every problem, within ``tol`` nats of an upper bound.

    `first` has the first points, in units of the inverse of the scores' typical range. A round
    with fewer points of each problem than `at_once` splits intervals at several points. Problems
    in `coarse` may be evaluated in single precision far from their maximum. `report` gets the best
    values, the upper bounds and the new points after each round.
    """
    n = len(limits.at_zero)
    # With disjoint posteriors the kernel is -inf at every beta > 0.
    at_infinity = np.where(limits.disjoint, -np.inf, limits.at_infinity)
    outer = np.maximum(limits.at_zero, at_infinity)
    # Where 0 and infinity tie, infinity is reported.
    outer_beta = np.where(at_infinity >= outer - _ROUNDING, np.inf, 0.0)
    value, beta = outer.copy(), outer_beta.copy()
    upper = np.where(limits.disjoint, limits.at_zero, limits.ceiling)
    count = np.zeros(n, dtype=np.int64)
    active = np.flatnonzero(_is_open(upper - value, tol))
    typical = limits.typical_range
    scale = np.where(typical > 0, np.clip(typical, 1e-300, None), 1.0)
    may_be_coarse = np.zeros(n, dtype=bool) if coarse is None else coarse
    split = partial(_splits, slope=limits.slope, tol=tol)

    problem = np.repeat(active, 1 + len(first))
    new = np.outer(1 / scale[active], np.append(0.0, first)).ravel()
    is_coarse = np.ones(len(new), dtype=bool)
    table: _Table | None = None
    while len(new):
        # Evaluate the new points, and sort them into the table.
        is_coarse &= may_be_coarse[problem] & coarse_betas(new, scale[problem])
        fresh = _evaluate(kernel, problem, new, scale[problem], is_coarse)
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
        is_open = _is_open(upper[active] - value[active], tol)
        inner = beta[active] == best_beta
        beta[active] = np.where(inner, np.maximum(argmax, _SMALLEST_BETA), beta[active])
        # No point is beyond the largest one, so that the bound beyond it stays what it is.
        end = np.append(start[1:], len(table.beta)) - 1
        at_the_end = (table.beta[end] >= LARGEST_BETA) & (table.bound[end] >= upper[active])
        spent = is_open & ((count[active] >= MAX_EVALUATIONS) | at_the_end)
        unpolished &= inner & ~spent
        goes_on = ((is_open & ~spent) | unpolished)[owner]

        # Where to go on, and what is not needed any more.
        excess = np.where(is_open[owner] & goes_on, table.bound - value[table.problem], -np.inf)
        steps = np.full(len(table.beta), np.nan)
        steps[best[unpolished]] = newton[unpolished]
        several = at_once if count.max() < _MANY else 1
        dropped, problem, new, is_coarse = _next_points(
            table, last, steps, excess, tol, several, split
        )
        table = table.rows(goes_on & ~dropped)
    exhausted = np.flatnonzero(_is_open(upper - value, tol)).tolist()
    return Maxima(value, beta, upper, count, exhausted)


def _is_open(excess: Floats, tol: float) -> Mask:
    """Whether bounds that exceed the best values by so much leave a search open.

    A problem goes on, and an interval is divided, by the same condition: an open problem without
    an interval to divide would get no new point.
    """
    return excess > tol


def _evaluate(
    kernel: Kernel[Any], problem: Ints, beta: Floats, scale: Floats, coarse: Mask
) -> _Table:
    """Evaluate points, coarsely where asked for."""
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
        np.ones(len(beta), dtype=bool),
        *np.full((2, len(beta)), np.inf),
    )
    return table.rows(np.lexsort((table.beta, table.problem))) if parts[1:] else table


def _bound_intervals(kernel: Kernel[Any], table: _Table, last: Mask, largest: Floats) -> None:
    """Bound the kernel on the intervals of which an end has changed, in place."""
    changed = table.is_new | np.append(table.is_new[1:], False) & ~last
    table.is_new[:] = False
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
        bound, table.attained[row] = kernel.bound(left, right, (a, c), units)
    ends = np.maximum(largest[row], largest[row + 1])
    # Two neighbouring floating-point numbers have none between them.
    bound = np.where(np.nextafter(a, c) >= c, ends, np.maximum(bound, ends))
    # If the arithmetic overflows, there is no bound.
    table.bound[row] = np.where(np.isnan(bound), np.inf, bound)


def _newton_steps(table: _Table, best: Ints, last: Mask) -> tuple[Floats, Mask, Floats]:
    """Return the next point uphill, whether to evaluate it, and the argmax to report.

    The argmax is one Newton step from the best point if no step is worth an evaluation: the
    value is then known, but the argmax is known to only half as many digits.
    """
    gradient, curvature = table.at.slope[best], table.at.curvature[best]
    beta, unit = table.beta[best], table.unit[best]
    # Before the first row is the last one, which is a last point, too.
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
    table: _Table,
    last: Mask,
    steps: Floats,
    excess: Floats,
    tol: float,
    at_once: int,
    split: Split,
) -> tuple[Mask, Ints, Floats, Mask]:
    """Choose the points of the next round.

    `steps` has the Newton step from the best point of each problem, or nan where it is not worth
    an evaluation; `excess` by how much the bounds of the intervals exceed the best values. Returns
    which points are replaced by new ones, and the problems and inverse temperatures of these and
    whether they may be coarse.
    """
    row = np.arange(len(last))
    error, best = table.at.error, ~np.isnan(steps)
    is_divided, moved, dropped = _is_open(excess, tol), np.zeros_like(last), np.zeros_like(last)
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
    given_up, owner = row[dropped], row[is_divided]
    exact = np.where(moved, steps, table.beta)[given_up]
    # A Newton step lies in the interval that begins at the best point, or in the one before it.
    interval = np.where(steps < table.beta, row - 1, row)
    stepping = row[best & ~moved & ~is_divided[interval]]
    dropped[stepping] |= steps[stepping] == table.beta[stepping]
    with np.errstate(all="ignore"):
        new, gain = split(table, last, owner, excess)
        if at_once > 1 and len(owner):
            several, new = _points_around(table, last, owner, new, excess, tol, at_once)
            owner, gain = owner[several], gain[several]
    far = np.minimum(excess[owner], gain) > _EXACT_BELOW
    return (
        dropped,
        table.problem[np.concatenate([owner, given_up, stepping])],
        np.concatenate([new, exact, steps[stepping]]),
        np.append(far, np.zeros(len(given_up) + len(stepping), dtype=bool)),
    )


def _splits(
    table: _Table, last: Mask, row: Ints, excess: Floats, slope: Floats, tol: float
) -> tuple[Floats, Floats]:
    """Return where to split the intervals that begin at some rows, and an expected gain.

    If the kernel rises at the left end and falls at the right end, that is where a maximum is
    expected. Other intervals are split away from their ends: those beside the best point closer to
    it the higher their bound is, the others where their bound is attained. The gain is that of the
    maximum over the values at the ends, in nats; inf where no maximum is expected. `slope` has
    each problem's asymptotic slope of the kernel's convex part.
    """
    at, right = table.at, np.where(last[row], row, row + 1)
    a, c, share = table.beta[row], table.beta[right], table.attained[row]
    gain = np.full(len(row), np.inf)
    for end in (row, right):
        # In units of beta, derivatives with respect to beta are those with respect to log(beta).
        change = at.curvature[end] + at.slope[end]
        gain = np.fmin(gain, np.where(change < 0, -(at.slope[end] ** 2) / (2 * change), np.inf))
    inside = (a > 0) & (at.slope[row] > 0) & (at.slope[right] < 0)
    inside &= gain > _WORTH_A_STEP + at.error[row] + at.error[right]
    maximum = np.full(len(row), np.nan)
    for begin in range(0, int(inside.sum()), _MAXIMA_AT_ONCE):
        some = np.flatnonzero(inside)[begin : begin + _MAXIMA_AT_ONCE]
        maximum[some] = _expected_maximum(table, last, row[some])
    # The part of an interval beside the best point that is far from it should get closed.
    rise = table.bound[row] - np.maximum(at.value[row], at.value[right])
    fall = at.value[row] - at.value[right]
    near = 1 / (1 + np.sqrt(2 * np.abs(fall) / rise))
    beside = (a > 0) & (rise - excess[row] <= tol) & (np.abs(fall) > tol)
    share = np.where(beside, np.where(fall > 0, near, 1 - near), share)
    least = np.where(beside, _LEAST_BESIDE, _LEAST)
    split = a + (c - a) * np.where(np.isnan(share), 0.5, share)
    split = _away_from_the_ends(split, a, c, least)
    split = np.where((maximum > a) & (maximum < c), maximum, split)
    beyond = _split_beyond(a, slope[table.problem[row]], excess[row])
    return np.where(last[row], beyond, split), np.where(inside, gain, np.inf)


def _split_beyond(last: Floats, slope: Floats, excess: Floats) -> Floats:
    """Return the next point beyond the last one.

    `slope` is the asymptotic slope of the kernel's convex part, and `excess` says by how much the
    bound beyond the last point exceeds the best value. So with a negative slope the bound is below
    the best value from the point returned on.
    """
    enough = last + excess / -slope
    step = np.clip(np.where(slope < 0, enough, np.inf), 1.5 * last, 30 * last)
    return np.minimum(np.where(slope < 0, step, 4 * last), LARGEST_BETA)


def _points_around(
    table: _Table, last: Mask, row: Ints, split: Floats, excess: Floats, tol: float, at_once: int
) -> tuple[Ints, Floats]:
    """Return the points at `split` and, on either side, some that get closer and closer to it.

    Return the index of each point's interval, too. A problem gets about `at_once` points.
    """
    right = np.where(last[row], row, row + 1)
    begin, end = table.beta[row], np.where(last[row], 2 * split, table.beta[right])
    # By how much a bound exceeds the values at the ends falls with the square of the length.
    rise = table.bound[row] - np.maximum(table.at.value[row], table.at.value[right])
    parts = np.sqrt(rise / (rise - excess[row] + tol))
    problem = table.problem[row]
    parts = np.fmin(parts, at_once // np.bincount(problem)[problem])
    n_aside = (np.maximum(parts, 1).astype(int) - 1) // 2
    order = np.arange(1, n_aside.max() + 1)[:, None]
    share = _CLOSER**order
    points = [split[None], split - (split - begin) * share, split + (end - split) * share]
    kept = np.concatenate([n_aside[None] >= 0, order <= n_aside, order <= n_aside])
    return np.nonzero(kept)[1], np.concatenate(points)[kept]


def _expected_maximum(table: _Table, last: Mask, row: Ints) -> Floats:
    """Return where a maximum between points and the next ones is expected.

    The kernel as a function of log(beta) is interpolated by the polynomial with the values, slopes
    and curvatures at both ends of the interval, and at the points before and after it if these are
    near. The maximum is expected where its slope is zero.
    """
    points = np.stack([row - 1, row, row + 1, np.minimum(row + 2, len(last) - 1)], axis=1)
    beta, slope, curvature = (x[points] for x in (table.beta, table.at.slope, table.at.curvature))
    h = np.log(beta[:, 2] / beta[:, 1])[:, None]
    # log(beta) is 0 and 1 at the ends. Two points that are nearly one would tell nothing.
    t = np.log(beta / beta[:, [1]]) / h
    away = np.abs(t - 0.5)
    missing = ~((away > 0.75) & (away < _NEIGHBOURS))
    missing[:, 0] |= last[row - 1]
    missing[:, 3] |= last[row + 1]
    missing[:, 1:3] = False
    known = np.stack([table.at.value[points], slope * h, (curvature + slope) * h**2], axis=2)
    known = np.where(missing[..., None], 0.0, known)
    power = np.arange(known[0].size)
    derivative = np.diag(power[1:].astype(float), 1)
    of_value = np.where(missing, 0.0, t)[..., None] ** power
    of_slope = of_value @ derivative
    conditions = np.stack([of_value, of_slope, of_slope @ derivative], axis=2)
    # For the first missing neighbour the three highest coefficients are 0, for the second one the
    # three before them.
    zeros = np.eye(len(power)).reshape(4, 3, -1)
    conditions = np.where(missing[..., None, None], zeros[-np.cumsum(missing, axis=1)], conditions)
    size = len(row), len(power)
    coefficients = np.linalg.solve(conditions.reshape(*size, -1), known.reshape(*size, 1))
    slope = (derivative @ coefficients)[..., 0]
    curvature = slope @ derivative.T
    # Newton's method, from where a line between the slopes at the ends is zero.
    t = slope[:, 0] / (slope[:, 0] - slope.sum(1))
    for _ in range(_STEPS_TO_MAXIMUM):
        powers = t[:, None] ** power
        t = np.clip(t - (slope * powers).sum(1) / (curvature * powers).sum(1), 0, 1)
    maximum: Floats = beta[:, 1] * np.exp(h[:, 0] * t)
    return maximum


def _away_from_the_ends(split: Floats, a: Floats, c: Floats, least: Floats) -> Floats:
    """Move a splitting point away from the ends of its interval, by this share of it at least."""
    ratio = c / a
    wide = (a > 0) & (ratio > _WIDE)
    low = np.where(wide, a * ratio**0.25, a + least * (c - a))
    high = np.where(wide, a * ratio**0.75, c - least * (c - a))
    low = np.where(a == 0, 0.02 * c, low)
    return np.clip(np.clip(split, low, high), np.nextafter(a, c), np.nextafter(c, a))
