"""Standard errors of scores from what the models of all splits predict for their test rows."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pa_select.model_selection.split_scores import SAMPLE_X, Data, Layout
from pa_select.scores.precomputed import (
    RecordedClassifier,
    RecordedRegressor,
    Stacks,
    row_numbers,
)
from pa_select.utils.typing import Array, Floats, Ints, Mask

if TYPE_CHECKING:
    from pa_select.two_sites.score_of_units import LabelledRows

# Recorded predictions give the same scores, but for rounding to single precision.
_ROUNDING = 1e-5


class OutOfFold:
    """What the models of all splits predict for their test rows, as far as it was recorded.

    `groups` are those of the rows of X, or None.
    """

    def __init__(
        self,
        stacks: Stacks,
        layout: Layout,
        tests: Sequence[Ints],
        data: Data,
        groups: Array | None,
    ) -> None:
        # Imported here: workers that fit and score do not need torch.
        from pa_select.two_sites.classification import Classification
        from pa_select.two_sites.regression import Regression
        from pa_select.two_sites.score_of_units import LabelledRows

        self._stacks, self._scored_rows = stacks, layout.scored_rows
        self._task = Regression() if data.of_regressors else Classification()
        self._scorers = getattr(data.scorer, "_scorers", {"score": data.scorer})
        y = np.asarray(data.y, dtype=np.float64 if data.of_regressors else None)
        self._data, self._labelled = data, LabelledRows(y, tests, groups)

    def errors(self, metric: str, scores: Floats, samples: Sequence[int] = (SAMPLE_X,)) -> Floats:
        """Return the standard errors of all candidates' mean `scores`, (n_candidates, n_splits).

        With several samples, such as views, each row of which is that of X, it is their mean.
        nan for a candidate whose scores cannot be computed from what was recorded: a scorer may
        look at the rows, at other data of theirs, or at predictions by a threshold.
        """
        found = np.full(len(scores), np.nan)
        if metric not in self._scorers:
            return found
        labelled = self._labelled
        if self._data.score_params:  # a metric counts the rows with the weights that it is given
            labelled = labelled._replace(score_weight=self._data.score_weight(metric))
        if self._task.is_rate(self._scorers[metric]) and labelled.groups is None:
            from pa_select.two_sites.score_of_units import error_of_rate

            return error_of_rate(scores.mean(axis=1), labelled.n_independent)
        for position, candidate in enumerate(self._stacks.candidates.tolist()):
            of_samples = [self._outputs(position, sample, labelled) for sample in samples]
            found[candidate] = self._error(metric, scores[candidate], of_samples, labelled)
        return found

    def among(self, rows: Mask) -> OutOfFold:
        """Return what says how certain the scores of only some of the rows are."""
        some, tests = copy(self), [test[rows[test]] for test in self._labelled.rows]
        some._labelled = self._labelled._replace(rows=tests)
        return some

    def _error(
        self, metric: str, scores: Floats, of_samples: Sequence[Any], labelled: LabelledRows
    ) -> float:
        """Return the standard error of a candidate's mean score; nan if it has another one."""
        from pa_select.two_sites.score_of_units import error_of_score

        scorer, mean = self._scorers[metric], float(scores.mean())
        if any(outputs is None for outputs in of_samples):
            return np.nan
        try:
            again = [
                [
                    self._score(scorer, labelled, *of_split)
                    for of_split in zip(outputs, labelled.rows, strict=True)
                ]
                for outputs in of_samples
            ]
            if not np.allclose(np.mean(again, axis=0), scores, _ROUNDING, _ROUNDING):
                return np.nan
            errors = [
                error_of_score(self._task, scorer, mean, labelled, outputs)
                for outputs in of_samples
            ]
        except Exception:  # a scorer of the user's may need more than predictions
            return np.nan
        return float(np.mean(errors))

    def _score(self, scorer: Any, labelled: LabelledRows, model: Any, rows: Ints) -> float:
        """Return the score of a split; a formula is faster than the scorer."""
        y, weight = labelled.y[rows], labelled.score_weight
        weight = None if weight is None else weight[rows]
        labels = self._task.known_labels(model, y)
        with np.errstate(divide="ignore", invalid="ignore"):  # a class may have no row
            given = scorer, labels, model
            scored = self._task.closed_form(*given, is_counted=False, weight=weight)
        if scored is not None:
            return scored.score
        params = {} if weight is None else {"sample_weight": weight}
        return float(scorer(model, row_numbers(np.arange(len(y))), y, **params))

    def _outputs(
        self, position: int, sample: int, labelled: LabelledRows
    ) -> list[RecordedClassifier | RecordedRegressor] | None:
        """Return what a candidate's models predict for their test rows; None if not recorded."""
        outputs = []
        for split, rows in enumerate(labelled.rows):
            known = self._scored_rows[split].get(sample, rows[:0])
            if not np.isin(rows, known).all():
                return None
            model = self._stacks.recorded(position, split, sample)
            places = np.searchsorted(known, rows)
            if isinstance(model, RecordedRegressor):
                outputs.append(RecordedRegressor(model.predicted[places]))
                continue
            scores, probabilities = model.scores[places], model.probabilities
            predicted = model.classes[scores.argmax(axis=1)]
            if model.predicted is not None:
                predicted = model.predicted[places]
            if probabilities is not None:
                probabilities = probabilities[places]
            outputs.append(
                replace(model, scores=scores, predicted=predicted, probabilities=probabilities)
            )
        return outputs
