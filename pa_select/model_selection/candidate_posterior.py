"""Posterior agreement over the candidates of a search: which ones its data cannot tell apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np
from sklearn.base import is_regressor

from pa_select.model_selection.data import folds_of, needs_groups
from pa_select.model_selection.rules import cv_results_of, first_metric, split_scores_of
from pa_select.scores.candidate_posterior import (
    CandidatePosterior,
    pairs_of_parts,
    posterior_of_parts,
    scores_of_pairs,
)
from pa_select.utils.arrays import as_numpy
from pa_select.utils.typing import Floats, Ints, Matrix, Search

# So many columns of a table are named in a message.
_NAMED = 3


def candidate_posterior(
    results: Search | Mapping[str, Any] | Matrix,
    metric: str | Matrix | None = None,
    *,
    splits: Iterable[Any] | None = None,
    parts: Literal["folds", "halves"] | None = None,
) -> CandidatePosterior:
    r"""Compute how many candidates of a search its data can tell apart, and their weights.

    Two disjoint parts X' and X'' of the labelled data, such as two test folds, each have a Gibbs
    posterior over the candidates :math:`p_\beta(c \mid X') \propto \exp(\beta R(c, X'))`, where
    :math:`R(c, X')` is the score of candidate c on X', summed over its rows. The agreement
    over the candidates is the maximum over :math:`\beta` of the mean, over all pairs of parts, of

    .. math:: \log\Bigl(M \sum_{c=1}^M p_\beta(c \mid X')\, p_\beta(c \mid X'')\Bigr).

    The maximum is certified, as that of `posterior_agreement`. Candidates that the parts cannot
    tell apart at this :math:`\beta` share the weight.

    Parameters
    ----------
    results : fitted search, dict, DataFrame or array-like of shape (n_pairs, n_candidates)
        A fitted search of scikit-learn or of this package, or its ``cv_results_``; of a halving
        search only the candidates of the last round have a weight. Or the scores of every
        candidate on the first part of each pair, summed over the part's rows; larger is better.
    metric : str or array-like of shape (n_pairs, n_candidates), default=None
        The metric, as in ``mean_test_<metric>``. None: the one of `refit`, or the only one. If
        `results` are scores: the scores on the second part of each pair.
    splits : iterable of (train, test), default=None
        The splits of the search, in their order: a fold's rows are the weight of its score, and
        only disjoint folds are paired. None: folds of equal size, each row tested once in every
        repetition, as the search's `cv` says; folds of groups need the splits. A search of
        scikit-learn does not keep the number of its rows: where folds differ in size, weights
        differ from those of a `PACommittee`, which knows the sizes, in the fourth digit. A table
        is taken for a single repetition of k-fold cross-validation, which that of ShuffleSplit or
        RepeatedKFold is not.
    parts : {"folds", "halves"}, default=None
        "folds": each part is a test fold. "halves": it is half of the test folds of a repetition.
        None: "halves" for a fitted search of regressors, since a few large errors decide which
        one is best on a single fold, and for `splits` of fewer than five test rows; otherwise
        "folds". A table does not say what it is of.

    Returns
    -------
    CandidatePosterior

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the search is not fitted.
    TypeError
        If `results` are neither a search, a table nor numbers, or `splits` are not splits.
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
    Candidates that are equal have equal weights: a grid that is written twice counts twice.

    References
    ----------
    .. [1] J. M. Buhmann, "Information theoretic model validation for clustering", ISIT 2010.
    .. [2] The thesis "Improved robustness of deep learning models through posterior agreement
       based model selection", chapter 2 (posteriors over hypotheses).

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
    if parts not in ("folds", "halves", None):
        raise ValueError(f"parts: expected 'folds', 'halves' or None, got {parts!r}.")
    if hasattr(results, "to_dict") and (metric is None or isinstance(metric, str)):
        results = cast("Mapping[str, Any]", results.to_dict("list"))  # a DataFrame
    if isinstance(results, Mapping):
        return _of_table(results, metric, splits, parts)
    if hasattr(results, "fit"):
        return _of_search(results, metric, splits, parts)
    if metric is None or isinstance(metric, str):
        raise TypeError(
            "results: expected a fitted search or its cv_results_, or the scores of two parts, "
            f"candidate_posterior(scores_a, scores_b), got {type(results).__name__}."
        )
    return posterior_of_parts(_matrix(results, "results"), _matrix(metric, "metric"))


def _of_search(
    search: Any, metric: Any, splits: Iterable[Any] | None, parts: str | None
) -> CandidatePosterior:
    table = cv_results_of(search, "results")
    usual = first_metric(search, table)
    metric = usual if metric is None else metric
    known: CandidatePosterior | None = getattr(search, "posterior_", None)
    if known is not None and splits is None and parts is None and metric == usual:
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
        # The folds of scikit-learn's KFold and its kin; of other splitters, and of groups, only
        # the data tell.
        elif hasattr(cv, "n_splits") and hasattr(cv, "shuffle") and not needs_groups(cv):
            n_folds = cv.n_splits
        else:
            raise ValueError(
                "splits: expected the splits of the search, such as list(search.cv.split(X, y)), "
                f"with cv={cv!r}, got None."
            )
    return _of_table(table, metric, splits, parts, is_regressor(search.estimator), n_folds)


def _of_table(
    table: Mapping[str, Any],
    metric: Any,
    splits: Iterable[Any] | None,
    parts: str | None,
    of_regressors: bool = False,
    n_folds: int | None = None,
) -> CandidatePosterior:
    """Compute the posterior of a table; each repetition has `n_folds` splits, or there is one."""
    known = [key[len("mean_test_") :] for key in table if str(key).startswith("mean_test_")]
    if not known:
        raise ValueError(
            "results: expected cv_results_ of a search, which has a column such as "
            f"mean_test_score, got a table of {list(table)[:_NAMED]}."
        )
    if metric is None and ("score" in known or len(known) == 1):
        metric = "score" if "score" in known else known[0]
    if metric not in known:
        raise ValueError(f"metric: expected one of {known}, got {metric!r}.")
    scores = split_scores_of(table, metric)
    if splits is None:
        n_folds = len(scores) if n_folds is None else n_folds
        folds = [np.array([number % n_folds]) for number in range(len(scores))]
        # How many rows they have is not known.
        parts = parts or ("halves" if of_regressors else "folds")
    else:
        folds = folds_of(splits)
    if len(folds) != len(scores):
        raise ValueError(
            f"splits: expected the {len(scores)} splits of the search, got {len(folds)}."
        )
    if "iter" in table:  # a halving search scores the other candidates on fewer rows
        rounds = np.asarray(table["iter"])
        scores = np.where(rounds == rounds.max(), scores, np.nan)
    check_parts(folds, of_regressors, parts)
    return posterior_of_parts(*scores_of_pairs(scores, folds, of_regressors, parts))


def check_parts(folds: Sequence[Ints], of_regressors: bool, parts: str | None = None) -> None:
    """Refuse test folds of which no two are parts of the data."""
    if not pairs_of_parts(folds, of_regressors, parts):
        n = len(folds)
        raise ValueError(
            "cv: expected at least two test folds without a common row, such as those of 5-fold "
            f"cross-validation, got {n} fold{'' if n == 1 else 's'} without two such."
        )


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
