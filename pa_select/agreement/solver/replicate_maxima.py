"""Maxima of many replicates of one problem, searched at common inverse temperatures.

At an inverse temperature that all have in common, evaluating a thousand replicates costs little
more than evaluating one (shared_pairs.py).  As in `maximize`, the kernel of each replicate is
bounded on every interval between two points and beyond the last point.  Each interval is halved
until no replicate's bound there exceeds its best value by more than a tolerance.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pa_select.agreement.pairs.paired_scores import PairedScores
from pa_select.agreement.solver.branch_and_bound import SEARCHED
from pa_select.agreement.solver.find_maxima import find_maxima
from pa_select.agreement.solver.intervals import Kernel, first_betas
from pa_select.agreement.solver.kernel_sums import Limits, log_prior_weights
from pa_select.agreement.solver.mean_posteriors import ModelRuns
from pa_select.agreement.solver.shared_pairs import (
    SharedFixedPrior,
    SharedMarginalPrior,
    each_pair,
    replicate_limits,
)
from pa_select.utils.typing import Floats, Ints

#: The maximum of a replicate is known to this, in nats, with a fixed prior and with the marginal
#: one. The bounds with the latter close more slowly, and its cubics are more exact.
TOLERANCE, MARGINAL_TOLERANCE = 1e-5, 1e-4
# Replicates that need more points are solved one by one.
_MOST_POINTS = 150
_FIRST_POINTS = 10
# The next point beyond the last one is this many times as large.
_FURTHER = 4.0


class _Interval(NamedTuple):
    """An interval in which some replicates may have their maximum.

    ``left`` and ``right`` are the kernels of these replicates at its ends ``a`` and ``c``.
    Beyond the last point ``c`` is infinite and there is no ``right``.
    """

    a: float
    c: float
    left: Any
    right: Any
    problems: Ints


def replicate_maxima(
    a: torch.Tensor, b: torch.Tensor, weights: Floats, prior: Floats | str | None
) -> Floats:
    """Return the maximum of each replicate's kernel over [0, inf].

    Parameters
    ----------
    a, b : torch.Tensor of shape (n_pairs, n_classes)
        Scores that all replicates share, on one device.
    weights : ndarray of shape (n_replicates, n_pairs)
        Weights of the pairs in each replicate; they sum to one.
    prior : ndarray of shape (n_classes,), "marginal" or None
        None is the uniform prior.

    Returns
    -------
    ndarray of shape (n_replicates,)
        The maxima to `TOLERANCE`, or to `MARGINAL_TOLERANCE` with the marginal prior. Those of
        replicates that need too many points are as `find_maxima` returns them without a
        certificate.
    """
    pairs = each_pair(a, b)
    marginal = isinstance(prior, str)
    found = np.full(len(weights), np.nan)
    if not (marginal and pairs.has_zero_posteriors):
        kernel, limits, constant = _kernel(pairs, weights, prior)
        tol = MARGINAL_TOLERANCE if marginal else TOLERANCE
        with np.errstate(all="ignore"):
            found = _Search(kernel, limits, tol).maxima() + constant
    left = np.isnan(found)
    if left.any():
        separate = _separate(pairs, weights[left])
        found[left] = find_maxima(separate, prior, SEARCHED, certify=False).score
    return found


def _kernel(
    pairs: PairedScores, weights: Floats, prior: Floats | str | None
) -> tuple[Kernel[Any], Limits, float]:
    """Return the kernel of replicates, its limits, and the constant that it lacks."""
    fixed = None if isinstance(prior, str) else prior
    log_weights, constant = log_prior_weights(fixed, pairs.n_classes)
    limits = replicate_limits(pairs, weights, log_weights)
    if not isinstance(prior, str):
        return SharedFixedPrior(pairs, log_weights, limits, weights), limits, constant
    runs = ModelRuns.one_model_each(_separate(pairs, weights))
    kernel = SharedMarginalPrior(runs, pairs, torch.from_numpy(weights).to(pairs.device))
    return kernel, kernel.limits(limits), 0.0


def _separate(pairs: PairedScores, weights: Floats) -> PairedScores:
    """Return replicates as problems that may have different inverse temperatures."""
    m, n = weights.shape
    zeros = np.zeros(m, dtype=np.int64)
    weight = torch.from_numpy(weights.ravel()).to(pairs.device)
    return PairedScores(pairs.a, pairs.b, weight, zeros + n, zeros, zeros, np.arange(m) * n)


class _Search:
    """The search at points that replicates have in common."""

    def __init__(self, kernel: Kernel[Any], limits: Limits, tol: float) -> None:
        self._kernel, self._tol = kernel, tol
        typical = float(np.median(limits.typical_range))
        self._scale = typical if typical > 0 else 1.0
        # With disjoint posteriors the kernel is -inf at every beta > 0.
        at_infinity = np.where(limits.disjoint, -np.inf, limits.at_infinity)
        self._ceiling = np.where(limits.disjoint, limits.at_zero, limits.ceiling)
        #: The best value of each replicate, and the maximum that is expected near it. The best
        #: value is nan if the search gives a replicate up.
        self._best = np.maximum(limits.at_zero, at_infinity)
        self._expected = self._best.copy()

    def maxima(self) -> Floats:
        """Return the maxima; nan for replicates that need too many points."""
        open_ = np.flatnonzero(self._ceiling - self._best > self._tol)
        betas = [0.0, *(first_betas(_FIRST_POINTS) / self._scale).tolist(), np.inf]
        points = [self._evaluate(beta, open_) for beta in betas[:-1]] if len(open_) else []
        ends = zip(pairwise(betas), pairwise([*points, None]), strict=False)
        intervals = [_Interval(*beta, *at, open_) for beta, at in ends]
        n_points = len(points)
        while intervals:
            intervals = [x for x in map(self._unsettled, intervals) if len(x.problems)]
            n_points += len(intervals)
            if n_points > _MOST_POINTS:
                for x in intervals:
                    self._best[x.problems] = np.nan
                break
            intervals = [half for x in intervals for half in self._halves(x)]
        return np.maximum(self._best, self._expected)

    def _evaluate(self, beta: float, problems: Ints) -> Any:
        """Evaluate replicates at a point, which may be their best one."""
        betas, units = (np.full(len(problems), x) for x in (beta, self._unit(beta)))
        sums: Any = self._kernel.evaluate(betas, units, problems)
        self._best[problems] = np.maximum(self._best[problems], sums.value)
        return sums

    def _unit(self, beta: float) -> float:
        return beta if beta > 0 else 1 / self._scale

    def _unsettled(self, interval: _Interval) -> _Interval:
        """Keep the replicates whose bound on an interval exceeds their best value."""
        a, c, left, right, problems = interval
        begin, end = (np.full(len(problems), x) for x in (a, c))
        if right is None:
            bound = self._kernel.beyond(left, begin, problems)
            expected = left.value
        else:
            units = np.full(len(problems), self._unit(a)), end
            bound, _ = self._kernel.bound(left, right, (begin, end), units)
            expected = _expected_maximum(left, right, (c - a) / self._unit(a), (c - a) / c)
        best = self._best[problems]
        open_ = ~(bound <= best + self._tol) & ~np.isnan(best)
        settled = problems[~open_]
        self._expected[settled] = np.fmax(
            self._expected[settled], np.minimum(expected, bound)[~open_]
        )
        return _Interval(a, c, _some(left, open_), _some(right, open_), problems[open_])

    def _halves(self, interval: _Interval) -> list[_Interval]:
        a, c, left, right, problems = interval
        middle = _FURTHER * a if right is None else (a + c) / 2
        at = self._evaluate(middle, problems)
        return [
            _Interval(a, middle, left, at, problems),
            _Interval(middle, c, at, right, problems),
        ]


def _some(sums: Any, which: NDArray[np.bool_]) -> Any:
    return None if sums is None else sums._make(x[which] for x in sums)


def _expected_maximum(left: Any, right: Any, from_a: float, from_c: float) -> Floats:
    """Return the maximum of the cubic with the values and the slopes of both ends.

    The interval has the lengths `from_a` and `from_c` in the units of its ends. Where the
    kernel does not rise at the left end and fall at the right end, this is the value there.
    """
    first, last = from_a * left.slope, from_c * right.slope
    # On a short interval the slope is nearly linear.
    t = np.where((first > 0) & (last < 0), first / (first - last), 0.0)
    u = 1 - t
    cubic: Floats = u * u * ((1 + 2 * t) * left.value + t * first)
    return cubic + t * t * ((3 - 2 * t) * right.value - u * last)
