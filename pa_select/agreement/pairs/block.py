"""Pairs that are read at once, and what is summed over them.

Ties of scores that differ by rounding alone.

The limit of the agreement for an infinite inverse temperature depends on which scores are exactly
equal, and the same votes of trees, added in another order, differ in the last digit.  So scores
that differ from the largest of their row by no more than rounding can do are made equal to it
where the scores of a block are centred.  docs/certificate.rst bounds what this may change.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from pa_select.utils.typing import Ints

# Part of the result: what torch and numpy call the reductions.
_REDUCTIONS = {"sum": "sum", "min": "amin", "max": "amax"}
_UFUNCS = {"sum": np.add, "min": np.minimum, "max": np.maximum}
# Speed only: from this mean number of pairs on, one product for each problem is faster than one
# for all.
_LONG = 100

# Part of the result: scores tie if they differ by less than this share of their row's size. It is
# 64 roundings in float64, as in sums of a few hundred votes, and 8 in float32. Numbers of half
# precision were rounded once, from numbers that were more precise, and integers never.
_SHARE = {torch.float64: 2.0**-46, torch.float32: 2.0**-20}
# Part of the result: a row's size is that of its largest score, or the range of its scores if that
# is larger. Scores further than this below the largest do not count: their classes were ruled out,
# for example by a score of -1e9.
_LARGEST_RANGE = 100.0


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
    #: Whether all pairs count, none having weight 0.
    all_count: bool
    #: Index of the block in the pass.
    number: int
    #: Values that a kernel computes once from the scores, by name; kept as long as these.
    derived: dict[Any, Any]

    def of_counted(self, values: torch.Tensor, other: float = 0.0) -> torch.Tensor:
        """Return values (..., n_rows), with another one for pairs of weight 0."""
        return values if self.all_count else torch.where(self.weight > 0, values, other)

    def spread(self, values: torch.Tensor) -> torch.Tensor:
        """Repeat values of problems (last axis) for each of their pairs."""
        return self.spread_own(values[..., self.first : self.last])

    def spread_own(self, values: torch.Tensor) -> torch.Tensor:
        """Repeat values of the block's own problems (last axis) for their pairs."""
        if self.last - self.first == 1:
            return values
        if self.even:
            each = self.a.shape[1] // values.shape[-1]
            # Many times faster than repeat_interleave for few values.
            return values.unsqueeze(-1).expand(*values.shape, each).flatten(-2)
        if values.is_cpu:  # many times faster
            return torch.from_numpy(np.repeat(values.numpy(), self.lengths.numpy(), axis=-1))
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

    def class_sums(self, *products: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Sum values (n_classes, n_rows) times each of some rows (q, n_rows) over pairs.

        Returns a float64 tensor of shape (q, n_classes, last - first), with q for all products.
        """
        return torch.cat([self._class_sums(*product) for product in products])

    def _class_sums(self, values: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
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


def centred_with_ties(scores: torch.Tensor, stored: torch.dtype) -> tuple[torch.Tensor, bool]:
    """Return scores (n_classes, n_rows) less the top of their row; what ties with it is 0.

    `stored` is the type in which the scores were given. Also return whether some scores tied that
    were not equal.
    """
    top = scores.amax(0)
    centred = scores - top
    if stored not in _SHARE:
        return centred, False
    near = centred >= -tolerance(top, _lowest(centred), stored)
    if scores.is_cpu:  # a device would have to be waited for
        n_near = int(torch.count_nonzero(near))
        # Each row has a top.
        if n_near == near.shape[1] or n_near == int(torch.count_nonzero(centred == 0)):
            return centred, False
    return centred.masked_fill_(near, 0.0), True


def tolerance(top: torch.Tensor, lowest: torch.Tensor, stored: torch.dtype) -> torch.Tensor:
    """Return how far from the top of its row a score may be to tie with it, (n_rows,).

    `lowest` is the lowest score less the top, of those that are not ruled out.
    """
    return _SHARE[stored] * torch.maximum(top.abs(), -lowest)


def _lowest(centred: torch.Tensor) -> torch.Tensor:
    """Return the lowest scores of the rows, without those of classes that are ruled out."""
    lowest = centred.amin(0)
    if centred.is_cpu and float(lowest.amin()) >= -_LARGEST_RANGE:
        return lowest
    return torch.where(centred >= -_LARGEST_RANGE, centred, 0.0).amin(0)


def converted(scores: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Convert scores (n_rows, n_classes) to another type, with the ties of their own type."""
    if scores.dtype in _SHARE and scores.dtype != dtype:
        centred, some = centred_with_ties(scores.T, scores.dtype)
        if some:
            scores = torch.where(centred.T == 0, scores.amax(1, keepdim=True), scores)
    return scores.to(dtype)
