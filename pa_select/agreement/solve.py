"""Maxima of batches of checked problems, and the results that are made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pa_select.agreement import kernel as _kernel
from pa_select.agreement.fixed_prior import FixedPrior
from pa_select.agreement.inference import standard_error
from pa_select.agreement.intervals import first_betas
from pa_select.agreement.kernel import Floats, Limits
from pa_select.agreement.marginal import ModelRuns, marginal_terms
from pa_select.agreement.marginal_prior import MarginalPrior
from pa_select.agreement.maximize import Report, maximize
from pa_select.agreement.pairs import Ints, PairedScores
from pa_select.agreement.precision import may_be_coarse
from pa_select.agreement.result import PosteriorAgreement


@dataclass(frozen=True)
class Solved:
    """Maxima of a batch of problems with the constant of the kernel, (n_problems,)."""

    score: Floats
    beta: Floats
    upper_bound: Floats
    n_evaluations: Ints
    limits: Limits
    #: Log weights of a fixed prior and the constant that goes with them.
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
) -> Solved:
    """Maximise a batch of checked problems."""
    marginal = isinstance(prior, str)
    log_weights, constant = _kernel.log_prior_weights(
        None if isinstance(prior, str) else prior, pairs.n_classes
    )
    limits = _kernel.limits(pairs, log_weights)
    coarse = may_be_coarse(limits, pairs.n_scores, float(log_weights.max()))
    first = first_betas(pairs.n_scores)

    def with_constant(value: Floats, upper: Floats) -> None:
        if report is not None:
            report(value + constant, upper + constant)

    if marginal:
        constant = 0.0
        moving = MarginalPrior(runs or ModelRuns.one_model_each(pairs))
        found = maximize(
            moving,
            moving.limits(limits),
            tol,
            names,
            certify=certify,
            first=first,
            coarse=coarse,
            report=report,
        )
    else:
        fixed = FixedPrior(pairs, log_weights, limits)
        found = maximize(
            fixed,
            limits,
            tol,
            names,
            certify=certify,
            first=first,
            coarse=coarse,
            report=with_constant,
        )
    return Solved(
        found.value + constant,
        found.beta,
        found.upper_bound + constant,
        found.n_evaluations,
        limits,
        log_weights,
        constant,
    )


def solve(
    pairs: PairedScores,
    prior: Floats | str | None,
    tol: float,
    totals: Floats,
    used: Ints,
    names: Sequence[Any] | None = None,
    runs: ModelRuns | None = None,
    *,
    certify: bool = True,
    report: Report | None = None,
) -> list[PosteriorAgreement]:
    """Solve a batch of checked problems of total weights ``totals`` on ``used`` pairs.

    ``runs`` tells the marginal prior which pairs were scored by which fitted models.
    """
    every = np.arange(pairs.n_problems)
    shape = (len(every), pairs.n_classes)
    found = find_maxima(pairs, prior, tol, names, runs, certify=certify, report=report)
    score = found.score
    if isinstance(prior, str):
        terms = marginal_terms(runs or ModelRuns.one_model_each(pairs), found.beta)
    else:
        log_prior = np.broadcast_to(-found.log_weights - found.constant, shape)
        terms = _kernel.pair_terms(pairs, found.beta, every, log_prior)
    if prior is None:
        overlap = score - found.constant
    else:
        overlap = _kernel.mean_terms(pairs, found.beta, every, np.zeros(shape))
    upper = np.maximum(found.upper_bound, score)
    gap = upper - score
    weight = pairs.weight.cpu().numpy()
    return [
        PosteriorAgreement(
            score=float(score[p]),
            beta=float(found.beta[p]),
            log_kernel=float(totals[p] * overlap[p]),
            upper_bound=float(upper[p]),
            gap=float(gap[p]),
            n_pairs=int(used[p]),
            n_classes=pairs.n_classes,
            agreement_rate=float(found.limits.agreement_rate[p]),
            standard_error=standard_error(
                terms[p],
                weight[pairs.start_weight[p] : pairs.start_weight[p] + pairs.counts[p]],
            ),
            terms=terms[p],
            n_evaluations=int(found.n_evaluations[p]) + 1,  # the terms
        )
        for p in every
    ]
