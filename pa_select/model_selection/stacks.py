"""The class scores of each candidate's models, stacked one below the other."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pa_select.model_selection.layout import Layout
from pa_select.model_selection.worker import Outcome
from pa_select.scores import align_classes
from pa_select.scores.recorded import Recorded, RecordedRegressor
from pa_select.utils.typing import Ints


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
