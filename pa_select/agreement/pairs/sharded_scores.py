"""Pairs of problems of which each process of torch.distributed holds a shard.

The solver sees sums over pairs only, so every process runs the same solver on the same sums.
All processes gather the sums of all shards and add them up in the order of the ranks.  So
every rank (process) has the same bits and makes the same decisions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property, reduce
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
import torch.distributed as dist

from pa_select.agreement.inputs.problem import Problem
from pa_select.agreement.pairs.block import Block
from pa_select.agreement.pairs.paired_scores import COMBINE, PairedScores
from pa_select.utils.typing import Floats, Ints

# Every exchange begins with a message of _MESSAGE numbers. The _HEAD is the number of values
# and whether the rank failed; the first values, usually all of them, follow.
_MESSAGE, _HEAD = 128, 2
_KINDS: dict[str, type[Exception]] = {"TypeError": TypeError, "ValueError": ValueError}


class Processes:
    """The processes of a group; all of them make the same exchanges in the same order."""

    def __init__(self, process_group: object) -> None:
        if not (dist.is_available() and dist.is_initialized()):
            raise ValueError(
                "process_group: expected torch.distributed to be initialised; call "
                "torch.distributed.init_process_group first."
            )
        world = isinstance(process_group, str) and process_group == "world"
        group = dist.group.WORLD if world else process_group
        if not isinstance(group, dist.ProcessGroup) or dist.get_rank(group) < 0:
            raise ValueError(
                "process_group: expected None, 'world' or a ProcessGroup that this process is "
                f"a member of, got {process_group!r}."
            )
        self._group = group
        self._size = dist.get_world_size(group)
        # NCCL exchanges tensors on GPUs, the other backends tensors on the CPU.
        on_gpu = dist.get_backend(group) == "nccl"
        self._device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else "cpu"
        #: Whether no more exchange is possible: all ranks have the error, or one is gone.
        self.closed = False

    def gather(self, values: torch.Tensor, error: Exception | None = None) -> torch.Tensor:
        """Gather n values in float64, as (n_ranks, n); raise if some rank calls with an error."""
        values = values.detach().to(self._device, torch.float64)
        first, rest = values[: _MESSAGE - _HEAD], values[_MESSAGE - _HEAD :]
        message = values.new_zeros(_MESSAGE)
        message[0], message[1] = len(values), float(error is not None)
        message[_HEAD : _HEAD + len(first)] = first
        received = self._all_gather(message)
        head = received[:, :_HEAD].cpu().numpy()
        if head[:, 1].any():
            self._raise(error)
        if (head[:, 0] != len(values)).any():
            self.closed = True
            raise RuntimeError(
                "process_group: expected equally many numbers from each rank for one sum, got "
                f"{head[:, 0].astype(int).tolist()}; all ranks must make the same calls, with the "
                "same versions of all packages, on machines of one kind."
            )
        rows = received[:, _HEAD : _HEAD + len(first)]
        return torch.cat([rows, self._all_gather(rest)], 1) if len(rest) else rows

    def gather_objects(self, value: object) -> list[Any]:
        """Gather an object from each rank; raise if a rank failed."""
        self.gather(torch.empty(0))
        return self._all_gather_objects(value)

    def reduce(self, tensors: Sequence[torch.Tensor], how: Sequence[str]) -> list[torch.Tensor]:
        """Reduce each tensor over the ranks, as `PairedScores.reduce_blocks` does over blocks."""
        rows = self.gather(torch.cat([x.reshape(-1) for x in tensors]))
        columns = torch.split(rows, [x.numel() for x in tensors], dim=1)
        return [
            reduce(COMBINE[kind], column).reshape(x.shape).to(x.device)
            for x, column, kind in zip(tensors, columns, how, strict=True)
        ]

    def sum(self, values: Sequence[float]) -> list[float]:
        """Add up each of several numbers over the processes."""
        (sums,) = self.reduce([torch.tensor(values, dtype=torch.float64)], ["sum"])
        totals: list[float] = sums.tolist()
        return totals

    def _all_gather(self, values: torch.Tensor) -> torch.Tensor:
        received = [torch.empty_like(values) for _ in range(self._size)]
        self._collect(dist.all_gather, received, values.contiguous())
        return torch.stack(received)

    def _all_gather_objects(self, value: object) -> list[Any]:
        received: list[Any] = [None] * self._size
        self._collect(dist.all_gather_object, received, value)
        return received

    def _collect(self, collective: Callable[..., Any], received: list[Any], value: object) -> None:
        # If this raises, a rank is gone, and no other rank waits for this one.
        self.closed = True
        collective(received, value, group=self._group)
        self.closed = False

    def _raise(self, error: Exception | None) -> NoReturn:
        """Raise on every rank the error of the first rank that failed."""
        kinds = (name for name, kind in _KINDS.items() if isinstance(error, kind))
        mine = None if error is None else (next(kinds, type(error).__name__), str(error))
        failures = self._all_gather_objects(mine)
        self.closed = True
        if error is not None and all(failure == mine for failure in failures):
            raise error
        rank, (kind, text) = next((i, f) for i, f in enumerate(failures) if f is not None)
        known = kind in _KINDS
        said = text if known or kind == "RuntimeError" else f"{kind}: {text}"
        raise _KINDS.get(kind, RuntimeError)(f"rank {rank}: {said}") from error


@contextmanager
def joined(process_group: object) -> Iterator[Processes]:
    """Raise an error of one rank within this context on all ranks."""
    processes = Processes(process_group)
    try:
        yield processes
        # No rank returns before all are done.
        processes.gather(torch.empty(0))
    except Exception as error:
        if not processes.closed:
            processes.gather(torch.empty(0), error)
        raise


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
