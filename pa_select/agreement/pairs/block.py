"""Pairs that are read at once, and what is summed over them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from pa_select.utils.typing import Ints

_REDUCTIONS = {"sum": "sum", "min": "amin", "max": "amax"}
_UFUNCS = {"sum": np.add, "min": np.minimum, "max": np.maximum}
# From this mean number of pairs on, one product for each problem is faster than one for all.
_LONG = 100


class Block(NamedTuple):
    """Consecutive pairs of one or more problems, with the classes as the first axis.

    Scores are in the precision that was asked for, weights and sums over pairs in float64.
    """

    #: (n_classes, n_rows) scores of the first sample, less the top of each row.
    a: torch.Tensor
    #: (n_classes, n_rows) scores of the second sample, less the top of each row.
    b: torch.Tensor
    #: (n_rows,) weights.
    weight: torch.Tensor
    #: The problems of these pairs are ``problems[first:last]`` of those asked for.
    first: int
    last: int
    #: (last - first,) number of pairs of each of these problems in the block; on the device
    #: only if they differ.
    lengths: torch.Tensor
    #: Whether these are all equal.
    even: bool
    #: Index of the block in the pass.
    number: int
    #: Values that a kernel computes once from the scores, by name; kept as long as these.
    derived: dict[Any, Any]

    def spread(self, values: torch.Tensor) -> torch.Tensor:
        """Repeat values of problems (last axis) for each of their pairs."""
        return self.spread_own(values[..., self.first : self.last])

    def spread_own(self, values: torch.Tensor) -> torch.Tensor:
        """Repeat values of the block's own problems (last axis) for their pairs."""
        if self.last - self.first == 1:
            return values
        if self.even:
            return values.repeat_interleave(self.a.shape[1] // values.shape[-1], dim=-1)
        # Without `output_size` the CPU waits for the device, to add up the lengths.
        n_rows = self.a.shape[1]
        return values.repeat_interleave(self.lengths, dim=-1, output_size=n_rows)

    def reduce(self, values: torch.Tensor, how: str = "sum") -> torch.Tensor:
        """Reduce (q, n_rows) over the pairs of each problem, to (q, last - first)."""
        n_problems = self.last - self.first
        if self.even:
            reduced = getattr(values.reshape(len(values), n_problems, -1), _REDUCTIONS[how])
            return reduced(-1)
        if values.is_cpu:  # many times faster than segment_reduce
            return torch.from_numpy(_UFUNCS[how].reduceat(values.numpy(), self._starts, axis=1))
        rows = values.T.contiguous()
        # Without `unsafe` the lengths are checked, for which the CPU waits for the device.
        return torch.segment_reduce(rows, how, lengths=self.lengths, axis=0, unsafe=True).T

    @property
    def _starts(self) -> Ints:
        """The first pair of each problem; only on a CPU."""
        lengths = self.lengths.numpy()
        starts: Ints = np.cumsum(lengths) - lengths
        return starts

    def class_sums(self, values: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Sum values (n_classes, n_rows) times each of the q rows (q, n_rows) over pairs.

        Returns a float64 tensor of shape (q, n_classes, last - first).
        """
        n_problems = self.last - self.first
        if values.dtype == torch.float32 and not _multiplies_float32_exactly():
            values, rows = values.double(), rows.double()
        if n_problems == 1:
            return (rows @ values.T)[..., None].double()
        if self.even:
            values = values.reshape(len(values), n_problems, -1)
            rows = rows.reshape(len(rows), n_problems, -1)
            each_problem = rows.transpose(0, 1) @ values.permute(1, 2, 0)
            return each_problem.permute(1, 2, 0).double()
        if values.is_cpu and values.shape[1] >= _LONG * n_problems:
            ends = [*self._starts.tolist()[1:], values.shape[1]]
            each = zip([0, *ends], ends, strict=False)
            sums = [rows[:, begin:end] @ values[:, begin:end].T for begin, end in each]
            return torch.stack(sums, dim=-1).double()
        products = (rows[:, None] * values).double()
        return self.reduce(products.flatten(0, 1)).reshape(len(rows), len(values), n_problems)

    def weighted_sum(self, values: torch.Tensor) -> torch.Tensor:
        """Return weighted sums of (q, n_rows) over the pairs of each problem, in float64."""
        if self.last - self.first > 1:
            return self.reduce(values * self.weight)
        if self.weight.stride() == (0,):  # the same for all
            return values.sum(-1, keepdim=True, dtype=torch.float64) * self.weight[:1]
        return (values.double() @ self.weight)[:, None]

    def means(self, values: torch.Tensor) -> torch.Tensor:
        """Return unweighted means of (q, n_rows) over the pairs of each problem."""
        length = self.a.shape[1] // (self.last - self.first) if self.even else self.lengths
        return self.reduce(values) / length


def _multiplies_float32_exactly() -> bool:
    """Whether torch rounds no factors of float32 products, as to TF32 or bfloat16."""
    try:
        return torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # set for single backends, which this function cannot tell
        return False
