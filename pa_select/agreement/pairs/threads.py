"""Use of torch's threads: each thread works on a block of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def single_threaded_operations(device: torch.device) -> Iterator[int]:
    """Let every operation of torch on the CPU use one thread within this context.

    Blocks are too small for several threads within an operation. On a busy machine, waiting
    for each other then takes threads a hundred times longer than the work.

    Yields
    ------
    int
        How many blocks may run at once: the calling thread's number of threads, which is
        restored at the end.
    """
    if device.type != "cpu":
        yield 1
        return
    # Each thread has its own number.
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield n_threads
    finally:
        torch.set_num_threads(n_threads)


def start_single_threaded() -> None:
    """Initialise a thread of a pool, which would otherwise start with torch's default."""
    torch.get_num_threads()  # the first call would reset a number that was set before it
    torch.set_num_threads(1)
