"""Selection rules on the results of a search."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

Floats = NDArray[np.float64]


class GuardedSelection(BaseEstimator):
    """Choose the best agreement among the candidates that are also accurate.

    A ``refit`` rule for scikit-learn's multi-metric searches. A candidate is eligible if
    its mean score is within `n_se` standard errors of the best one and above the majority
    rate by `floor_se` standard errors. The eligible candidate of the best mean agreement
    is chosen; ties go to the score, then to the log-loss where it was recorded, then to
    the steadier score over the splits, never to the order of the grid.

    Parameters
    ----------
    agreement : str
        Name of the agreement among the search's metrics.
    score : str
        Name of the score that guards it; higher is better.
    n_se : float, default=1
        How many standard errors, over the splits, an eligible candidate's score may lie
        below the best one. With paired views of a shift that will come, a wider guard (4)
        keeps more of the gain.
    floor_se : float, default=2
        How many of its own standard errors an eligible candidate's score must lie above
        the majority rate.
    tie_tol : float, default=1e-6
        Agreements closer than this, in nats, are tied.
    floor : str or float, default="majority_rate"
        The majority rate: the name of a recorded metric (`pa_select.scoring.majority_rate`
        is one) or a number; for a score that is an accuracy. The default sets no floor
        where "majority_rate" was not recorded.

    Notes
    -----
    The standard error is the standard deviation over the splits divided by the root of
    their number; folds share training data, so it is a rule of thumb. A candidate that
    failed in a split is not eligible. If none is, a warning says so and the score decides.

    With any such rule a search of scikit-learn has no ``best_score_``, and its ``score``
    method does not know which metric to use: look into ``cv_results_`` at
    ``best_index_``, and give ``scoring`` to a cross-validation of the search.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       section 3: a constant classifier is robust by definition. Hence the guard.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from pa_select import GuardedSelection, pa_scorer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LogisticRegression())
    >>> search = GridSearchCV(
    ...     model,
    ...     {"logisticregression__C": [1e-6, 1e-2, 1, 100]},
    ...     scoring={"pa": pa_scorer, "accuracy": "accuracy"},
    ...     refit=GuardedSelection("pa", "accuracy"),
    ... ).fit(X, y)
    >>> bool(search.cv_results_["mean_test_accuracy"][search.best_index_] > 0.97)
    True
    """

    def __init__(
        self,
        agreement: str,
        score: str,
        n_se: float = 1,
        floor_se: float = 2,
        tie_tol: float = 1e-6,
        *,
        floor: Any = "majority_rate",
    ) -> None:
        self.agreement = agreement
        self.score = score
        self.n_se = n_se
        self.floor_se = floor_se
        self.tie_tol = tie_tol
        self.floor = floor

    def __call__(self, cv_results: dict[str, Any]) -> int:
        """Choose a candidate.

        Parameters
        ----------
        cv_results : dict
            ``cv_results_`` of a search with both metrics.

        Returns
        -------
        int
            Index of the chosen candidate.

        Raises
        ------
        ValueError
            If a metric was not recorded, a parameter is out of range, or every candidate
            failed.
        """
        self._check()
        agreement = _mean(cv_results, self.agreement, "agreement")
        score = _mean(cv_results, self.score, "score")
        finite = np.isfinite(score)
        if not finite.any():
            raise ValueError(f"cv_results: expected a finite {self.score!r}, got none.")
        error = _standard_error(cv_results, self.score)
        eligible = self._eligible(cv_results, score, error) & np.isfinite(agreement)
        log_loss = np.asarray(
            cv_results.get("mean_test_neg_log_loss", np.zeros_like(score)), dtype=np.float64
        )
        keys = [score, log_loss, -error]
        if eligible.any():
            best = agreement[eligible].max()
            candidates = np.flatnonzero(eligible & (agreement >= best - self.tie_tol))
        else:
            warnings.warn(
                f"No candidate is within {self.n_se:g} standard errors of the best "
                f"{self.score!r} and {self.floor_se:g} above the majority rate, with a finite "
                f"{self.agreement!r}: the {self.score!r} alone decides.",
                UserWarning,
                stacklevel=2,
            )
            candidates = np.flatnonzero(finite)
        return _first_by(candidates, keys, cv_results)

    def _check(self) -> None:
        if self.agreement == self.score:
            raise ValueError(f"score: expected another metric than agreement={self.agreement!r}.")
        for name in ("n_se", "floor_se", "tie_tol"):
            value = getattr(self, name)
            if not isinstance(value, (int, float, np.number)) or not value >= 0:
                raise ValueError(f"{name}: expected a number >= 0, got {value!r}.")

    def _eligible(
        self, cv_results: dict[str, Any], score: Floats, error: Floats
    ) -> NDArray[np.bool_]:
        best = int(np.nanargmax(np.where(np.isfinite(score), score, -np.inf)))
        eligible: NDArray[np.bool_] = score >= score[best] - self.n_se * error[best]
        floor = self.floor
        if floor == "majority_rate" and "mean_test_majority_rate" not in cv_results:
            floor = None
        elif isinstance(floor, str):
            floor = _mean(cv_results, floor, "floor")
        if floor is not None:
            eligible &= score >= np.asarray(floor, dtype=np.float64) + self.floor_se * error
        return eligible


def _mean(cv_results: dict[str, Any], metric: str, argument: str) -> Floats:
    column = f"mean_test_{metric}"
    if column not in cv_results:
        known = [key[10:] for key in cv_results if key.startswith("mean_test_")]
        raise ValueError(f"{argument}: expected one of the metrics {known}, got {metric!r}.")
    return np.asarray(cv_results[column], dtype=np.float64)


def _standard_error(cv_results: dict[str, Any], metric: str) -> Floats:
    """Standard error of the mean over the splits; 0 where there is only one."""
    splits = [
        np.asarray(values, dtype=np.float64)
        for key, values in cv_results.items()
        if key.startswith("split")
        and key.endswith(f"_test_{metric}")
        and key[5 : -len(f"_test_{metric}")].isdigit()
    ]
    if len(splits) < 2:
        return np.zeros(len(_mean(cv_results, metric, "score")))
    error: Floats = np.std(splits, axis=0, ddof=1) / np.sqrt(len(splits))
    return np.nan_to_num(error)


def _first_by(candidates: NDArray[np.intp], keys: list[Floats], cv_results: Any) -> int:
    """The candidate with the highest keys, the first key first."""
    # What is still tied then is told apart by what it is, not by where it stands.
    names = [repr(sorted(p.items(), key=str)) for p in cv_results.get("params", [])]
    ranked = sorted(
        candidates.tolist(),
        key=lambda i: (
            *(-np.nan_to_num(k[i], nan=-np.inf) for k in keys),
            names[i] if names else "",
        ),
    )
    return int(ranked[0])
