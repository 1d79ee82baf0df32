"""The accuracies of models on all rows, from the labels of rows that were drawn one by one."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from scipy.special import entr
from scipy.stats import t as student

from pa_select.model_selection.committee import PACommittee
from pa_select.scores.precomputed import RecordedClassifier, row_numbers
from pa_select.utils.typing import Array, Floats, Ints

# For the committee's own accuracy the labels are divided into so many folds.
_FOLDS = 5
# Entropies of votes below this are rounding.
_ROUNDING = 1e-9


def draw_rows(
    said: Array, labelled: Ints, n: int, weights: Floats | None, random: np.random.RandomState
) -> dict[int, float]:
    """Draw rows one by one from those without a label; return each one's probability.

    `said` are the classes that the models predict, (n_models, n_rows). If the models have weights,
    half of the probability is proportional to the entropy of their votes, the other half is equal
    for all rows. A smaller half for chance would spoil the estimates.
    """
    free, doubt, drawn = np.ones(said.shape[1]), np.zeros(said.shape[1]), {}
    free[labelled] = 0
    if weights is not None:
        doubt = np.sum([entr(weights @ (said == label)) for label in np.unique(said)], axis=0)
        doubt[doubt < _ROUNDING] = 0
    for _ in range(min(n, int(free.sum()))):
        p, doubt = free / free.sum(), doubt * free
        if doubt.any():
            p = (p + doubt / doubt.sum()) / 2
        row = int(random.choice(len(p), p=p))
        drawn[row], free[row] = float(p[row]), 0
    return drawn


def estimates(
    models: Sequence[RecordedClassifier], rows: Ints, labels: Array, probabilities: Floats
) -> tuple[PACommittee, Floats]:
    """Return the committee, and the accuracies of the models and of the committee.

    `probabilities` are those of the labelled rows when they were drawn; rows of nan are neither
    drawn nor among the rows that the accuracies are of. The accuracies have standard errors and
    intervals, (n_models + 1, 4); all are nan if no row was drawn.
    """
    said = np.array([one.predicted for one in models])
    committee, votes = _vote(models, rows, labels)
    columns = np.searchsorted(committee.classes_, said).T
    guesses = np.take_along_axis(votes, columns, axis=1).T
    drawn = np.isfinite(probabilities)
    pool = np.setdiff1d(np.arange(len(votes)), rows[~drawn])
    if not drawn.any():
        return committee, np.full((len(models) + 1, 4), np.nan)
    # The committee knows all labels, so that its own hits are those of committees of the other
    # four fifths. Rows are in the order of their draws, so that each fifth is a random part.
    fold, mean, (hits, sure) = np.arange(len(rows)) % _FOLDS, 0.0, np.zeros((2, len(rows)))
    for held_out in (fold == number for number in np.unique(fold[drawn])):
        with warnings.catch_warnings():  # the committee of all labels has warned
            warnings.simplefilter("ignore")
            others, votes = _vote(models, rows[~held_out], labels[~held_out])
        best = votes.argmax(axis=1)[rows[held_out]]
        hits[held_out] = others.classes_[best] == labels[held_out]
        sure[held_out] = votes.max(axis=1)[rows[held_out]]
        mean += votes.max(axis=1)[pool].mean() * drawn[held_out].sum() / drawn.sum()
    return committee, accuracies(
        np.vstack([said[:, rows] == labels, hits])[:, drawn],
        np.vstack([guesses[:, rows], sure])[:, drawn],
        np.append(guesses[:, pool].mean(axis=1), mean),
        draw_weights(probabilities[drawn], len(pool)),
        # The committee of all labels is another one than those that are judged, so that its error
        # stays where all rows are labelled.
        np.append(np.full(len(models), float(len(pool))), np.inf),
    )


def _vote(
    models: Sequence[RecordedClassifier], rows: Ints, labels: Array
) -> tuple[PACommittee, Floats]:
    """Return the committee of these labels, and its probabilities of all rows."""
    committee = PACommittee.from_models(models, row_numbers(rows), labels)
    return committee, committee.predict_proba(row_numbers(np.arange(len(models[0].predicted))))


def draw_weights(probabilities: Floats, n_rows: int) -> Floats:
    """Return weights with which the mean over drawn rows is unbiased for all rows.

    `probabilities` are those of each row when it was drawn from the rows that were left (Farquhar,
    Gal and Rainforth 2021).
    """
    n, left = len(probabilities), n_rows - np.arange(len(probabilities))
    return 1 + (n_rows - n) / np.maximum(left - 1, 1) * (1 / (left * probabilities) - 1)


def accuracies(
    hits: Floats, guesses: Floats, means: Floats, weights: Floats, n_rows: float | Floats
) -> Floats:
    """Return accuracies, standard errors and 95 % intervals, (n_models, 4).

    `hits` and guesses of them are of the drawn rows, (n_models, n), with the weights of these
    rows; `means` are those of the guesses over all rows (Angelopoulos et al. 2023), of which there
    are `n_rows`, or that number for each model.
    """
    n, total = hits.shape[1], weights.sum()
    h, g = (x - (x @ weights / total)[:, None] for x in (hits, guesses))
    length = g**2 @ weights
    part = np.clip((h * g) @ weights / np.where(length > 0, length, 1.0), 0, 1)[:, None]
    rest, known = weights * (hits - part * guesses), part * means[:, None]
    score = rest.mean(axis=1) + known[:, 0]
    # With one right and one wrong row more, few rows without an error are no certainty.
    spread = np.hstack([rest, 1 - known, -known]).std(axis=1, ddof=1)
    error = spread * np.sqrt((1 - n / n_rows) / n)
    half = student.ppf(0.975, max(n - 1, 1)) * error
    return np.column_stack([score, error, (score - half).clip(0, 1), (score + half).clip(0, 1)])
