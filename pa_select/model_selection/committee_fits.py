"""The fits of a committee's members, and what they predict for held-out rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sklearn.base import clone, is_regressor
from sklearn.utils.parallel import delayed

from pa_select.model_selection.data import Split
from pa_select.model_selection.work import parallel
from pa_select.scores.class_scores import class_scores
from pa_select.scores.precomputed import one_column
from pa_select.utils.arrays import as_numpy
from pa_select.utils.estimators import unwrapped
from pa_select.utils.messages import warn_caller
from pa_select.utils.sklearn_private import Callbacks, _check_method_params, _safe_split
from pa_select.utils.typing import Array, Ints, Rows


class Job(NamedTuple):
    """A model to fit to some rows, or to all."""

    model: Any
    train: Ints | None
    test: Ints | None
    #: Whether the fitted model is kept, and whether its outputs for the test rows are needed.
    keep: bool
    predicts: bool


class Fitted(NamedTuple):
    """What is kept of a fitted model."""

    model: Any
    #: For the test rows, a regressor's predictions, or class scores and their classes.
    outputs: Any


def jobs_of(
    models: Sequence[Any], splits: Sequence[Split], of_folds: bool, predicts: bool
) -> list[Job]:
    """Return the fits of some models: to all rows, to those of each split, or to both."""
    jobs: list[Job] = []
    for model in models:
        if of_folds or predicts:
            jobs += [Job(model, *split, of_folds, predicts) for split in splits]
        if not of_folds:
            jobs.append(Job(model, None, None, True, False))
    return jobs


def fit_members(
    jobs: Sequence[Job],
    X: Rows,
    y: Any,
    fit_params: dict[str, Any],
    n_jobs: int | None,
    verbose: int,
    callbacks: Callbacks,
) -> tuple[list[Any], list[Any]]:
    """Return the fitted models that are kept, and the outputs that are needed."""
    part = callbacks.subtask("refit-members", max_subtasks=len(jobs), sequential_subtasks=False)
    part.begin(X, y)
    parts = [part.subtask("refit", task_id=i).of_worker() for i in range(len(jobs))]
    both: Iterable[Any] = list(zip(jobs, parts, strict=True))
    if verbose == 1:
        from tqdm.auto import tqdm

        both = tqdm(both, unit=" fits")
    fits = list(
        parallel(
            (delayed(fit_member)(job, X, y, fit_params, callback) for job, callback in both),
            n_jobs=n_jobs,
        )
    )
    part.end(X, y)
    models = [fit.model for fit in fits if fit.model is not None]
    return models, [fit.outputs for job, fit in zip(jobs, fits, strict=True) if job.predicts]


def fit_member(
    job: Job, X: Rows, y: Any, fit_params: dict[str, Any], callback: dict[str, Any]
) -> Fitted:
    """Fit a model; `callback` has the context that is told of it, and whose fit it is part of."""
    model, rows, labels = clone(job.model), X, y
    if job.train is not None:
        fit_params = _check_method_params(X, params=fit_params, indices=job.train)
        rows, labels = _safe_split(model, X, y, job.train)
    if callback:
        context, caller = callback["callback_ctx"], callback["caller"]
        with context.propagate_callback_context(model):
            context.call_on_fit_task_begin(estimator=caller)
            model.fit(rows, labels, **fit_params)
        context.call_on_fit_task_end(estimator=caller)
    else:
        model.fit(rows, labels, **fit_params)
    outputs: Any = None
    if job.predicts:
        tested, _ = _safe_split(model, X, None, job.test, job.train)
        if is_regressor(model):
            outputs = one_column(model.predict(tested))
        else:
            outputs = _class_scores_or_none(model, tested)
    return Fitted(model if job.keep else None, outputs)


def _class_scores_or_none(model: Any, X: Rows) -> tuple[Array, Array] | None:
    try:
        scores, classes = class_scores(model, X)
    except TypeError:  # it has neither probabilities nor a decision function
        return None
    return as_numpy(scores), classes


def warn_of_nets(models: Sequence[Any]) -> None:
    """Warn if models that are fitted once are nets."""
    nets = [type(one).__name__ for model in models for one in unwrapped(model) if _is_net(one)]
    if nets:
        warn_caller(
            f"members: expected 'folds' for nets such as {nets[0]}, got 'refit'. What a net "
            "learns depends on its start, and the mean over its models of all splits depends less "
            "on it."
        )


def _is_net(estimator: object) -> bool:
    return hasattr(estimator, "module") and hasattr(estimator, "initialize")
