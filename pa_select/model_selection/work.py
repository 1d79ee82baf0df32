"""The work on one split: fit a candidate and score it; the fits of members; all in parallel."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from traceback import format_exc
from typing import Any, cast
from uuid import uuid4

import joblib
import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.utils.parallel import delayed
from sklearn.utils.validation import check_memory

from pa_select._version import __version__
from pa_select.model_selection.data import SAMPLE_X, Extra, Given, Split, Task
from pa_select.scores.answers import Answers
from pa_select.scores.class_scores import class_scores, comparable_scores
from pa_select.scores.precomputed import (
    Predictions,
    RecordedRegressor,
    one_column,
    predictions,
)
from pa_select.utils.arrays import as_numpy
from pa_select.utils.messages import named_error, parallel, warn_caller
from pa_select.utils.sklearn_private import (
    Callbacks,
    _check_method_params,
    _fit_and_score,
    _PassthroughScorer,
    _safe_split,
    _score,
)
from pa_select.utils.typing import Array, Estimator, Ints, Rows

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
    with Answers(partial(_rows_of, task, given)) as answers:
        # Private, but what GridSearchCV itself calls: times, failures and messages are the same.
        result = _fit_and_score(
            estimator,
            given.samples[SAMPLE_X],
            given.y_to_fit,
            scorer=answers.scorer(given.scorer, SAMPLE_X, task.test),
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
        fitted = answers.of(result["estimator"])
        # While the model is at hand: only numbers leave the worker.
        matrices, recorded, classes = {}, {}, None
        outcome.extra_scores = [np.nan] * len(task.extras)
        for sample, rows in task.scored_rows.items():
            try:
                if outcome.score_error is None:
                    X = answers.rows(fitted, sample, rows)
                    matrices[sample], classes = _class_scores(fitted, X, rows, given)
                    if sample in task.predicted and not given.of_regressors:
                        options = matrices[sample], classes, task.with_probabilities
                        recorded[sample] = predictions(fitted, X, *options)
            except Exception as error:
                if isinstance(given.error_score, str):  # "raise"
                    raise named_error(error, f"candidate {parameters or {}}") from error
                outcome.score_error = format_exc()
            for number, extra in enumerate(task.extras):
                if extra.sample == sample and len(extra.rows):
                    is_test = sample == SAMPLE_X and np.array_equal(extra.rows, task.test)
                    if is_test:  # as of a site that is held out
                        outcome.extra_scores[number] = outcome.test_scores
                        continue
                    outcome.extra_scores[number] = _extra_score(fitted, extra, answers, given)
            answers.forget(sample)
    if outcome.score_error is None:
        outcome.matrices, outcome.classes, outcome.predictions = matrices, classes, recorded
    return outcome


def _rows_of(task: Task, given: Given, fitted: Estimator, sample: int, rows: Ints) -> Rows:
    rows_and_labels = _safe_split(fitted, given.samples[sample], None, rows, task.train)
    return cast("Rows", rows_and_labels[0])


def _class_scores(
    fitted: Estimator, X: Rows, rows: Ints, given: Given
) -> tuple[Array, Array | None]:
    """Return a column for each class, and the classes; what regressors predict, and None."""
    if given.of_regressors:
        return RecordedRegressor.of(fitted, X).predicted[:, None], None
    return comparable_scores(fitted, X, numbers=rows, labels=given.labels)


def _extra_score(fitted: Estimator, extra: Extra, answers: Answers, given: Given) -> Any:
    X = answers.rows(fitted, extra.sample, extra.rows)
    params = _check_method_params(given.samples[SAMPLE_X], given.score_params, extra.rows)
    return _score(fitted, X, given.y[extra.rows], given.scorer, params, given.error_score)


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


def fit_members(
    models: Sequence[Any],
    seen: Sequence[Sequence[Any]],
    splits: Sequence[Split],
    of_folds: bool,
    predicts: bool,
    data: tuple[Rows, Any],
    fit_params: dict[str, Any],
    n_jobs: int | None,
    verbose: int,
    callbacks: Callbacks,
) -> tuple[list[Any], list[list[Any]], int]:
    """Return the models that vote, what those of all splits predict, and how many were fitted.

    Models are fitted to all rows, or `of_folds` to those of each split; if it `predicts`, too, so
    that their outputs are known. What of these a search's scorer has ``seen`` is not fitted again.
    """
    of_splits = splits if of_folds or predicts else []
    seen_fits = [_seen_fits(one, splits, data[1]) for one in seen]
    rows = [([] if known else of_splits, [] if of_folds else [None]) for known in seen_fits]
    jobs = [(one, at) for one, (a, b) in zip(models, rows, strict=True) for at in (*a, *b)]
    part = callbacks.subtask("refit-members", max_subtasks=len(jobs), sequential_subtasks=False)
    part.begin(*data)
    parts = [part.subtask("refit", task_id=i).of_worker() for i in range(len(jobs))]
    both: Iterable[Any] = list(zip(jobs, parts, strict=True))
    if verbose == 1:
        from tqdm.auto import tqdm

        both = tqdm(both, unit=" fits")
    work = (delayed(_fit_member)(*job, data, fit_params, callback) for job, callback in both)
    fits = iter(list(parallel(work, n_jobs=n_jobs)))
    part.end(*data)
    voting, outputs = [], []
    for known, (a, b) in zip(seen_fits, rows, strict=True):
        out_of_fold, refitted = known or list(islice(fits, len(a))), list(islice(fits, len(b)))
        voting += [model for model, _ in (out_of_fold if of_folds else refitted)]
        outputs.append([output for _, output in out_of_fold])
    return voting, outputs, len(jobs)


def _fit_member(
    model: Any,
    split: Split | None,
    data: tuple[Rows, Any],
    fit_params: dict[str, Any],
    callback: dict[str, Any],
) -> tuple[Any, Any]:
    """`callback` has the context that is told of the fit, and whose fit it is part of."""
    model, (X, y) = clone(model), data
    rows, labels = X, y
    if split is not None:
        fit_params = _check_method_params(X, params=fit_params, indices=split[0])
        rows, labels = _safe_split(model, X, y, split[0])
    if callback:
        context, caller = callback["callback_ctx"], callback["caller"]
        with context.propagate_callback_context(model):
            context.call_on_fit_task_begin(estimator=caller)
            model.fit(rows, labels, **fit_params)
        context.call_on_fit_task_end(estimator=caller)
    else:
        model.fit(rows, labels, **fit_params)
    if split is None:
        return model, None
    train, test = split
    return model, outputs_of(model, _safe_split(model, X, None, test, train)[0])


def outputs_of(model: Any, X: Rows) -> Any:
    """Return a regressor's predictions, or a classifier's scores and classes; None without any."""
    if is_regressor(model):
        return one_column(model.predict(X))
    try:
        scores, classes = class_scores(model, X)
    except TypeError:  # it has neither probabilities nor a decision function
        return None
    return as_numpy(scores), classes


def seen_by_scorer(
    folder: str | None, score: Callable[..., Any], model: Any, X: Rows, y: Any
) -> tuple[Any, tuple[Any, Any, str | None] | None]:
    """Return a model's score, and what it predicts, for which labels, and the file that has it.

    The file is in the folder. The score comes alone if something else fails.
    """
    with Answers() as answers:
        answers.show(X)
        asked = answers.of(model)
        scores = score(asked, X, y)
        try:
            path = None if folder is None else f"{folder}/{uuid4()}"
            if path is not None:
                joblib.dump(model, path)
            return scores, (outputs_of(asked, X), one_column(y), path)
        except Exception:
            return scores, None


def _seen_fits(
    seen: Sequence[Any], splits: Sequence[Split], y: Any
) -> list[tuple[Any, Any]] | None:
    """Return the models of all splits and what they predict; None if one was not seen."""
    fits, labels = [], one_column(y)
    for of_split, (_, test) in zip(seen, splits, strict=len(seen) > 0):
        # A halving search scores only parts of the test folds.
        if of_split is None or not np.array_equal(of_split[1], labels[test]):
            return None
        outputs, _, path = of_split
        if path is not None and not os.path.exists(path):  # it was fitted on another machine
            return None
        fits.append((path and joblib.load(path), outputs))
    return fits or None
