"""The posterior over candidates, from what they score on parts of the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from pa_select.scores.precomputed import row_numbers
from pa_select.utils.typing import Array, Floats, Ints, Mask, Scorer

# Few labelled rows are divided into so many folds, so many times.
_FOLDS, _REPETITIONS = 5, 10
# Sites or paired objects are halved so many times.
_HALVINGS = 10
# Scores of a part that differ by no more than this, relative to the larger one, are equal: sums
# of the same numbers in another order differ by rounding.
_ROUNDING = 1e-12
# A candidate that is so many times further below the best one than the next one has no weight.
_HOPELESS = 1e12


@dataclass(frozen=True, eq=False, repr=False)
class CandidatePosterior:
    """The posterior over the candidates of a search, as `candidate_posterior` returns it.

    Attributes
    ----------
    weights : ndarray of shape (n_candidates_in_search,)
        The posterior of each candidate, which sums to 1: the mean of its Gibbs posteriors over all
        parts at `beta`. It is 0 without a score in every part.
    score : float
        The agreement over the candidates in nats, in [0, log(n_candidates)]: how much two parts
        of the data agree on about which candidate is best. Its exponential is the number of
        candidates that the data can tell apart.
    beta : float
        The inverse temperature of the maximum, in [0, inf], for costs as in `scores_a`. 0: the
        parts contradict each other, or all candidates are alike, and the weights are equal. inf:
        all parts name one best candidate.
    n_effective : float
        The number of candidates that remain, one over the sum of the squared weights, in
        [1, n_candidates].
    n_candidates : int
        The number of candidates with a score in every part.
    n_pairs : int
        The number of pairs of parts.
    scores_a, scores_b : ndarray of shape (n_pairs, n_candidates_in_search)
        What each candidate scores on the two parts of each pair, summed over the part's rows.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select import candidate_posterior
    >>> right = np.array([[9.0, 8.0, 2.0], [8.0, 9.0, 3.0]])  # of ten rows, by three candidates
    >>> posterior = candidate_posterior(right, right[::-1])
    >>> posterior
    CandidatePosterior(0.3 of 1.1 nats: 2.1 of 3 candidates remain)
    >>> posterior.weights.round(2)
    array([0.49, 0.49, 0.02])
    """

    weights: Floats
    score: float
    beta: float
    n_effective: float
    n_candidates: int
    n_pairs: int
    scores_a: Floats = field(repr=False)
    scores_b: Floats = field(repr=False)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_words()})"

    def in_words(self) -> str:
        """Say how much of the largest agreement was found, and how many candidates remain.

        Returns
        -------
        str
        """
        most = np.log(self.n_candidates)
        remain = "candidate remains" if self.n_candidates == 1 else "candidates remain"
        return (
            f"{self.score:.1f} of {most:.1f} nats: {self.n_effective:.1f} of {self.n_candidates} "
            f"{remain}"
        )


def posterior_of_parts(scores_a: Floats, scores_b: Floats) -> CandidatePosterior:
    """Compute the posterior from what candidates score on the two parts of each pair."""
    from pa_select.agreement.pooled_agreement import PooledPairs, pooled_agreement

    if scores_a.shape != scores_b.shape:
        raise ValueError(
            f"metric: expected scores of the shape {scores_a.shape} of the other parts, got "
            f"{scores_b.shape}."
        )
    n_pairs, n_all = scores_a.shape
    known = np.isfinite(scores_a).all(0) & np.isfinite(scores_b).all(0)
    n = int(known.sum())
    if not n_pairs or not n:
        raise ValueError(
            "results: expected a pair of parts, and a candidate with a finite score in all of "
            f"them, got {n_pairs} pairs and {n_all} candidates, {n} of which have all scores."
        )
    weights, score, beta = np.zeros(n_all), 0.0, 0.0
    below = [_below_best(side[:, known]) for side in (scores_a, scores_b)]
    if not any(side.any() for side in below):  # no part tells any two candidates apart
        weights[known] = 1 / n
    else:
        both, rows = _without_extremes(np.concatenate(below)), np.arange(n_pairs)
        unit = -float(both.min())
        model, weight = np.zeros_like(rows), np.ones(n_pairs)
        pairs = PooledPairs(rows, rows + n_pairs, model, model, rows, rows, weight)
        result = next(pooled_agreement([both / unit], pairs, prior="uniform"))
        if result.failure is not None:
            raise RuntimeError(f"results: {result.failure}")
        score, beta = result.score, result.beta / unit
        # At inf the best candidates of a part share its weight.
        posteriors = (both == 0) * 1.0 if beta == np.inf else np.exp(beta * both)
        weights[known] = (posteriors / posteriors.sum(axis=1, keepdims=True)).mean(axis=0)
    remain = 1 / float(weights @ weights)
    return CandidatePosterior(weights, score, beta, remain, n, n_pairs, scores_a, scores_b)


def _below_best(scores: Floats) -> Floats:
    """Return how far each candidate is below the best one of each part; rounding counts as 0."""
    best = scores.max(axis=1, keepdims=True)
    below = scores - best
    below[below >= -_ROUNDING * np.maximum(np.abs(scores), np.abs(best))] = 0.0
    return below


def _without_extremes(below: Floats) -> Floats:
    """Bring candidates that are hopelessly far below nearer, where they have no weight either.

    Beside them the differences of all others would be as small as rounding.
    """
    gaps = np.where(below < 0, -below, np.inf).min(axis=1)
    return np.maximum(below, -_HOPELESS * float(np.median(gaps[np.isfinite(gaps)])))


def pairs_of_folds(folds: Sequence[Ints]) -> list[tuple[int, int]]:
    """Pair the test folds of each repetition; one begins where a row is tested again."""
    pairs: list[tuple[int, int]] = []
    repetition: list[int] = []
    tested = np.zeros(1 + max((int(fold.max(initial=0)) for fold in folds), default=0), dtype=bool)
    for number, fold in enumerate(folds):
        if tested[fold].any():
            pairs += combinations(repetition, 2)
            repetition = []
            tested[:] = False
        repetition.append(number)
        tested[fold] = True
    return pairs + list(combinations(repetition, 2))


def scores_of_pairs(by_fold: Floats, folds: Sequence[Ints]) -> tuple[Floats, Floats]:
    """Return the scores on both parts of all pairs of folds, summed over the rows of each.

    `by_fold` has the mean scores, (n_folds, n_candidates).
    """
    pairs = np.array(pairs_of_folds(folds), dtype=np.intp).reshape(-1, 2)
    summed = by_fold * np.array([len(fold) for fold in folds], dtype=np.float64)[:, None]
    return summed[pairs[:, 0]], summed[pairs[:, 1]]


def halves_of(n: int, seed: int) -> list[tuple[Mask, Mask]]:
    """Return random halves of n things and the other halves; the same for the same n and seed."""
    rng = np.random.default_rng(seed)
    halves = [rng.permutation(n) < n // 2 for _ in range(_HALVINGS)]
    return [(half, ~half) for half in halves]


def scores_of_halves(
    folds: Sequence[Ints], halves: Iterable[Sequence[Any]], score: Callable[[int, Any], Floats]
) -> tuple[Floats, Floats]:
    """Return the scores on pairs of parts that share neither rows nor what is halved.

    Each part is a fold with one half of something else, such as sites or paired objects; ``score``
    takes the number of a fold and a half, and returns the scores of all candidates. `halves` are
    pairs of disjoint halves.
    """
    both = [
        (score(i, half), score(j, other))
        for half, other in halves
        for i, j in pairs_of_folds(folds)
    ]
    a, b = (np.stack(side) for side in zip(*both, strict=True))
    return a, b


def scores_of_changes(
    folds: Sequence[Ints], expected: Floats, of_rows: Floats, halves: Iterable[Sequence[Floats]]
) -> tuple[Floats, Floats]:
    """Return the expected scores from folds of the labelled rows with halves of the pairs.

    A part's expected score is that of all data, plus what its rows and its pairs change in it, to
    first order. `of_rows` has what the rows of each fold change, (n_folds, n_candidates), and
    `halves` what the pairs of two disjoint halves do.
    """

    def score(fold: int, of_half: Floats) -> Floats:
        return len(folds[fold]) * (expected + of_rows[fold] + of_half)

    return scores_of_halves(folds, halves, score)


def random_folds(n: int) -> list[Ints]:
    """Return random folds of n rows on which trained models are scored, in several repetitions."""
    return [
        test
        for seed in range(_REPETITIONS)
        for _, test in KFold(min(_FOLDS, n), shuffle=True, random_state=seed).split(np.empty(n))
    ]


def scores_of_folds(
    scorer: Scorer, outputs: Sequence[Any], y: Array, folds: Sequence[Ints]
) -> Floats:
    """Return what recorded models score on folds of the rows, (n_folds, n_models)."""
    return np.array(
        [[scorer(one, row_numbers(rows), y[rows]) for one in outputs] for rows in folds]
    )
