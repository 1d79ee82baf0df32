"""Paired score matrices of a batch of problems, read in blocks of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

Ints = NDArray[np.int64]

# A block and its temporaries should stay in a core's cache; on an accelerator a
# block only has to be large enough to hide the cost of launching kernels.
_BLOCK_ELEMENTS = {"cpu": 1 << 16}
_ACCELERATOR_BLOCK_ELEMENTS = 1 << 25


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
        values = values[..., self.first : self.last]
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

    def blocks(self, problems: Ints) -> Iterator[Block]:
        """Pairs of the given problems, one problem after the other, in blocks."""
        elements = _BLOCK_ELEMENTS.get(self.device.type, _ACCELERATOR_BLOCK_ELEMENTS)
        n_rows = max(elements // self.n_classes, 1)
        counts = self.counts[problems]
        ends = np.cumsum(counts)
        begins = ends - counts
        for begin in range(0, int(ends[-1]), n_rows):
            end = min(begin + n_rows, int(ends[-1]))
            first = int(np.searchsorted(ends, begin, "right"))
            last = int(np.searchsorted(ends, end, "left")) + 1
            starts = np.maximum(begins[first:last], begin)
            lengths = np.minimum(ends[first:last], end) - starts
            inside = starts - begins[first:last]

            def rows(
                store: torch.Tensor,
                start: Ints,
                here: Ints = problems[first:last],
                inside: Ints = inside,
                lengths: Ints = lengths,
            ) -> torch.Tensor:
                return _rows(store, start[here] + inside, lengths)

            yield Block(
                _classes_first(rows(self.a, self.start_a)),
                _classes_first(rows(self.b, self.start_b)),
                rows(self.weight, self.start_weight),
                first,
                last,
                torch.from_numpy(lengths).to(self.device),
            )


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
