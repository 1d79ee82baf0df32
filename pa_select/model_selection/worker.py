"""Fit and scores of one candidate on one split."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from sys import getsizeof
from traceback import format_exc
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pa_select.scores.class_scores import comparable_scores
from pa_select.scores.recorded import RecordedRegressor, predictions
from pa_select.utils.messages import named_error
from pa_select.utils.score_checks import BadScoresError
from pa_select.utils.sklearn_private import (
    _check_method_params,
    _fit_and_score,
    _safe_split,
    _score,
)
from pa_select.utils.typing import Estimator

#: Number of X among the sources.
OF_X = 0


class Extra(NamedTuple):
    """Rows of a source on which a split's model is also scored with the search's scorer."""

    suffix: str
    source: int
    rows: NDArray[np.int64]
    #: Whether the rows are so few that a metric may not be defined on them.
    may_fail: bool = False


@dataclass(frozen=True)
class SplitTask:
    """The work to do for one split."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]
    #: Rows of each source whose class scores are needed.
    wanted: dict[int, NDArray[np.int64]]
    extras: Sequence[Extra]
    #: Sources whose predicted classes are needed, too.
    predicted: Sequence[int] = ()


@dataclass(frozen=True)
class Data:
    """The data that all splits of a search share."""

    #: X, then its views, the target rows, or the rows of paired objects.
    sources: Sequence[Any]
    y: Any
    scorer: Any
    fit_params: dict[str, Any]
    score_params: dict[str, Any]
    error_score: Any
    #: The distinct labels, the classes that estimators may have. None: any.
    labels: Any = None
    #: Whether predictions come with probabilities, which some metrics need.
    with_probabilities: bool = False
    #: Whether the candidates are regressors, whose class scores are their predictions.
    of_regressors: bool = False

    def __sizeof__(self) -> int:
        # A cluster looks at the size: it sends large objects once, not with each job.
        return sum(getattr(x, "nbytes", None) or getsizeof(x) for x in self.sources)


@dataclass
class Outcome:
    """The result of a worker: numbers, never models."""

    fit_time: float
    score_time: float
    n_test_samples: int
    test_scores: Any
    #: Scores on the split's extras, each like ``test_scores``.
    extra_scores: list[Any] = field(default_factory=list)
    #: Class scores of each source, and the classes of their columns.
    matrices: dict[int, NDArray[Any]] | None = None
    classes: NDArray[Any] | None = None
    #: Predicted classes, and probabilities or None, of the sources that need them.
    predictions: dict[int, tuple[NDArray[Any], NDArray[Any] | None]] | None = None
    fit_error: str | None = None
    #: The error if a fitted model has no class scores: one line, and the whole traceback.
    score_error: str | None = None
    score_traceback: str | None = None


def fit_and_score_split(
    estimator: Estimator,
    parameters: dict[str, Any] | None,
    split: SplitTask,
    data: Data,
    verbose: int = 0,
    split_progress: tuple[int, int] | None = None,
    candidate_progress: tuple[int, int] | None = None,
    callback: dict[str, Any] | None = None,
) -> Outcome:
    """Fit a clone of the estimator to a split and score it."""
    X = data.sources[0]
    result = _fit_and_score(
        estimator,
        X,
        data.y,
        scorer=data.scorer,
        train=split.train,
        test=split.test,
        verbose=verbose,
        parameters=parameters,
        fit_params=data.fit_params,
        score_params=data.score_params,
        return_n_test_samples=True,
        return_times=True,
        return_estimator=True,
        split_progress=split_progress,
        candidate_progress=candidate_progress,
        error_score=data.error_score,
        **(callback or {}),
    )
    outcome = Outcome(
        fit_time=result["fit_time"],
        score_time=result["score_time"],
        n_test_samples=result["n_test_samples"],
        test_scores=result["test_scores"],
        fit_error=result["fit_error"],
    )
    if outcome.fit_error is None:
        fitted = result["estimator"]
        outcome.extra_scores = [
            _extra_scores(fitted, extra, split, data) for extra in split.extras
        ]
        try:
            matrices, classes = _matrices(fitted, split, data)
            outcome.predictions = _predictions(fitted, split, data, matrices, classes)
            outcome.matrices, outcome.classes = matrices, classes
        except Exception as error:
            if isinstance(data.error_score, str):  # "raise"
                raise named_error(error, f"candidate {parameters or {}}") from error
            kind = "ValueError" if isinstance(error, BadScoresError) else type(error).__name__
            outcome.score_error = f"{kind}: {error}"
            outcome.score_traceback = format_exc()
    return outcome


def _extra_scores(fitted: Estimator, extra: Extra, split: SplitTask, data: Data) -> Any:
    if not len(extra.rows):
        return np.nan
    source = data.sources[extra.source]
    rows, labels = _safe_split(fitted, source, data.y, extra.rows, split.train)
    params = _check_method_params(data.sources[0], params=data.score_params, indices=extra.rows)
    if not extra.may_fail:
        return _score(fitted, rows, labels, data.scorer, params, data.error_score)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _score(fitted, rows, labels, data.scorer, params, np.nan)


def _matrices(
    fitted: Estimator, split: SplitTask, data: Data
) -> tuple[dict[int, NDArray[Any]], NDArray[Any] | None]:
    matrices, classes = {}, None
    for source, rows in split.wanted.items():
        X, _ = _safe_split(fitted, data.sources[source], None, rows, split.train)
        if data.of_regressors:
            matrices[source] = RecordedRegressor.of(fitted, X).predicted[:, None]
            continue
        matrices[source], classes = comparable_scores(fitted, X, numbers=rows, labels=data.labels)
    return matrices, classes


def _predictions(
    fitted: Estimator,
    split: SplitTask,
    data: Data,
    matrices: dict[int, NDArray[Any]],
    classes: NDArray[Any] | None,
) -> dict[int, tuple[NDArray[Any], NDArray[Any] | None]]:
    found = {}
    for source in () if data.of_regressors else split.predicted:
        X, _ = _safe_split(fitted, data.sources[source], None, split.wanted[source], split.train)
        found[source] = predictions(fitted, X, matrices[source], classes, data.with_probabilities)
    return found
