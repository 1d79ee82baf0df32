"""Certified maximisation of an agreement kernel over the inverse temperature.

The kernel is not concave and can have several maxima, so its maximum is found by branch
and bound; docs/certificate.rst derives the bounds.  A `Kernel` is evaluated at points
(inverse temperatures) and bounded on every interval between two points and beyond the last
point.  Each round splits the interval with the largest bound, or several intervals if there
are few scores.  Newton steps polish the best point.

All problems of a batch advance together: a round evaluates each unfinished problem once.
Only the `Kernel` depends on the pairs and on the prior.
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

#: The search ends after this many evaluations of one problem.
MAX_EVALUATIONS = 1500
#: With ``certify=False`` the search ends at bounds that exceed the value by at most this, in
#: nats. The maximum that it finds is polished as usual.
SEARCHED = 1e-3

_SMALLEST_BETA = float(np.finfo(float).tiny)
# A smaller difference of two values of the kernel is a rounding error.
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
    at_once: int = 1,
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
    coarse : ndarray of shape (n_problems,), default=None
        Which problems may be evaluated coarsely, in single precision, far from their
        maximum. None: no problem.
    at_once : int, default=1
        The most points of a problem that a round after the first has; 1 if some problem may be
        coarse.
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
    if len(active):
        search = Search(kernel, limits, active, first, coarse)
        while True:
            problems = search.active
            best_value, best_beta = search.best()
            better = best_value > outer[problems] + _ROUNDING
            value[problems] = np.where(better, best_value, outer[problems])
            # The first point is the limit from above. It differs from the kernel at 0 if a
            # posterior is zero, and the smallest positive number attains it.
            best_beta = np.maximum(best_beta, _SMALLEST_BETA)
            beta[problems] = np.where(better, best_beta, outer_beta[problems])
            upper[problems] = np.minimum(
                upper[problems], np.maximum(search.top(), value[problems])
            )
            count[problems] = search.n_points
            if report is not None:
                report(value, upper)
            open_ = upper[problems] - value[problems] > tol
            newton, unpolished, argmax = search.polish()
            inner = beta[problems] == best_beta
            unfinished = open_ | (unpolished & inner)
            beta[problems] = np.where(inner, np.maximum(argmax, _SMALLEST_BETA), beta[problems])
            if not unfinished.any():
                break
            if open_.any() and search.n_points >= MAX_EVALUATIONS:
                widest = np.argsort(-(upper - value)[problems[open_]], kind="stable")
                left = problems[open_][widest].tolist()
                worst = left[0]
                if certify and failures is not None:
                    failures |= {
                        p: _not_certified(p, names, upper[p] - value[p], tol) for p in left
                    }
                    break
                if not certify:
                    which = f"problem {worst if names is None else names[worst]}"
                    known = f"its maximum is known to {upper[worst] - value[worst]:.2g} nats"
                    # Imported here: scikit-learn would slow the command line by a second.
                    from sklearn.exceptions import ConvergenceWarning

                    warn_caller(
                        f"The search for the agreement of {which} was ended after "
                        f"{MAX_EVALUATIONS} evaluations: {known}.",
                        ConvergenceWarning,
                    )
                    break
                raise RuntimeError(_not_certified(worst, names, upper[worst] - value[worst], tol))
            search.keep(unfinished)
            newton, open_, unpolished = (x[unfinished] for x in (newton, open_, unpolished))
            if at_once > 1:
                search.advance_by_several(newton, unpolished, value, tol, at_once)
            else:
                search.advance(newton, open_, value, tol)
    return Maxima(value, beta, upper, count)


def _not_certified(problem: int, names: Sequence[Any] | None, gap: float, tol: float) -> str:
    return (
        f"The agreement of problem {problem if names is None else names[problem]} could not be "
        f"certified to tol={tol:g} with {MAX_EVALUATIONS} evaluations: its maximum is known to "
        f"{gap:.2g} nats. Ask for a larger tol, or for certify=False."
    )
