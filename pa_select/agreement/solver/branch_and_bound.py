r"""Certified maximisation of an agreement kernel over the inverse temperature.

The kernel is not concave and can have several maxima, so its maximum is found by branch
and bound.  The kernel bounds itself on every interval between two evaluated points and
beyond the last one; the interval with the largest bound is split where the kernel says,
and Newton steps polish the best point.

All problems of a batch advance together, one evaluation of each unfinished problem a
round.  What depends on the number of pairs or on the prior is hidden behind a `Kernel`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pa_select.agreement.solver.intervals import Kernel, P, Search
from pa_select.agreement.solver.kernel_sums import Limits
from pa_select.utils.typing import Floats, Ints
from pa_select.utils.warn_caller import warn_caller

#: Give up after so many evaluations of one problem.
MAX_EVALUATIONS = 1500
#: Without a certificate no local maximum that is higher by more than this, in nats, is
#: overlooked; the one that is found is exact all the same.
SEARCHED = 1e-3

_SMALLEST_BETA = float(np.finfo(float).tiny)
# Values of the kernel closer than this are equal but for rounding.
_ROUNDING = 1e-13

Report = Callable[[Floats, Floats], None]


@dataclass(frozen=True)
class Maxima:
    """Maxima of a batch of problems, arrays of shape (n_problems,)."""

    value: Floats
    beta: Floats
    upper_bound: Floats
    n_evaluations: Ints


def maximize(
    kernel: Kernel[P],
    limits: Limits,
    tol: float,
    names: Sequence[Any] | None = None,
    *,
    certify: bool = True,
    first: Floats,
    coarse: NDArray[np.bool_] | None = None,
    report: Report | None = None,
) -> Maxima:
    """Find the maximum over [0, inf] of every problem, within ``tol`` of an upper bound.

    Parameters
    ----------
    kernel : Kernel
    limits : Limits
        The kernel's limits.
    tol : float
        Largest difference of upper bound and value, in the kernel's unit.
    names : sequence, default=None
        What to call the problems in messages; their indices if None.
    certify : bool, default=True
        False: bounds of `SEARCHED` will do, if they can be had, and upper bounds are nan.
    first : ndarray
        Where to evaluate first, in units of the inverse of the scores' typical range.
    coarse : ndarray of shape (n_problems,), default=None
        Which problems may be evaluated coarsely, far from their maximum; none if None.
    report : callable, default=None
        Is told the best values and the upper bounds of all problems after each round.

    Returns
    -------
    Maxima

    Raises
    ------
    RuntimeError
        If a problem's bounds do not meet within `MAX_EVALUATIONS` evaluations.

    Warns
    -----
    ConvergenceWarning
        Likewise, without a certificate.
    """
    tol = tol if certify else max(tol, SEARCHED)
    n = len(limits.at_zero)
    # With disjoint posteriors the kernel is -inf at every beta > 0.
    at_infinity = np.where(limits.disjoint, -np.inf, limits.at_infinity)
    outer = np.maximum(limits.at_zero, at_infinity)
    # An infinite optimum is reported as such also where it ties with a finite one.
    outer_beta = np.where(at_infinity >= outer - _ROUNDING, np.inf, 0.0)
    value, beta = outer.copy(), outer_beta.copy()
    upper = np.where(limits.disjoint, limits.at_zero, limits.ceiling)
    count = np.zeros(n, dtype=np.int64)
    active = np.flatnonzero(upper - value > tol)
    if len(active):
        search = Search(kernel, limits, active, first, coarse)
        while True:
            problems = search.active
            here, at = search.best()
            better = here > outer[problems] + _ROUNDING
            value[problems] = np.where(better, here, outer[problems])
            # The first point is the limit from above; only where a posterior is zero does
            # it differ from the kernel at 0, and the smallest number attains it.
            at = np.maximum(at, _SMALLEST_BETA)
            beta[problems] = np.where(better, at, outer_beta[problems])
            upper[problems] = np.minimum(
                upper[problems], np.maximum(search.top(), value[problems])
            )
            count[problems] = search.n_points
            if report is not None:
                report(value, upper)
            open_ = upper[problems] - value[problems] > tol
            newton, unpolished, place = search.polish()
            here = beta[problems] == at
            keep = open_ | (unpolished & here)
            beta[problems] = np.where(here, np.maximum(place, _SMALLEST_BETA), beta[problems])
            if not keep.any():
                break
            if open_.any() and search.n_points >= MAX_EVALUATIONS:
                worst = problems[(upper - value)[problems].argmax()]
                which = f"problem {worst if names is None else names[worst]}"
                known = f"its maximum is known to {upper[worst] - value[worst]:.2g} nats"
                if not certify:
                    # The command line would wait a second for scikit-learn.
                    from sklearn.exceptions import ConvergenceWarning

                    warn_caller(
                        f"The search for the agreement of {which} was ended after "
                        f"{MAX_EVALUATIONS} evaluations: {known}.",
                        ConvergenceWarning,
                    )
                    break
                raise RuntimeError(
                    f"The agreement of {which} could not be certified to tol={tol:g} with "
                    f"{MAX_EVALUATIONS} evaluations: {known}. Ask for a larger tol, or for "
                    "certify=False."
                )
            search.keep(keep)
            search.advance(newton[keep], open_[keep], value, tol)
    return Maxima(value, beta, upper if certify else np.full(n, np.nan), count)
