"""The points at which kernels were evaluated, and bounds on the intervals between them."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from pa_select.agreement.solver.kernel_sums import Limits
from pa_select.agreement.solver.single_precision import coarse_betas
from pa_select.agreement.solver.splitting import split_between, split_beyond
from pa_select.utils.typing import Floats, Ints

# Inverse temperatures of the first round, beside 0, in units of the inverse of the scores'
# typical range; and where many points at once cost hardly more than one, up to so many that
# so many scores are evaluated, between these.
_FIRST_BETAS = np.array([10.0, 30.0])
_MOST_FIRST, _SCORES_AT_ONCE = 10, 1 << 14
_FIRST_RANGE = 1.0, 60.0

# Newton steps go on, beyond what tol asks, while they promise more than this.
_POLISH = 1e-12
# A last step may still go so far, and one from a coarse point to an exact one, in units of
# beta.
_NEAR, _NEARBY = 1e-3, 0.05
# Where an interval may hide less than this, in nats, or a maximum in it is expected to add
# less to its ends, it is split by an exact evaluation; and a coarse end of it is evaluated
# again where so many times its error would explain it.
_EXACT_BELOW, _ROOM = 1e-3, 4.0

P = TypeVar("P", bound=tuple[Any, ...])


def first_betas(n_scores: int) -> Floats:
    """Where to evaluate problems of so many scores first, in units of 1 / typical range."""
    n = min(_SCORES_AT_ONCE // n_scores, _MOST_FIRST)
    return _FIRST_BETAS if n < 4 else np.geomspace(*_FIRST_RANGE, n)


class Kernel(Protocol[P]):
    """A batch of kernels that can be evaluated and bounded."""

    def evaluate(self, beta: Floats, unit: Floats, problems: Ints, *, coarse: bool = False) -> P:
        """Evaluate problems at inverse temperatures, all three of shape (n,).

        0 stands for the limit from above; a problem may be asked for several times.
        Returns a named tuple of arrays of shape (n, ...), with the kernel as ``value`` and
        its derivatives ``slope`` and ``curvature``. Derivatives are in the given unit of
        the inverse temperature, so that they are of order one for scores of any size:
        n-th derivatives are multiplied by the n-th power of the unit. Coarse evaluations
        are cheaper; the value is then within ``error`` of the kernel, else 0.
        """

    def bound(
        self, left: P, right: P, ends: tuple[Floats, Floats], units: tuple[Floats, Floats]
    ) -> tuple[Floats, Floats]:
        """Bound the kernel on n intervals between two points.

        Returns the upper bounds and where they are attained, from 0 at the left end to 1.
        """

    def beyond(self, last: P, beta: Floats, problems: Ints) -> Floats:
        """Bound the kernel beyond the last points of n problems."""


class Search(Generic[P]):
    """Points of the unfinished problems, and the intervals that they leave.

    Arrays have the shape (n_problems, capacity, ...). The problems in `active` use
    `n_points` columns of them: so many points, and as many intervals, each from its
    `left` point to its `right` one, or from the last point (-1) to infinity, with its
    `bound`, where to `split` it, and what a maximum in it is expected to `gain`.
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
        """The best of each problem's points: its value and inverse temperature."""
        best = self._used("lowest").argmax(1)
        return self._at("lowest", best), self._at("beta", best)

    def top(self) -> Floats:
        """The largest bound of each problem's intervals."""
        top: Floats = self._used("bound").max(1)
        return top

    def polish(self) -> tuple[Floats, NDArray[np.bool_], Floats]:
        """Where to go uphill from the best point, whether that promises a gain.

        And where the maximum is, if it does not: its value is known then, but the place
        of a maximum is known to only half as many digits.
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
            target = beta - gradient / curvature * unit
            gain = -(gradient**2) / (2 * curvature)
            inside = (curvature < 0) & (target > low) & (target < high)
            # Where Newton's step leaves the neighbours, halve the distance to the upper one.
            uphill = np.where(gradient > 0, high, low)
            target = np.where(inside, target, (beta + uphill) / 2)
            gain = np.where(inside, gain, np.abs(gradient * (uphill - beta) / unit))
        # A step that is not taken to a new point would be repeated for ever.
        new = (target > low * (1 + 1e-12)) & (target < high * (1 - 1e-12))
        new &= np.abs(target - beta) > 1e-12 * beta
        # The result has to come from an exact evaluation.
        inexact = self._at("error", best) > 0
        unpolished = inexact | ((gain > _POLISH) & new)
        near = inside & (np.abs(target - beta) < _NEAR * beta)
        place = np.where(near & ~unpolished, target, beta)
        return np.where(inexact & ~new, beta, target), unpolished, place

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Go on with these of the active problems."""
        self.active = self.active[which]

    def advance(self, at: Floats, bounded: NDArray[np.bool_], value: Floats, tol: float) -> None:
        """Split each problem's interval of the largest bound, or the one that holds `at`.

        The bound counts where `bounded`; `at` is where `polish` goes, and `value` are the
        best known values. Where coarse evaluations of its ends are all that keeps an
        interval open, an end is evaluated again: the best point, which then moves
        uphill, or the coarser one.
        """
        left, right = self._used("left"), self._used("right")
        interval = self._used("bound").argmax(1)
        if not bounded.all():
            points = self._used("beta")
            begin = np.take_along_axis(points, left, 1)
            end = np.where(right < 0, np.inf, np.take_along_axis(points, right, 1))
            holds = (begin <= at[:, None]) & (at[:, None] < end)
            interval = np.where(bounded, interval, holds.argmax(1))
        first, last = self._at("left", interval), self._at("right", interval)
        excess = self._at("bound", interval) - value[self.active]
        errors = np.stack(
            [self._at("error", first), np.where(last < 0, 0.0, self._at("error", last))]
        )
        again = bounded & (errors.sum(0) > 0) & (excess < tol + _ROOM * errors.sum(0))
        best = self._used("lowest").argmax(1)
        moves = (self._at("error", best) > 0) & ((best == first) | (best == last))
        end = np.where(moves, best, np.where(errors[0] >= errors[1], first, last))
        new = np.where(bounded, self._at("split", interval), at)
        same = self._at("beta", end)
        moves &= np.abs(at - same) < _NEARBY * same
        new = np.where(again, np.where(moves, at, same), new)
        again |= ~bounded & (new == self._at("beta", first))
        column = np.full_like(first, self.n_points)
        far = np.minimum(excess, self._at("gain", interval)) > _EXACT_BELOW
        self._add_points(new[:, None], (bounded & ~again & far)[:, None])
        # An exact point takes the place of a coarse one; no interval is new then.
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

    def _forget(self, problems: Ints, points: Ints) -> None:
        """Leave the last column without an interval, and a point without a value."""
        last = self.n_points - 1
        self._columns["lowest"][problems, points] = -np.inf
        for name, nothing in (("left", last), ("right", last), ("bound", -np.inf), ("split", 0)):
            self._column(name, self._columns[name].dtype)[problems, last] = nothing

    def _add_points(self, beta: Floats, coarse: NDArray[np.bool_]) -> None:
        """Evaluate m more points of each active problem, (n, m), coarsely where that will do."""
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
        """The array of this name, with room for all points."""
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
        """Put the intervals between these points of these problems into columns."""
        bound, split, gain = np.full((3, len(problems)), np.inf)
        tail = right < 0
        if tail.any():
            bound[tail], split[tail] = self._beyond(problems[tail], left[tail], value)
        if not tail.all():
            inner = ~tail
            bound[inner], split[inner], gain[inner] = self._between(
                problems[inner], left[inner], right[inner]
            )
        new = {"left": left, "right": right, "bound": bound, "split": split, "gain": gain}
        for name, values in new.items():
            self._column(name, values.dtype)[problems, column] = values

    def _between(self, problems: Ints, left: Ints, right: Ints) -> tuple[Floats, Floats, Floats]:
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
        # Nothing lies between neighbouring numbers.
        bound = np.where((split <= a) | (split >= c), ends, np.maximum(bound, ends))
        # Where the arithmetic overflows nothing is known.
        return np.where(np.isnan(bound), np.inf, bound), split, gain

    def _beyond(self, problems: Ints, last: Ints, value: Floats) -> tuple[Floats, Floats]:
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
    """Units of the derivatives at the points: the point itself, at 0 that of the scores."""
    return np.where(points > 0, points, 1 / scale)
