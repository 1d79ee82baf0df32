"""The kernel of few pairs with a uniform prior, in numpy, whose operations cost less than torch's.

Its sums are those of fixed_prior.py, for one problem of finite scores.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pa_select.solver.bounds import Limits, Sums, bound_between
from pa_select.solver.branch_and_bound import Maxima, maximize
from pa_select.utils.typing import Floats, Ints

# Speed only: the first points, in units of the inverse of the scores' typical range.
_FIRST = np.geomspace(1.0, 60.0, 10)
# Part of the certificate: the cube of a number up to this does not overflow; exp(-x) is 0 long
# before x reaches it. And what a term is cut off at, so that means over pairs stay finite.
_LARGEST_CUBED, _LOWEST_PEAK = 1e100, float(np.finfo(float).min) / 1e8


@dataclass(frozen=True)
class FewPairs:
    """The kernel of one problem, for `maximize`."""

    #: The scores of A, B and A + B below the top of each row, (3, n_pairs, n_classes).
    below: Floats
    #: The top of each row of A + B, (n_pairs,).
    peak: Floats
    limits: Limits

    def evaluate(
        self, beta: Floats, unit: Floats, problems: Ints, *, coarse: bool = False
    ) -> Sums:
        """Evaluate the sums at inverse temperatures; see `Kernel`."""
        sums = [self._means(*point) for point in zip(beta, unit, strict=True)]
        return Sums._make([*np.array(sums).T, np.zeros(len(beta))])

    def _means(self, beta: float, unit: float) -> list[float]:
        x = self.below * unit
        if beta > 0:
            x = np.maximum(x, -_LARGEST_CUBED)
        e = np.exp(self.below * beta)
        z = e.sum(axis=2)
        mean, second, third = ((e := e * x).sum(axis=2) / z for _ in range(3))
        variance = np.maximum(second - mean**2, 0)
        log_z = np.log(z)
        log_peak, peak = (np.maximum(factor * self.peak, _LOWEST_PEAK) for factor in (beta, unit))
        sides, joint = -third[0] - third[1], -third[2]
        rows = [
            log_z[2] + log_peak,
            log_z[0] + log_z[1],
            peak + mean[2],
            mean[0] + mean[1],
            variance[2] - variance[0] - variance[1],
            sides + joint / 8,
            joint + sides / 8,
        ]
        return [float(row.mean()) for row in rows]

    bound = staticmethod(bound_between)

    def beyond(self, last: Sums, beta: Floats, problems: Ints) -> Floats:
        """Bound the kernel beyond the last points; see `Kernel`."""
        return last.l1 - self.limits.l2_floor[problems]


def maximum_of_few(a: Floats, b: Floats, tol: float) -> Maxima:
    """Maximise the agreement of few pairs, of which every row's top score is 0; (n, n_classes)."""
    joint, n_classes = a + b, a.shape[1]
    peak = joint.max(axis=1)
    ties = [(x == 0).sum(axis=1) for x in (a, b)]
    shared = np.where(peak == 0, (joint == 0).sum(axis=1), 1)
    floor = float(np.log(ties).sum(axis=0).mean())
    ranges = -np.minimum(a.min(axis=1), b.min(axis=1))
    some = ranges[ranges > 0]
    constant = np.log(n_classes)
    one = np.ones(1)
    limits = Limits(
        at_zero=-constant * one,
        at_infinity=(-np.inf if (peak < 0).any() else np.log(shared).mean() - floor) * one,
        ceiling=-np.log(np.max(ties, axis=0)).mean() * one,
        slope=peak.mean() * one,
        l2_floor=floor * one,
        typical_range=(np.exp(np.log(some).mean()) if len(some) else 0.0) * one,
        largest_range=ranges.max() * one,
        agreement_rate=one,
        disjoint=np.zeros(1, dtype=bool),
    )
    below = np.stack([a, b, joint - peak[:, None]])
    found = maximize(FewPairs(below, peak, limits), limits, tol, first=_FIRST)
    bounds = found.value + constant, found.beta, found.upper_bound + constant
    return Maxima(*bounds, found.n_evaluations, found.exhausted)
