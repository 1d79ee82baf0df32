"""Pairs whose scores are read again, in chunks, in each pass."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from pa_select.agreement.inputs import suspicious_scores as _notices
from pa_select.agreement.inputs.validation import Prior, check_prior, check_weight
from pa_select.agreement.pairs.block import Block
from pa_select.agreement.pairs.chunk_reader import ChunkReader
from pa_select.agreement.pairs.paired_scores import PairedScores, Result, normalised
from pa_select.utils.estimators import resolve_device
from pa_select.utils.score_checks import look_like_probabilities
from pa_select.utils.typing import Ints

# Rows are gathered up to this many scores, whatever the size of the chunks. That makes several
# blocks for each thread of a CPU, or one block for an accelerator.
_ROOM_PER_THREAD = 1 << 20
_ACCELERATOR_ROOM = 1 << 25


def read_first(reader: ChunkReader, prior: Any, device: Any) -> tuple[ChunkedScores, Prior, float]:
    """Read all chunks once; return the pairs, the checked prior and the total weight."""
    checked = Prior()
    target, n_pairs, n_classes, zeros = torch.device("cpu"), 0, 0, False
    dtypes: set[torch.dtype] = set()
    weights = array("d")  # grows in place
    probabilities = [True, True]
    for a, b, weight in reader:
        if not n_pairs:
            n_classes = a.shape[1]
            checked = check_prior(prior, n_classes)
            target = resolve_device(device, a, b)
        n_pairs += len(a)
        if any(probabilities):
            found = look_like_probabilities(a, b)
            probabilities = [all(both) for both in zip(probabilities, found, strict=True)]
        dtypes |= {a.dtype, b.dtype}
        zeros |= any(x.is_floating_point() and float(x.amin()) == -torch.inf for x in (a, b))
        if weight is not None:
            weights.frombytes(weight.tobytes())
    _notices.warn_of_probabilities([probabilities])
    given = np.frombuffer(weights) if weights else None
    weight = check_weight(given, n_pairs, "sample_weight of all chunks")
    on_cpu = target.type == "cpu"
    elements = _ROOM_PER_THREAD * torch.get_num_threads() if on_cpu else _ACCELERATOR_ROOM
    shape = min(-(-elements // n_classes), n_pairs), n_classes
    dtype = dtypes.pop() if len(dtypes) == 1 else torch.float64
    zero = np.zeros(1, dtype=np.int64)
    pairs = ChunkedScores(
        torch.empty(shape, dtype=dtype, device=target),
        torch.empty(shape, dtype=dtype, device=target),
        normalised([weight], weight.sum()[None], target),
        zero + n_pairs,
        zero,
        zero,
        zero,
        reader,
        zeros,
    )
    return pairs, checked, float(weight.sum())


@dataclass(frozen=True)
class ChunkedScores(PairedScores):
    """The pairs of one problem whose scores are read again in each pass.

    Only the rows in `a` and `b` are in memory: buffers that are filled again and again.
    """

    reader: ChunkReader
    zeros: bool

    @cached_property
    def has_zero_posteriors(self) -> bool:
        return self.zeros

    def keeps(self, dtype: torch.dtype) -> bool:
        return False

    def map_blocks(
        self,
        part: Callable[[Block], Result],
        problems: Ints,
        dtype: torch.dtype = torch.float64,
    ) -> Iterator[tuple[slice, Result]]:
        """Apply a function to all pairs, in one pass over the chunks."""
        number = begin = 0
        zero = np.zeros(1, dtype=np.int64)
        for n_rows in self._fill():
            rows = replace(self, counts=zero + n_rows, start_weight=zero + begin)

            def numbered(block: Block, first: int = number) -> Result:
                return part(block._replace(number=first + block.number))

            # A generator of scores may still be inside its own inference mode.
            with torch.inference_mode(False):
                for found in PairedScores.map_blocks(rows, numbered, problems, dtype):
                    yield found
                    number += 1
            begin += n_rows

    def _fill(self) -> Iterator[int]:
        """Fill `a` and `b` with rows, again and again; yield the number of rows.

        Blocks are therefore the same however the pairs are cut into chunks.
        """
        filled = 0
        for a, b, _ in self.reader:
            taken = 0
            while taken < len(a):
                n = min(len(a) - taken, len(self.a) - filled)
                # Copied at once, since the user's reader may use the chunk's memory again.
                self.a[filled : filled + n] = a[taken : taken + n]
                self.b[filled : filled + n] = b[taken : taken + n]
                filled, taken = filled + n, taken + n
                if filled == len(self.a):
                    yield filled
                    filled = 0
        if filled:
            yield filled
