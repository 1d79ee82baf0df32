"""How torch's threads are used: for blocks, not within an operation on one block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import torch

_lock = Lock()
_users = 0
_n_threads = 1


@contextmanager
def single_threaded_operations(device: torch.device) -> Iterator[int]:
    """Let every operation of torch on the CPU run in one thread, as long as this lasts.

    Blocks are too small to gain from several threads within an operation, and on a busy
    machine threads that wait for each other cost a hundred times what they compute.

    Yields
    ------
    int
        How many blocks may run at once: torch's own number of threads, which is restored
        when the last of concurrent users leaves.
    """
    global _users, _n_threads
    if device.type != "cpu":
        yield 1
        return
    with _lock:
        if _users == 0:
            _n_threads = torch.get_num_threads()
            torch.set_num_threads(1)
        _users += 1
        n_threads = _n_threads
    try:
        yield n_threads
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                torch.set_num_threads(_n_threads)
