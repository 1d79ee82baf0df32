"""Batches of pairs of unlabelled rows, drawn beside the batches of labelled rows."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import torch
from skorch.dataset import unpack_data
from torch.utils.data import Dataset, default_collate

from pa_select.utils.frames import view_of
from pa_select.utils.typing import HasItems, Ints, Net

# Fewer pairs in a batch say too little of the classes' shares.
LEAST_PAIRS = 16


class PairBatches:
    """Endless batches of pairs: every pair once in a random order, then again.

    The pairs are two measurements of the same rows, or rows and what makes a view of them. The
    random state orders the pairs, and draws the seeds of views that have one.
    """

    def __init__(
        self, net: Net, pairs: object, batch_size: int, random_state: np.random.RandomState
    ) -> None:
        if not isinstance(pairs, (tuple, list)) or len(pairs) != 2:
            got = f" of {len(pairs)}" if isinstance(pairs, (tuple, list)) else ""
            raise TypeError(
                "pairs: expected a tuple (rows, rows measured again) or (rows, view), got "
                f"{type(pairs).__name__}{got}."
            )
        rows, other = pairs
        self._first = _dataset(net, rows)
        self.view: Any = other if is_view(other) else None
        self._second = None if is_view(other) else _dataset(net, other)
        if self._second is not None and len(self._second) != len(self._first):
            raise ValueError(
                f"pairs: expected as many rows of both, got {len(self._first)} and "
                f"{len(self._second)}."
            )
        if len(self._first) < LEAST_PAIRS:
            raise ValueError(
                f"pairs: expected at least {LEAST_PAIRS} pairs, got {len(self._first)}."
            )
        self._batch_size = min(batch_size, len(self._first))
        self._random_state = random_state
        self._order = np.empty(0, dtype=np.intp)

    def __len__(self) -> int:
        return len(self._first)

    def draw(self) -> tuple[Any, Any]:
        """Return the next batch of both rows of the pairs."""
        # The end of one order and the start of the next share a batch, so all have one size.
        while len(self._order) < self._batch_size:
            self._order = np.r_[self._order, self._random_state.permutation(len(self))]
        rows, self._order = self._order[: self._batch_size], self._order[self._batch_size :]
        first = _batch(self._first, rows)
        if self._second is None:
            return first, self.seen(first)
        return first, _batch(self._second, rows)

    def seen(self, batch: Any) -> Any:
        """Return a batch as the view shows it, each time with another seed."""
        view = self.view
        if hasattr(view, "get_params") and "random_state" in view.get_params():
            seed = int(self._random_state.randint(2**31 - 1))
            view = copy(view)  # with all that it was fitted to
            view.random_state = seed
        shown = view_of(view, batch.cpu().numpy(), "pairs")
        return torch.as_tensor(np.asarray(shown), dtype=batch.dtype).to(batch.device)


def is_view(other: object) -> bool:
    """Whether the second of `pairs` makes views, and is not rows itself."""
    # A dataset of skorch has a method of this name, too.
    return not isinstance(other, Dataset) and (callable(other) or hasattr(other, "transform"))


def _dataset(net: Net, rows: Any) -> Any:
    return rows if isinstance(rows, Dataset) else net.get_dataset(rows)


def _batch(dataset: HasItems, rows: Ints) -> Any:
    return default_collate([unpack_data(dataset[int(row)])[0] for row in rows])
