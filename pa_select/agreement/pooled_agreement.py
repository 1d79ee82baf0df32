"""Agreement of pairs from several fitted models, pooled into one problem."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from pa_select.agreement.inputs.validation import check_prior
from pa_select.agreement.pairs.paired_scores import PairedScores
from pa_select.agreement.result import PosteriorAgreement
from pa_select.agreement.solved_problems import solve_pairs
from pa_select.agreement.solver.marginal_sums import ModelRuns
from pa_select.agreement.standard_errors import standard_error
from pa_select.utils.arrays import resolve_device
from pa_select.utils.typing import Device, Floats, Ints, Prior

# This many scores of one side are gathered at once, and this many sums of classes are kept
# for the runs of two models: it bounds the memory, not the result.
_ELEMENTS_AT_ONCE = 1 << 24
_SUMS_AT_ONCE, _SUMS_PER_CLASS = 1 << 19, 400
# With n pairs of K classes a model's own marginal prior lowers the agreement by about
# (K - 1) / (2 n) nats, and to 0 with one pair. With fewer pairs for each class all models share
# one prior.
_FEWEST_PAIRS_PER_CLASS = 5


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
    *,
    prior: Prior = "marginal",
    tol: float = 1e-6,
    device: Device = None,
    certify: bool | None = None,
    names: Sequence[Any] | None = None,
) -> Iterator[PosteriorAgreement]:
    """Yield the agreement of the same pairs for each of many stacks of scores.

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
    checked = check_prior(prior, n_classes)
    if checked.is_marginal:
        pairs = _of_models_with_enough(pairs, _FEWEST_PAIRS_PER_CLASS * n_classes)
    # After sorting, the pairs of the same two models are one run.
    order = np.lexsort((pairs.model_b, pairs.model_a))
    back = np.argsort(order)
    models = np.column_stack([pairs.model_a, pairs.model_b])[order]
    starts = np.flatnonzero(np.r_[True, (models[1:] != models[:-1]).any(1)])
    counts = np.diff(np.r_[starts, len(order)])
    total = float(pairs.weight.sum())
    weight = pairs.weight[order] / total
    row_a, row_b = pairs.row_a[order], pairs.row_b[order]
    at_once = min(
        _ELEMENTS_AT_ONCE // (len(order) * n_classes),
        _SUMS_AT_ONCE // (_SUMS_PER_CLASS * len(starts) * n_classes),
    )
    at_once = max(at_once, 1)
    if certify is None:
        certify = not checked.is_marginal
    for begin in range(0, len(stacks), at_once):
        end = min(begin + at_once, len(stacks))
        batch = [torch.as_tensor(stacks[i]) for i in range(begin, end)]
        target = resolve_device(device, *batch)
        p = len(batch)
        zeros = np.zeros(p, dtype=np.int64)
        each = np.arange(p) * len(order)
        together = PairedScores(
            _gather(batch, row_a).to(target),
            _gather(batch, row_b).to(target),
            torch.from_numpy(weight).to(target),
            zeros + len(order),
            each,
            each,
            zeros,
        )
        run_starts = (each[:, None] + starts).ravel()
        by_run = replace(
            together,
            counts=np.tile(counts, p),
            start_a=run_starts,
            start_b=run_starts,
            start_weight=np.tile(starts, p),
        )
        runs = ModelRuns(
            by_run, zeros + len(starts), *(np.tile(models[starts, side], p) for side in (0, 1))
        )
        solved = solve_pairs(
            together,
            checked,
            np.full(p, total),
            tol,
            certify=certify,
            names=(range(len(stacks)) if names is None else names)[begin:end],
            runs=runs,
            isolate=True,
        )
        for result in solved:
            terms = result.terms[back]
            error = standard_error(terms, pairs.weight / total, (pairs.object_a, pairs.object_b))
            yield replace(result, terms=terms, standard_error=error)


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
