"""The selection rules by agreement, by score, by both ranks and by simplicity."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator

from pa_select.model_selection.guarded_selection import Eligibility, GuardedSelection
from pa_select.model_selection.results_columns import (
    column,
    errors_in_words,
    first_by,
    scores_and_errors,
)
from pa_select.utils.typing import SelectionName
from pa_select.utils.warn_caller import warn_caller

#: The `n_se` of guarded selection by the score on the views.
N_SE_OF_VIEWS = 2


class _Rule(BaseEstimator):
    """A rule for which all candidates with a score (and an agreement, if needed) are eligible."""

    def __init__(self, score: str = "score") -> None:
        self.score = score

    _needs_agreement = False

    def explain(self, cv_results: dict[str, Any]) -> Eligibility:
        """Explain which candidates are eligible."""
        score, _ = scores_and_errors(cv_results, self.score)
        has_score = eligible = np.isfinite(score)
        if self._needs_agreement:
            eligible = has_score & ~np.isnan(column(cv_results, "agreement", "agreement"))
        lacking = np.where(has_score, "no agreement", f"no {self.score}")
        reasons = [
            "eligible" if there else f"not eligible: {lacks}"
            for there, lacks in zip(eligible.tolist(), lacking.tolist(), strict=True)
        ]
        if not eligible.any():
            needed = " and an agreement" if self._needs_agreement else ""
            raise ValueError(
                f"cv_results: expected a candidate with a finite {self.score!r}{needed}, got none."
            )
        return Eligibility(eligible, reasons)


class BestScore(_Rule):
    """The best score; the first candidate if several tie, as in GridSearchCV."""

    def __call__(self, cv_results: dict[str, Any]) -> int:
        """Choose a candidate."""
        score, _ = scores_and_errors(cv_results, self.score)
        return int(np.nanargmax(np.where(self.explain(cv_results).eligible, score, np.nan)))


class BestAgreement(_Rule):
    """The best agreement, whatever the score; warns if the chosen candidate is trivial."""

    _needs_agreement = True
    #: Agreements that differ by less tie.
    tie_tol = 1e-6

    def __call__(self, cv_results: dict[str, Any]) -> int:
        """Choose a candidate."""
        agreement = column(cv_results, "agreement", "agreement")
        score, error = scores_and_errors(cv_results, self.score)
        eligible = self.explain(cv_results).eligible
        tied = eligible & (agreement >= agreement[eligible].max() - self.tie_tol)
        best = first_by(np.flatnonzero(tied), [score], cv_results)
        chance = cv_results.get(f"chance_test_{self.score}")
        if chance is not None and not score[best] > chance[best] + 2 * error[best]:
            warn_caller(
                f"The candidate of the best agreement is near-constant: its {self.score} "
                f"{score[best]:.4g} is not above that of predictions that look at no feature, "
                f"{chance[best]:.4g}. Agreement measures stability, not truth: use "
                "selection='guarded'."
            )
        return best


class RankSum(_Rule):
    """The best sum of the ranks of score and agreement; the score decides ties."""

    _needs_agreement = True

    def __call__(self, cv_results: dict[str, Any]) -> int:
        """Choose a candidate."""
        score, _ = scores_and_errors(cv_results, self.score)
        eligible = np.flatnonzero(super().explain(cv_results).eligible)
        ranks = self._ranks(cv_results, eligible).sum(0)
        return first_by(eligible, [-ranks, score], cv_results)

    def explain(self, cv_results: dict[str, Any]) -> Eligibility:
        """Explain which candidates are eligible; the reasons have both ranks."""
        found = super().explain(cv_results)
        by_score, by_agreement = self._ranks(cv_results, np.flatnonzero(found.eligible))
        reasons = [
            f"eligible: rank {by_score[i]:g} by {self.score}, {by_agreement[i]:g} by agreement"
            if found.eligible[i]
            else reason
            for i, reason in enumerate(found.reason)
        ]
        return Eligibility(found.eligible, reasons)

    def _ranks(self, cv_results: dict[str, Any], eligible: Any) -> Any:
        """Return ranks by score and by agreement, (2, n_candidates); inf if not eligible."""
        agreement = column(cv_results, "agreement", "agreement")
        score, _ = scores_and_errors(cv_results, self.score)
        ranks = np.full((2, len(score)), np.inf)
        for row, values in zip(ranks, (score, agreement), strict=True):
            row[eligible] = rankdata(-values[eligible])
        return ranks


class BestExpected(_Rule):
    """The best expected score at another site; it needs no guard, since it is a score."""

    def __call__(self, cv_results: dict[str, Any]) -> int:
        """Choose a candidate."""
        score, _ = scores_and_errors(cv_results, self.score)
        expected = column(cv_results, f"expected_{self.score}", "score")
        eligible = np.flatnonzero(self.explain(cv_results).eligible)
        return first_by(eligible, [expected, score], cv_results)

    def explain(self, cv_results: dict[str, Any]) -> Eligibility:
        """Explain which candidates are eligible; the reasons have the expected scores."""
        found = super().explain(cv_results)
        score, _ = scores_and_errors(cv_results, self.score)
        expected = column(cv_results, f"expected_{self.score}", "score")
        errors = column(cv_results, f"expected_{self.score}_se", "score")
        known = found.eligible & np.isfinite(expected)
        if not known.any():
            raise ValueError("cv_results: expected a finite expected score, got none.")
        reasons = [
            f"eligible: {self.score} {score[i]:.4g}, expected at the other site {expected[i]:.4g} "
            f"with a standard error of {errors[i]:.2g}{_how(cv_results, i)}"
            if known[i]
            else "not eligible: no expected score"
            if found.eligible[i]
            else reason
            for i, reason in enumerate(found.reason)
        ]
        return Eligibility(known, reasons)


def _how(cv_results: dict[str, Any], i: int) -> str:
    """Return in words whether a candidate's rows are adapted, and which site is the worst."""
    parts = ["adapted"] if cv_results.get("adapted", np.zeros(i + 1))[i] else []
    if "worst_site" in cv_results:
        parts.append(f"worst at {cv_results['worst_site'][i]}")
    return f" ({', '.join(parts)})" if parts else ""


class _SimplestWithin(_Rule):
    def __init__(self, complexity: Any, score: str = "score", n_se: float = 1) -> None:
        self.complexity = complexity
        self.score = score
        self.n_se = n_se

    def explain(self, cv_results: dict[str, Any]) -> Eligibility:
        score, error = scores_and_errors(cv_results, self.score)
        found = super().explain(cv_results)
        top = int(np.nanargmax(score))
        near = score >= score[top] - self.n_se * error[top]
        reasons = [
            f"{'eligible' if near[i] else 'not eligible'}: {self.score} {score[i]:.4g} is "
            f"{'' if near[i] else 'not '}within {errors_in_words(self.n_se)} of the best, "
            f"{score[top]:.4g}"
            if found.eligible[i]
            else reason
            for i, reason in enumerate(found.reason)
        ]
        return Eligibility(found.eligible & near, reasons)

    def __call__(self, cv_results: dict[str, Any]) -> int:
        score, _ = scores_and_errors(cv_results, self.score)
        eligible = np.flatnonzero(self.explain(cv_results).eligible)
        return first_by(eligible, [-self._complexities(cv_results), score], cv_results)

    def _complexities(self, cv_results: dict[str, Any]) -> Any:
        if callable(self.complexity):
            values = [self.complexity(params) for params in cv_results["params"]]
        else:
            key = next(
                (k for k in (self.complexity, f"param_{self.complexity}") if k in cv_results), None
            )
            if key is None:
                raise ValueError(
                    "complexity: expected a function of the parameters, or a parameter or "
                    f"column of cv_results, got {self.complexity!r}."
                )
            values = list(cv_results[key])
        try:
            return np.array(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"complexity: expected a number for each candidate, got {values!r}."
            ) from None


def within_one_standard_error(complexity: Any, *, score: str = "score", n_se: float = 1) -> Any:
    """Make the classic rule: the simplest candidate within a standard error of the best.

    Parameters
    ----------
    complexity : str or callable
        The complexity of a candidate: the name of a numeric parameter or of a column of
        ``cv_results_`` (such as "mean_fit_time"), or a function that takes a candidate's
        parameters (a dict) and returns a number. Higher is more complex.
    score : str, default="score"
        Name of the score.
    n_se : float, default=1
        How many standard errors, over the splits, a score may lie below the best one.

    Returns
    -------
    callable
        A function ``cv_results -> index``, for ``selection`` of `PASearchCV` or ``refit`` of
        scikit-learn's searches. Among equally simple candidates the best score wins.

    Raises
    ------
    ValueError
        Raised by the rule, if complexities are not numbers or the score was not recorded.

    References
    ----------
    .. [1] T. Hastie, R. Tibshirani, J. Friedman, "The Elements of Statistical Learning",
       section 7.10.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from pa_select import within_one_standard_error
    >>> X, y = load_iris(return_X_y=True)
    >>> search = GridSearchCV(
    ...     DecisionTreeClassifier(random_state=0),
    ...     {"max_depth": [1, 2, 3, 4, 5]},
    ...     refit=within_one_standard_error("max_depth"),
    ... )
    >>> search.fit(X, y).best_params_
    {'max_depth': 3}
    """
    return _SimplestWithin(complexity, score, n_se)


def make_rule(selection: Any, score: str, pairing: Any) -> Any:
    """Return the rule that ``selection`` names; a callable is returned as it is."""
    if callable(selection):
        return selection
    if selection == "guarded" and pairing == "target":
        # In our studies agreement on unlabelled rows helps only if the score counts as much.
        selection = "rank_sum"
    if selection == "guarded" and pairing == "paired":
        # The expected score says what agreement only hints at.
        selection = "expected"
    guard = GuardedSelection(score=score)
    if pairing == "views":
        # In our studies the score on the rows of X excludes candidates that resist the shift.
        guard = GuardedSelection(score=f"{score}_views", n_se=N_SE_OF_VIEWS)
    return named_rules(score, guard)[selection]


def named_rules(score: str, guard: GuardedSelection) -> dict[SelectionName, Any]:
    """Return the rules that have a name."""
    return {
        "guarded": guard,
        "agreement": BestAgreement(score),
        "score": BestScore(score),
        "score_views": BestScore(f"{score}_views"),
        "worst_environment": BestScore(f"{score}_worst_environment"),
        "rank_sum": RankSum(score),
        "expected": BestExpected(score),
    }


def looks_at_agreement(rule: Any) -> bool:
    """Whether a rule of this package chooses by the agreement."""
    return getattr(rule, "_needs_agreement", isinstance(rule, GuardedSelection))


def explain(rule: Any, table: dict[str, Any], failures: list[str | None]) -> dict[str, Any]:
    """Make the columns "eligible" and "reason"."""
    if hasattr(rule, "explain"):
        try:
            eligible, reasons = rule.explain(table)
        except ValueError as error:
            if None in failures:
                raise
            # The rule only knows that the column is empty.
            text = f"No candidate can be selected. The first: {failures[0]}"
            raise ValueError(text) from error
    else:
        eligible = [failure is None for failure in failures]
        reasons = ["eligible"] * len(failures)
    # A rule that does not look at the agreement may choose a candidate without one.
    told = [
        reason if failure is None else f"{'eligible' if fits else 'not eligible'}: {failure}"
        for reason, failure, fits in zip(reasons, failures, eligible, strict=True)
    ]
    return {"eligible": np.asarray(eligible), "reason": np.array(told, dtype=object)}


def choose(rule: Any, table: dict[str, Any]) -> int:
    """Return the candidate that a rule chooses; check it, since a user may write the rule."""
    best, n = rule(table), len(table["params"])
    if not isinstance(best, (int, np.integer)):
        raise TypeError(f"selection: expected the index of a candidate, got {best!r}.")
    if not 0 <= best < n:
        raise IndexError(f"selection: expected a candidate from 0 to {n - 1}, got {best}.")
    return int(best)
