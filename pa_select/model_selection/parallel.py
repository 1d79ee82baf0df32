"""Evaluation of candidates on splits, in parallel, with progress messages and a cache."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.utils.parallel import delayed

from pa_select.model_selection.checkpoint import Checkpoint, run
from pa_select.model_selection.worker import Data, Outcome, SplitTask, fit_and_score_split
from pa_select.utils.parallel import Parallel
from pa_select.utils.sklearn_private import Callbacks, _num_samples


def evaluate(
    candidates: Sequence[dict[str, Any]],
    estimator: Any,
    splits: Sequence[SplitTask],
    data: Data,
    task: Callbacks,
    *,
    memory: Any,
    scoring: Any,
    n_jobs: Any,
    pre_dispatch: Any,
    verbose: int,
) -> Iterator[list[Outcome]]:
    """Yield each candidate's outcomes, one for each split, as soon as all are finished.

    Raises
    ------
    ValueError
        Before any fit, if the estimator does not have a candidate's parameters.
    """
    _check_parameters(candidates, estimator)
    checkpoint = Checkpoint(memory, data, splits, scoring)
    # Made before the first fit, since fits may change what the code of the user reads.
    keys: list[list[str | None]] = [[None] * len(splits)] * len(candidates)
    if memory is not None:
        keys = [checkpoint.keys(with_parameters(estimator, candidate)) for candidate in candidates]
    n_fits = len(candidates) * len(splits)
    if verbose > 0:
        print(
            f"Fitting {len(splits)} folds for each of {len(candidates)} candidates, totalling "
            f"{n_fits} fits"
        )
    part = task.subtask("search", max_subtasks=n_fits, sequential_subtasks=False)
    part.begin()
    # Made before the first job starts: a context must not change while it is pickled.
    parts = [part.subtask("candidate-split-evaluation", task_id=i) for i in range(n_fits)]

    def jobs() -> Iterator[Any]:
        for c, parameters in enumerate(candidates):
            for s, split in enumerate(splits):
                arguments = {
                    "estimator": clone(estimator),
                    "parameters": parameters,
                    "split": split,
                    "verbose": verbose,
                    "split_progress": (s, len(splits)),
                    "candidate_progress": (c, len(candidates)),
                    "callback": parts[c * len(splits) + s].of_worker(),
                }
                yield delayed(run)(checkpoint.work, keys[c][s], data, arguments)

    finished: list[Outcome] = []
    for outcome in _parallel(n_jobs, pre_dispatch)(jobs()):
        finished.append(outcome)
        if len(finished) == len(splits):
            yield finished
            finished = []
    part.end()


def _parallel(n_jobs: Any, pre_dispatch: Any) -> Any:
    options = {"n_jobs": n_jobs, "pre_dispatch": pre_dispatch}
    try:
        # A generator gives finished outcomes even if the search is interrupted.
        return Parallel(**options, return_as="generator")
    except ValueError:
        return Parallel(**options)  # some backends cannot make a generator


def with_parameters(estimator: Any, parameters: dict[str, Any]) -> Any:
    """Return a clone of the estimator with a candidate's parameters."""
    # Cloned, since parameters may be estimators that candidates share.
    return clone(estimator).set_params(**clone(parameters, safe=False))


def _check_parameters(candidates: Sequence[dict[str, Any]], estimator: Any) -> None:
    """Set the parameters of one candidate for each set of names, to find misspelt names."""
    by_names = {frozenset(parameters): parameters for parameters in candidates}
    for parameters in by_names.values():
        with_parameters(estimator, parameters)


# This many constant predictions, of the most frequent classes, are scored.
_CONSTANTS = 3


def chance_scores(splits: Sequence[SplitTask], data: Data) -> list[list[Any]]:
    """Return the test scores, for each split, of classifiers that look at no feature.

    The first list is for predicting the class frequencies. One list follows for always
    predicting each of the most frequent classes. Regressors predict the mean and the median.
    A useful candidate scores higher.
    """
    weight = data.fit_params.get("sample_weight")
    blind = Data(
        # The dummies look at no feature, so that none is copied.
        sources=[np.zeros((_num_samples(data.sources[0]), 1))],
        y=data.y,
        scorer=data.scorer,
        fit_params={} if weight is None else {"sample_weight": weight},
        score_params=data.score_params,
        error_score=np.nan,
        dtype=None,
    )
    labels, counts = np.unique(np.asarray(data.y), return_counts=True)
    frequent = labels[np.argsort(-counts, kind="stable")[:_CONSTANTS]]
    dummies: list[Any] = [
        DummyClassifier(strategy="prior"),
        *(DummyClassifier(strategy="constant", constant=label) for label in frequent),
    ]
    if data.of_regressors:
        dummies = [DummyRegressor(strategy=constant) for constant in ("mean", "median")]
    with warnings.catch_warnings():
        # A metric that is not defined for constant predictions warns each time.
        warnings.simplefilter("ignore")
        return [
            [
                fit_and_score_split(
                    dummy, None, SplitTask(split.train, split.test, {}, []), blind
                ).test_scores
                for split in splits
            ]
            for dummy in dummies
        ]
