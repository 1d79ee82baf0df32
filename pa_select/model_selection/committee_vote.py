"""The members of a committee: their shares of the vote, and how they are calibrated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from pa_select.model_selection.data import SAMPLE_X
from pa_select.scores.calibration import doubting_calibration
from pa_select.scores.candidate_posterior import CandidatePosterior
from pa_select.scores.class_scores import align_classes, calibrated, class_scores, columns_of
from pa_select.scores.precomputed import (
    Stacks,
    one_column,
)
from pa_select.utils.arrays import as_numpy
from pa_select.utils.typing import Array, Floats, Ints, Rows


class Members(NamedTuple):
    """The candidates that remain, their shares of the vote, and what calibrates their scores."""

    candidates: Ints
    shares: Floats
    #: The inverse temperature of each one's class scores, and the biases of the classes; nan: it
    #: votes by its class. None: they are regressors.
    betas: Floats | None = None
    biases: Floats | None = None


def members_of(posterior: CandidatePosterior, min_weight: float) -> Members:
    """Return the candidates that remain, and their shares of the vote."""
    weights = posterior.weights
    candidates = np.flatnonzero((weights > 0) & (weights >= min_weight * weights.max()))
    return Members(candidates, weights[candidates] / weights[candidates].sum())


def sum_of(votes: Iterable[Floats]) -> Floats:
    """Add votes one by one, since all of them together may not fit into memory."""
    return reduce(np.add, votes)


def vote(model: Any, X: Rows, beta: float, bias: Floats, classes: Array) -> Floats:
    """Return a member's probabilities of all classes, or its predicted classes as certain ones."""
    if np.isnan(beta):
        certain: Floats = (predicted_by(model, X)[:, None] == classes).astype(np.float64)
        return certain
    scores, known = class_scores(model, X)
    return calibrated(align_classes(as_numpy(scores), known, classes), beta, bias)


def predicted_by(model: Any, X: Rows) -> Array:
    """Return the classes or numbers that a member predicts; a torch module has only scores."""
    if hasattr(model, "predict"):
        return one_column(model.predict(X))
    scores, classes = class_scores(model, X)
    of_modules: Array = classes[as_numpy(scores).argmax(axis=1)]
    return of_modules


def towards_best(
    shares: Floats, best: int, predicted: Array, y: Array, weight: Floats | None = None
) -> Floats:
    """Move shares to the best member as far as this lowers the squared error of held-out rows.

    `predicted` are the members' predictions of these rows, (n_members, n_rows) or (n_members,
    n_rows, n_outputs). One number is fitted, the part of all shares that is moved.
    """
    mean = np.tensordot(shares, predicted, axes=1)
    step = predicted[best] - mean
    unit = np.abs(step).max() or 1.0  # squares may not be representable in that of the targets
    step, missed = step / unit, (y - mean) / unit
    weight = np.ones(len(y)) if weight is None else weight
    by_row = weight.reshape(-1, *[1] * (step.ndim - 1)) * step
    length = float(np.sum(by_row * step))
    part = np.clip(np.sum(by_row * missed) / length, 0, 1) if length > 0 else 0.0
    moved = (1 - part) * shares
    moved[best] += part
    return moved


def out_of_fold_scores(of_splits: Sequence[Any], classes: Array) -> Floats | None:
    """Join the class scores and classes of the models of all splits; None if one has none."""
    if any(one is None for one in of_splits):
        return None
    return np.concatenate([align_classes(matrix, known, classes) for matrix, known in of_splits])


def calibrations(
    scores: Sequence[Floats | None], y: Array, classes: Array, weight: Floats | None
) -> tuple[Floats, Floats]:
    """Return the inverse temperatures and biases of members; nan: one without class scores."""
    none, columns = (np.nan, np.zeros(len(classes))), columns_of(y, classes, "the committee")
    found = [
        none if one is None else doubting_calibration(one, columns, weight, len(scores) == 1)
        for one in scores
    ]
    return np.array([beta for beta, _ in found]), np.array([bias for _, bias in found])


def calibrated_members(
    members: Members,
    stacks: Stacks,
    scored_rows: Sequence[Mapping[int, Ints]],
    y: Array,
    weight: Any,
    without: Ints | None = None,
) -> Members:
    """Calibrate candidates of a search by their out-of-fold scores, perhaps without some rows."""
    rows = np.concatenate([of_split[SAMPLE_X] for of_split in scored_rows])
    kept = np.ones(len(rows), dtype=bool) if without is None else ~np.isin(rows, without)
    weight = None if weight is None else np.asarray(weight, dtype=np.float64)[rows][kept]
    scores: list[Floats | None] = [None] * len(members.candidates)
    for member, candidate in enumerate(members.candidates.tolist()):
        if candidate in stacks.candidates:
            position = int(np.searchsorted(stacks.candidates, candidate))
            of_splits = [stacks.matrix(position, i, SAMPLE_X) for i in range(len(scored_rows))]
            scores[member] = np.concatenate(of_splits)[kept]
    return Members(*members[:2], *calibrations(scores, y[rows][kept], stacks.classes, weight))
