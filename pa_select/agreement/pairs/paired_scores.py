"""Paired score matrices of a batch of problems, read in blocks of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
import torch

from pa_select.agreement.inputs.problem import Problem
from pa_select.agreement.pairs.block import Block, centred_with_ties, converted
from pa_select.utils.arrays import resolve_device
from pa_select.utils.typing import Device, Floats, Ints

Result = TypeVar("Result")

# Speed only: on a CPU a block and its temporaries should stay in a core's cache. On an accelerator
# a block must be large enough to hide the cost of launching kernels.
_BLOCK_BYTES = {"cpu": 1 << 19}
_ACCELERATOR_BLOCK_BYTES = 1 << 28
# Speed only: blocks of several threads must be larger, so that threads rarely wait for Python's
# lock. With fewer blocks than this one thread is faster than several.
_THREAD_BLOCK_ELEMENTS = 1 << 17
_FEWEST_THREAD_BLOCKS = 8
# Speed only: up to this size of either sample, centred scores are kept from one pass to the next.
_KEPT_BYTES = 40 << 20
# Speed only: on a GPU up to this part of the memory that is free. Nine matrices may be kept, which
# are those of both samples and of their sum in two precisions, and which of the scores are -inf.
_SHARE_OF_FREE_MEMORY = 16
# Speed only: from this many classes on, rows stay as they are stored, and sums over classes run
# along them.
_MANY_CLASSES = 64
# Part of the result: what a reduction starts from.
_NEUTRAL = {"sum": 0.0, "min": torch.inf, "max": -torch.inf, "logsumexp": -torch.inf}
#: The functions that combine two results of a reduction.
COMBINE: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "sum": torch.add,
    "min": torch.minimum,
    "max": torch.maximum,
    "logsumexp": torch.logaddexp,
}


@dataclass(frozen=True)
class PairedScores:
    """Pairs of one or many problems with the same number of classes.

    Problem ``p`` pairs ``counts[p]`` rows of ``a``, from row ``start_a[p]`` on, with as many
    rows of ``b``, from row ``start_b[p]`` on. Problems may share rows.
    """

    #: (n_rows, n_classes) scores, in any real storage type, on one device.
    a: torch.Tensor
    b: torch.Tensor
    #: (n_rows,) weights in float64; those of each problem sum to one.
    weight: torch.Tensor
    #: (n_problems,) number of pairs, and the first row in each array.
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
    def n_scores(self) -> int:
        """Number of scores of either sample."""
        return int(self.counts.sum()) * self.n_classes

    @property
    def device(self) -> torch.device:
        return self.a.device

    @cached_property
    def has_zero_posteriors(self) -> bool:
        """Whether some score is -inf."""
        return any(
            x.is_floating_point() and float(x.amin()) == -torch.inf for x in (self.a, self.b)
        )

    @cached_property
    def total_weights(self) -> Floats:
        """Sums of the weights of each problem, (n_problems,)."""
        return np.array([weight.sum() for weight in self._weights()])

    @cached_property
    def n_used(self) -> Ints:
        """Number of pairs of positive weight of each problem, (n_problems,)."""
        return np.array([np.count_nonzero(weight) for weight in self._weights()])

    @cached_property
    def _all_count(self) -> bool:
        """Whether no pair has weight 0."""
        return bool((self.n_used == self.counts).all())

    @cached_property
    def host_weight(self) -> Floats:
        """The weights as an array, copied from a device only once, (n_rows,)."""
        weight: Floats = self.weight.cpu().numpy()
        return weight

    def _weights(self) -> Iterator[Floats]:
        weight = self.host_weight
        for start, count in zip(self.start_weight, self.counts, strict=True):
            yield weight[start : start + count]

    def cut(self, counts: Ints, starts: Ints, start_weight: Ints) -> PairedScores:
        """Return the same pairs as other problems; what is kept of the scores serves both."""
        other = replace(
            self, counts=counts, start_a=starts, start_b=starts, start_weight=start_weight
        )
        vars(other)["_kept_scores"] = self._kept_scores
        return other

    def tensors(self, *values: Floats, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
        """Put small arrays on the device in one copy, since the CPU waits for each."""
        kind = np.float32 if dtype == torch.float32 else np.float64
        small = [torch.from_numpy(np.ascontiguousarray(x, dtype=kind)) for x in values]
        if self.device.type == "cpu":
            return small
        flat = torch.cat([x.flatten() for x in small]).to(self.device)
        ends = np.cumsum([x.numel() for x in small]).tolist()
        return [
            flat[end - x.numel() : end].view(x.shape) for x, end in zip(small, ends, strict=True)
        ]

    def map_blocks(
        self, part: Callable[[Block], Result], problems: Ints, dtype: torch.dtype = torch.float64
    ) -> Iterator[tuple[slice, Result]]:
        """Apply a function to the pairs of the given problems, block by block.

        The scores of blocks are in the given precision. Yields, in the order of the pairs,
        the slice of the problems that a block belongs to and the function's result. For
        much data on a CPU, as many blocks run at once as torch may use threads.
        """
        counts = self.counts[problems]
        total = int(counts.sum())

        def run(numbered: tuple[int, _Piece]) -> tuple[slice, Result]:
            number, piece = numbered
            with torch.inference_mode():
                block = self._block(piece, problems, dtype)._replace(number=number)
                return slice(piece.first, piece.last), part(block)

        with _single_threaded_operations(self.device) as n_threads:
            n_rows = max(_THREAD_BLOCK_ELEMENTS // self.n_classes, 1)
            if n_threads > 1 and total >= _FEWEST_THREAD_BLOCKS * n_rows:
                with ThreadPoolExecutor(n_threads, initializer=_start_single_threaded) as pool:
                    yield from pool.map(run, enumerate(_cut(counts, n_rows)))
            else:
                elements = _BLOCK_BYTES.get(self.device.type, _ACCELERATOR_BLOCK_BYTES)
                elements //= dtype.itemsize
                pieces = _cut(counts, max(elements // self.n_classes, 1))
                yield from map(run, enumerate(pieces))

    def reduce_blocks(
        self,
        part: Callable[[Block], Sequence[torch.Tensor]],
        problems: Ints,
        *how: str,
        dtype: torch.dtype = torch.float64,
    ) -> list[torch.Tensor]:
        """Reduce the tensors that a function returns for each block over all blocks.

        The last axis of the tensors is the block's problems, and of those returned ``problems``.
        `how` has the reduction of each: "sum", "min", "max" or "logsumexp".
        """
        totals: list[torch.Tensor] = []
        for place, added in self.map_blocks(part, problems, dtype):
            if place.stop - place.start == len(problems):  # all problems, or the one that there is
                parts = zip(totals or added, added, how, strict=True)
                totals = [COMBINE[kind](x, y) if totals else y for x, y, kind in parts]
                continue
            if not totals:
                totals = [
                    x.new_full((*x.shape[:-1], len(problems)), _NEUTRAL[kind])
                    for x, kind in zip(added, how, strict=True)
                ]
            for total, x, kind in zip(totals, added, how, strict=True):
                total[..., place] = COMBINE[kind](total[..., place], x)
        return totals

    def _block(self, piece: _Piece, problems: Ints, dtype: torch.dtype) -> Block:
        first, last, skip, n_rows = piece
        chosen = problems[first:last]
        key = int(chosen[0]), skip, n_rows, dtype
        alone = len(chosen) == 1
        if alone and key in self._kept_blocks:
            return self._kept_blocks[key]._replace(first=first, last=last)
        lengths = self.counts[chosen] if n_rows is None else np.array([n_rows])
        starts = [start[chosen] + skip for start in (self.start_a, self.start_b)]
        kept = self.keeps(dtype)
        if kept:
            a, b = map(_columns, self._centred(dtype), starts, (lengths, lengths))
        else:
            of_ties = *key[:3], torch.promote_types(self.a.dtype, dtype)
            may_tie = of_ties not in self._without_ties
            (a, tied_a), (b, tied_b) = (
                _classes_first(_rows(store, start, lengths), dtype, may_tie)
                for store, start in zip((self.a, self.b), starts, strict=True)
            )
            if alone and not (tied_a or tied_b):
                self._without_ties.add(of_ties)
        even = alone or bool((lengths == lengths[0]).all())
        on_cpu = torch.from_numpy(lengths)
        block = Block(
            a,
            b,
            _rows(self.weight, self.start_weight[chosen] + skip, lengths),
            first,
            last,
            on_cpu if even else on_cpu.to(self.device),
            even,
            self._all_count,
            0,
            {},
        )
        if alone and kept:
            self._kept_blocks[key] = block
        return block

    def keeps(self, dtype: torch.dtype) -> bool:
        """Whether centred scores are kept from one pass to the next."""
        return len(self.a) * self.n_classes * dtype.itemsize <= self._room

    @cached_property
    def _room(self) -> int:
        """Size up to which the centred scores of either sample are kept, in bytes."""
        if self.device.type != "cuda":
            return _KEPT_BYTES
        free: int = torch.cuda.mem_get_info(self.device)[0]
        return free // _SHARE_OF_FREE_MEMORY

    @cached_property
    def _kept_blocks(self) -> dict[tuple[int, int, int | None, torch.dtype], Block]:
        """The blocks that hold one problem or a part of it, kept if the data are small."""
        return {}

    @cached_property
    def _without_ties(self) -> set[tuple[int, int, int | None, torch.dtype]]:
        """The blocks of one problem in which no scores tie but for rounding.

        The type is that in which the scores are centred.
        """
        return set()

    def _centred(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Return all scores as in blocks, which are cut from them."""
        if dtype not in self._kept_scores:
            a = _all_classes_first(self.a, dtype)
            b = a if self.b is self.a else _all_classes_first(self.b, dtype)
            self._kept_scores[dtype] = a, b
        return self._kept_scores[dtype]

    @cached_property
    def _kept_scores(self) -> dict[torch.dtype, tuple[torch.Tensor, torch.Tensor]]:
        return {}


@contextmanager
def _single_threaded_operations(device: torch.device) -> Iterator[int]:
    """Let every operation of torch on the CPU use one thread, and yield how many blocks may run.

    Blocks are too small for several threads within an operation. On a busy machine, waiting for
    each other then takes threads a hundred times longer than the work.
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


def _start_single_threaded() -> None:
    """Initialise a thread of a pool, which would otherwise start with torch's default."""
    torch.get_num_threads()  # the first call would reset a number that was set before it
    torch.set_num_threads(1)


class _Piece(NamedTuple):
    """The problems ``first:last``, or some rows of one problem."""

    first: int
    last: int
    #: Number of rows of the problem before this piece, and in it. None: all rows.
    skip: int = 0
    n_rows: int | None = None


def _cut(counts: Ints, n_rows: int) -> Iterator[_Piece]:
    """Cut problems of ``counts`` rows into pieces of at most n_rows.

    A piece has whole problems or a part of one problem, so that sums over the pairs of each
    problem are cheap.
    """
    ends = np.cumsum(counts)
    first = 0
    while first < len(counts):
        count = int(counts[first])
        if count > n_rows:
            cuts = np.linspace(0, count, -(-count // n_rows) + 1).astype(int).tolist()
            for begin, end in pairwise(cuts):
                yield _Piece(first, first + 1, begin, end - begin)
            first += 1
        else:
            last = int(np.searchsorted(ends, ends[first] - count + n_rows, "right"))
            yield _Piece(first, last)
            first = last


def _rows(store: torch.Tensor, starts: Ints, lengths: Ints) -> torch.Tensor:
    """Concatenate runs of rows; without a copy if they follow one another or are all the same."""
    if store.stride(0) == 0:
        return store[:1].expand(int(lengths.sum()))
    if (starts[1:] == starts[:-1] + lengths[:-1]).all():
        return store[int(starts[0]) : int(starts[-1] + lengths[-1])]
    return store[_indices(starts, lengths, store.device)]


def _columns(store: torch.Tensor, starts: Ints, lengths: Ints) -> torch.Tensor:
    """Concatenate runs of columns; without a copy if they follow one another."""
    if (starts[1:] == starts[:-1] + lengths[:-1]).all():
        return store[:, int(starts[0]) : int(starts[-1] + lengths[-1])]
    n = int(lengths[0])
    if store.shape[1] % n == 0 and (lengths == n).all() and (starts % n == 0).all():
        runs = torch.from_numpy(starts // n).to(store.device)
        return store.view(len(store), -1, n).index_select(1, runs).flatten(1)
    return store.index_select(1, _indices(starts, lengths, store.device))


def _indices(starts: Ints, lengths: Ints, device: torch.device) -> torch.Tensor:
    ends = np.cumsum(lengths)
    index = np.arange(ends[-1]) + np.repeat(starts - ends + lengths, lengths)
    return torch.from_numpy(index).to(device)


def _classes_first(
    scores: torch.Tensor, dtype: torch.dtype, may_tie: bool = True
) -> tuple[torch.Tensor, bool]:
    """Return scores less the top of their row, (n_classes, n_rows), and whether some tied.

    They are converted to a lower precision only after the subtraction.
    """
    stored = scores.dtype
    if not scores.is_floating_point():
        scores = scores.double()
    scores = scores.to(torch.promote_types(scores.dtype, dtype)).T
    if len(scores) < _MANY_CLASSES:
        scores = scores.contiguous()
    if may_tie:
        centred, some = centred_with_ties(scores, stored)
    else:
        centred, some = scores - scores.amax(0), False
    return centred.to(dtype), some


def _all_classes_first(scores: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return scores as `_classes_first`, in steps that stay in a core's cache."""
    elements = _BLOCK_BYTES.get(scores.device.type, _ACCELERATOR_BLOCK_BYTES) // dtype.itemsize
    parts = torch.split(scores, max(elements // scores.shape[1], 1))
    if len(parts) == 1:
        return _classes_first(scores, dtype)[0]
    shape = scores.shape if scores.shape[1] >= _MANY_CLASSES else scores.shape[::-1]
    centred = scores.new_empty(shape, dtype=dtype)
    centred = centred.T if scores.shape[1] >= _MANY_CLASSES else centred
    for part, into in zip(parts, torch.split(centred, len(parts[0]), 1), strict=True):
        into.copy_(_classes_first(part, dtype)[0])
    return centred


def concatenate(
    problems: Sequence[Problem], device: Device = None, totals: Floats | None = None
) -> PairedScores:
    """Concatenate problems with the same number of classes on the device to use.

    The weights of each problem are divided by `totals`, by default by their sums.
    """
    target = resolve_device(device, *(x for problem in problems for x in (problem.a, problem.b)))

    def stack(parts: list[torch.Tensor]) -> torch.Tensor:
        if len(parts) == 1:
            return parts[0].to(target)
        dtypes = {x.dtype for x in parts}
        dtype = dtypes.pop() if len(dtypes) == 1 else torch.float64
        return torch.cat([converted(x.to(target), dtype) for x in parts])

    counts = np.array([len(problem.a) for problem in problems])
    starts = np.cumsum(counts) - counts
    if totals is None:
        totals = np.array([problem.weight.sum() for problem in problems])
    weight = _normalised([problem.weight for problem in problems], totals, target)
    a, b = stack([problem.a for problem in problems]), stack([problem.b for problem in problems])
    return PairedScores(a, b, weight, counts, starts, starts, starts)


def _normalised(weights: Sequence[Floats], totals: Floats, device: torch.device) -> torch.Tensor:
    """Concatenate the weights of problems, each divided by its total."""
    if len(weights) == 1 and weights[0].strides == (0,):
        n = len(weights[0])
        return torch.full((1,), 1 / totals[0], dtype=torch.float64, device=device).expand(n)
    parts = [w / t for w, t in zip(weights, totals, strict=True)]
    return torch.from_numpy(parts[0] if len(parts) == 1 else np.concatenate(parts)).to(device)
