"""Selection by agreement among the candidates that are also accurate; a scorer for its floor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import get_scorer_names

from pa_select.model_selection.selection_rules import (
    AgainstBest,
    AgainstChance,
    Eligibility,
    errors_in_words,
    first_by,
)
from pa_select.model_selection.table_columns import column, scores_and_errors, warn_of_one_split
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Floats, Labels, Mask

# A score of chance above this means that most rows have the same class.
_FREQUENT = 0.6


@dataclass(eq=False, repr=False)
class GuardedSelection(BaseEstimator):
    """Choose the best agreement among the candidates that are also accurate.

    This is a ``selection`` rule of `PASearchCV`, and a ``refit`` rule for scikit-learn's
    multi-metric searches. A candidate is eligible if its mean score is within `n_se`
    standard errors of the best score and above chance by `floor_se` standard errors. A search of
    scikit-learn checks chance only if the metric "majority_rate" is recorded, see `floor`. The
    eligible candidate of the best agreement is chosen. Ties are decided by the score, then by the
    log-loss if it was recorded, then by the smaller standard error of the score, and never by the
    order of the grid.

    Parameters
    ----------
    agreement : str, default="agreement"
        Name of the agreement: one of the search's metrics, or a column of its results.
    score : str, default="score"
        Name of the score that decides who is eligible; higher is better.
    n_se : float, default=1
        How many standard errors, over the splits, an eligible candidate's score may lie
        below the best score. With views, `PASearchCV` uses the score on the views and 2
        standard errors. If that score was not recorded, 4 standard errors of the score on
        the rows keep more of the gain.
    floor_se : float, default=2
        How many of its own standard errors an eligible candidate's score must lie above
        the floor.
    tie_tol : float, default=1e-6
        Agreements that differ by less than this, in nats, are tied.
    floor : "auto", str, float or None, default="auto"
        The score of predictions that ignore the features: the name of a recorded metric, a
        number, or None for no floor. "auto": what `PASearchCV` measured; else a recorded
        metric "majority_rate" (`pa_select.model_selection.majority_rate`); else no floor.

    Notes
    -----
    The standard error is the standard deviation over the splits divided by the square root of
    their number. If rows are tested several times, `PASearchCV` counts the splits as if each
    row was tested once. Folds share training data, so the standard error is a rule of thumb.
    If the splits of `PASearchCV` hold out whole environments, or all test the same rows, as a
    single split does, it is the error over the rows. A single split of scikit-learn's searches
    has no standard error: it counts as 0, with a warning. Candidates that failed in a split,
    have no agreement or are not above chance are not eligible, and their scores are ignored
    when the best score is found. If no candidate is eligible, the score decides, with a
    warning.

    With this ``refit`` rule scikit-learn's searches have no ``best_score_``, and their ``score``
    raises a KeyError: read ``cv_results_`` at ``best_index_``, and score ``best_estimator_``.
    Halving searches have one metric, and ignore the rule.

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

    agreement: str = "agreement"
    score: str = "score"
    n_se: float = 1
    floor_se: float = 2
    tie_tol: float = 1e-6
    _: KW_ONLY
    floor: str | float | None = "auto"

    def __post_init__(self) -> None:
        if isinstance(self.agreement, dict):  # a search calls its refit with its results
            raise TypeError(
                "refit: expected an object such as GuardedSelection('pa', 'accuracy'), got the "
                "class."
            )

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
        eligible = self.explain(cv_results).eligible
        warn_of_one_split(cv_results, self.score)
        agreement = column(cv_results, self.agreement, "agreement")
        score, error = scores_and_errors(cv_results, self.score)
        of_loss = cv_results.get("mean_test_neg_log_loss", np.zeros_like(score))
        keys = [score, np.asarray(of_loss, dtype=np.float64), -error]
        if eligible.any():
            best = agreement[eligible].max()
            candidates = np.flatnonzero(eligible & (agreement >= best - self.tie_tol))
        else:
            warn_caller(
                f"No candidate is within {errors_in_words(self.n_se)} of the best "
                f"{self.score!r} and {errors_in_words(self.floor_se)} above chance, with a "
                f"finite {self.agreement!r}: the {self.score!r} alone decides."
                f"{self._advice(cv_results, score)}"
            )
            candidates = np.flatnonzero(np.isfinite(score))
        return first_by(candidates, keys, cv_results)

    def explain(self, cv_results: dict[str, Any]) -> Eligibility:
        """Explain which candidates are eligible.

        Parameters
        ----------
        cv_results : dict
            As for ``__call__``.

        Returns
        -------
        Eligibility
            Whether each candidate is eligible, and the reason in words.

        Raises
        ------
        ValueError
            As ``__call__``.
        """
        self._check()
        agreement = column(cv_results, self.agreement, "agreement")
        score, error = scores_and_errors(cv_results, self.score)
        if not np.isfinite(score).any():
            raise ValueError(f"cv_results: expected a finite {self.score!r}, got none.")
        has_score, has_agreement = np.isfinite(score), np.isfinite(agreement)
        floor = self._floor(cv_results, len(score))
        against_chance = AgainstChance(self.score, score, error, floor, self.floor_se)
        # One that cannot be chosen must not exclude others.
        comparable = has_score & has_agreement
        useful = comparable & against_chance.above
        known = next((known for known in (useful, comparable) if known.any()), has_score)
        top = int(np.nanargmax(np.where(known, score, np.nan)))
        against_best = AgainstBest(self.score, score, score[top], error[top], self.n_se)
        # The conditions in order, each with the reason if it is not fulfilled.
        demands: list[tuple[Mask, Callable[[int], str]]] = [
            (has_score, lambda _: f"no {self.score}"),
            (has_agreement, lambda _: f"no {self.agreement}"),
            (score >= against_best.lowest, against_best.in_words),
            (against_chance.above, against_chance.not_above),
        ]
        eligible = np.logical_and.reduce([fulfilled for fulfilled, _ in demands])
        reasons = [
            f"eligible: {against_best.in_words(candidate)}"
            if eligible[candidate]
            else "not eligible: "
            + next(lacks(candidate) for met, lacks in demands if not met[candidate])
            for candidate in range(len(score))
        ]
        return Eligibility(eligible, reasons)

    def _check(self) -> None:
        if self.agreement == self.score:
            raise ValueError(f"score: expected another metric than agreement={self.agreement!r}.")
        known = get_scorer_names()
        if self.agreement in known and self.score not in known:
            warn_caller(
                f"agreement: expected the name of an agreement, got {self.agreement!r}, a score "
                f"of scikit-learn, with score={self.score!r}. If the two are swapped, give "
                f"GuardedSelection({self.score!r}, {self.agreement!r})."
            )
        for name in ("n_se", "floor_se", "tie_tol"):
            value = getattr(self, name)
            if not isinstance(value, (int, float, np.number)) or not value >= 0:
                raise ValueError(f"{name}: expected a number >= 0, got {value!r}.")

    def _advice(self, cv_results: dict[str, Any], score: Floats) -> str:
        """Return advice on the scoring if always predicting one class scores high."""
        floor = float(self._floor(cv_results, len(score)).max())
        best = float(np.nanmax(score))
        if not _FREQUENT < floor <= 1:
            return ""
        return (
            f" The best {self.score!r} is {best:.4g}, and always predicting one class gives "
            f"{floor:.4g}: scoring='balanced_accuracy', 'roc_auc' or 'neg_log_loss' "
            "would show what the candidates have learnt."
        )

    def _floor(self, cv_results: dict[str, Any], n: int) -> Floats:
        floor: Any = self.floor
        if isinstance(floor, str) and floor == "auto":
            recorded = (f"chance_test_{self.score}", "mean_test_majority_rate")
            floor = next((cv_results[name] for name in recorded if name in cv_results), None)
        elif isinstance(floor, str):
            floor = column(cv_results, floor, "floor")
        floor = -np.inf if floor is None else floor
        return np.broadcast_to(np.nan_to_num(np.asarray(floor, dtype=float), nan=-np.inf), n)


def majority_rate(estimator: object, X: object, y: Labels) -> float:
    """Return the accuracy of always predicting the most frequent class of ``y``.

    This scorer is recorded with the accuracy, as the floor of `GuardedSelection`.

    Parameters
    ----------
    estimator, X : object
        Not used.
    y : array-like of shape (n,)
        Labels.

    Returns
    -------
    float
        Share of the most frequent label, in (0, 1].

    Examples
    --------
    >>> from pa_select.model_selection import majority_rate
    >>> majority_rate(None, None, ["a", "b", "b", "b"])
    0.75
    """
    _, counts = np.unique(np.asarray(y), return_counts=True)
    return float(counts.max() / counts.sum())
