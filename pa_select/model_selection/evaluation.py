"""Evaluation of candidates on splits: its metrics, parallel jobs, and candidates that fail."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.utils.parallel import delayed
from sklearn.utils.validation import check_memory

from pa_select._version import __version__
from pa_select.model_selection.split_scores import (
    Data,
    Outcome,
    Parallel,
    SplitTask,
    fit_and_score_split,
)
from pa_select.model_selection.table_columns import scores_and_errors
from pa_select.utils.estimators import is_number
from pa_select.utils.messages import named_error, warn_caller
from pa_select.utils.sklearn_private import (
    Callbacks,
    _MultimetricScorer,
    _score,
)
from pa_select.utils.typing import Array, ErrorScore, Estimator, Ints

#: The metrics of a search that has a single one.
ONE_METRIC = ["score"]


def metrics_of(scoring: Any) -> list[str] | None:
    """Return the names of a search's metrics; None if only the results of a function tell."""
    if isinstance(scoring, (list, tuple, Mapping, set)):
        return list(scoring)
    # A scorer that `make_scorer` made returns a number; a function may return several.
    return None if callable(scoring) and not hasattr(scoring, "_score_func") else ONE_METRIC


def check_only_metric(metric: str | None) -> None:
    """Refuse the name of a metric that a search of a single one does not have."""
    if metric not in [*ONE_METRIC, None]:
        raise ValueError(
            f"metric: expected {ONE_METRIC[0]!r} or None, since the search has a single metric, "
            f"got {metric!r}."
        )


def check_refit_of_one_metric(refit: Any, scoring: Any) -> None:
    """Refuse a committee's metric, or a word, that a search of one metric would ignore."""
    if hasattr(refit, "min_weight"):
        check_only_metric(refit.metric)
    elif isinstance(refit, str) and refit not in [*ONE_METRIC, "committee", scoring]:
        raise ValueError(
            "refit: expected True, False, 'committee', a PACommittee, a rule, or with several "
            f"metrics the name of one, got {refit!r}."
        )


def evaluate(
    params: Sequence[dict[str, Any]],
    estimator: Estimator,
    splits: Sequence[SplitTask],
    data: Data,
    callbacks: Callbacks,
    *,
    memory: Any,
    n_jobs: int | None,
    pre_dispatch: int | str,
    verbose: int,
) -> Iterator[list[Outcome]]:
    """Yield each candidate's outcomes, one for each split, as soon as all are finished."""
    from tqdm.auto import tqdm

    if memory is not None:
        work, keys = _kept_work(memory), _keys(params, estimator, splits, data)
    n_fits = len(params) * len(splits)
    if verbose > 0:  # as scikit-learn says it
        print(
            f"Fitting {len(splits)} folds for each of {len(params)} candidates, totalling "
            f"{n_fits} fits"
        )
    part = callbacks.subtask("search", max_subtasks=n_fits, sequential_subtasks=False)
    part.begin()
    # Made before the first job starts: a context must not change while it is pickled.
    parts = [part.subtask("candidate-split-evaluation", task_id=i) for i in range(n_fits)]

    def jobs() -> Iterator[Any]:
        for candidate, parameters in enumerate(params):
            for split, task in enumerate(splits):
                arguments = {
                    "estimator": clone(estimator),
                    "parameters": parameters,
                    "task": task,
                    "verbose": verbose,
                    "split_progress": (split, len(splits)),
                    "candidate_progress": (candidate, len(params)),
                    "callback": parts[candidate * len(splits) + split].of_worker(),
                }
                if memory is None:
                    yield delayed(fit_and_score_split)(data=data, **arguments)
                else:
                    yield delayed(work)(keys[candidate][split], data, arguments)

    finished: list[Outcome] = []
    # From 2 on scikit-learn prints a line for each fit.
    with tqdm(total=n_fits, unit=" fits", disable=verbose != 1) as bar:
        # In the order of the jobs, so that the splits of a candidate come one after the other.
        for outcome in _parallel(n_jobs, pre_dispatch)(jobs()):
            bar.update()
            finished.append(outcome)
            if len(finished) == len(splits):
                yield finished
                finished = []
    part.end()


def _kept_work(memory: Any) -> Any:
    """Return the work on a split as a function whose results a `joblib.Memory` keeps by key."""
    memory = os.fspath(memory) if isinstance(memory, os.PathLike) else memory
    return check_memory(memory).cache(_work, ignore=["data", "arguments"])


def _work(key: str, data: Data, arguments: dict[str, Any]) -> Outcome:
    return fit_and_score_split(data=data, **arguments)


def _keys(
    params: Sequence[dict[str, Any]],
    estimator: Estimator,
    splits: Sequence[SplitTask],
    data: Data,
) -> list[list[str]]:
    """Return the key of each candidate's work on each split."""
    # Made here and not by the workers, where large arrays have another class. All but the
    # parameters is hashed once.
    shared = joblib.hash((__version__, data, estimator))
    tasks = [joblib.hash(task) for task in splits]
    return [[joblib.hash((shared, task, parameters)) for task in tasks] for parameters in params]


def _parallel(n_jobs: int | None, pre_dispatch: int | str) -> Parallel:
    options = {"n_jobs": n_jobs, "pre_dispatch": pre_dispatch}
    try:
        # A generator gives finished outcomes even if the search is interrupted.
        return Parallel(**options, return_as="generator")
    except ValueError:
        return Parallel(**options)  # some backends cannot make a generator


def with_parameters(estimator: Estimator, parameters: dict[str, Any]) -> Estimator:
    """Return a clone of the estimator with a candidate's parameters."""
    # Cloned, since parameters may be estimators that candidates share.
    candidate = clone(estimator)
    # The result is not used: the set_params of a FrozenEstimator returns nothing.
    candidate.set_params(**clone(parameters, safe=False))
    return candidate


def different_candidates(
    params: Sequence[dict[str, Any]], estimator: Estimator
) -> list[Estimator]:
    """Return candidates of which each differs from the others in more than numbers.

    Numbers do not decide which values a model takes. A name that the estimator lacks is an error.
    """
    candidates = {}
    for parameters in params:
        kind = frozenset((name, is_number(x) or id(x)) for name, x in parameters.items())
        if kind not in candidates:
            candidates[kind] = with_parameters(estimator, parameters)
    return list(candidates.values())


def first_failure(
    outcomes: Sequence[Outcome], metric: str, unsolved: str | None, of_regressors: bool
) -> tuple[int, str | None]:
    """Return the number of splits in which a candidate failed, and the first error.

    `metric` is the score; `unsolved` says why there is no agreement although all scores are there.
    """
    messages = []
    for outcome in outcomes:
        if outcome.fit_error is not None:
            messages.append(outcome.fit_error.strip().splitlines()[-1])
    if messages:
        return len(messages), f"failed in {len(messages)} of {len(outcomes)} splits: {messages[0]}"
    errors = [outcome.score_error for outcome in outcomes if outcome.score_error is not None]
    if errors:
        return 0, f"no {_scores_in_words(of_regressors)}: {errors[0].splitlines()[0]}"
    for split, outcome in enumerate(outcomes):
        if metric in outcome.metric_errors:
            return 0, undefined(metric, split, outcome.metric_errors[metric])
    return 0, None if unsolved is None else f"no agreement: {unsolved}"


def check_some_succeeded(
    estimator: Estimator,
    table: dict[str, Any],
    metric: str,
    message: str | None,
    data: Data,
    outcomes: Sequence[Outcome],
    tests: Sequence[Ints],
    sites: Array | None,
) -> None:
    """Raise the first candidate's error if no candidate has a score; `message` is its failure.

    `outcomes` are its results, `tests` the test rows of the splits, and `sites` the environments
    or groups of all rows.
    """
    score, _ = scores_and_errors(table, metric)
    if np.isfinite(score).any():
        return
    # The error of the estimator or of the metric explains best what is wrong with the data.
    X, y = data.samples[0], data.y_to_fit
    # Fitted once more, to all rows, where its own error is raised and not caught.
    first = with_parameters(estimator, table["params"][0])
    first.fit(X, y, **data.fit_params)
    if message is None or any(metric in one.metric_errors for one in outcomes):
        try:
            _scored_again(first, data)
        except Exception as error:
            raise named_error(error, "scoring") from error
        message = _undefined_split(outcomes, metric, tests, sites)
    raise ValueError(
        f"No candidate has a finite {metric!r} in all splits. The first: "
        f"{(message or 'its scoring failed').removesuffix('.')}."
    )


def _scored_again(fitted: Estimator, data: Data) -> Any:
    """Score an estimator on all rows; the error passes, which the search made nan."""
    scorer, X = data.scorer, data.samples[0]
    if isinstance(scorer, _MultimetricScorer):
        scorer = _MultimetricScorer(scorers=scorer._scorers, raise_exc=True)
    return _score(fitted, X, data.y, scorer, data.score_params, "raise")


def _undefined_split(
    outcomes: Sequence[Outcome], metric: str, tests: Sequence[Ints], sites: Array | None
) -> str | None:
    """Say in which split, and at which site, a candidate has no score, and why."""
    for split, (outcome, test) in enumerate(zip(outcomes, tests, strict=True)):
        if metric in outcome.metric_errors:
            return undefined(repr(metric), split, outcome.metric_errors[metric], test, sites)
    return None


def undefined(
    metric: str, split: int, why: str, test: Ints | None = None, sites: Array | None = None
) -> str:
    """Say that a metric is not finite in a split, at which site, and why if that is known."""
    where = ""
    if test is not None and sites is not None:
        held_out = np.unique(np.asarray(sites)[test]).tolist()
        where = f", which holds out {held_out[0]!r}" if len(held_out) == 1 else ""
    return f"{metric} is not finite in split {split}{where}{why and ': '}{why}"


def warn_of_failed_agreements(
    failures: dict[int, str], params: Sequence[Any], error_score: ErrorScore
) -> None:
    """Warn of candidates whose agreement could not be computed, or raise an error."""
    if not failures:
        return
    candidate, message = next(iter(failures.items()))
    if isinstance(error_score, str):  # "raise"
        raise RuntimeError(f"candidate {params[candidate]}: {message}")
    warn_caller(
        f"The agreement of {len(failures)} of {len(params)} candidates could not be computed. "
        f"They cannot be selected by it. The first, {params[candidate]}: {message}"
    )


def _scores_in_words(of_regressors: bool) -> str:
    return "predictions" if of_regressors else "class scores"


def warn_of_missing_scores(outcomes: Sequence[Sequence[Outcome]], of_regressors: bool) -> None:
    """Warn once, for each kind of error, that class scores or predictions are missing."""
    kinds: dict[str, list[Outcome]] = {}
    for of_candidate in outcomes:
        for outcome in of_candidate:
            if outcome.score_traceback is not None:
                # The last line may name a row, which differs between splits.
                where = outcome.score_traceback.strip().rpartition("\n")[0]
                kinds.setdefault(where, []).append(outcome)
    n = sum(map(len, outcomes))
    consequence = "expected score" if of_regressors else "agreement"
    what = _scores_in_words(of_regressors).capitalize()
    for alike in kinds.values():
        warn_caller(
            f"{what} could not be computed in {len(alike)} of {n} fits. Their "
            f"candidates have no {consequence} and cannot be selected by it. The first error:\n"
            f"{alike[0].score_traceback}"
        )
