"""Posterior agreement over the candidates of a search: which ones its data cannot tell apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from pa_select.model_selection.results_table import cv_results_of, first_metric
from pa_select.utils.arrays import as_numpy
from pa_select.utils.typing import Array, Floats, Ints, Mask, Matrix, Search

# Sites or paired objects are halved so many times.
_HALVINGS = 10
# Scores of a part that differ by no more than this, relative to the largest one, are equal: sums
# of the same numbers in another order differ by rounding.
_ROUNDING = 1e-12


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


def candidate_posterior(
    results: Search | Mapping[str, Any] | Matrix,
    metric: str | Matrix | None = None,
    *,
    splits: Iterable[Any] | None = None,
) -> CandidatePosterior:
    r"""Compute how many candidates of a search its data can tell apart, and their weights.

    Two disjoint parts X' and X'' of the labelled data, such as two test folds, each have a Gibbs
    posterior over the candidates :math:`p_\beta(c \mid X') \propto \exp(\beta R(c, X'))`, where
    :math:`R(c, X')` is the score of candidate c on X', summed over its rows. The agreement over
    the candidates is the maximum over :math:`\beta` of the mean, over all pairs of parts, of

    .. math:: \log\Bigl(M \sum_{c=1}^M p_\beta(c \mid X')\, p_\beta(c \mid X'')\Bigr).

    The maximum is certified, as that of `posterior_agreement`. Candidates that the parts cannot
    tell apart at this :math:`\beta` share the weight.

    Parameters
    ----------
    results : fitted search, dict or array-like of shape (n_pairs, n_candidates)
        A fitted search of scikit-learn or of this package, or its ``cv_results_``; of a halving
        search only the candidates of the last round have a weight. Or the scores of every
        candidate on the first part of each pair, summed over the part's rows; larger is better.
    metric : str or array-like of shape (n_pairs, n_candidates), default=None
        The metric, as in ``mean_test_<metric>``. None: the one of `refit`, or the only one. If
        `results` are scores: the scores on the second part of each pair.
    splits : iterable of (train, test), default=None
        The splits of the search, in their order: a fold's rows are the weight of its score, and
        only disjoint folds are paired. None: folds of equal size, each row tested once in every
        repetition, as the search's `cv` says.

    Returns
    -------
    CandidatePosterior

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the search is not fitted.
    TypeError
        If `results` are neither a search, a table nor numbers.
    ValueError
        If there are no two disjoint parts, no candidate has a score in all of them, the metric is
        not known, or the splits are needed and not given.

    See Also
    --------
    PACommittee : Fits the candidates that remain; they vote with these weights.
    posterior_agreement : The same criterion for the classes of rows.

    Notes
    -----
    The weights do not depend on the unit of the metric, nor on its zero. The largest weight is no
    better a choice of *one* candidate than the best score: the posterior is for keeping several.
    Two equal candidates share the weight that one would have, less what a longer grid changes.

    References
    ----------
    .. [1] J. M. Buhmann, "Information theoretic model validation for clustering", ISIT 2010.
    .. [2] The thesis "Improved robustness of deep learning models through posterior agreement
       based model selection", chapter 2 (approximation sets).

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from pa_select import candidate_posterior
    >>> grid = {"max_depth": [1, 2, 3, 4, 5]}
    >>> search = GridSearchCV(DecisionTreeClassifier(random_state=0), grid)
    >>> posterior = candidate_posterior(search.fit(*load_wine(return_X_y=True)))
    >>> posterior
    CandidatePosterior(0.3 of 1.6 nats: 3.4 of 5 candidates remain)
    >>> bool(posterior.weights[0] < 0.01)
    True
    """
    if isinstance(results, Mapping):
        return _of_table(results, metric, splits)
    if hasattr(results, "fit"):
        return _of_search(results, metric, splits)
    if metric is None or isinstance(metric, str):
        raise TypeError(
            "results: expected a fitted search or its cv_results_, or the scores of two parts, "
            f"candidate_posterior(scores_a, scores_b), got {type(results).__name__}."
        )
    return posterior_of_parts(_matrix(results, "results"), _matrix(metric, "metric"))


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
    unit = max(-float(side.min()) for side in below)
    if unit == 0:  # no part tells any two candidates apart
        weights[known] = 1 / n
    else:
        both, rows = np.concatenate(below), np.arange(n_pairs)
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
    below = scores - scores.max(axis=1, keepdims=True)
    below[below >= -_ROUNDING * np.abs(scores).max(axis=1, keepdims=True)] = 0.0
    return below


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


def split_scores_of(cv_results: Mapping[str, Any], metric: str) -> Floats:
    """Return the scores of a metric, (n_splits, n_candidates)."""
    columns: list[Floats] = []
    while (name := f"split{len(columns)}_test_{metric}") in cv_results:
        columns.append(np.asarray(cv_results[name], dtype=np.float64))
    return np.stack(columns)


def _of_search(search: Any, metric: Any, splits: Iterable[Any] | None) -> CandidatePosterior:
    table = cv_results_of(search, "results")
    usual = first_metric(search, table)
    metric = usual if metric is None else metric
    known: CandidatePosterior | None = getattr(search, "posterior_", None)
    if known is not None and splits is None and metric == usual:
        return known
    n_folds = None
    if splits is None:
        cv = search.cv
        if isinstance(cv, (list, tuple)):
            splits = cv
        elif cv is None or isinstance(cv, int):
            n_folds = 5 if cv is None else cv
        elif hasattr(cv, "n_repeats"):
            n_folds = search.n_splits_ // cv.n_repeats
        # The folds of scikit-learn's KFold and its kin; of other splitters only the data tell.
        elif hasattr(cv, "n_splits") and hasattr(cv, "shuffle"):
            n_folds = cv.n_splits
        else:
            raise ValueError(
                "splits: expected the splits of the search, such as list(search.cv.split(X, y)), "
                f"with cv={cv!r}, got None."
            )
    return _of_table(table, metric, splits, n_folds)


def _of_table(
    table: Mapping[str, Any], metric: Any, splits: Iterable[Any] | None, n_folds: int | None = None
) -> CandidatePosterior:
    """Compute the posterior of a table; each repetition has `n_folds` splits, or there is one."""
    known = [key[len("mean_test_") :] for key in table if key.startswith("mean_test_")]
    if metric is None and ("score" in known or len(known) == 1):
        metric = "score" if "score" in known else known[0]
    if metric not in known:
        raise ValueError(f"metric: expected one of {known}, got {metric!r}.")
    scores = split_scores_of(table, metric)
    if splits is None:
        n_folds = len(scores) if n_folds is None else n_folds
        folds = [np.array([number % n_folds]) for number in range(len(scores))]
    else:
        folds = folds_of(splits)
    if len(folds) != len(scores):
        raise ValueError(
            f"splits: expected the {len(scores)} splits of the search, got {len(folds)}."
        )
    if "iter" in table:  # a halving search scores the other candidates on fewer rows
        rounds = np.asarray(table["iter"])
        scores = np.where(rounds == rounds.max(), scores, np.nan)
    a, b = scores_of_pairs(scores, folds)
    if not len(a):
        raise ValueError(no_parts(len(folds)))
    return posterior_of_parts(a, b)


def no_parts(n_splits: int) -> str:
    """Say why there are no two parts of the data."""
    return (
        "cv: expected at least two test folds without a common row, such as those of 5-fold "
        f"cross-validation, got {n_splits} split{'' if n_splits == 1 else 's'} without two such."
    )


def folds_of(splits: Iterable[Any]) -> list[Ints]:
    """Return the test rows of each split; masks become row numbers."""
    folds = []
    for split in splits:
        if not isinstance(split, (tuple, list)) or len(split) != 2:
            raise ValueError(
                f"splits: expected (train, test) for each split, got {type(split).__name__}."
            )
        rows: Array = np.asarray(split[1])
        folds.append(np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64))
    return folds


def _matrix(scores: Any, name: str) -> Floats:
    try:
        matrix = np.asarray(as_numpy(scores), dtype=np.float64)
    except (TypeError, ValueError):
        matrix = np.empty(0)
    if matrix.ndim != 2:
        raise TypeError(
            f"{name}: expected numbers of shape (n_pairs, n_candidates), got "
            f"{getattr(scores, 'shape', type(scores).__name__)}."
        )
    return matrix
