"""The rows that the model of each split scores, and their places in the stacked scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pa_select.model_selection.pairings import Block
from pa_select.model_selection.splits import Split
from pa_select.utils.typing import Ints

if TYPE_CHECKING:
    from pa_select.agreement.pooled_agreement import PooledPairs


class Layout:
    """The rows that the model of each split scores, and their places in the stacked scores.

    Parameters
    ----------
    splits : list of (train, test)
    blocks : iterable of Block
        All pairs that will be compared.
    """

    def __init__(self, splits: Sequence[Split], blocks: Iterable[Block]) -> None:
        wanted: dict[tuple[int, int], list[Ints]] = {}
        for block in blocks:
            wanted.setdefault((block.split_a, block.source_a), []).append(block.rows_a)
            wanted.setdefault((block.split_b, block.source_b), []).append(block.rows_b)
        #: For each split, the rows of each source that its model scores.
        self.wanted: list[dict[int, Ints]] = [{} for _ in splits]
        self._start: dict[tuple[int, int], int] = {}
        start = 0
        for split, source in sorted(wanted):
            parts = wanted[split, source]
            rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
            self.wanted[split][source] = np.unique(rows)
            self._start[split, source] = start
            start += len(self.wanted[split][source])

    def pooled(self, blocks: Sequence[Block], weight: NDArray[np.float64] | None) -> PooledPairs:
        """Return the pairs of the given blocks as rows of the stacked scores."""
        # Imported here: workers that fit and score do not need torch.
        from pa_select.agreement.pooled_agreement import PooledPairs

        def side(split: int, source: int, rows: Ints) -> Ints:
            return self._start[split, source] + np.searchsorted(self.wanted[split][source], rows)

        row_a = [side(b.split_a, b.source_a, b.rows_a) for b in blocks]
        row_b = [side(b.split_b, b.source_b, b.rows_b) for b in blocks]
        lengths = [len(b.rows_a) for b in blocks]
        object_a = np.concatenate([b.rows_a for b in blocks])
        object_b = np.concatenate([b.rows_b for b in blocks])
        weights = np.ones(len(object_a))
        if weight is not None:
            weights = np.sqrt(weight[object_a]) * np.sqrt(weight[object_b])
        return PooledPairs(
            np.concatenate(row_a),
            np.concatenate(row_b),
            np.repeat([b.split_a for b in blocks], lengths),
            np.repeat([b.split_b for b in blocks], lengths),
            object_a,
            object_b,
            weights,
        )
