"""Certified maxima of a batch of checked problems, for a fixed or the marginal prior."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pa_select.agreement.inputs.validation import CheckedPrior
from pa_select.agreement.kernels import kernel_sums as _kernel
from pa_select.agreement.kernels.fixed_prior import FixedPrior
from pa_select.agreement.kernels.kernel_sums import may_be_coarse
from pa_select.agreement.kernels.marginal_prior import MarginalPrior
from pa_select.agreement.kernels.marginal_sums import ModelRuns
from pa_select.agreement.pairs.paired_scores import PairedScores
from pa_select.solver import branch_and_bound as _search
from pa_select.solver.bounds import Limits
from pa_select.solver.branch_and_bound import Kernel, Points, Report
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Floats, Ints

#: Part of the result: with ``certify=False`` the search ends at bounds that exceed the value by at
#: most this, in nats. The maximum that it finds is polished as usual.
SEARCHED = 1e-3
# Speed only: the first points, in units of the inverse of the scores' typical range, and the range
# of the first points of few pairs, of which many points at once cost hardly more than one.
_FIRST_BETAS, _FIRST_RANGE = np.array([10.0, 30.0]), (1.0, 60.0)
# Speed only: the most points of such a problem in the first round and in a later one. With a fixed
# prior bounds are so tight that more points in a later round would save no round.
_FIRST, _LATER = 10, {"fixed": 1, "marginal": 4}
# Speed only: so many numbers may be computed at once. Of each pair these are its scores, and about
# as many sums over classes as there are scores of so many classes.
_NUMBERS_AT_ONCE, _SUMS_OF_PAIR = 1 << 17, 8


def first_betas(most: int) -> Floats:
    """Return up to `most` first points, and at least two, in units of 1 / typical range."""
    if most < 4:
        return _FIRST_BETAS
    begin, end = _FIRST_RANGE
    points: Floats = begin * (end / begin) ** (np.arange(most) / (most - 1))
    return points


def points_at_once(n_pairs: int, n_classes: int, most: int) -> int:
    """Return how many points of each problem a round may have, for `n_pairs` pairs in all."""
    n_numbers = n_pairs * (n_classes + _SUMS_OF_PAIR)
    return max(min(_NUMBERS_AT_ONCE // n_numbers, most), 1)


class FoundMaxima(NamedTuple):
    """Maxima of a batch of problems; arrays have the shape (n_problems,).

    The scores and upper bounds include the constant of the kernel, the limits do not.
    """

    score: Floats
    beta: Floats
    upper_bound: Floats
    n_evaluations: Ints
    limits: Limits
    #: Those of the prior.
    log_weights: Floats
    constant: float


def find_maxima(
    pairs: PairedScores,
    prior: CheckedPrior,
    tol: float,
    names: Sequence[Any] | None = None,
    runs: ModelRuns | None = None,
    *,
    certify: bool = True,
    report: Report | None = None,
    failures: dict[int, str] | None = None,
) -> FoundMaxima:
    """Maximise a batch of checked problems; see `solve_pairs` and `maximize`.

    A problem that is not certified raises a RuntimeError, unless `failures` gets the message by
    its index. With ``certify=False`` it is a ConvergenceWarning.
    """
    log_weights = prior.log_weights(pairs.n_classes)
    constant = prior.constant(pairs.n_classes)
    limits = _kernel.limits(pairs, log_weights)
    coarse = may_be_coarse(limits, pairs.n_scores, float(log_weights.max()))
    kind = "marginal" if prior.is_marginal else "fixed"
    n_pairs = pairs.n_scores // pairs.n_classes  # of all processes, which need the same rounds
    kernel: Kernel[Any] = FixedPrior(pairs, log_weights, limits)
    of_kernel = limits
    if prior.is_marginal:
        kernel = MarginalPrior(runs or ModelRuns.one_model_each(pairs))
        of_kernel = kernel.limits(limits)

    def with_constant(value: Floats, upper: Floats, points: Points) -> None:
        if report is not None:
            points = points._replace(value=points.value + constant)
            report(value + constant, upper + constant, points)

    maxima = _search.maximize(
        kernel,
        of_kernel,
        tol if certify else max(tol, SEARCHED),
        first=first_betas(points_at_once(n_pairs, pairs.n_classes, _FIRST)),
        at_once=1 if coarse.any() else points_at_once(n_pairs, pairs.n_classes, _LATER[kind]),
        coarse=coarse,
        report=with_constant,
    )
    if maxima.exhausted:
        gap = maxima.upper_bound - maxima.value
        _report_failures(maxima, gap, tol, names, failures, certify)
    return FoundMaxima(
        maxima.value + constant,
        maxima.beta,
        maxima.upper_bound + constant,
        maxima.n_evaluations,
        limits,
        log_weights,
        constant,
    )


def _report_failures(
    maxima: _search.Maxima,
    gap: Floats,
    tol: float,
    names: Sequence[Any] | None,
    failures: dict[int, str] | None,
    certify: bool,
) -> None:
    """Say of problems whose search was ended how far their maximum is known."""
    exhausted, most = maxima.exhausted, _search.MAX_EVALUATIONS
    known = {p: f"its maximum is known to {gap[p]:.2g} nats" for p in exhausted}
    called = {p: p if names is None else names[p] for p in exhausted}
    ended = {
        p: f"{most} evaluations"
        if maxima.n_evaluations[p] >= most
        else f"an inverse temperature of {_search.LARGEST_BETA:g}, the largest one; the scores of "
        "some pairs differ by too little, so multiply all scores by a large number"
        for p in exhausted
    }
    messages = {
        p: f"The agreement of problem {called[p]} could not be certified to tol={tol:g} with "
        f"{ended[p]}: {known[p]}. Ask for a larger tol, or for certify=False."
        for p in exhausted
    }
    worst = max(exhausted, key=lambda p: gap[p])
    if not certify:
        # Imported here: scikit-learn would slow the command line by a second.
        from sklearn.exceptions import ConvergenceWarning

        warn_caller(
            f"The search for the agreement of problem {called[worst]} was ended after "
            f"{ended[worst]}: {known[worst]}.",
            ConvergenceWarning,
        )
    elif failures is None:
        raise RuntimeError(messages[worst])
    else:
        failures |= messages
