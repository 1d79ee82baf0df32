"""Certified maxima of a batch of checked problems, for a fixed or the marginal prior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pa_select.agreement.pairs.paired_scores import PairedScores
from pa_select.agreement.solver import kernel_sums as _kernel
from pa_select.agreement.solver.branch_and_bound import Report, maximize
from pa_select.agreement.solver.fixed_prior import FixedPrior
from pa_select.agreement.solver.intervals import first_betas, points_at_once
from pa_select.agreement.solver.kernel_sums import Limits
from pa_select.agreement.solver.marginal_prior import MarginalPrior
from pa_select.agreement.solver.mean_posteriors import ModelRuns
from pa_select.agreement.solver.single_precision import may_be_coarse
from pa_select.utils.typing import Floats, Ints

# The most points of a problem in the first round and in a later one, for few scores. With a
# fixed prior bounds are so tight that more points would save no round.
_AT_ONCE_FIXED, _AT_ONCE_MARGINAL = (10, 2), (16, 16)


@dataclass(frozen=True)
class FoundMaxima:
    """Maxima of a batch of problems; arrays have the shape (n_problems,).

    The scores and upper bounds include the constant of the kernel, the limits do not.
    """

    score: Floats
    beta: Floats
    upper_bound: Floats
    n_evaluations: Ints
    limits: Limits
    #: What `log_prior_weights` returns; the constant is 0 for the marginal prior.
    log_weights: Floats
    constant: float


def find_maxima(
    pairs: PairedScores,
    prior: Floats | str | None,
    tol: float,
    names: Sequence[Any] | None = None,
    runs: ModelRuns | None = None,
    *,
    certify: bool = True,
    report: Report | None = None,
    failures: dict[int, str] | None = None,
) -> FoundMaxima:
    """Maximise a batch of checked problems; see `solve_pairs` and `maximize`."""
    log_weights, constant = _kernel.log_prior_weights(
        None if isinstance(prior, str) else prior, pairs.n_classes
    )
    limits = _kernel.limits(pairs, log_weights)
    coarse = may_be_coarse(limits, pairs.n_scores, float(log_weights.max()))
    most = _AT_ONCE_MARGINAL if isinstance(prior, str) else _AT_ONCE_FIXED
    n_pairs = pairs.n_scores // pairs.n_classes  # of all processes, which need the same rounds
    first, later = (points_at_once(n_pairs, pairs.n_classes, n) for n in most)
    search = partial(
        maximize,
        tol=tol,
        names=names,
        certify=certify,
        failures=failures,
        coarse=coarse,
        first=first_betas(first),
        at_once=1 if coarse.any() else later,
    )
    if isinstance(prior, str):
        constant = 0.0
        kernel = MarginalPrior(runs or ModelRuns.one_model_each(pairs))
        found = search(kernel, kernel.limits(limits), report=report)
    else:

        def with_constant(value: Floats, upper: Floats) -> None:
            if report is not None:
                report(value + constant, upper + constant)

        found = search(FixedPrior(pairs, log_weights, limits), limits, report=with_constant)
    return FoundMaxima(
        found.value + constant,
        found.beta,
        found.upper_bound + constant,
        found.n_evaluations,
        limits,
        log_weights,
        constant,
    )
