"""Solution of checked problems: the maximum of each, its terms and standard error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pa_select.agreement.inputs.problem import Problem
from pa_select.agreement.inputs.validation import CheckedPrior
from pa_select.agreement.pairs.paired_scores import PairedScores, concatenate
from pa_select.agreement.result import PosteriorAgreement, SolverPath
from pa_select.agreement.solver import kernel_sums as _kernel
from pa_select.agreement.solver.branch_and_bound import Points, Report
from pa_select.agreement.solver.find_maxima import find_maxima
from pa_select.agreement.solver.marginal_sums import ModelRuns, marginal_terms
from pa_select.agreement.standard_errors import (
    error_of_mean,
    standard_error,
    sum_of_squared_deviations,
)
from pa_select.utils.typing import Device, Floats, Ints

if TYPE_CHECKING:
    from pa_select.agreement.pairs.sharded_scores import Shard

# Speed only: this many scores of either sample are solved at once, which bounds the memory.
_SCORES_AT_ONCE = 1 << 21


def solve_problems(
    problems: Sequence[Problem],
    tol: float,
    *,
    certify: bool,
    device: Device,
    groups: Sequence[Ints | None],
    shard: Shard | None = None,
    names: Sequence[Any] | None = None,
    isolate: bool = False,
    return_path: bool = False,
) -> list[PosteriorAgreement]:
    """Solve many problems; those with the same number of classes are solved together.

    `groups` has the groups of the pairs of each problem, or None if all pairs are independent;
    `shard` the pairs of this process, if several processes share the problems. The other arguments
    are those of `posterior_agreement` and `solve_pairs`.
    """
    held = problems if shard is None else shard.problems
    totals = np.array([p.weight.sum() for p in problems]) if shard is None else shard.totals
    results: list[Any] = [None] * len(problems)
    for batch in _batches(held, _SCORES_AT_ONCE if shard is None else None):
        pairs = concatenate([held[i] for i in batch], device, totals[batch])
        if shard is not None:
            pairs = shard.pairs(pairs, batch)
        prior = held[batch[0]].prior
        called = batch if names is None else [names[i] for i in batch]
        log = _Log() if return_path else None
        solved = solve_pairs(
            pairs,
            prior,
            totals[batch],
            tol,
            certify=certify,
            names=called,
            report=log,
            isolate=isolate,
        )
        if log is not None:
            solved = [replace(result, path=log.path(k)) for k, result in enumerate(solved)]
        for i, result in zip(batch, solved, strict=True):
            if result.failure is not None:
                results[i] = result
                continue
            problem, objects = problems[i], groups[i]
            # An empty shard was solved with one pair of weight 0.
            terms = result.terms[: len(problem.weight)]
            error = result.standard_error
            if objects is not None:
                error = standard_error(terms, problem.weight / totals[i], (objects, objects))
            results[i] = replace(result, terms=terms, source=problem, standard_error=error)
    return results if shard is None else _with_all_errors(results, shard)


def solve_pairs(
    pairs: PairedScores,
    prior: CheckedPrior,
    totals: Floats,
    tol: float,
    *,
    certify: bool = True,
    names: Sequence[Any] | None = None,
    runs: ModelRuns | None = None,
    report: Report | None = None,
    isolate: bool = False,
) -> list[PosteriorAgreement]:
    """Solve a batch of problems with the same prior and number of classes.

    `totals` has the weight of each problem before it was normalised, and `names` what messages
    call the problems, by default their indices. `runs` are those of the fitted models that scored
    the pairs, for the marginal prior; None: one model scored all pairs of a problem. `report` gets
    the best values, the upper bounds and the new points after each round. With `isolate` a problem
    that cannot be solved gets a result of nan with the reason in ``failure``, rather than raising
    an error.
    """
    every = np.arange(pairs.n_problems)
    shape = (len(every), pairs.n_classes)
    failures: dict[int, str] | None = {} if isolate else None
    maxima = find_maxima(
        pairs, prior, tol, names, runs, certify=certify, report=report, failures=failures
    )
    score = maxima.score
    if prior.is_marginal:
        terms = marginal_terms(runs or ModelRuns.one_model_each(pairs), maxima.beta)
    else:
        log_prior = np.broadcast_to(-maxima.log_weights - maxima.constant, shape)
        terms = _kernel.pair_terms(pairs, maxima.beta, every, log_prior)
    if prior.is_uniform:
        overlap = score - maxima.constant
    else:
        overlap = _kernel.mean_terms(pairs, maxima.beta, every, np.zeros(shape))
    upper = np.maximum(maxima.upper_bound, score)
    gap = upper - score
    weight = pairs.host_weight
    ends = pairs.start_weight + pairs.counts
    results = [
        PosteriorAgreement(
            score=float(score[p]),
            beta=float(maxima.beta[p]),
            log_kernel=float(totals[p] * overlap[p]),
            upper_bound=float(upper[p]),
            gap=float(gap[p]),
            n_pairs=int(pairs.n_used[p]),
            n_classes=pairs.n_classes,
            agreement_rate=float(maxima.limits.agreement_rate[p]),
            standard_error=standard_error(terms[p], weight[pairs.start_weight[p] : ends[p]]),
            terms=terms[p],
            n_evaluations=int(maxima.n_evaluations[p]) + 1,  # the terms
        )
        for p in every
    ]
    for p, reason in (failures or {}).items():
        results[p] = PosteriorAgreement.failed(
            reason, results[p].n_classes, len(results[p].terms), results[p].n_evaluations
        )
    return results


class _Log:
    """The points that a solver reports of a batch of problems, kept for their paths."""

    def __init__(self) -> None:
        self.rounds: list[Points] = []

    def __call__(self, value: Floats, upper: Floats, points: Points) -> None:
        self.rounds.append(points)

    def path(self, problem: int) -> SolverPath:
        """Return the path of one problem, which may be empty."""
        if not self.rounds:  # no problem needed an evaluation
            return SolverPath(*np.empty((3, 0)))
        owner, *columns = map(np.concatenate, zip(*self.rounds, strict=True))
        return SolverPath(*(column[owner == problem] for column in columns))


def _batches(problems: Sequence[Problem], largest: int | None) -> Iterator[list[int]]:
    """Cut problems into batches of one number of classes and at most `largest` scores.

    A larger problem is a batch of its own. None: no limit, so that all processes that share
    the problems have the same batches.
    """
    same: dict[int, list[int]] = {}
    for i, problem in enumerate(problems):
        same.setdefault(problem.n_classes, []).append(i)
    for n_classes in sorted(same):
        batch: list[int] = []
        total = 0
        for i in same[n_classes]:
            size = problems[i].a.numel()
            if batch and largest is not None and total + size > largest:
                yield batch
                batch, total = [], 0
            batch.append(i)
            total += size
        yield batch


def _with_all_errors(results: list[PosteriorAgreement], shard: Shard) -> list[PosteriorAgreement]:
    """Replace the standard errors over one process's pairs by those over all pairs."""
    squares = [
        sum_of_squared_deviations(r.terms, problem.weight[: len(r.terms)] / total, r.score)
        for r, problem, total in zip(results, shard.problems, shard.totals.tolist(), strict=True)
    ]
    return [
        replace(result, standard_error=error_of_mean(square, n))
        for result, n, square in zip(
            results, shard.used.tolist(), shard.processes.sum(squares), strict=True
        )
    ]
