"""For each fold, a model of the other folds, and two models of disjoint halves of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedGroupKFold, check_cv
from sklearn.utils.parallel import delayed

from pa_select.scores.class_scores import align_classes, class_scores
from pa_select.utils.fits import Parallel, Split, halves
from pa_select.utils.sklearn_private import _check_method_params, _num_samples, _safe_split
from pa_select.utils.typing import Array, CrossValidation, Estimator, Floats, Ints, Model, Rows


class Fold(NamedTuple):
    """The rows that the three models of a fold are fitted to, and those held out of all."""

    #: Training rows of the fold's model and of its two halves.
    train: tuple[Ints, Ints, Ints]
    held_out: Ints


class FoldModels(NamedTuple):
    """The fitted models of a fold."""

    model: Estimator
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
    cv: CrossValidation, X: Rows, y: Array, groups: Array | None, seed: int, params: dict[str, Any]
) -> list[Fold]:
    """Split the rows into folds, and the training rows of each into halves.

    Raises
    ------
    ValueError
        If a class has fewer rows than there are folds, there are too few groups for the folds
        and their halves, or half of some training rows has one class only.
    """
    cv = 5 if cv is None else cv
    if isinstance(cv, (int, np.integer)):
        cv = _numbered_folds(int(cv), y, groups, seed)
    splits = list(check_cv(cv, y, classifier=True).split(X, y, **params | {"groups": groups}))
    for train, held_out in splits:
        if not len(held_out):
            raise ValueError("cv: expected rows that each fold holds out, got a fold without.")
        n_groups = 2
        if groups is not None:
            n_groups = len(np.unique(groups[train]))
            if np.isin(groups[held_out], groups[train]).any():
                raise ValueError(
                    "cv: expected folds that divide no group, got one that does. Give a number, "
                    "or a splitter such as GroupKFold."
                )
        most = int(np.unique(y[train], return_counts=True)[1].max())
        if most < 2 or n_groups < 2:
            raise ValueError(
                f"{_divided(groups)}: expected at least two rows of a class and two groups "
                f"outside of each fold, to divide them into halves, got {most} and {n_groups}."
            )
    halved = _halved(splits, y, groups, seed)
    return [
        Fold((train, one[0], other[0]), held_out)
        for (train, held_out), one, other in zip(splits, halved[::2], halved[1::2], strict=True)
    ]


def _divided(groups: object) -> str:
    """Name the argument that is divided into folds and halves, for messages."""
    return "y" if groups is None else "groups"


def _numbered_folds(n_folds: int, y: Array, groups: Array | None, seed: int) -> CrossValidation:
    """Return the splitter for a number of folds."""
    if groups is None:
        fewest = int(np.unique(y, return_counts=True)[1].min())
        if fewest < n_folds:
            raise ValueError(
                f"y: expected at least {n_folds} rows of each class, one for each fold, got a "
                f"class of {fewest}."
            )
        return n_folds
    # Each fold holds out a group at least; the others are divided into two halves.
    least, n_groups = max(n_folds, 3), len(np.unique(groups))
    if n_groups < least:
        cure = f" Give a smaller cv, such as {n_groups}." if n_groups >= 3 else ""
        raise ValueError(
            f"groups: expected at least {least} groups, for {n_folds} folds and two halves of "
            f"their training rows, got {n_groups}.{cure}"
        )
    return StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed)


def _halved(splits: Sequence[Split], y: Array, groups: Array | None, seed: int) -> list[Split]:
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
            raise ValueError(
                f"{_divided(groups)}: expected rows of two classes in each half of the training "
                f"rows, got a half with class {classes.tolist()[0]!r} alone."
            )
    return halved


def _with_single_rows(half: Ints, train: Ints, y: Array) -> Ints:
    """Add the rows of classes that have one training row alone; both halves need it."""
    labels, first, counts = np.unique(y[train], return_index=True, return_counts=True)
    return np.union1d(half, train[first[counts == 1]])


def fit_folds(
    estimator: Estimator,
    X: Rows,
    y: Array,
    folds: Sequence[Fold],
    classes: Array,
    fit_params: dict[str, Any],
    n_jobs: int | None,
) -> tuple[list[FoldModels], FoldScores]:
    """Fit the models of all folds, and score the rows that each fold holds out."""
    fitted = Parallel(n_jobs=n_jobs)(
        delayed(_fitted_and_scored)(
            clone(estimator), X, y, train, fold.held_out, classes, fit_params
        )
        for fold in folds
        for train in fold.train
    )
    models, scores = zip(*fitted, strict=True)
    of_folds = zip(models[::3], models[1::3], models[2::3], strict=True)
    rows = np.concatenate([fold.held_out for fold in folds])
    return [FoldModels(model, (a, b)) for model, a, b in of_folds], _by_role(scores, rows)


def scores_by_folds(
    models: Sequence[FoldModels], X: Rows, classes: Array, n_jobs: int | None
) -> FoldScores:
    """Score rows that no model was fitted to."""
    every = [one for fold in models for one in (fold.model, *fold.halves)]
    scores = Parallel(n_jobs=n_jobs)(delayed(aligned_scores)(one, X, classes) for one in every)
    return _by_role(scores, np.tile(np.arange(_num_samples(X)), len(models)))


def _by_role(scores: Sequence[Floats], rows: Ints) -> FoldScores:
    """Join the scores of each fold's model, first half and second half, which take turns."""
    model, first, second = (np.concatenate(scores[i::3]) for i in range(3))
    return FoldScores(model, (first, second), rows)


def aligned_scores(model: Model, X: Rows, classes: Array) -> Floats:
    """Return the scores of a model as an array with a column for each of the classes."""
    scores, known = class_scores(model, X)
    if hasattr(scores, "detach"):
        scores = scores.detach().cpu().double().numpy()
    return align_classes(np.asarray(scores, dtype=np.float64), known, classes)


def _fitted_and_scored(
    model: Estimator,
    X: Rows,
    y: Array,
    train: Ints,
    held_out: Ints,
    classes: Array,
    fit_params: dict[str, Any],
) -> tuple[Any, Floats]:
    rows, labels = _safe_split(model, X, y, train)
    model.fit(rows, labels, **_check_method_params(X, fit_params, indices=train))
    return model, aligned_scores(model, _safe_split(model, X, y, held_out, train)[0], classes)
