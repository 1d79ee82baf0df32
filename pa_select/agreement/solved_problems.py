"""Agreement of checked problems, and of the pairs of several fitted models pooled into one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from pa_select.agreement.inputs.problem import Problem
from pa_select.agreement.inputs.validation import CheckedPrior, check_prior
from pa_select.agreement.kernels import kernel_sums as _kernel
from pa_select.agreement.kernels.find_maxima import find_maxima
from pa_select.agreement.kernels.marginal_sums import ModelRuns, marginal_terms
from pa_select.agreement.pairs.paired_scores import PairedScores, concatenate
from pa_select.agreement.result import PosteriorAgreement, SolverPath
from pa_select.agreement.standard_errors import (
    error_of_mean,
    standard_error,
    sum_of_squared_deviations,
)
from pa_select.solver.branch_and_bound import Points, Report
from pa_select.utils.arrays import distinct_rows, resolve_device
from pa_select.utils.typing import Device, Floats, Ints, Prior

if TYPE_CHECKING:
    from pa_select.agreement.pairs.sharded_scores import Shard

# Speed only: this many scores of either sample are solved at once, which bounds the memory.
_SCORES_AT_ONCE = 1 << 21
# Speed only: this many scores of one side are gathered at once from stacks, and this many sums of
# classes are kept for the runs of two models, which bounds the memory.
_ELEMENTS_AT_ONCE = 1 << 22
_SUMS_AT_ONCE, _SUMS_PER_CLASS = 1 << 19, 400
# Speed only: with at most so many rows for each pair the rows' posteriors are summed once.
_SHARE_OF_ROWS = 0.5
# Part of the result: with n pairs of K classes a model's own marginal prior lowers the agreement
# by about (K - 1) / (2 n) nats, and to 0 with one pair. With fewer pairs for each class all models
# share one prior.
_FEWEST_PAIRS_PER_CLASS = 5


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


class PooledPairs(NamedTuple):
    """Pairs of rows of stacked score matrices, each of shape (n_pairs,)."""

    #: The rows of the stack that are compared.
    row_a: Ints
    row_b: Ints
    #: The fitted model that scored each row, from 0.
    model_a: Ints
    model_b: Ints
    #: The object of each row, for standard errors.
    object_a: Ints
    object_b: Ints
    weight: Floats


def pooled_agreement(
    stacks: Sequence[Any],
    pairs: PooledPairs,
    priors: Sequence[Prior] = ("marginal",),
    *,
    tol: float = 1e-6,
    device: Device = None,
    certify: bool | None = None,
    names: Sequence[Any] | None = None,
) -> Iterator[list[PosteriorAgreement]]:
    """Yield the agreement of the same pairs, with each prior, for each of many stacks of scores.

    A stack has the scores of a candidate's fitted models one below the other. All pairs share one
    inverse temperature. The marginal prior is the mean of the mean posteriors of the two fitted
    models of a pair; if a model has fewer than five pairs for each class, it is the mean posterior
    of all rows. The other arguments are those of `posterior_agreement`, but None certifies
    unless the prior is marginal, whose certificates cost more. Messages call the stacks by
    `names`, by default by their indices.

    The terms of a result are in the order of the pairs, and its standard error allows for pairs
    that share an object. A stack whose agreement cannot be certified gets nan and the reason,
    ``failure``.
    """
    n_classes = np.shape(stacks[0])[1] if len(stacks) else 1
    checked = [check_prior(prior, n_classes) for prior in priors]
    pairs = _of_models_with_enough(pairs, _FEWEST_PAIRS_PER_CLASS * n_classes)
    total = float(pairs.weight.sum())
    weight = pairs.weight / total
    # After sorting, the pairs of the same two models are one run.
    order = np.lexsort((pairs.model_b, pairs.model_a))
    columns = pairs.row_a, pairs.row_b, pairs.model_a, pairs.model_b, weight
    in_order = _SortedPairs._make(x[order] for x in columns)
    of_rows = _rows_of_models(in_order) if any(x.is_marginal for x in checked) else None
    back = np.argsort(order)
    at_once = min(
        _ELEMENTS_AT_ONCE // (len(order) * n_classes),
        _SUMS_AT_ONCE // (_SUMS_PER_CLASS * len(in_order.starts) * n_classes),
    )
    at_once = max(at_once, 1)
    names = range(len(stacks)) if names is None else names

    def solved(begin: int, end: int) -> Iterator[tuple[PosteriorAgreement, ...]]:
        batch = [torch.as_tensor(stacks[i]) for i in range(begin, end)]
        target = resolve_device(device, *batch)
        together, runs = _runs(batch, in_order, target)
        if of_rows is not None:
            runs = replace(runs, of_rows=_runs(batch, of_rows, target)[1])
        by_prior = [
            solve_pairs(
                together,
                prior,
                np.full(len(batch), total),
                tol,
                certify=not prior.is_marginal if certify is None else certify,
                names=names[begin:end],
                runs=runs,
                isolate=True,
            )
            for prior in checked
        ]
        return zip(*by_prior, strict=True)

    def in_their_order(result: PosteriorAgreement) -> PosteriorAgreement:
        terms = result.terms[back]
        error = standard_error(terms, weight, (pairs.object_a, pairs.object_b))
        return replace(result, terms=terms, standard_error=error)

    for begin in range(0, len(stacks), at_once):
        for results in solved(begin, min(begin + at_once, len(stacks))):
            yield [in_their_order(result) for result in results]


class _SortedPairs(NamedTuple):
    """Columns of `PooledPairs`, sorted by the two models."""

    row_a: Ints
    row_b: Ints
    model_a: Ints
    model_b: Ints
    weight: Floats

    @property
    def starts(self) -> Ints:
        """Where the runs of pairs of the same two models begin."""
        a, b = self.model_a, self.model_b
        return np.flatnonzero(np.append(True, (a[1:] != a[:-1]) | (b[1:] != b[:-1])))


def _rows_of_models(pairs: _SortedPairs) -> _SortedPairs | None:
    """Return the rows that each model scored as pairs of a row with itself; None if that is more.

    Both sides of such a pair have half of the row's weight, that of all its pairs.
    """
    rows, places = distinct_rows(np.concatenate([pairs.row_a, pairs.row_b]), return_inverse=True)
    if len(rows) > len(pairs.weight) * _SHARE_OF_ROWS:
        return None
    model = np.empty_like(rows)
    model[places] = np.concatenate([pairs.model_a, pairs.model_b])
    weight = np.bincount(places, np.tile(pairs.weight, 2)) / 2
    order = np.argsort(model, kind="stable")
    rows, model = rows[order], model[order]
    return _SortedPairs(rows, rows, model, model, weight[order])


def _runs(
    stacks: Sequence[torch.Tensor], pairs: _SortedPairs, device: torch.device
) -> tuple[PairedScores, ModelRuns]:
    """Return the sorted pairs of each stack, and the same cut into runs of the same two models."""
    p, n, starts = len(stacks), len(pairs.weight), pairs.starts
    a = _gather(stacks, pairs.row_a).to(device)
    b = a if pairs.row_b is pairs.row_a else _gather(stacks, pairs.row_b).to(device)
    weight = torch.from_numpy(pairs.weight).to(device)
    zeros, each = np.zeros(p, dtype=np.int64), np.arange(p) * n
    together = PairedScores(a, b, weight, zeros + n, each, each, zeros)
    counts = np.tile(np.diff(starts, append=n), p)
    by_run = together.cut(counts, (each[:, None] + starts).ravel(), np.tile(starts, p))
    model_a, model_b = (np.tile(x[starts], p) for x in (pairs.model_a, pairs.model_b))
    return together, ModelRuns(by_run, zeros + len(starts), model_a, model_b)


def _of_models_with_enough(pairs: PooledPairs, fewest: int) -> PooledPairs:
    """Return the pairs as those of one model if some fitted model has too few of them."""
    a, b = (models[pairs.weight > 0] for models in (pairs.model_a, pairs.model_b))
    counts = np.bincount(np.concatenate([a, b[a != b]]))
    if counts[counts > 0].min(initial=fewest) >= fewest:
        return pairs
    one = np.zeros_like(pairs.model_a)
    return pairs._replace(model_a=one, model_b=one)


def _gather(stacks: Sequence[torch.Tensor], rows: Ints) -> torch.Tensor:
    index = torch.from_numpy(rows)
    return torch.cat([stack[index.to(stack.device)] for stack in stacks])
