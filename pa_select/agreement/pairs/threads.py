"""How torch's threads are used: for blocks, not within an operation on one block."""

from __future__ import annotations

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
