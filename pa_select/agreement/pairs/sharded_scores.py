"""Pairs of problems of which each process of torch.distributed holds a shard.

The solver sees sums over pairs only, so every process runs the same solver on the same sums.
All processes gather the sums of all shards and add them up in the order of the ranks.  So
every rank (process) has the same bits and makes the same decisions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch

from pa_select.agreement.inputs.problem import Problem
from pa_select.agreement.pairs.block import Block
from pa_select.agreement.pairs.paired_scores import PairedScores
from pa_select.agreement.pairs.processes import Processes
from pa_select.utils.typing import Floats, Ints


class Shard(NamedTuple):
    """One process's pairs of some problems, with totals over the pairs of all processes."""

    processes: Processes
    #: This process's pairs; one pair of weight 0 for a problem of which it has none.
    problems: list[Problem]
    #: (n_problems,) total weights over all processes.
    totals: Floats
    #: (n_problems,) numbers of pairs of positive weight over all processes.
    used: Ints
    #: Whether some score of some problem is -inf.
    has_zero_posteriors: bool

    def pairs(self, pairs: PairedScores, problems: Sequence[int]) -> ShardedScores:
        """Join this process's pairs of some problems with those of the other processes."""
        columns = {field.name: getattr(pairs, field.name) for field in fields(PairedScores)}
        used = self.used[list(problems)]
        return ShardedScores(
            **columns, processes=self.processes, used=used, zeros=self.has_zero_posteriors
        )


def share(processes: Processes, problems: Sequence[Problem], **arguments: Any) -> Shard:
    """Exchange totals of all processes' pairs; `arguments` must be equal on all processes."""
    local = {
        "totals": [float(p.weight.sum()) for p in problems],
        "used": [np.count_nonzero(p.weight) for p in problems],
        "classes": [p.n_classes for p in problems],
        "zeros": any(_has_minus_infinity(x) for p in problems for x in (p.a, p.b)),
        "arguments": {
            name: value
            if isinstance(value, (str, float, bool))
            else np.asarray(value.cpu() if isinstance(value, torch.Tensor) else value).tolist()
            for name, value in arguments.items()
        },
    }
    known = processes.gather_objects(local)
    for rank, other in enumerate(known):
        for name, value in known[0]["arguments"].items():
            if other["arguments"][name] != value:
                raise ValueError(
                    f"{name}: expected the same on all ranks, got {value} on rank 0 and "
                    f"{other['arguments'][name]} on rank {rank}."
                )
        if len(other["classes"]) != len(known[0]["classes"]):
            raise ValueError(
                "scores_a: expected the same number of problems on all ranks, got "
                f"{len(known[0]['classes'])} on rank 0 and {len(other['classes'])} on rank {rank}."
            )
    # (n_processes, n_problems)
    classes, totals, used = (
        np.array([x[k] for x in known]) for k in ("classes", "totals", "used")
    )
    n_classes, total = classes.max(0), totals.sum(0)
    for p, of_ranks in enumerate(classes.T):
        if len(set(of_ranks[of_ranks > 0].tolist())) > 1:
            raise ValueError(
                "scores_a: expected the same number of classes on all ranks, got "
                f"{of_ranks.tolist()} on ranks 0 to {len(known) - 1} for problem {p}."
            )
        if not 0 < total[p] < math.inf:
            raise ValueError(
                "sample_weight: expected a positive and finite sum over all ranks, got "
                f"{total[p]} for problem {p}."
            )
    held = [
        p if len(p.a) else _without_weight(p, int(k))
        for p, k in zip(problems, n_classes, strict=True)
    ]
    return Shard(processes, held, total, used.sum(0), any(other["zeros"] for other in known))


def _without_weight(problem: Problem, n_classes: int) -> Problem:
    """Add a pair of weight 0 to a problem without pairs; it changes no sum."""
    a, b = (x.new_zeros((1, n_classes)) for x in (problem.a, problem.b))
    return problem._replace(a=a, b=b, weight=np.zeros(1))


def _has_minus_infinity(scores: torch.Tensor) -> bool:
    some = scores.is_floating_point() and len(scores) > 0
    return some and float(scores.amin()) == -math.inf


@dataclass(frozen=True)
class ShardedScores(PairedScores):
    """The pairs of one rank, with reductions over the pairs of all ranks."""

    processes: Processes
    #: (n_problems,) number of pairs of positive weight over all ranks; the weights of each
    #: problem sum to one over all ranks, too.
    used: Ints
    #: Whether a score on some rank is -inf.
    zeros: bool

    @cached_property
    def has_zero_posteriors(self) -> bool:
        """Whether a score on some rank is -inf."""
        return self.zeros

    @property
    def n_scores(self) -> int:
        """Number of scores of either sample over all ranks, in pairs of positive weight."""
        return int(self.used.sum()) * self.n_classes

    @cached_property
    def total_weights(self) -> Floats:
        """Sums of the weights of each problem over all ranks."""
        return np.ones(self.n_problems)

    @cached_property
    def n_used(self) -> Ints:
        """Number of pairs of positive weight of each problem over all ranks."""
        return self.used

    def reduce_blocks(
        self,
        part: Callable[[Block], Sequence[torch.Tensor]],
        problems: Ints,
        *how: str,
        dtype: torch.dtype = torch.float64,
    ) -> list[torch.Tensor]:
        """Reduce over all blocks of all ranks, as `PairedScores.reduce_blocks`."""
        return self.processes.reduce(super().reduce_blocks(part, problems, *how, dtype=dtype), how)
