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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from pa_select.agreement.solver.kernel_sums import Limits
from pa_select.agreement.solver.single_precision import coarse_betas
from pa_select.agreement.solver.splitting import points_around, split_between, split_beyond
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Floats, Ints, Mask

#: Part of the result: the search ends after this many evaluations of one problem.
MAX_EVALUATIONS = 1500
#: Part of the result: with ``certify=False`` the search ends at bounds that exceed the value by at
#: most this, in nats. The maximum that it finds is polished as usual.
SEARCHED = 1e-3

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

P = TypeVar("P", bound=tuple[Any, ...])
Report = Callable[[Floats, Floats], None]


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

    def lowest(self) -> Floats:
        """Return the smallest value of each point that its error allows."""
        value = np.where(np.isfinite(self.at.value), self.at.value, -np.inf)
        lowest: Floats = value - np.nan_to_num(self.at.error)
        return lowest


def maximize(
    kernel: Kernel[P],
    limits: Limits,
    tol: float,
    names: Sequence[Any] | None = None,
    *,
    certify: bool = True,
    first: Floats,
    at_once: int = 1,
    in_common: bool = False,
    most: int | None = None,
    coarse: Mask | None = None,
    report: Report | None = None,
    failures: dict[int, str] | None = None,
) -> Maxima:
    """Find the maximum over [0, inf] of every problem, within ``tol`` of an upper bound.

    Parameters
    ----------
    kernel : Kernel
    limits : Limits
        The kernel's limits.
    tol : float
        Largest difference of upper bound and value, in nats.
    names : sequence, default=None
        What messages call the problems. None: their indices.
    certify : bool, default=True
        False: `tol` is at least `SEARCHED`, and a larger gap is a warning.
    first : ndarray
        The first points, in units of the inverse of the scores' typical range.
    at_once : int, default=1
        If a round has fewer points of each problem, its intervals are split at several points.
    in_common : bool, default=False
        Whether points are chosen so that problems have many of them in common: intervals are
        halved, and no Newton step is taken.
    most : int, default=None
        The search of a problem ends after this many evaluations. None: `MAX_EVALUATIONS`.
    coarse : ndarray of shape (n_problems,), default=None
        Which problems may be evaluated coarsely, in single precision, far from their
        maximum. None: no problem.
    report : callable, default=None
        Called after each round with the best values and the upper bounds of all problems.
    failures : dict, default=None
        Gets a message for each problem that is not certified, by its index. None: the worst
        of them raises an error.

    Returns
    -------
    Maxima

    Raises
    ------
    RuntimeError
        If the bound and the value of a problem differ by more than `tol` after
        `MAX_EVALUATIONS` evaluations, unless there are `failures`.

    Warns
    -----
    ConvergenceWarning
        In the same case, with ``certify=False``.
    """
    tol = tol if certify else max(tol, SEARCHED)
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
        lowest = table.lowest()
        highest = np.flatnonzero(lowest == np.maximum.reduceat(lowest, start)[owner])
        best = highest[np.searchsorted(owner[highest], np.arange(len(active)))]
        better = lowest[best] > outer[active] + _ROUNDING
        value[active] = np.where(better, lowest[best], outer[active])
        # The first point is the limit from above. It differs from the kernel at 0 if a
        # posterior is zero, and the smallest positive number attains it.
        best_beta = np.maximum(table.beta[best], _SMALLEST_BETA)
        beta[active] = np.where(better, best_beta, outer_beta[active])

        # The largest bound of each problem.
        _bound_intervals(kernel, table, last)
        top = np.maximum.reduceat(table.bound, start)
        upper[active] = np.minimum(upper[active], np.maximum(top, value[active]))
        if report is not None:
            report(value, upper)

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
                beyond = split_beyond(table.beta, limits.slope[table.problem], excess)
        table = table._replace(split=np.where(last, beyond, split))
        steps = np.full(len(table.beta), np.nan)
        steps[best[unpolished]] = newton[unpolished]
        several = at_once if count.max() < _MANY else 1
        dropped, problem, new, is_coarse = _next_points(table, last, steps, excess, tol, several)
        table = table.rows(goes_on & ~dropped)
    if exhausted:
        _report_failures(exhausted, upper - value, tol, most, names, failures, certify)
    return Maxima(value, beta, upper, count)


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
    return table.rows(np.lexsort((table.beta, table.problem)) if parts[1:] else slice(None))


def _bound_intervals(kernel: Kernel[Any], table: _Table, last: Mask) -> None:
    """Bound the kernel on the intervals of which an end has changed, in place."""
    end = np.where(last, -1, np.append(table.number[1:], -1))
    changed = end != table.end
    table.end[:] = end
    tail = np.flatnonzero(changed & last)
    if len(tail):
        points = table.rows(tail)
        bound = kernel.beyond(points.at, points.beta, points.problem)
        table.bound[tail] = np.where(np.isnan(bound), np.inf, bound)
    row = np.flatnonzero(changed & ~last)
    if not len(row):
        return
    left, right = table.rows(row), table.rows(row + 1)
    a, c = left.beta, right.beta
    with np.errstate(all="ignore"):
        bound, attained = kernel.bound(left.at, right.at, (a, c), (left.unit, right.unit))
        table.split[row], table.gain[row] = split_between(left.at, right.at, a, c, attained)
    ends = np.maximum(*(x.lowest() + 2 * np.nan_to_num(x.at.error) for x in (left, right)))
    # Two neighbouring floating-point numbers have none between them.
    split = table.split[row]
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

    Parameters
    ----------
    table : _Table
    last : ndarray of shape (n_rows,)
    steps : ndarray of shape (n_rows,)
        The Newton step from the best point of each problem, if it is worth an evaluation; else
        nan.
    excess : ndarray of shape (n_rows,)
        By how much the bounds of the intervals exceed the best value of their problems.
    tol : float
    at_once : int
        As in `maximize`.

    Returns
    -------
    dropped : ndarray of shape (n_rows,)
        Which points are replaced by new ones.
    problem, beta : ndarray
        The new points.
    coarse : ndarray
        Which of them need not be exact.
    """
    row = np.arange(len(last))
    error, best = table.at.error, ~np.isnan(steps)
    errors = error + np.where(last, 0.0, np.append(error[1:], 0.0))
    # A coarse end whose error alone keeps an interval open gives way to an exact point: if it is
    # the best one, the point to which Newton's step leads, where that is near.
    again = (excess > tol) & (errors > 0) & (excess < tol + _ROOM * errors)
    worth = np.where(best & (error > 0), np.inf, error)
    left = row[again]
    right = np.minimum(left + 1, len(last) - 1)
    given_up = np.unique(np.where(last[left] | (worth[left] >= worth[right]), left, right))
    near = np.abs(steps[given_up] - table.beta[given_up]) < _NEARBY * table.beta[given_up]
    exact = np.where(near, steps[given_up], table.beta[given_up])
    divided = row[(excess > tol) & ~again]
    # A Newton step lies in the interval to the left or to the right of the best point.
    home = row - (steps < table.beta)
    taken = np.isin(row, given_up[near]) | np.isin(home, divided)
    stepping = row[best & ~taken]
    dropped = np.isin(row, given_up)
    dropped[stepping] |= steps[stepping] == table.beta[stepping]
    far = np.minimum(excess, table.gain)[divided] > _EXACT_BELOW
    owner, new = divided, table.split[divided]
    if at_once > 1 and len(divided):
        n_divided = int(np.bincount(table.problem[divided]).max())
        # An interval's bound falls with the square of its length.
        parts = min(at_once // n_divided, int(np.sqrt(min(excess.max() / tol, at_once**2))))
        begin, end = table.beta[divided], np.append(table.beta[1:], np.inf)[divided]
        around = points_around(new, begin, np.where(last[divided], 2 * new, end), parts)
        owner, far = np.repeat(divided, len(around)), np.repeat(far, len(around))
        new = around.T.ravel()
    return (
        dropped,
        table.problem[np.concatenate([owner, given_up, stepping])],
        np.concatenate([new, exact, steps[stepping]]),
        np.append(far, np.zeros(len(given_up) + len(stepping), dtype=bool)),
    )


def _report_failures(
    exhausted: Sequence[int],
    gap: Floats,
    tol: float,
    most: int,
    names: Sequence[Any] | None,
    failures: dict[int, str] | None,
    certify: bool,
) -> None:
    """Say of problems that took too many evaluations how far their maximum is known."""
    known = {p: f"its maximum is known to {gap[p]:.2g} nats" for p in exhausted}
    called = {p: p if names is None else names[p] for p in exhausted}
    messages = {
        p: f"The agreement of problem {called[p]} could not be certified to tol={tol:g} with "
        f"{most} evaluations: {known[p]}. Ask for a larger tol, or for certify=False."
        for p in exhausted
    }
    worst = max(exhausted, key=lambda p: gap[p])
    if not certify:
        # Imported here: scikit-learn would slow the command line by a second.
        from sklearn.exceptions import ConvergenceWarning

        warn_caller(
            f"The search for the agreement of problem {called[worst]} was ended after "
            f"{most} evaluations: {known[worst]}.",
            ConvergenceWarning,
        )
    elif failures is None:
        raise RuntimeError(messages[worst])
    else:
        failures |= messages
