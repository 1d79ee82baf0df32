"""What is said of candidates that failed, or have no agreement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pa_select.model_selection.parallel import with_parameters
from pa_select.model_selection.results_columns import scores_and_errors
from pa_select.model_selection.worker import Data, Outcome
from pa_select.utils.messages import warn_caller
from pa_select.utils.sklearn_private import _check_method_params, _MultimetricScorer, _score


def failure(
    outcomes: Sequence[Outcome], unsolved: str | None = None, what: str = "class scores"
) -> tuple[int, str | None]:
    """Return the number of splits in which a candidate failed, and the first error.

    `unsolved` says why there is no agreement although all scores are there, and `what` which
    scores are meant.
    """
    messages = []
    for outcome in outcomes:
        if outcome.fit_error is not None:
            messages.append(outcome.fit_error.strip().splitlines()[-1])
    if messages:
        return len(messages), f"failed in {len(messages)} of {len(outcomes)} splits: {messages[0]}"
    errors = [outcome.score_error for outcome in outcomes if outcome.score_error is not None]
    if errors:
        return 0, f"no {what}: {errors[0].splitlines()[0]}"
    return 0, None if unsolved is None else f"no agreement: {unsolved}"


def check_some_succeeded(
    estimator: Any, table: dict[str, Any], metric: str, message: str | None, data: Data
) -> None:
    """Raise the first candidate's error if no candidate has a score; `message` is its failure."""
    score, _ = scores_and_errors(table, metric)
    if np.isfinite(score).any():
        return
    # The error of the estimator or of the metric explains best what is wrong with the data.
    X, y = data.sources[0], data.y
    first = with_parameters(estimator, table["params"][0])
    first.fit(X, y, **data.fit_params)
    if message is None:
        scorer = data.scorer
        if isinstance(scorer, _MultimetricScorer):
            scorer = _MultimetricScorer(scorers=scorer._scorers, raise_exc=True)
        _score(first, X, y, scorer, _check_method_params(X, params=data.score_params), "raise")
    raise ValueError(
        f"No candidate has a finite {metric!r} in all splits. The first: "
        f"{message or 'its scoring failed'}."
    )


def report_unsolved(failures: dict[int, str], params: Sequence[Any], error_score: Any) -> None:
    """Warn of candidates whose agreement could not be computed, or raise an error."""
    if not failures:
        return
    first, message = next(iter(failures.items()))
    if isinstance(error_score, str):  # "raise"
        raise RuntimeError(f"candidate {params[first]}: {message}")
    warn_caller(
        f"The agreement of {len(failures)} of {len(params)} candidates could not be computed. "
        f"They cannot be selected by it. The first, {params[first]}: {message}"
    )


def warn_of_missing_scores(
    outcomes: Sequence[Sequence[Outcome]], what: str, consequence: str
) -> None:
    """Warn once, for each kind of error, that class scores or predictions are missing."""
    kinds: dict[str, list[Outcome]] = {}
    for candidate in outcomes:
        for outcome in candidate:
            if outcome.score_traceback is not None:
                # The last line may name a row, which differs between splits.
                where = outcome.score_traceback.strip().rpartition("\n")[0]
                kinds.setdefault(where, []).append(outcome)
    n = sum(map(len, outcomes))
    for alike in kinds.values():
        warn_caller(
            f"{what.capitalize()} could not be computed in {len(alike)} of {n} fits. Their "
            f"candidates have no {consequence} and cannot be selected by it. The first error:\n"
            f"{alike[0].score_traceback}"
        )
