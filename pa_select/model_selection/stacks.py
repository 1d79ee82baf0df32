"""The rows that the model of each split scores, and these scores, stacked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pa_select.model_selection.worker import OF_X, Outcome
from pa_select.scores import align_classes
from pa_select.scores.recorded import Recorded, RecordedRegressor
from pa_select.utils.halves import Split
from pa_select.utils.typing import Ints

if TYPE_CHECKING:
    from pa_select.agreement.pooled_agreement import PooledPairs


class Block(NamedTuple):
    """Pairs of rows; a split's model scores each side, and may score both."""

    split_a: int
    rows_a: Ints
    split_b: int
    rows_b: Ints
    source_a: int = OF_X
    source_b: int = OF_X


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


class Stacks(Sequence[NDArray[Any]]):
    """Stacked scores: those of all models of a candidate, one below the other.

    The stack of a candidate is made when it is indexed.

    Parameters
    ----------
    outcomes : list of (list of Outcome)
        The outcomes of all splits, for each candidate that has all score matrices.
    layout : Layout
    labels : ndarray
        The labels of the data; none for regressors.
    """

    def __init__(
        self, outcomes: Sequence[Sequence[Outcome]], layout: Layout, labels: NDArray[Any]
    ) -> None:
        self._outcomes = outcomes
        self._wanted = layout.wanted
        known = {
            tuple(outcome.classes): outcome.classes
            for candidate in outcomes
            for outcome in candidate
            if outcome.classes is not None
        }
        self.classes = np.unique(np.concatenate([labels, *known.values()]))

    def __len__(self) -> int:
        return len(self._outcomes)

    def __getitem__(self, index: Any) -> Any:
        parts = [
            self.matrix(index, split, source)
            for split, wanted in enumerate(self._wanted)
            for source in sorted(wanted)
        ]
        return np.concatenate(parts)

    def of(self, positions: Ints) -> Stacks:
        """Return the stacks at these positions."""
        chosen = copy(self)
        chosen._outcomes = [self._outcomes[i] for i in positions.tolist()]
        return chosen

    def matrix(self, index: int, split: int, source: int) -> NDArray[Any]:
        """Return a split's scores of the rows of a source, with all classes as columns."""
        outcome = self._outcomes[index][split]
        assert outcome.matrices is not None
        assert outcome.classes is not None
        return align_classes(outcome.matrices[source], outcome.classes, self.classes)

    def recorded(self, index: int, split: int, source: int) -> Recorded | RecordedRegressor:
        """Return a split's predictions of the rows of a source, as a classifier of all classes.

        It has no predicted classes of sources that need none. Or return them as a regressor.
        """
        outcome = self._outcomes[index][split]
        assert outcome.matrices is not None
        assert outcome.predictions is not None
        if outcome.classes is None:
            return RecordedRegressor(outcome.matrices[source][:, 0])
        predicted, probabilities = outcome.predictions.get(source, (None, None))
        if probabilities is not None:
            columns = np.searchsorted(self.classes, outcome.classes)
            known = np.zeros((len(probabilities), len(self.classes)))
            known[:, columns] = probabilities
            probabilities = known
        scores = np.asarray(self.matrix(index, split, source), dtype=np.float64)
        return Recorded(self.classes, scores, predicted, probabilities)


def complete(outcomes: Sequence[Sequence[Outcome]]) -> NDArray[np.intp]:
    """Return the numbers of the candidates whose models have all their scores."""
    return np.flatnonzero([all(o.matrices is not None for o in found) for found in outcomes])
