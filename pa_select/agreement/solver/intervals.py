"""The points at which kernels were evaluated, and bounds on the intervals between them.

A point is an evaluated inverse temperature.  It is coarse if it was evaluated in single
precision, and exact if in double precision.
"""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from pa_select.agreement.solver.kernel_sums import Limits
from pa_select.agreement.solver.single_precision import coarse_betas
from pa_select.agreement.solver.splitting import points_around, split_between, split_beyond
from pa_select.utils.typing import Floats, Ints

# Points of the first round, apart from 0, in units of the inverse of the scores' typical range.
_FIRST_BETAS = np.array([10.0, 30.0])
# If the first round has more points, they are in this range.
_FIRST_RANGE = 1.0, 60.0
# For few pairs many points at once cost hardly more than one, up to this many numbers in all. Of
# each pair there are its scores, and about as many sums over classes as eight classes more.
_NUMBERS_AT_ONCE, _SUMS_OF_PAIR = 1 << 17, 8
# A problem that has more points is a hard one, and the evaluations that are left are spent on one
# point in each interval.
_MANY_POINTS = 200

# Newton steps go on, even if tol is reached, while they promise a gain above this, in nats.
_POLISH = 1e-12
# Longest last Newton step, and longest one from a coarse point to an exact one, as shares of
# beta.
_NEAR, _NEARBY = 1e-3, 0.05
# An interval is split by an exact evaluation if its bound exceeds the best value by less than
# this, in nats, or a maximum in it is expected to gain less.
_EXACT_BELOW = 1e-3
# A coarse end is evaluated again if this many times its error, added to tol, would close the
# interval.
_ROOM = 4.0

P = TypeVar("P", bound=tuple[Any, ...])


def first_betas(most: int) -> Floats:
    """Return up to `most` first points, and at least two, in units of 1 / typical range."""
    return _FIRST_BETAS if most < 4 else np.geomspace(*_FIRST_RANGE, most)


def points_at_once(n_pairs: int, n_classes: int, most: int) -> int:
    """Return how many points of each problem a round may have, for `n_pairs` pairs in all."""
    n_numbers = n_pairs * (n_classes + _SUMS_OF_PAIR)
    return max(min(_NUMBERS_AT_ONCE // n_numbers, most), 1)


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


class Search(Generic[P]):
    """Points of the unfinished problems, and the intervals that they leave.

    Arrays have the shape (n_problems, capacity, ...). The problems in `active` use their
    first `n_points` columns, which hold as many points as intervals. A point has its
    ``beta``, the ``lowest`` and ``highest`` value that its ``error`` allows, and the fields
    of the kernel. An interval has the columns of its ``left`` and ``right`` points (-1 for
    infinity), its ``bound``, the point at which to ``split`` it, and what a maximum in it
    is expected to ``gain``.
    """

    def __init__(
        self,
        kernel: Kernel[P],
        limits: Limits,
        active: Ints,
        first: Floats,
        coarse: NDArray[np.bool_] | None,
    ) -> None:
        self._kernel = kernel
        self._asymptote = limits.slope
        typical = limits.typical_range
        self._scale = np.where(typical > 0, np.clip(typical, 1e-300, None), 1.0)
        self._may_be_coarse = np.zeros(len(typical), dtype=bool) if coarse is None else coarse
        self._columns: dict[str, NDArray[Any]] = {}
        self.active, self.n_points = active, 0
        scale = self._scale[active, None]
        beta = np.concatenate([0 * scale, first / scale], axis=1)
        self._add_points(beta, np.ones(beta.shape, dtype=bool))
        left = np.arange(self.n_points)
        right = np.where(left + 1 < self.n_points, left + 1, -1)
        left, right = np.tile(left, len(active)), np.tile(right, len(active))
        problems = np.repeat(active, self.n_points)
        self._set_intervals(problems, left, left, right, limits.at_zero)

    def best(self) -> tuple[Floats, Floats]:
        """Return the value and the inverse temperature of each problem's best point."""
        best = self._used("lowest").argmax(1)
        return self._at("lowest", best), self._at("beta", best)

    def top(self) -> Floats:
        """Return the largest bound of each problem's intervals."""
        top: Floats = self._used("bound").max(1)
        return top

    def polish(self) -> tuple[Floats, NDArray[np.bool_], Floats]:
        """Return the next point uphill, whether to evaluate it, and the argmax to report.

        The argmax is one Newton step from the best point if no step is worth an evaluation:
        the value is then known, but the argmax is known to only half as many digits.
        """
        best = self._used("lowest").argmax(1)
        gradient, curvature = self._at("slope", best), self._at("curvature", best)
        beta, points = self._at("beta", best), self._used("beta")
        unit = _units(beta, self._scale[self.active])
        below, above = points < beta[:, None], points > beta[:, None]
        low = np.where(below, points, -np.inf).max(1)
        high = np.where(above, points, np.inf).min(1)
        low, high = np.where(below.any(1), low, beta), np.where(above.any(1), high, beta)
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
        new = (newton > low * (1 + 1e-12)) & (newton < high * (1 - 1e-12))
        new &= np.abs(newton - beta) > 1e-12 * beta
        # The value that is reported must come from an exact evaluation.
        inexact = self._at("error", best) > 0
        unpolished = inexact | ((gain > _POLISH) & new)
        argmax = np.where(near & ~unpolished, full, beta)
        return np.where(inexact & ~new, beta, newton), unpolished, argmax

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Keep these of the active problems, and drop the others."""
        self.active = self.active[which]

    def advance(self, newton: Floats, open_: NDArray[np.bool_], value: Floats, tol: float) -> None:
        """Evaluate one more point of each active problem, and bound its intervals anew.

        A problem that is `open_` splits its interval of the largest bound. The other
        problems split the interval that holds `newton`, the next point uphill of `polish`.
        `value` are the best values. If only the errors of its coarse ends keep an interval
        open, an end is evaluated exactly instead: the best point if it is an end, or else
        the end of the larger error. The best point then moves to `newton` if that is near.
        """
        left, right = self._used("left"), self._used("right")
        interval = self._used("bound").argmax(1)
        if not open_.all():
            points = self._used("beta")
            begin = np.take_along_axis(points, left, 1)
            end = np.where(right < 0, np.inf, np.take_along_axis(points, right, 1))
            holds = (begin <= newton[:, None]) & (newton[:, None] < end)
            interval = np.where(open_, interval, holds.argmax(1))
        first, last = self._at("left", interval), self._at("right", interval)
        excess = self._at("bound", interval) - value[self.active]
        errors = np.stack(
            [self._at("error", first), np.where(last < 0, 0.0, self._at("error", last))]
        )
        again = open_ & (errors.sum(0) > 0) & (excess < tol + _ROOM * errors.sum(0))
        best = self._used("lowest").argmax(1)
        moves = (self._at("error", best) > 0) & ((best == first) | (best == last))
        end = np.where(moves, best, np.where(errors[0] >= errors[1], first, last))
        new = np.where(open_, self._at("split", interval), newton)
        end_beta = self._at("beta", end)
        moves &= np.abs(newton - end_beta) < _NEARBY * end_beta
        new = np.where(again, np.where(moves, newton, end_beta), new)
        again |= ~open_ & (new == self._at("beta", first))
        column = np.full_like(first, self.n_points)
        far = np.minimum(excess, self._at("gain", interval)) > _EXACT_BELOW
        self._add_points(new[:, None], (open_ & ~again & far)[:, None])
        # The exact point replaces the coarse end of the intervals `below` and `above` it.
        below = np.where(again, (right == end[:, None]).argmax(1), interval)
        above = np.where(again, (left == end[:, None]).argmax(1), column)
        self._forget(self.active[again], end[again])
        self._set_intervals(
            np.concatenate([self.active, self.active]),
            np.concatenate([np.where(again, self._at("left", below), first), column]),
            np.concatenate([below, above]),
            np.concatenate([column, np.where(again, self._at("right", above), last)]),
            value,
        )

    def advance_by_several(
        self, newton: Floats, unpolished: NDArray[np.bool_], value: Floats, tol: float, most: int
    ) -> None:
        """Evaluate several more points of each active problem, which must all be exact.

        The intervals of the largest bounds are split, as many as some problem needs and at most
        `most`. Where a problem is `unpolished`, one of them is the interval that holds `newton`,
        the next point uphill of `polish`. If these are few, each is split at several points.
        """
        left, right, bound = (self._used(name) for name in ("left", "right", "bound"))
        points = self._used("beta")
        begin = np.take_along_axis(points, left, 1)
        end = np.where(right < 0, np.inf, np.take_along_axis(points, right, 1))
        home = (begin <= newton[:, None]) & (newton[:, None] < end) & unpolished[:, None]
        open_ = bound > value[self.active, None] + tol
        n = min(int((open_ | home).sum(1).max()), most)
        interval = np.argsort(np.where(home, -np.inf, -bound), axis=1, kind="stable")[:, :n]
        new = np.where(home & ~open_, newton[:, None], self._used("split"))
        first, last, begin, end, new = (
            np.take_along_axis(x, interval, 1)[..., None] for x in (left, right, begin, end, new)
        )
        # An interval's bound falls with the square of its length.
        excess = float((bound.max(1) - value[self.active]).max())
        parts = int(np.sqrt(np.clip(excess / tol, 1, most**2)))
        parts = min(most // n, parts) if self.n_points < _MANY_POINTS else 1
        new = points_around(new, begin, end, parts)
        column = self.n_points + np.arange(new[0].size).reshape(1, *new.shape[1:])
        column = np.repeat(column, len(new), axis=0)
        self._add_points(new.reshape(len(new), -1), np.zeros((len(new), new[0].size), dtype=bool))
        self._set_intervals(
            np.repeat(self.active, n * (new.shape[2] + 1)),
            np.concatenate([first, column], axis=2).ravel(),
            np.concatenate([interval[..., None], column], axis=2).ravel(),
            np.concatenate([column, last], axis=2).ravel(),
            value,
        )

    def _forget(self, problems: Ints, points: Ints) -> None:
        """Leave the last column without an interval, and these points without a value."""
        last = self.n_points - 1
        self._columns["lowest"][problems, points] = -np.inf
        for name, nothing in (("left", last), ("right", last), ("bound", -np.inf), ("split", 0)):
            self._column(name, self._columns[name].dtype)[problems, last] = nothing

    def _add_points(self, beta: Floats, coarse: NDArray[np.bool_]) -> None:
        """Evaluate m more points of each active problem; both arrays have shape (n, m).

        A point is coarse if `coarse` asks for it and single precision can hold it.
        """
        n, m = beta.shape
        scale = self._scale[self.active, None]
        coarse = coarse & self._may_be_coarse[self.active, None] & coarse_betas(beta, scale)
        fresh: Any = self._evaluate(
            beta.ravel(), _units(beta, scale).ravel(), np.repeat(self.active, m), coarse.ravel()
        )
        self._make, self._fields = fresh._make, tuple(fresh._asdict())
        value = np.where(np.isfinite(fresh.value), fresh.value, -np.inf)
        error = np.where(np.isnan(fresh.error), 0.0, fresh.error)
        fields = {"beta": beta.ravel(), "lowest": value - error, "highest": value + error}
        fields |= {"slope": fresh.slope, "curvature": fresh.curvature, **fresh._asdict()}
        self.n_points += m
        for name, new in fields.items():
            new = new.reshape(n, m, *new.shape[1:])
            self._column(name, new.dtype, new.shape[2:])[
                self.active, self.n_points - m : self.n_points
            ] = new

    def _evaluate(
        self, beta: Floats, unit: Floats, problems: Ints, coarse: NDArray[np.bool_]
    ) -> P:
        if coarse.all() or not coarse.any():
            return self._kernel.evaluate(beta, unit, problems, coarse=bool(coarse.all()))
        parts = [
            self._kernel.evaluate(beta[which], unit[which], problems[which], coarse=kind)
            for kind, which in ((False, ~coarse), (True, coarse))
        ]
        order = np.argsort(coarse, kind="stable").argsort()
        make: Any = type(parts[0])._make  # type: ignore[attr-defined]
        both: P = make(np.concatenate(x)[order] for x in zip(*parts, strict=True))
        return both

    def _column(self, name: str, dtype: Any, shape: tuple[int, ...] = ()) -> NDArray[Any]:
        """Return the array of this name, with room for all points."""
        old = self._columns.get(name)
        if old is None or old.shape[1] < self.n_points:
            room = np.empty((len(self._scale), max(2 * self.n_points, 16), *shape), dtype)
            if old is not None:
                room[:, : old.shape[1]] = old
            self._columns[name] = old = room
        return old

    def _set_intervals(
        self, problems: Ints, left: Ints, column: Ints, right: Ints, value: Floats
    ) -> None:
        """Bound the intervals between `left` and `right` points, and store them in `column`."""
        bound, split, gain = np.full((3, len(problems)), np.inf)
        tail = right < 0
        if tail.any():
            bound[tail], split[tail] = self._bound_beyond(problems[tail], left[tail], value)
        if not tail.all():
            inner = ~tail
            bound[inner], split[inner], gain[inner] = self._bound_between(
                problems[inner], left[inner], right[inner]
            )
        new = {"left": left, "right": right, "bound": bound, "split": split, "gain": gain}
        for name, values in new.items():
            self._column(name, values.dtype)[problems, column] = values

    def _bound_between(
        self, problems: Ints, left: Ints, right: Ints
    ) -> tuple[Floats, Floats, Floats]:
        a, c = self._columns["beta"][problems, left], self._columns["beta"][problems, right]
        first, second = self._point(problems, left), self._point(problems, right)
        scale = self._scale[problems]
        with np.errstate(all="ignore"):
            bound, attained = self._kernel.bound(
                first, second, (a, c), (_units(a, scale), _units(c, scale))
            )
            split, gain = split_between(first, second, a, c, attained)
        highest = self._columns["highest"]
        ends = np.maximum(highest[problems, left], highest[problems, right])
        # Two neighbouring floating-point numbers have none between them.
        bound = np.where((split <= a) | (split >= c), ends, np.maximum(bound, ends))
        # If the arithmetic overflows, there is no bound.
        return np.where(np.isnan(bound), np.inf, bound), split, gain

    def _bound_beyond(self, problems: Ints, last: Ints, value: Floats) -> tuple[Floats, Floats]:
        beta, slope = self._columns["beta"][problems, last], self._asymptote[problems]
        bound = self._kernel.beyond(self._point(problems, last), beta, problems)
        bound = np.where(np.isnan(bound), np.inf, bound)
        with np.errstate(all="ignore"):
            return bound, split_beyond(beta, slope, bound - value[problems])

    def _used(self, name: str) -> NDArray[Any]:
        return self._columns[name][self.active, : self.n_points]

    def _at(self, name: str, column: Ints) -> NDArray[Any]:
        return self._columns[name][self.active, column]

    def _point(self, problems: Ints, column: Ints) -> P:
        point: P = self._make(self._columns[name][problems, column] for name in self._fields)
        return point


def _units(points: Floats, scale: Floats) -> Floats:
    """Return the unit of derivatives at each point: the point itself, or 1 / scale at 0."""
    return np.where(points > 0, points, 1 / scale)
