"""For each fold, a model of the other folds, and two models of disjoint halves of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedGroupKFold, check_cv
from sklearn.utils.parallel import delayed

from pa_select.scores.alignment import align_classes
from pa_select.scores.class_scores import class_scores
from pa_select.utils.halves import Split, halves
from pa_select.utils.parallel import Parallel
from pa_select.utils.sklearn_private import _check_method_params, _num_samples, _safe_split
from pa_select.utils.typing import Floats, Ints


class Fold(NamedTuple):
    """The rows that the three models of a fold are fitted to, and those held out of all."""

    #: Training rows of the fold's model and of its two halves.
    train: tuple[Ints, Ints, Ints]
    held_out: Ints


class FoldModels(NamedTuple):
    """The fitted models of a fold."""

    model: Any
    halves: tuple[Any, Any]


class FoldScores(NamedTuple):
    """Scores of rows by the models of all folds, one fold after the other.

    Attributes
    ----------
    of_models : ndarray of shape (m, n_classes)
        By the models of the folds.
    of_halves : tuple of two ndarrays of shape (m, n_classes)
        By the models of the folds' halves.
    rows : ndarray of shape (m,)
        The row that the scores are of.
    """

    of_models: Floats
    of_halves: tuple[Floats, Floats]
    rows: Ints


def make_folds(
    cv: Any, X: Any, y: NDArray[Any], groups: Any, seed: int, split_params: dict[str, Any]
) -> list[Fold]:
    """Split the rows into folds, and the training rows of each into halves.

    Raises
    ------
    ValueError
        If a class has fewer rows than there are folds, there are too few groups for the folds
        and their halves, or half of some training rows has one class only.
    """
    try:
        return _make_folds(cv, X, y, groups, seed, split_params)
    except _TooFewError as error:
        what = "groups" if groups is not None else "y"
        raise ValueError(f"{what}: {error}") from error


class _TooFewError(ValueError):
    """Too few rows or groups to divide."""


def _make_folds(
    cv: Any, X: Any, y: NDArray[Any], groups: Any, seed: int, split_params: dict[str, Any]
) -> list[Fold]:
    n_folds = 5 if cv is None else cv
    if isinstance(n_folds, (int, np.integer)):
        fewest = int(np.unique(y, return_counts=True)[1].min())
        if groups is not None:
            n_groups = len(np.unique(groups))
            # Each fold holds out a group at least; the others are divided into two halves.
            if n_groups < max(n_folds, 3):
                raise _TooFewError(
                    f"expected at least {max(n_folds, 3)} groups, for {n_folds} folds and two "
                    f"halves of their training rows, got {n_groups}."
                )
            cv = StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed)
        elif fewest < n_folds:
            raise _TooFewError(
                f"expected at least {n_folds} rows of each class, one for each fold, got a class "
                f"of {fewest}."
            )
        else:
            cv = check_cv(n_folds, y, classifier=True)
    else:
        cv = check_cv(cv, y, classifier=True)
    splits = list(cv.split(X, y, **{**split_params, "groups": groups}))
    for train, held_out in splits:
        counts = np.unique(y[train], return_counts=True)[1]
        n_groups = 2 if groups is None else len(np.unique(np.asarray(groups)[train]))
        if not len(held_out):
            raise ValueError("cv: expected rows that each fold holds out, got a fold without.")
        if groups is not None and np.isin(np.asarray(groups)[held_out], groups[train]).any():
            raise ValueError(
                "cv: expected folds that divide no group, got one that does. Give a number, or a "
                "splitter such as GroupKFold."
            )
        if counts.max() < 2 or n_groups < 2:
            raise _TooFewError(
                "expected at least two rows of a class and two groups outside of each fold, to "
                f"divide them into halves, got {counts.max()} and {n_groups}."
            )
    halved = _halved(splits, y, groups, seed)
    return [
        Fold((train, one[0], other[0]), held_out)
        for (train, held_out), one, other in zip(splits, halved[::2], halved[1::2], strict=True)
    ]


def _halved(splits: Sequence[Split], y: NDArray[Any], groups: Any, seed: int) -> list[Split]:
    with warnings.catch_warnings():
        # Of classes with one training row, which both halves get below.
        warnings.simplefilter("ignore", UserWarning)
        halved = halves(splits, y, groups, seed)
    if groups is None:
        trains = [train for train, _ in splits for _ in range(2)]
        halved = [
            (_with_single_rows(half, train, y), held_out)
            for train, (half, held_out) in zip(trains, halved, strict=True)
        ]
    for half, _ in halved:
        classes = np.unique(y[half])
        if len(classes) < 2:
            raise _TooFewError(
                "expected rows of two classes in each half of the training rows, got a half with "
                f"class {classes.tolist()[0]!r} alone."
            )
    return halved


def _with_single_rows(half: Ints, train: Ints, y: NDArray[Any]) -> Ints:
    """Add the rows of classes that have one training row alone; both halves need it."""
    labels, first, counts = np.unique(y[train], return_index=True, return_counts=True)
    return np.union1d(half, train[first[counts == 1]])


def fit_folds(
    estimator: Any,
    X: Any,
    y: NDArray[Any],
    folds: Sequence[Fold],
    classes: NDArray[Any],
    fit_params: dict[str, Any],
    n_jobs: Any,
) -> tuple[list[FoldModels], FoldScores]:
    """Fit the models of all folds, and score the rows that each fold holds out."""
    given = [(fold.held_out, train) for fold in folds for train in fold.train]
    fitted = Parallel(n_jobs=n_jobs)(
        delayed(_fitted_and_scored)(
            clone(estimator), X, y, train, held_out, classes, _rows_of(X, fit_params, train)
        )
        for held_out, train in given
    )
    models, scores = zip(*fitted, strict=True)
    each = range(0, len(models), 3)
    return (
        [FoldModels(models[i], (models[i + 1], models[i + 2])) for i in each],
        FoldScores(
            np.concatenate(scores[::3]),
            (np.concatenate(scores[1::3]), np.concatenate(scores[2::3])),
            np.concatenate([fold.held_out for fold in folds]),
        ),
    )


def scores_by_folds(
    models: Sequence[FoldModels], X: Any, classes: NDArray[Any], n_jobs: Any
) -> FoldScores:
    """Score rows that no model was fitted to."""
    every = [one for fold in models for one in (fold.model, *fold.halves)]
    scores = Parallel(n_jobs=n_jobs)(delayed(aligned_scores)(one, X, classes) for one in every)
    return FoldScores(
        np.concatenate(scores[::3]),
        (np.concatenate(scores[1::3]), np.concatenate(scores[2::3])),
        np.tile(np.arange(_num_samples(X)), len(models)),
    )


def aligned_scores(model: Any, X: Any, classes: NDArray[Any]) -> Floats:
    """Return the scores of a model as an array with a column for each of the classes."""
    scores, known = class_scores(model, X)
    if hasattr(scores, "detach"):
        scores = scores.detach().cpu().double().numpy()
    return align_classes(np.asarray(scores, dtype=np.float64), known, classes)


def _fitted_and_scored(
    model: Any,
    X: Any,
    y: NDArray[Any],
    train: Ints,
    held_out: Ints,
    classes: NDArray[Any],
    fit_params: dict[str, Any],
) -> tuple[Any, Floats]:
    rows, labels = _safe_split(model, X, y, train)
    model.fit(rows, labels, **fit_params)
    return model, aligned_scores(model, _safe_split(model, X, y, held_out, train)[0], classes)


def _rows_of(X: Any, fit_params: dict[str, Any], train: Ints) -> dict[str, Any]:
    found: dict[str, Any] = _check_method_params(X, fit_params, indices=train)
    return found
