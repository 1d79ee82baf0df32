"""The selection rules by agreement, score and simplicity, with what they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator

from pa_select.model_selection.table_columns import (
    column,
    recorded_chance,
    scores_and_errors,
    warn_of_one_split,
)
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Floats, Index, Ints, Mask, Rule

#: The name of a parameter or of a column, or a function of the parameters.
Complexity: TypeAlias = str | Callable[[dict[str, Any]], float]
#: The `n_se` of guarded selection by the score on the views.
N_SE_OF_VIEWS = 2


class AgainstChance(NamedTuple):
    """Values of candidates, their errors, and what predictions that look at no feature have."""

    name: str
    values: Floats
    errors: Floats
    chance: Floats
    #: How many standard errors above chance a candidate must be.
    n_se: float = 2

    @property
    def above(self) -> Mask:
        """Whether each candidate is better than such predictions."""
        above: Mask = self.values > self.chance + self.n_se * np.nan_to_num(self.errors)
        return above

    def not_above(self, candidate: int) -> str:
        """Say that a candidate is not."""
        return (
            f"{self.name} {self.values[candidate]:.4g} is not {errors_in_words(self.n_se)} above "
            f"chance, {self.chance[candidate]:.4g}"
        )


class AgainstBest(NamedTuple):
    """Scores of candidates, and how far below the best one they may lie."""

    name: str
    scores: Floats
    best: float
    #: The standard error of the best score, and how many of them are allowed.
    error: float
    n_se: float

    @property
    def lowest(self) -> float:
        """The lowest score allowed."""
        return self.best - self.n_se * self.error

    def in_words(self, candidate: int) -> str:
        """Compare a candidate's score with the lowest one allowed."""
        score = self.scores[candidate]
        return (
            f"{self.name} {score:.4g} is {'at least' if score >= self.lowest else 'below'} "
            f"{self.lowest:.4g}, the best ({self.best:.4g}) less {errors_in_words(self.n_se)}"
        )


def errors_in_words(n: float) -> str:
    """Return a number of standard errors in words."""
    return f"{n:g} standard error{'' if n == 1 else 's'}"


def with_ties(values: Any) -> Floats:
    """Return values, of which those that differ by no more than rounding are made equal."""
    values = np.asarray(values, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    new = np.ones(len(values), dtype=bool)
    new[1:] = ~np.isclose(ordered[1:], ordered[:-1], rtol=1e-9, atol=0)
    tied = np.empty_like(values)
    tied[order] = ordered[new][np.cumsum(new) - 1]
    return tied


def first_by(candidates: Index, keys: list[Floats], cv_results: dict[str, Any]) -> int:
    """Return the candidate with the highest keys; the first key that differs decides."""
    keys = [with_ties(np.nan_to_num(key, nan=-np.inf)) for key in keys]
    # Remaining ties are decided by the candidates' parameters, not by the order of the grid.
    names = [repr(sorted(p.items(), key=str)) for p in cv_results.get("params", [])]
    ranked = sorted(
        candidates.tolist(),
        key=lambda candidate: (
            *(-key[candidate] for key in keys),
            names[candidate] if names else "",
        ),
    )
    return int(ranked[0])


class Eligibility(NamedTuple):
    """Which candidates a rule chooses from, and the reason for each in words."""

    eligible: Mask
    reason: list[str]

    def explained(self, of_eligible: Callable[[int], str]) -> Eligibility:
        """Give each eligible candidate the reason that a function returns."""
        reasons = [
            of_eligible(candidate) if self.eligible[candidate] else reason
            for candidate, reason in enumerate(self.reason)
        ]
        return self._replace(reason=reasons)


class _Rule(BaseEstimator, ABC):
    """A rule that chooses among the candidates with a score, and an agreement if it needs one.

    Candidates that are no better than predictions that look at no feature are not eligible,
    unless no other one is left.
    """

    def __init__(self, score: str = "score") -> None:
        self.score = score

    _needs_agreement = False
    _has_floor = True
    # The ends of the warning that the chosen candidate is no better than chance.
    _chosen, _advice = "The chosen candidate may have learnt nothing: its", ", nor is any other's"

    def __call__(self, cv_results: dict[str, Any]) -> int:
        """Choose a candidate; warn if it is no better than predictions that look at no feature."""
        chosen = self._choose(cv_results, np.flatnonzero(self.explain(cv_results).eligible))
        against = self._against_chance(cv_results)
        if not against.above[chosen]:
            warn_caller(
                f"{self._chosen} {against.name} {against.values[chosen]:.4g} is not above that of "
                f"predictions that look at no feature, {against.chance[chosen]:.4g}, by "
                f"{errors_in_words(against.n_se)}{self._advice}."
            )
        return chosen

    @abstractmethod
    def _choose(self, cv_results: dict[str, Any], eligible: Ints) -> int:
        """Choose among the eligible candidates, of which there is at least one."""

    def explain(self, cv_results: dict[str, Any]) -> Eligibility:
        """Explain which candidates are eligible."""
        demands = self._demands(cv_results)
        known = np.logical_and.reduce([met for met, _ in demands])
        if not known.any():
            needed = "".join(f" and an {what}" for _, what in demands[1:])
            raise ValueError(
                f"cv_results: expected a candidate with a finite {self.score!r}{needed}, got none."
            )
        against = self._against_chance(cv_results)
        above = against.above
        if not self._has_floor or not (known & above).any():
            above = known
        reasons = [
            f"not eligible: no {lacking[0]}"
            if (lacking := [what for met, what in demands if not met[candidate]])
            else "eligible"
            if above[candidate]
            else f"not eligible: {against.not_above(candidate)}"
            for candidate in range(len(known))
        ]
        return Eligibility(known & above, reasons)

    def _demands(self, cv_results: dict[str, Any]) -> list[tuple[Mask, str]]:
        """Return which candidates have what the rule needs, and its name."""
        score, _ = scores_and_errors(cv_results, self.score)
        demands = [(np.isfinite(score), self.score)]
        if self._needs_agreement:
            demands.append((~np.isnan(column(cv_results, "agreement", "agreement")), "agreement"))
        return demands

    def _against_chance(self, cv_results: dict[str, Any]) -> AgainstChance:
        """Return what says whether candidates are better than such predictions."""
        # A constant may be the best in its worst environment; all together show what is learnt.
        name = self._score_on_all
        chance = recorded_chance(cv_results, name)
        return AgainstChance(name, *scores_and_errors(cv_results, name), chance)

    @property
    def _score_on_all(self) -> str:
        """The name of the score on the rows of all environments."""
        return self.score.removesuffix("_worst_environment")


class BestScore(_Rule):
    """The best score; the first candidate if several tie, as in GridSearchCV.

    Scores in the worst environment often tie, as it may have few rows: the score on all decides.
    """

    def _choose(self, cv_results: dict[str, Any], eligible: Ints) -> int:
        score, _ = scores_and_errors(cv_results, self.score)
        on_all, _ = scores_and_errors(cv_results, self._score_on_all)
        score, on_all = with_ties(score), with_ties(on_all)
        best = eligible[score[eligible] == score[eligible].max()]
        return int(best[on_all[best].argmax()])


class BestAgreement(_Rule):
    """The best agreement, whatever the score; warns if the chosen candidate is trivial."""

    _needs_agreement = True
    _has_floor = False
    _chosen = "The candidate of the best agreement is near-constant: its"
    _advice = ". Agreement measures stability, not truth: use selection='guarded'"
    #: Agreements that differ by less tie.
    tie_tol = 1e-6

    def _choose(self, cv_results: dict[str, Any], eligible: Ints) -> int:
        agreement = column(cv_results, "agreement", "agreement")[eligible]
        score, _ = scores_and_errors(cv_results, self.score)
        return first_by(eligible[agreement >= agreement.max() - self.tie_tol], [score], cv_results)


class BestExpected(_Rule):
    """The best expected score at another site."""

    def _choose(self, cv_results: dict[str, Any], eligible: Ints) -> int:
        score, _ = scores_and_errors(cv_results, self.score)
        return first_by(eligible, [self._expected(cv_results)[0], score], cv_results)

    def _expected(self, cv_results: dict[str, Any]) -> tuple[Floats, Floats]:
        """Return the expected scores and their errors."""
        name = f"expected_{self.score}"
        return column(cv_results, name, "score"), column(cv_results, f"{name}_se", "score")

    def _demands(self, cv_results: dict[str, Any]) -> list[tuple[Mask, str]]:
        known = np.isfinite(self._expected(cv_results)[0])
        return [*super()._demands(cv_results), (known, "expected score")]

    def _against_chance(self, cv_results: dict[str, Any]) -> AgainstChance:
        # Predictions that look at no feature do not change from site to site, nor their score.
        chance = recorded_chance(cv_results, self.score)
        return AgainstChance(f"expected {self.score}", *self._expected(cv_results), chance)

    def explain(self, cv_results: dict[str, Any]) -> Eligibility:
        """Explain which candidates are eligible; the reasons have the expected scores."""
        eligibility = super().explain(cv_results)
        score, _ = scores_and_errors(cv_results, self.score)
        expected, errors = self._expected(cv_results)
        return eligibility.explained(
            lambda candidate: (
                f"eligible: {self.score} {score[candidate]:.4g}, expected at the other site "
                f"{expected[candidate]:.4g} with a standard error of {errors[candidate]:.2g}"
                f"{_how(cv_results, candidate)}"
            )
        )


def _how(cv_results: dict[str, Any], candidate: int) -> str:
    """Return in words whether a candidate's rows are adapted, and which site is the worst."""
    parts = ["adapted"] if cv_results.get("adapted", np.zeros(candidate + 1))[candidate] else []
    if "worst_site" in cv_results:
        parts.append(f"worst at {cv_results['worst_site'][candidate]}")
    return f" ({', '.join(parts)})" if parts else ""


class _SimplestWithin(_Rule):
    def __init__(self, complexity: Complexity, score: str = "score", n_se: float = 1) -> None:
        self.complexity = complexity
        self.score = score
        self.n_se = n_se

    def explain(self, cv_results: dict[str, Any]) -> Eligibility:
        score, error = scores_and_errors(cv_results, self.score)
        eligibility = super().explain(cv_results)
        top = int(np.nanargmax(np.where(eligibility.eligible, score, np.nan)))
        best = AgainstBest(self.score, score, score[top], error[top], self.n_se)
        near = score >= best.lowest
        explained = eligibility.explained(
            lambda candidate: (
                f"{'' if near[candidate] else 'not '}eligible: {best.in_words(candidate)}"
            )
        )
        return explained._replace(eligible=eligibility.eligible & near)

    def _choose(self, cv_results: dict[str, Any], eligible: Ints) -> int:
        score, _ = scores_and_errors(cv_results, self.score)
        warn_of_one_split(cv_results, self.score)
        return first_by(eligible, [-self._complexities(cv_results), score], cv_results)

    def _complexities(self, cv_results: dict[str, Any]) -> Floats:
        if callable(self.complexity):
            values = [self.complexity(params) for params in cv_results["params"]]
        else:
            key = next(
                (x for x in (self.complexity, f"param_{self.complexity}") if x in cv_results), None
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


def within_one_standard_error(
    complexity: Complexity, *, score: str = "score", n_se: float = 1
) -> Rule:
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
