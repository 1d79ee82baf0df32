"""The scores of several models on labelled rows, from which an expected score starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pa_select.scores.recorded import row_numbers
from pa_select.unlabelled.expectation import error_of_score, expected_score_of
from pa_select.unlabelled.scored import Expectation, Scored
from pa_select.unlabelled.shrinkage import Shrunk, near_best, shrunk_scores
from pa_select.utils.typing import Floats


class Validated(NamedTuple):
    """The scores of models on labelled rows, and their standard errors.

    Attributes
    ----------
    names : list of str
    scores, errors : ndarray of shape (n_models,)
    """

    names: list[str]
    scores: Floats
    errors: Floats

    @classmethod
    def of(
        cls,
        scorer: Any,
        models: Mapping[str, Any],
        y: Any,
        groups: Any = None,
        error_of: Callable[..., float] = error_of_score,
    ) -> Validated:
        """Score recorded models of labelled rows; those of one group are not independent.

        ``error_of`` is called with the arguments of `error_of_score`.
        """
        rows = row_numbers(np.arange(len(y)))
        scores = [float(scorer(model, rows, y)) for model in models.values()]
        errors = [
            error_of(scorer, score, model, y, groups)
            for score, model in zip(scores, models.values(), strict=True)
        ]
        return cls(list(models), np.array(scores), np.array(errors))

    def most_accurate(self) -> list[str]:
        """Return the names of the most accurate models, or of all if no score is known."""
        near = near_best(self.scores, self.errors, np.isfinite(self.scores))
        kept = near if near.any() else ~near
        return [name for name, is_kept in zip(self.names, kept, strict=True) if is_kept]

    def expected(
        self, scorer: Any, scored: Sequence[Sequence[Scored]], *, is_shrunk: bool
    ) -> dict[str, Expectation]:
        """Return the scores that the models are expected to have at the other site.

        Parameters
        ----------
        scorer : callable
        scored : list of (Scored at the first site, Scored at the other site)
            What those that stand in for the labels expect of each model on the pairs.
        is_shrunk : bool
            Whether the scores are shrunk towards what is expected at the first site.
        """
        changes = [there.minus(here).expectation() for here, there in scored]
        shrunk = Shrunk(self.scores, np.zeros_like(self.scores))
        if is_shrunk:
            levels = [here.expectation() for here, _ in scored]
            shrunk = shrunk_scores(self.scores, self.errors, *np.transpose(levels))
        # What is wrong with the stand-ins at the first site may be wrong at the other one.
        errors = np.hypot(self.errors, shrunk.misfit).tolist()
        known = zip(self.names, shrunk.scores.tolist(), errors, changes, strict=True)
        return {
            name: expected_score_of(scorer, score, error, change)
            for name, score, error, change in known
        }
