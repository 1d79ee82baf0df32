"""The votes of a committee: of its members, how they are calibrated, and out of fold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.utils.parallel import delayed

from pa_select.model_selection.data import SAMPLE_X, Given, Split
from pa_select.scores.candidate_posterior import CandidatePosterior
from pa_select.scores.class_scores import align_classes, calibrated, class_scores, columns_of
from pa_select.scores.precomputed import (
    RecordedClassifier,
    RecordedRegressor,
    Stacks,
    one_column,
    row_numbers,
)
from pa_select.utils.arrays import as_numpy
from pa_select.utils.messages import parallel, warn_caller
from pa_select.utils.sklearn_private import Callbacks, _check_method_params, _safe_split
from pa_select.utils.typing import Array, Floats, Ints, Rows, Scorer

# The least probability, of which the log is taken.
_LEAST = 1e-12


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
        predicted = one_column(model.predict(X))
        certain: Floats = (predicted[:, None] == classes).astype(np.float64)
        return certain
    scores, known = class_scores(model, X)
    return calibrated(align_classes(as_numpy(scores), known, classes), beta, bias)


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


def fit_members(
    models: Sequence[Any],
    splits: Sequence[Split],
    of_folds: bool,
    predicts: bool,
    data: tuple[Rows, Any],
    fit_params: dict[str, Any],
    n_jobs: int | None,
    verbose: int,
    callbacks: Callbacks,
) -> tuple[list[Any], list[list[Any]], int]:
    """Return the fitted models, what those of all splits predict out of fold, and how many fits.

    Models are fitted to all rows, or `of_folds` to those of each split. ``predicts``: whether
    their outputs for test rows are needed, for which they are fitted to the splits, too.
    """
    (X, y), every = data, [(None, None)]
    rows = [*(splits if of_folds or predicts else []), *([] if of_folds else every)]
    jobs = [(model, *split) for model in models for split in rows]
    part = callbacks.subtask("refit-members", max_subtasks=len(jobs), sequential_subtasks=False)
    part.begin(X, y)
    parts = [part.subtask("refit", task_id=i).of_worker() for i in range(len(jobs))]
    both: Iterable[Any] = list(zip(jobs, parts, strict=True))
    if verbose == 1:
        from tqdm.auto import tqdm

        both = tqdm(both, unit=" fits")
    work = (
        delayed(_fit_member)(*job, (X, y), fit_params, of_folds, predicts, callback)
        for job, callback in both
    )
    fits = list(parallel(work, n_jobs=n_jobs))
    part.end(X, y)
    by_model = [fits[start : start + len(rows)] for start in range(0, len(fits), len(rows))]
    outputs = [[output for _, output in of_model][: len(splits)] for of_model in by_model]
    return [model for model, _ in fits if model is not None], outputs, len(jobs)


def _fit_member(
    model: Any,
    train: Ints | None,
    test: Ints | None,
    data: tuple[Rows, Any],
    fit_params: dict[str, Any],
    of_folds: bool,
    predicts: bool,
    callback: dict[str, Any],
) -> tuple[Any, Any]:
    """Fit a model to some rows, or to all; return it if it is kept, and what it predicts.

    `callback` has the context that is told of it, and whose fit it is part of.
    """
    model, (X, y) = clone(model), data
    rows, labels = X, y
    if train is not None:
        fit_params = _check_method_params(X, params=fit_params, indices=train)
        rows, labels = _safe_split(model, X, y, train)
    if callback:
        context, caller = callback["callback_ctx"], callback["caller"]
        with context.propagate_callback_context(model):
            context.call_on_fit_task_begin(estimator=caller)
            model.fit(rows, labels, **fit_params)
        context.call_on_fit_task_end(estimator=caller)
    else:
        model.fit(rows, labels, **fit_params)
    outputs: Any = None
    if predicts and train is not None:
        tested, _ = _safe_split(model, X, None, test, train)
        if is_regressor(model):
            outputs = one_column(model.predict(tested))
        else:
            try:
                scores, classes = class_scores(model, tested)
                outputs = as_numpy(scores), classes
            except TypeError:  # it has neither probabilities nor a decision function
                pass
    return (model if of_folds or train is None else None), outputs


def out_of_fold_scores(of_splits: Sequence[Any], classes: Array) -> Floats | None:
    """Join the class scores and classes of the models of all splits; None if one has none."""
    if any(one is None for one in of_splits):
        return None
    return np.concatenate([align_classes(matrix, known, classes) for matrix, known in of_splits])


def calibrations(
    scores: Sequence[Floats | None], y: Array, classes: Array, weight: Floats | None
) -> tuple[Floats, Floats]:
    """Return the inverse temperatures and biases of members; nan: one without class scores."""
    from pa_select.two_sites.classification import doubting_calibration

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


@dataclass(frozen=True)
class CommitteeVote:
    """The votes of a committee, as those of one more candidate after those that are stacked.

    What votes on the rows of a split, its members, their shares and their calibrations, is made
    of the other test folds alone: the rows that judge it have no say in it.
    """

    stacks: Stacks
    #: The numbers of the committee's members among all candidates.
    candidates: Ints
    #: What votes on the rows of each split.
    members: Sequence[Members]
    #: For each split, the rows of each sample that its models score, and its test rows.
    scored_rows: Sequence[Mapping[int, Ints]]
    folds: Sequence[Ints]
    #: The labels of all rows.
    y: Array
    #: By sample, the sample whose rows each candidate predicts instead.
    judged: Mapping[int, Array] = field(default_factory=dict)

    @classmethod
    def cross_fitted(
        cls,
        stacks: Stacks,
        candidates: Ints,
        scored_rows: Sequence[Mapping[int, Ints]],
        folds: Sequence[Ints],
        y: Array,
        weight: Any,
        members_without: Callable[[Ints], Members],
    ) -> CommitteeVote | None:
        """Make the vote on each split from the other folds; None without all class scores.

        ``members_without`` returns the members and shares of the folds without some rows.
        """
        found: dict[bytes, Members] = {}
        for fold in folds:  # several models may have the same test rows
            if fold.tobytes() not in found:
                members = members_without(fold)
                if not np.isin(members.candidates, stacks.candidates).all():
                    return None
                if len(stacks.classes):  # they are classifiers
                    members = calibrated_members(members, stacks, scored_rows, y, weight, fold)
                found[fold.tobytes()] = members
        of_splits = [found[fold.tobytes()] for fold in folds]
        return cls(stacks, candidates, of_splits, scored_rows, folds, y)

    def __len__(self) -> int:
        return len(self.stacks) + 1

    def as_judged(self, judged: Mapping[int, Array]) -> CommitteeVote:
        """Return the votes of which some samples stand for a sample of each candidate's own."""
        return replace(self, judged=judged)

    def outputs(self, model: int, sample: int) -> list[RecordedClassifier | RecordedRegressor]:
        """Return what each split's model predicts for a sample's rows; the last is the vote."""
        if model < len(self.stacks):
            own = self._sample(sample, int(self.stacks.candidates[model]))
            return self.stacks.outputs(model, own)
        return [self._voted(split, sample) for split in range(len(self.folds))]

    def _voted(self, split: int, sample: int) -> RecordedClassifier | RecordedRegressor:
        """Return the votes of a split's models for the rows of a sample."""
        candidates, shares, betas, biases = self.members[split]
        positions = np.searchsorted(self.stacks.candidates, candidates)
        of_members = [
            (int(position), split, self._sample(sample, candidate))
            for position, candidate in zip(positions, candidates.tolist(), strict=True)
        ]
        if betas is None or biases is None:
            predictions = [self.stacks.recorded(*one).predicted for one in of_members]
            return RecordedRegressor(np.einsum("m,mn->n", shares, predictions))
        mixed = sum_of(
            share * calibrated(self.stacks.matrix(*one), beta, bias)
            for share, beta, bias, one in zip(shares, betas, biases, of_members, strict=True)
        )
        classes = self.stacks.classes
        scores = np.log(np.maximum(mixed, _LEAST))
        return RecordedClassifier(classes, scores, classes[mixed.argmax(axis=1)], mixed)

    def _sample(self, sample: int, candidate: int) -> int:
        return int(self.judged[sample][candidate]) if sample in self.judged else sample

    def scores(self, scorer: Scorer, metric: str, weight: Array | None = None) -> Floats:
        """Return the metric of the votes for each split's test rows; weights are of all rows."""
        scores = []
        for split, test in enumerate(self.folds):
            known = self._voted(split, SAMPLE_X)
            rows = np.searchsorted(self.scored_rows[split][SAMPLE_X], test)
            given = {} if weight is None else {"sample_weight": weight[test]}
            score = scorer(known, row_numbers(rows), self.y[test], **given)
            scores.append(float(score[metric] if isinstance(score, Mapping) else score))
        return np.array(scores)

    def mean_score(self, committee: Any, given: Given) -> float:
        """Return the mean score over the splits; nan if the scorer needs more than predictions."""
        metric = committee.metric_
        try:
            scores = self.scores(committee.scorer_, metric, given.score_weight(metric))
        except Exception as error:
            warn_caller(
                "scoring: expected a scorer of predictions, got one that cannot score those "
                f"of a committee's fold models; committee_score_ is nan ({error})."
            )
            return np.nan
        return float(scores.mean())
