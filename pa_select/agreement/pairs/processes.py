"""Exchange of numbers between the processes of torch.distributed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from pa_select.agreement.pairs.paired_scores import COMBINE

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
