"""The posterior over candidates, from what they score on parts of the data."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from math import comb
from typing import Any

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning

from pa_select.scores.means_of_rows import means_of_folds, values_of_rows
from pa_select.scores.precomputed import (
    RecordedRegressor,
    content_of,
    content_order,
    row_numbers,
)
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Array, Floats, Ints, Mask, Scorer

# Few labelled rows are divided into so many folds, again and again until there are so many pairs.
_FOLDS = 5
_FEW_PAIRS, _SEVERAL_PAIRS, _MANY_PAIRS = 100, 500, 10_000
# The folds of a repetition are halved so many times at most, and sites so many times.
_HALVINGS, _HALVINGS_OF_SITES = 10, 130
# Each pair of parts has so many halvings of the paired objects of its own, and all of them have so
# many together: with fewer the weights of few candidates would depend on which ones are drawn.
# Many candidates have small weights, and so many scores are enough.
_FEWEST_HALVINGS, _MOST_IN_ALL, _MOST_SCORES = 10, 5_000, 200_000
# Folds of fewer rows than this in the mean are joined to halves.
_FEWEST_ROWS = 5
# Scores of a part that differ by no more than this, relative to the larger one, are equal: sums
# of the same numbers in another order differ by rounding.
_ROUNDING = 1e-12
# The maximum is certified within this, in nats. Up to so many scores numpy is faster than torch.
_TOL, _FEW_SCORES = 1e-6, 1 << 15
# A candidate that is so many times further below the best one than the next one has no weight.
_HOPELESS = 1e12

#: The numbers of the folds that make a part of the labelled rows.
Part = tuple[int, ...]


@dataclass(frozen=True, eq=False, repr=False)
class CandidatePosterior:
    """The posterior over the candidates of a search, as `candidate_posterior` returns it.

    Attributes
    ----------
    weights : ndarray of shape (n_candidates_in_search,)
        The posterior of each candidate, which sums to 1: the mean of its Gibbs posteriors over all
        parts at `beta`. It is 0 without a score in every part.
    score : float
        The agreement over the candidates in nats, in [0, log(n_candidates)]. Its exponential is
        the number of candidates that the data can tell apart.
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
            "results: expected two parts of the rows to compare, and a candidate with a finite "
            f"score in every part, got {n_pairs} pairs of parts, and {n} such candidates of "
            f"{n_all}. A search with error_score='raise' says why a score is nan."
        )
    weights, score, beta = np.zeros(n_all), 0.0, 0.0
    below = [_below_best(side[:, known]) for side in (scores_a, scores_b)]
    if not any(side.any() for side in below):  # no part tells any two candidates apart
        weights[known] = 1 / n
    else:
        both = _without_extremes(np.concatenate(below))
        unit = -float(both.min())
        score, beta = _certified(both / unit, n_pairs)
        beta /= unit
        # At inf the best candidates of a part share its weight.
        posteriors = (both == 0) * 1.0 if beta == np.inf else np.exp(beta * both)
        weights[known] = (posteriors / posteriors.sum(axis=1, keepdims=True)).mean(axis=0)
    remain = 1 / float(weights @ weights)
    return CandidatePosterior(weights, score, beta, remain, n, n_pairs, scores_a, scores_b)


def _certified(both: Floats, n_pairs: int) -> tuple[float, float]:
    """Return the agreement of the first rows with the others, and its inverse temperature."""
    # Imported here: a committee of a few candidates does not wait for torch.
    if both.size <= _FEW_SCORES:
        from pa_select.solver.few_pairs import maximum_of_few

        found = maximum_of_few(both[:n_pairs], both[n_pairs:], _TOL)
        if found.exhausted:
            raise RuntimeError(
                "results: the agreement over the candidates could not be certified: its maximum "
                f"is known to {found.upper_bound[0] - found.value[0]:.2g} nats."
            )
        return float(found.value[0]), float(found.beta[0])
    from pa_select.agreement.solved_problems import PooledPairs, pooled_agreement

    rows = np.arange(n_pairs)
    model, weight = np.zeros_like(rows), np.ones(n_pairs)
    pairs = PooledPairs(rows, rows + n_pairs, model, model, rows, rows, weight)
    [result] = next(pooled_agreement([both], pairs, ["uniform"], tol=_TOL))
    if result.failure is not None:
        raise RuntimeError(f"results: {result.failure}")
    return result.score, result.beta


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


def repetitions_of(folds: Sequence[Ints]) -> list[list[int]]:
    """Number the test folds of each repetition; one begins where a row is tested again."""
    repetitions: list[list[int]] = []
    tested = np.zeros(1 + max((int(fold.max(initial=0)) for fold in folds), default=0), dtype=bool)
    for number, fold in enumerate(folds):
        if not repetitions or tested[fold].any():
            repetitions.append([])
            tested[:] = False
        repetitions[-1].append(number)
        tested[fold] = True
    return repetitions


def folds_without(folds: Sequence[Ints], rows: Ints | None) -> list[Ints]:
    """Return test folds, empty ones in place of those with some of the rows."""
    if rows is None:
        return list(folds)
    return [fold[:0] if np.isin(fold, rows).any() else fold for fold in folds]


def pairs_of_parts(
    folds: Sequence[Ints], of_regressors: bool, parts: str | None = None
) -> list[tuple[Part, Part]]:
    """Return the folds of both parts of each pair, all of one repetition.

    Parts are single folds, of which empty ones are left out. They are the halves of a repetition
    where single folds contradict each other by chance: those of few rows, and those of regressors,
    whose few large errors decide which one is best. Or they are the `parts` that are asked for,
    "folds" or "halves".
    """
    are_few = sum(map(len, folds)) < _FEWEST_ROWS * sum(len(fold) > 0 for fold in folds)
    if parts is None:
        parts = "halves" if of_regressors or are_few else "folds"
    pairs = _halves_of_repetition if parts == "halves" else _pairs_of_folds
    repetitions = [[i for i in one if len(folds[i])] for one in repetitions_of(folds)]
    return [pair for repetition in repetitions for pair in pairs(repetition)]


def _pairs_of_folds(repetition: Sequence[int]) -> list[tuple[Part, Part]]:
    return [((i,), (j,)) for i, j in combinations(repetition, 2)]


def _halves_of_repetition(repetition: Sequence[int]) -> list[tuple[Part, Part]]:
    """Return all divisions of the folds into halves, or some at random if these are many."""
    numbers, n = np.array(repetition), len(repetition)
    if n < 2:
        return []
    halves = halves_of(n, 0, _HALVINGS)
    return [(tuple(numbers[a].tolist()), tuple(numbers[b].tolist())) for a, b in halves]


def scores_of_pairs(
    by_fold: Floats, folds: Sequence[Ints], of_regressors: bool, parts: str | None = None
) -> tuple[Floats, Floats]:
    """Return the scores on both parts of all pairs of parts, summed over the rows of each.

    `by_fold` has the mean scores, (n_folds, n_candidates).
    """
    summed = by_fold * np.array([len(fold) for fold in folds], dtype=np.float64)[:, None]
    return _of_parts(summed, summed, pairs_of_parts(folds, of_regressors, parts))


def _of_parts(a: Floats, b: Floats, pairs: Sequence[tuple[Part, Part]]) -> tuple[Floats, Floats]:
    """Sum the first scores over the folds of the first parts, and the second over the second."""
    return (
        np.array([a[list(part)].sum(axis=0) for part, _ in pairs]).reshape(-1, a.shape[1]),
        np.array([b[list(part)].sum(axis=0) for _, part in pairs]).reshape(-1, b.shape[1]),
    )


def halves_of(n: int, seed: int, most: int = _HALVINGS_OF_SITES) -> list[tuple[Mask, Mask]]:
    """Return all halves of n things with the other halves, or some at random if these are many."""
    n_halvings = comb(n, n // 2) // (2 if n % 2 == 0 else 1)  # even numbers have each one twice
    if n_halvings > most:
        rng = np.random.default_rng(seed)
        halves = [rng.permutation(n) < n // 2 for _ in range(most)]
    else:
        first = islice(combinations(range(n), n // 2), n_halvings)
        halves = [np.isin(np.arange(n), half) for half in first]
    return [(half, ~half) for half in halves]


def scores_of_halves(
    folds: Sequence[Ints],
    halves: Iterable[Sequence[Any]],
    score: Callable[[Any], Floats],
    of_regressors: bool,
) -> tuple[Floats, Floats]:
    """Return the scores on pairs of parts that share neither rows nor what is halved.

    Each part is one of `pairs_of_parts` with one half of something else, such as sites; ``score``
    takes a half, and returns the scores of all candidates on all folds, summed
    over their rows. `halves` are pairs of disjoint halves, each of which is once that of the first
    parts.
    """
    pairs = pairs_of_parts(folds, of_regressors)
    both = []
    for half, other in halves:
        one, two = score(half), score(other)
        both += [_of_parts(one, two, pairs), _of_parts(two, one, pairs)]
    a, b = (np.concatenate(side) for side in zip(*both, strict=True))
    return a, b


def scores_of_changes(
    folds: Sequence[Ints],
    expected: Floats,
    of_rows: Floats,
    of_halves: Callable[[int], Floats],
    of_regressors: bool,
) -> tuple[Floats, Floats]:
    """Return the expected scores from parts of the labelled rows with halves of the pairs.

    A part's expected score is that of all data, plus what its rows and its pairs change in it, to
    first order. `of_rows` has what the rows of each fold change, (n_folds, n_candidates), and
    ``of_halves(n)`` what the pairs of n random halves change, and those of the other halves,
    (2, n, n_candidates). No two parts have the same halves.
    """
    pairs = pairs_of_parts(folds, of_regressors)
    sizes = np.array([len(fold) for fold in folds], dtype=np.float64)[:, None]
    # The number of rows is one more column.
    of_folds = np.concatenate([sizes * (expected + of_rows), sizes], axis=1)
    a, b = _of_parts(of_folds, of_folds, pairs)
    # A few large errors of regressors decide about a half.
    n_in_all = (1 + of_regressors) * _MOST_IN_ALL
    n_in_all = min(n_in_all, _MOST_SCORES // max(expected.size, 1))
    n_times = max(_FEWEST_HALVINGS, n_in_all // max(len(pairs), 1))
    a, b = (np.tile(side, (n_times, 1)) for side in (a, b))
    of_a, of_b = of_halves(len(a))
    return a[:, :-1] + a[:, -1:] * of_a, b[:, :-1] + b[:, -1:] * of_b


def scores_on_random_folds(
    scorer: Scorer,
    outputs: Sequence[Any],
    y: Array,
    of_regressors: bool,
    n_pairs: int = _FEW_PAIRS,
) -> tuple[list[Ints], Floats]:
    """Return random folds of labelled rows, and what recorded models score, (n_folds, n_models).

    There are so many repetitions that they make at least `n_pairs` pairs of folds. Folds are drawn
    by what is known of the rows, so that the order of these does not matter. If a metric is not
    defined on the classes of some fold, the folds are stratified. Where it is still not defined,
    scores are nan.
    """
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    order = content_order(
        (y if of_regressors else codes).astype(np.float64), *map(content_of, outputs)
    )
    folds = random_folds([order], 2 if of_regressors else min(_FOLDS, len(y)), n_pairs)
    by_fold, error = _scores_of_folds(scorer, outputs, y, folds)
    if not of_regressors and np.isnan(by_fold).all(axis=1).any() and counts.max() > 1:
        # All classes are in every fold, but for those of a single row.
        by_class = [order[codes[order] == code] for code in range(len(counts))]
        folds = random_folds(by_class, int(np.clip(counts.min(), 2, _FOLDS)), n_pairs)
        by_fold, error = _scores_of_folds(scorer, outputs, y, folds)
    if error is not None and np.isnan(by_fold).all():
        raise ValueError(
            f"scoring: expected a metric that is defined on parts of the {len(y)} labelled rows, "
            f"got one that is not: {error}"
        ) from error
    return folds, by_fold


def posterior_of_models(scorer: Scorer, outputs: Sequence[Any], y: Array) -> CandidatePosterior:
    """Return the posterior over recorded models, by random parts of the labelled rows.

    Where a formula has the scores, there are so many parts that the draw moves no weight by more
    than about 0.01. Other metrics are called for each fold, so there are fewer.
    """
    of_regressors = isinstance(outputs[0], RecordedRegressor)
    has_formula = values_of_rows(scorer, outputs[0], y) is not None
    n_pairs = _MANY_PAIRS if has_formula else _SEVERAL_PAIRS
    folds, by_fold = scores_on_random_folds(scorer, outputs, y, of_regressors, n_pairs)
    # All repetitions are divided alike.
    n_folds = len(repetitions_of(folds[: _FOLDS + 1])[0])
    sizes = np.array([len(fold) for fold in folds], dtype=np.float64)[:, None]
    summed = (by_fold * sizes).reshape(-1, n_folds, len(outputs))
    pairs = pairs_of_parts(folds[:n_folds], of_regressors)
    a, b = (
        np.concatenate([summed[:, list(part)].sum(axis=1) for part in side])
        for side in zip(*pairs, strict=True)
    )
    # A metric may not be defined on the few rows of a part, whatever the model.
    defined = np.isfinite(a).any(axis=1) & np.isfinite(b).any(axis=1)
    if not defined.any() or not np.isfinite([a[defined], b[defined]]).all(axis=(0, 1)).any():
        raise ValueError(
            "scoring: expected a metric that is finite for a model on all parts of the "
            f"{len(y)} labelled rows, got none; give more rows, or another metric."
        )
    if not defined.all():
        warn_caller(
            f"scoring: expected a metric that is defined on all parts of the {len(y)} labelled "
            f"rows, got one that is not on {np.sum(~defined)} of {len(defined)} pairs of parts, "
            "which are left out."
        )
    return posterior_of_parts(a[defined], b[defined])


def random_folds(blocks: Sequence[Ints], n_folds: int, n_pairs: int) -> list[Ints]:
    """Return random folds of the rows of some blocks, so that they make so many pairs.

    The rows of each block, such as those of a class, are spread evenly over the folds of a
    repetition.
    """
    rows, rng = np.concatenate(blocks), np.random.default_rng(0)
    folds = np.tile(np.arange(len(rows)) % n_folds, (-(-n_pairs // comb(n_folds, 2)), 1))
    ends = np.cumsum([len(block) for block in blocks])[:-1]
    by_block = [rng.permuted(block, axis=1) for block in np.split(folds, ends, axis=1)]
    return [rows[of_one == fold] for of_one in np.hstack(by_block) for fold in range(n_folds)]


def _scores_of_folds(
    scorer: Scorer, outputs: Sequence[Any], y: Array, folds: Sequence[Ints]
) -> tuple[Floats, Exception | None]:
    """Return the scores; nan, with the last error, where the metric is not defined."""
    known = means_of_folds(scorer, outputs, y, folds)
    if known is not None:
        return known, None
    by_fold, raised = np.full((len(folds), len(outputs)), np.nan), None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        for number, rows in enumerate(folds):
            for model, output in enumerate(outputs):
                try:
                    by_fold[number, model] = scorer(output, row_numbers(rows), y[rows])
                except Exception as error:  # whatever a metric of the user raises
                    raised = error
    return by_fold, raised
