"""Paired score matrices of a batch of problems, read in blocks of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from pa_select.agreement.threads import single_threaded_operations, start_single_threaded

Result = TypeVar("Result")
Ints = NDArray[np.int64]

# A block and its temporaries should stay in a core's cache; on an accelerator a
# block only has to be large enough to hide the cost of launching kernels.
_BLOCK_ELEMENTS = {"cpu": 1 << 16}
_ACCELERATOR_BLOCK_ELEMENTS = 1 << 25
# Blocks beside each other must be larger, so that threads rarely wait for Python's lock;
# with less than a few of these one thread is faster than several.
_THREAD_BLOCK_ELEMENTS = 1 << 18
_FEWEST_THREAD_BLOCKS = 4


class Block(NamedTuple):
    """Consecutive pairs in float64, classes first: sums over classes run along rows."""

    #: (n_classes, n_rows) first sample, each pair's largest score subtracted.
    a: torch.Tensor
    #: (n_classes, n_rows) second sample, likewise.
    b: torch.Tensor
    #: (n_rows,) weights.
    weight: torch.Tensor
    #: The problems of these pairs are ``problems[first:last]`` of those asked for.
    first: int
    last: int
    #: (last - first,) pairs of each of these problems in the block.
    lengths: torch.Tensor

    def spread(self, values: torch.Tensor) -> torch.Tensor:
        """Repeat values of problems (last axis) for each of their pairs."""
        return self.spread_own(values[..., self.first : self.last])

    def spread_own(self, values: torch.Tensor) -> torch.Tensor:
        """Repeat values of the block's own problems (last axis) for their pairs."""
        if self.last - self.first == 1:
            return values
        return values.repeat_interleave(self.lengths, dim=-1)

    def reduce(self, values: torch.Tensor, how: str = "sum") -> torch.Tensor:
        """Reduce (q, n_rows) to (q, last - first): over the pairs of each problem."""
        if self.last - self.first == 1:
            reduced = getattr(values, {"sum": "sum", "min": "amin", "max": "amax"}[how])
            return reduced(1, keepdim=True)
        return torch.segment_reduce(values.T.contiguous(), how, lengths=self.lengths, axis=0).T

    def weighted_sum(self, values: torch.Tensor) -> torch.Tensor:
        """Weighted sums over the pairs of each problem."""
        return self.reduce(values * self.weight)


@dataclass(frozen=True)
class PairedScores:
    """Pairs of one or many problems with the same number of classes.

    Problem ``p`` pairs the ``counts[p]`` rows of ``a`` from ``start_a[p]`` on with as
    many rows of ``b`` from ``start_b[p]`` on; problems may share rows.

    Parameters
    ----------
    a, b : torch.Tensor of shape (n_rows, n_classes)
        Scores, in any real storage type, on one device.
    weight : torch.Tensor of shape (n_rows,), float64
        Non-negative weights of the pairs; those of each problem sum to one.
    counts, start_a, start_b, start_weight : ndarray of shape (n_problems,)
        Number of pairs of each problem and where its rows begin.
    """

    a: torch.Tensor
    b: torch.Tensor
    weight: torch.Tensor
    counts: Ints
    start_a: Ints
    start_b: Ints
    start_weight: Ints

    @property
    def n_classes(self) -> int:
        return int(self.a.shape[1])

    @property
    def n_problems(self) -> int:
        return len(self.counts)

    @property
    def device(self) -> torch.device:
        return self.a.device

    @cached_property
    def has_zero_posteriors(self) -> bool:
        """Whether some score is -inf."""
        return any(
            x.is_floating_point() and bool(torch.isneginf(x).any()) for x in (self.a, self.b)
        )

    @cached_property
    def weight_entropy(self) -> NDArray[np.float64]:
        """Entropy of each problem's weights in nats, (n_problems,)."""
        entropy = torch.special.entr(self.weight)
        return np.array(
            [
                float(entropy[start : start + count].sum())
                for start, count in zip(self.start_weight, self.counts, strict=True)
            ]
        )

    def tensor(self, values: Any) -> torch.Tensor:
        """Put small float64 values (inverse temperatures, priors) on the device."""
        return torch.as_tensor(np.ascontiguousarray(values), dtype=torch.float64).to(self.device)

    def map_blocks(
        self, part: Callable[[Block], Result], problems: Ints
    ) -> Iterator[tuple[slice, Result]]:
        """Apply a function to the pairs of the given problems, block by block.

        Yields, in the order of the pairs, which of the problems a block belongs to (a
        slice) and the function's result.  Of much data on a CPU as many blocks run at
        once as torch may use threads.
        """
        counts = self.counts[problems]
        total = int(counts.sum())
        ends = np.cumsum(counts)
        begins = ends - counts

        def run(begin: int, n_rows: int) -> tuple[slice, Result]:
            end = min(begin + n_rows, total)
            first = int(np.searchsorted(ends, begin, "right"))
            last = int(np.searchsorted(ends, end, "left")) + 1
            starts = np.maximum(begins[first:last], begin)
            lengths = np.minimum(ends[first:last], end) - starts
            inside = starts - begins[first:last]
            here = problems[first:last]
            block = Block(
                _classes_first(_rows(self.a, self.start_a[here] + inside, lengths)),
                _classes_first(_rows(self.b, self.start_b[here] + inside, lengths)),
                _rows(self.weight, self.start_weight[here] + inside, lengths),
                first,
                last,
                torch.from_numpy(lengths).to(self.device),
            )
            return slice(first, last), part(block)

        with single_threaded_operations(self.device) as n_threads:
            n_rows = max(_THREAD_BLOCK_ELEMENTS // self.n_classes, 1)
            if n_threads > 1 and total >= _FEWEST_THREAD_BLOCKS * n_rows:
                blocks = range(0, total, n_rows)
                with ThreadPoolExecutor(n_threads, initializer=start_single_threaded) as pool:
                    yield from pool.map(partial(run, n_rows=n_rows), blocks)
            else:
                elements = _BLOCK_ELEMENTS.get(self.device.type, _ACCELERATOR_BLOCK_ELEMENTS)
                n_rows = max(elements // self.n_classes, 1)
                yield from (run(begin, n_rows) for begin in range(0, total, n_rows))


def _rows(store: torch.Tensor, starts: Ints, lengths: Ints) -> torch.Tensor:
    """Concatenate runs of rows; without a copy where they follow one another."""
    if (starts[1:] == starts[:-1] + lengths[:-1]).all():
        return store[int(starts[0]) : int(starts[-1] + lengths[-1])]
    ends = np.cumsum(lengths)
    index = np.arange(ends[-1]) + np.repeat(starts - ends + lengths, lengths)
    return store[torch.from_numpy(index).to(store.device)]


def _classes_first(scores: torch.Tensor) -> torch.Tensor:
    scores = scores.T.to(torch.float64, memory_format=torch.contiguous_format).contiguous()
    return scores - scores.amax(0)
