"""How torch's threads are used: for blocks, not within an operation on one block.

And the memory that each of them uses for one block after the other.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def single_threaded_operations(device: torch.device) -> Iterator[int]:
    """Let every operation of torch on the CPU run in one thread, as long as this lasts.

    Blocks are too small to gain from several threads within an operation, and on a busy
    machine threads that wait for each other cost a hundred times what they compute.

    Yields
    ------
    int
        How many blocks may run at once: the calling thread's number of threads, which is
        restored at the end.
    """
    if device.type != "cpu":
        yield 1
        return
    # The number belongs to each thread, so each restores its own.
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield n_threads
    finally:
        torch.set_num_threads(n_threads)


def start_single_threaded() -> None:
    """Initialise a thread of a pool, which would otherwise start with torch's default."""
    torch.get_num_threads()  # what is set before the first question is forgotten at it
    torch.set_num_threads(1)


_kept = threading.local()


def scratch(name: str, like: torch.Tensor, *shape: int) -> torch.Tensor:
    """Uninitialised memory of that shape, on a CPU the same for each call of a thread.

    Fresh memory would have to be mapped, which costs as much as to compute what it is for. It
    is good until the thread asks for that name again.
    """
    if like.device.type != "cpu":
        return like.new_empty(shape)
    n = math.prod(shape)
    room: torch.Tensor | None = getattr(_kept, name, None)
    if room is None or room.dtype != like.dtype or room.numel() < n:
        with torch.inference_mode(False):
            room = torch.empty(n, dtype=like.dtype)
        setattr(_kept, name, room)
    return room[:n].view(shape)


def scratch_like(name: str, matrix: torch.Tensor) -> torch.Tensor:
    """The same for a matrix, whose rows or columns lie in a row as those of another one."""
    if matrix.stride(1) > 1:
        return scratch(name, matrix, *matrix.T.shape).T
    return scratch(name, matrix, *matrix.shape)
