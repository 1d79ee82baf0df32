"""Evaluation of candidates on splits, in parallel, with progress and a memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.utils.parallel import Parallel, delayed

from pa_select.model_selection.checkpoint import Checkpoint, run
from pa_select.model_selection.worker import Data, Outcome, SplitTask, fit_and_score_split
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
    """Yield each candidate's outcomes, one for each split, as soon as they are there.

    Raises
    ------
    ValueError
        Before any fit, if a candidate's parameters are none of the estimator's.
    """
    _check_parameters(candidates, estimator)
    checkpoint = Checkpoint(memory, data, splits, scoring)
    n_fits = len(candidates) * len(splits)
    if verbose > 0:
        print(
            f"Fitting {len(splits)} folds for each of {len(candidates)} candidates, totalling "
            f"{n_fits} fits"
        )
    part = task.subtask("search", max_subtasks=n_fits, sequential_subtasks=False)
    part.begin()
    # Made before any is sent off: a context must not change while it is pickled.
    parts = [part.subtask("candidate-split-evaluation", task_id=i) for i in range(n_fits)]

    def jobs() -> Iterator[Any]:
        for c, parameters in enumerate(candidates):
            keys: list[Any] = [None] * len(splits)
            if memory is not None:
                keys = checkpoint.keys(with_parameters(estimator, parameters))
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
                yield delayed(run)(checkpoint.work, keys[s], data, arguments)

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
        # What is finished is there to keep when the rest is interrupted.
        return Parallel(**options, return_as="generator")
    except ValueError:
        return Parallel(**options)  # some backends only return all at once


def with_parameters(estimator: Any, parameters: dict[str, Any]) -> Any:
    """A clone with a candidate's parameters."""
    # They may be estimators, which the candidates share.
    return clone(estimator).set_params(**clone(parameters, safe=False))


def _check_parameters(candidates: Sequence[dict[str, Any]], estimator: Any) -> None:
    """One candidate of each set of names: a misspelt one should not cost an hour."""
    by_names = {frozenset(parameters): parameters for parameters in candidates}
    for parameters in by_names.values():
        with_parameters(estimator, parameters)


# Constant predictions of the most frequent classes that are scored beside the frequencies.
_CONSTANTS = 3


def chance_scores(splits: Sequence[SplitTask], data: Data) -> list[list[Any]]:
    """Each split's test scores of classifiers that look at no feature.

    One list for predicting the classes' frequencies, and one for each of the most
    frequent classes: what a search must do better than, by any metric.
    """
    weight = data.fit_params.get("sample_weight")
    blind = Data(
        # It looks at no feature, so that none need be copied.
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
    dummies = [
        DummyClassifier(strategy="prior"),
        *(DummyClassifier(strategy="constant", constant=label) for label in frequent),
    ]
    with warnings.catch_warnings():
        # Metrics that are not defined for constant predictions say so each time.
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
