"""The work on one split, which returns numbers: fit a candidate and score it; all in parallel."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from traceback import format_exc
from typing import Any

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.utils.parallel import delayed
from sklearn.utils.validation import check_memory

from pa_select._version import __version__
from pa_select.model_selection.data import SAMPLE_X, Extra, Given, Split, Task
from pa_select.scores.class_scores import comparable_scores
from pa_select.scores.precomputed import Predictions, RecordedRegressor, predictions
from pa_select.utils.messages import named_error, parallel, warn_caller
from pa_select.utils.sklearn_private import (
    Callbacks,
    _check_method_params,
    _fit_and_score,
    _PassthroughScorer,
    _safe_split,
    _score,
)
from pa_select.utils.typing import Array, Estimator, Ints

# This many constant predictions, of the most frequent classes, are scored.
_CONSTANTS = 3


@dataclass
class Outcome:
    """The result of a worker: numbers, never models."""

    fit_time: float
    score_time: float
    test_scores: Any
    #: Scores on the task's extras, each like ``test_scores``.
    extra_scores: list[Any] = field(default_factory=list)
    #: Class scores of each sample, and the classes of their columns.
    matrices: dict[int, Array] | None = None
    classes: Array | None = None
    #: Of the samples that need them.
    predictions: dict[int, Predictions] | None = None
    #: The traceback if the fit failed, or if a fitted model has no class scores.
    fit_error: str | None = None
    score_error: str | None = None

    @property
    def error(self) -> str:
        """What went wrong, the first line of the error; empty if nothing did."""
        text = self.fit_error or self.score_error or ""
        lines = text.rpartition("Traceback (most recent call last):\n")[2].splitlines()
        # The lines of code are indented; an error may have several lines.
        return next((line for line in lines if line[:1].strip()), "")


def evaluate(
    params: Sequence[dict[str, Any]],
    estimator: Estimator,
    tasks: Sequence[Task],
    given: Given,
    callbacks: Callbacks,
    *,
    memory: Any,
    n_jobs: int | None,
    pre_dispatch: int | str,
    verbose: int,
) -> list[list[Outcome]]:
    """Return each candidate's outcomes, one for each split."""
    from tqdm.auto import tqdm

    n, n_fits = len(tasks), len(params) * len(tasks)
    if verbose > 0:  # as scikit-learn says it
        print(f"Fitting {n} folds for each of {len(params)} candidates, totalling {n_fits} fits")
    part = callbacks.subtask("search", max_subtasks=n_fits, sequential_subtasks=False)
    part.begin()
    # Made before the first job starts: a context must not change while it is pickled.
    parts = [part.subtask("candidate-split-evaluation", task_id=i) for i in range(n_fits)]
    work = None
    if memory is not None:
        memory = os.fspath(memory) if isinstance(memory, os.PathLike) else memory
        work = check_memory(memory).cache(_kept, ignore=["given", "arguments"])
        # Made here and not by the workers, where large arrays have another class.
        shared, keys = joblib.hash((__version__, given, estimator)), list(map(joblib.hash, tasks))

    def jobs() -> Iterator[Any]:
        for number, (parameters, split) in enumerate(
            (parameters, split) for parameters in params for split in range(n)
        ):
            arguments = {
                "estimator": clone(estimator),
                "parameters": parameters,
                "task": tasks[split],
                "verbose": verbose,
                "split_progress": (split, n),
                "candidate_progress": (number // n, len(params)),
                "callback": parts[number].of_worker(),
            }
            if work is None:
                yield delayed(fit_and_score_split)(given=given, **arguments)
            else:
                yield delayed(work)(
                    joblib.hash((shared, keys[split], parameters)), given, arguments
                )

    # From 2 on scikit-learn prints a line for each fit.
    with tqdm(total=n_fits, unit=" fits", disable=verbose != 1) as bar:
        outcomes = []
        for outcome in parallel(jobs(), n_jobs=n_jobs, pre_dispatch=pre_dispatch):
            bar.update()
            outcomes.append(outcome)
    part.end()
    return [outcomes[i : i + n] for i in range(0, n_fits, n)]


def _kept(key: str, given: Given, arguments: dict[str, Any]) -> Outcome:
    """Do the work on a split, whose result a `joblib.Memory` keeps by its key."""
    return fit_and_score_split(given=given, **arguments)


def fit_and_score_split(
    estimator: Estimator,
    parameters: dict[str, Any] | None,
    task: Task,
    given: Given,
    verbose: int = 0,
    split_progress: tuple[int, int] | None = None,
    candidate_progress: tuple[int, int] | None = None,
    callback: dict[str, Any] | None = None,
) -> Outcome:
    """Fit a clone of the estimator to a split and score it."""
    candidate: Any = estimator
    if parameters is not None and candidate.set_params(**clone(parameters, safe=False)) is None:
        parameters = None  # set already; scikit-learn would go on with what set_params returns
    # Private, but what GridSearchCV itself calls: times, failures and messages are the same.
    result = _fit_and_score(
        estimator,
        given.samples[SAMPLE_X],
        given.y_to_fit,
        scorer=given.scorer,
        train=task.train,
        test=task.test,
        verbose=verbose,
        parameters=parameters,
        fit_params=given.fit_params,
        score_params=given.score_params,
        return_times=True,
        return_estimator=True,
        split_progress=split_progress,
        candidate_progress=candidate_progress,
        error_score=given.error_score,
        **(callback or {}),
    )
    names = "fit_time", "score_time", "test_scores", "fit_error"
    outcome = Outcome(**{name: result[name] for name in names})
    if outcome.fit_error is not None:
        return outcome
    fitted = result["estimator"]
    # While the model is at hand: only numbers leave the worker.
    outcome.extra_scores = [_extra_scores(fitted, extra, task, given) for extra in task.extras]
    try:
        matrices, classes = _matrices(fitted, task, given)
        outcome.predictions = _predictions(fitted, task, given, matrices, classes)
        outcome.matrices, outcome.classes = matrices, classes
    except Exception as error:
        if isinstance(given.error_score, str):  # "raise"
            raise named_error(error, f"candidate {parameters or {}}") from error
        outcome.score_error = format_exc()
    return outcome


def _extra_scores(fitted: Estimator, extra: Extra, task: Task, given: Given) -> Any:
    if not len(extra.rows):
        return np.nan
    rows, labels = _safe_split(
        fitted, given.samples[extra.sample], given.y, extra.rows, task.train
    )
    params = _check_method_params(given.samples[SAMPLE_X], given.score_params, extra.rows)
    return _score(fitted, rows, labels, given.scorer, params, given.error_score)


def _matrices(
    fitted: Estimator, task: Task, given: Given
) -> tuple[dict[int, Array], Array | None]:
    matrices, classes = {}, None
    for sample, rows in task.scored_rows.items():
        X, _ = _safe_split(fitted, given.samples[sample], None, rows, task.train)
        if given.of_regressors:
            matrices[sample] = RecordedRegressor.of(fitted, X).predicted[:, None]
            continue
        matrices[sample], classes = comparable_scores(fitted, X, numbers=rows, labels=given.labels)
    return matrices, classes


def _predictions(
    fitted: Estimator,
    task: Task,
    given: Given,
    matrices: dict[int, Array],
    classes: Array | None,
) -> dict[int, Predictions]:
    recorded = {}
    for sample in () if given.of_regressors else task.predicted:
        rows = task.scored_rows[sample]
        X, _ = _safe_split(fitted, given.samples[sample], None, rows, task.train)
        options = matrices[sample], classes, task.with_probabilities
        recorded[sample] = predictions(fitted, X, *options)
    return recorded


def chance_scores(splits: Sequence[Split], given: Given) -> list[list[Any]]:
    """Return the test scores, for each split, of predictions that ignore the features.

    The first list is for predicting the class frequencies. One list follows for always
    predicting each of the most frequent classes. Regressors predict the mean and the median.
    """
    # Imported here: workers that fit and score do not need torch.
    from pa_select.two_sites.classification import is_accuracy

    # The dummies ignore the features, so that none is copied unless a scorer looks at them.
    X: Any = np.zeros((len(given.y), 1))
    for scorer in given.scorers.values():
        if not (hasattr(scorer, "_score_func") or isinstance(scorer, _PassthroughScorer)):
            X = given.samples[SAMPLE_X]
    labels, counts = np.unique(given.y, return_counts=True)
    frequent = labels[np.argsort(-counts, kind="stable")[:_CONSTANTS]]
    dummies: list[Any] = [DummyClassifier(strategy="prior")]
    # In lists, since a dummy takes no bool and no float as it is.
    dummies += [DummyClassifier(strategy="constant", constant=[label]) for label in frequent]
    if given.of_regressors:
        # The best constants for the squared and for the absolute error.
        dummies = [DummyRegressor(strategy=constant) for constant in ("mean", "median")]
    weight = given.fit_params.get("sample_weight")
    are_rates = all(map(is_accuracy, given.scorers.values())) and not given.of_regressors
    are_rates &= not given.score_params

    def score(dummy: Any, train: Ints, test: Ints) -> Any:
        of_train = None if weight is None else np.asarray(weight)[train]
        try:
            dummy.fit(np.zeros((len(train), 1)), given.y[train], of_train)
        except ValueError:  # no training row has the constant class
            return np.nan
        rows, y = _safe_split(dummy, X, given.y, test, train)
        if are_rates:  # scikit-learn's checks would take most of the time
            right = float(np.mean(dummy.predict(rows) == y))
            return dict.fromkeys(given.scorers, right) if given.has_several else right
        params = _check_method_params(given.samples[SAMPLE_X], given.score_params, test)
        return _score(dummy, rows, y, given.scorer, params, np.nan)

    with warnings.catch_warnings():
        # A metric that is not defined for constant predictions warns each time.
        warnings.simplefilter("ignore")
        return [[score(dummy, *split) for split in splits] for dummy in dummies]


def warn_of_missing_scores(outcomes: Sequence[Sequence[Outcome]]) -> None:
    """Warn once that fitted models have no class scores, or predictions."""
    flat = [one.score_error for of_candidate in outcomes for one in of_candidate]
    failed = [error for error in flat if error is not None]
    if failed:
        warn_caller(
            f"Class scores or predictions could not be computed in {len(failed)} of {len(flat)} "
            f"fits. Their candidates are not compared. The first error:\n{failed[0]}"
        )


def with_parameters(estimator: Estimator, parameters: dict[str, Any]) -> Estimator:
    """Return a clone of the estimator with a candidate's parameters."""
    # Cloned, since parameters may be estimators that candidates share.
    candidate = clone(estimator)
    # The result is not used: the set_params of a FrozenEstimator returns nothing.
    candidate.set_params(**clone(parameters, safe=False))
    return candidate
