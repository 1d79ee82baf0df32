"""The votes of a committee: of one model, and of fold models on held-out rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import brentq

from pa_select.model_selection.data import SAMPLE_X, Given, Split, folds_of
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
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Array, Floats, Ints, Rows, Scorer

#: For each split, the rows of each sample that its models score.
ScoredRows: TypeAlias = Sequence[Mapping[int, Ints]]
# The least probability, of which the log is taken.
_LEAST = 1e-12
# At this share of a usual inverse temperature all classes are about equally probable.
_LOWEST = 1e-9


class Members(NamedTuple):
    """The candidates that remain, their shares of the vote, and their temperatures."""

    candidates: Ints
    shares: Floats
    #: The inverse temperature of each one's class scores; nan: it votes by its class. None: they
    #: are regressors.
    betas: Floats | None


def sum_of(votes: Iterable[Floats]) -> Floats:
    """Add votes one by one, since all of them together may not fit into memory."""
    return reduce(np.add, votes)


def vote(model: Any, X: Rows, beta: float, classes: Array) -> Floats:
    """Return a member's probabilities of all classes, or its predicted classes as certain ones."""
    if np.isnan(beta):
        predicted = one_column(model.predict(X))
        certain: Floats = (predicted[:, None] == classes).astype(np.float64)
        return certain
    scores, known = class_scores(model, X)
    return calibrated(align_classes(as_numpy(scores), known, classes), beta)


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


def beta_of(scores: Array, y: Array, classes: Array, weight: Floats | None = None) -> float:
    """Return the inverse temperature at which labelled rows are most likely.

    It is lower where the votes would be more certain than n rows without an error can show: with
    one more row whose label says nothing, the mean probability of the best class is at most
    1 - (1 - 1 / n_classes) / (n + 1). Otherwise the votes of a model without an error are 0 or 1.
    """
    from pa_select.two_sites.classification import calibrating_beta

    beta = calibrating_beta(scores, columns_of(y, classes, "the committee"), weight)
    weight = np.ones(len(scores)) if weight is None else weight
    doubt = (1 - 1 / scores.shape[1]) / (1 + np.count_nonzero(weight))
    # Rows whose best classes tie are in doubt at any temperature.
    tied = 1 / (scores == scores.max(axis=1, keepdims=True)).sum(axis=1)

    def too_sure(beta: float) -> float:
        best = calibrated(scores, beta).max(axis=1)
        return doubt - float(np.average(tied - best, weights=weight))

    if beta == 0 or too_sure(beta) <= 0:
        return beta
    known = scores[np.isfinite(scores).all(axis=1)]
    highest = min(beta, 1 / (float(np.ptp(known)) if known.size and np.ptp(known) else 1.0))
    lowest = _LOWEST * highest
    if too_sure(lowest) >= 0:  # scores of -inf leave no doubt at any temperature
        return beta
    while too_sure(highest) < 0:
        highest *= 2
    return float(brentq(too_sure, lowest, highest, xtol=1e-300, rtol=1e-14))


def betas_of_members(
    scores: Sequence[Any], splits: Sequence[Split], y: Array, classes: Array, weight: Any
) -> Floats:
    """Return the temperatures of members; `scores` are of each member's models, by split."""
    rows, weight = _held_out(splits, weight)
    betas = []
    for start in range(0, len(scores), len(splits)):
        of_member = scores[start : start + len(splits)]
        if any(one is None for one in of_member):
            betas.append(np.nan)
            continue
        aligned = [align_classes(matrix, known, classes) for matrix, known in of_member]
        betas.append(beta_of(np.concatenate(aligned), y[rows], classes, weight))
    return np.array(betas)


def best_of(posterior: CandidatePosterior) -> int:
    """Return the candidate with the best score in all parts together."""
    scores = posterior.scores_a.sum(axis=0) + posterior.scores_b.sum(axis=0)
    return int(np.where(np.isfinite(scores), scores, -np.inf).argmax())


def shares_of_regressors(
    shares: Floats,
    best: int,
    predicted: Sequence[Array],
    splits: Sequence[Split],
    y: Array,
    weight: Any,
) -> Floats:
    """Return the shares of regressors; `predicted` are of each member's models, by split."""
    (rows, weight), n = _held_out(splits, weight), len(splits)
    of_members = [
        np.concatenate(predicted[start : start + n]) for start in range(0, len(predicted), n)
    ]
    return towards_best(shares, best, np.array(of_members), y[rows], weight)


def _held_out(splits: Sequence[Split], weight: Any) -> tuple[Ints, Floats | None]:
    """Return the rows that the splits hold out, in their order, with their weights."""
    rows = np.concatenate(folds_of(splits))
    return rows, None if weight is None else np.asarray(weight, dtype=np.float64)[rows]


def temperatures(
    stacks: Stacks, scored_rows: ScoredRows, given: Given, candidates: Ints
) -> Floats:
    """Return the inverse temperatures that fit candidates' scores of labelled rows best.

    nan: a candidate that has no class scores.
    """
    rows = [of_split[SAMPLE_X] for of_split in scored_rows]
    every = np.concatenate(rows)
    weight = None if given.weight is None else given.weight[every]
    betas = np.full(len(candidates), np.nan)
    for member, candidate in enumerate(candidates.tolist()):
        if candidate in stacks.candidates:
            position = int(np.searchsorted(stacks.candidates, candidate))
            scores = [stacks.matrix(position, split, SAMPLE_X) for split in range(len(rows))]
            betas[member] = beta_of(np.concatenate(scores), given.y[every], stacks.classes, weight)
    return betas


def vote_of(
    committee: Any,
    stacks: Stacks,
    scored_rows: ScoredRows,
    splits: Sequence[Split],
    given: Given,
) -> CommitteeVote | None:
    """Return the votes of a committee's fold models; None if a member has no class scores."""
    members = committee._members
    if not np.isin(members.candidates, stacks.candidates).all():
        return None
    folds = [test for _, test in splits]
    return CommitteeVote(stacks, *members, scored_rows, folds, given.y)


@dataclass(frozen=True)
class CommitteeVote:
    """The votes of a committee, as those of one more candidate after those that are stacked."""

    stacks: Stacks
    #: The members' numbers among all candidates, their shares of the vote and, of classifiers,
    #: their inverse temperatures.
    candidates: Ints
    shares: Floats
    betas: Floats | None
    #: For each split, the rows of each sample that its models score, and its test rows.
    scored_rows: ScoredRows
    folds: Sequence[Ints]
    #: The labels of all rows.
    y: Array
    #: By sample, the sample whose rows each candidate predicts instead.
    judged: Mapping[int, Array] = field(default_factory=dict)

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
        positions = np.searchsorted(self.stacks.candidates, self.candidates)
        of_members = [
            (int(position), split, self._sample(sample, candidate))
            for position, candidate in zip(positions, self.candidates.tolist(), strict=True)
        ]
        if self.betas is None:
            predictions = [self.stacks.recorded(*one).predicted for one in of_members]
            return RecordedRegressor(np.einsum("m,mn->n", self.shares, predictions))
        mixed = sum_of(
            share * calibrated(self.stacks.matrix(*one), beta)
            for share, beta, one in zip(self.shares, self.betas, of_members, strict=True)
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
