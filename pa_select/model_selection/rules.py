"""The rules that have a name, the table of their names, and rules that are made by functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from difflib import get_close_matches
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from sklearn.metrics import get_scorer_names

from pa_select.model_selection.selection_rule import (
    ABOVE_CHANCE,
    Condition,
    Eligibility,
    Metric,
    SelectionRule,
    Table,
    Words,
    all_met,
    errors_in_words,
)
from pa_select.model_selection.table_columns import (
    column,
    new_site_names,
    recorded_chance,
    warn_of_one_split,
)
from pa_select.scores.new_site import FEWEST_SITES
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Floats, Rule

#: The name of a parameter or of a column, or a function of the parameters.
Complexity: TypeAlias = str | Callable[[dict[str, Any]], float]
# A score of chance above this means that most rows have the same class.
_FREQUENT = 0.6
# The columns of times of every search.
_TIMES = {f"{mean}_{of}_time" for mean in ("mean", "std") for of in ("fit", "score")}


class BestScore(SelectionRule):
    """The best score; the first candidate if several tie, as in GridSearchCV."""

    _by_order = True


class BestScoreOnViews(BestScore):
    """The best score on the rows of the views."""

    needs = "views"


class BestWorstEnvironment(BestScore):
    """The best score in a candidate's worst environment.

    These scores often tie, as an environment may have few rows: the score on all decides.
    """

    needs = "environments"

    def keys(self, cv_results: Table) -> list[Floats]:
        """Return the score in the worst environment, and that on all rows."""
        return [*super().keys(cv_results), self._against_chance(cv_results).values]


class BestAgreement(SelectionRule):
    """The best agreement, whatever the score; warns if the chosen candidate is trivial."""

    decides = "agreement"
    # The solver ends within this many nats of a maximum: closer ones are not told apart.
    tie_tol = 1e-6
    _chosen = "The candidate of the best agreement is near-constant: its"
    _advice = ". Agreement measures stability, not truth: use selection='guarded'"

    def conditions(self, cv_results: Table) -> list[Condition]:
        """Return the conditions: a score and an agreement."""
        return self._known(cv_results)


class BestExpected(SelectionRule):
    """The best expected score at another site."""

    needs = "paired"

    @property
    def decides(self) -> str:
        """The name of the expected score."""
        return f"expected_{self.score}"

    def why(self, cv_results: Table) -> Words:
        """Say both scores."""
        score, expected = Metric.read(cv_results, self.score), self._against_chance(cv_results)
        adapted, worst = cv_results.get("adapted"), cv_results.get("worst_site")

        def words(candidate: int) -> str:
            how = ["adapted"] if adapted is not None and adapted[candidate] else []
            how += [f"worst at {worst[candidate]}"] if worst is not None else []
            return (
                f"{self.score} {score.values[candidate]:.4g}, expected at the other site "
                f"{expected.values[candidate]:.4g} with a standard error of "
                f"{expected.errors[candidate]:.2g}" + (f" ({', '.join(how)})" if how else "")
            )

        return words

    def _known(self, cv_results: Table) -> list[Condition]:
        score = Metric.read(cv_results, self.score)
        return [score.known(), self._against_chance(cv_results).known()]

    def _against_chance(self, cv_results: Table) -> Metric:
        # Predictions that ignore the features do not change from site to site, nor their score.
        chance = recorded_chance(cv_results, self.score)
        expected = Metric.read(cv_results, self.decides)
        return expected._replace(name=f"expected {self.score}", chance=chance)


class BestAtNewSite(SelectionRule):
    """The best lower end of the interval of the score at a new site."""

    n_unseen_sites = FEWEST_SITES

    @property
    def decides(self) -> str:
        """The name of the lower end."""
        return new_site_names(self.score)[0]

    def conditions(self, cv_results: Table) -> list[Condition]:
        """Return the conditions: a score, a lower end, above chance."""
        if self.decides not in cv_results:
            raise ValueError(
                f"score: expected a metric that is defined at {FEWEST_SITES} or more sites that "
                f"no model has seen, got {self.score!r}."
            )
        return super().conditions(cv_results)

    def why(self, cv_results: Table) -> Words:
        """Say the score and the interval."""
        score = Metric.read(cv_results, self.score).values
        low, high = (cv_results[name] for name in new_site_names(self.score))
        return lambda candidate: (
            f"{self.score} {score[candidate]:.4g}, at a new site {low[candidate]:.4g} to "
            f"{high[candidate]:.4g}"
        )


@dataclass(eq=False, repr=False)
class GuardedSelection(SelectionRule):
    """Choose the best agreement among the candidates that are also accurate.

    This is a ``selection`` rule of `PASearchCV`, and a ``refit`` rule for scikit-learn's
    multi-metric searches. A candidate is eligible if its mean score is within `n_se`
    standard errors of the best score and above chance by two standard errors. A search of
    scikit-learn checks chance only if `floor` is given. The eligible candidate of the best
    agreement is chosen. Ties are decided by the score, then by the log-loss if it was recorded,
    then by the smaller standard error of the score, and never by the order of the grid.

    Parameters
    ----------
    agreement : str, default="agreement"
        Name of the agreement: one of the search's metrics, or a column of its results.
    score : str, default="score"
        Name of the score that decides who is eligible; higher is better.
    n_se : float, default=1
        How many standard errors of the best score an eligible candidate's score may lie
        below it. With views, `PASearchCV` uses the score on the views and 2
        standard errors. If that score was not recorded, 4 standard errors of the score on
        the rows keep more of the gain.
    floor : "auto", float or None, default="auto"
        The score of predictions that ignore the features, such as the share of the most frequent
        class for an accuracy; None for no floor. "auto": what `PASearchCV` measured; no floor in
        a search of scikit-learn.

    Notes
    -----
    The standard error of `PASearchCV` is that of the out-of-fold rows, each of which counts once
    however often it was tested; where a scorer looks at more than predictions, it is the spread
    of the scores of the splits. In scikit-learn's searches it is the standard deviation over the
    splits divided by the square root of their number; a single split has none: it counts as 0,
    with a warning. Folds share training data, so both are rules of thumb. Candidates that failed
    in a split, have no agreement or are not above chance are not eligible, and their scores are
    ignored when the best score is found. If no candidate is eligible, the score decides, with a
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
    >>> from pa_select import pa_scorer
    >>> from pa_select.model_selection import GuardedSelection
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
    _: KW_ONLY
    floor: str | float | None = "auto"
    tie_tol: ClassVar[float] = 1e-6

    # If no candidate is eligible, the score decides.
    _needs_eligible: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if isinstance(self.agreement, dict):  # a search calls its refit with its results
            raise TypeError(
                "refit: expected an object such as GuardedSelection('pa', 'accuracy'), got the "
                "class."
            )

    @property
    def decides(self) -> str:
        """The name of the agreement."""
        return self.agreement

    @property
    def by_agreement(self) -> bool:
        """True, whatever the name of the agreement."""
        return True

    def __call__(self, cv_results: Table) -> int:
        """Choose a candidate; a ValueError if the metrics or parameters are not usable."""
        eligible = self.explain(cv_results).eligible
        warn_of_one_split(cv_results, self.score)
        if eligible.any():
            return int(self.order(cv_results, eligible)[0])
        score = self._score_above_floor(cv_results)
        warn_caller(
            f"No candidate is within {errors_in_words(self.n_se)} of the best "
            f"{self.score!r} and {errors_in_words(ABOVE_CHANCE)} above chance, with a "
            f"finite {self.agreement!r}: the {self.score!r} alone decides."
            f"{self._advice_on(score)}"
        )
        _, *others = self.keys(cv_results)
        return int(self._ordered(cv_results, score.known().met, others)[0])

    def explain(self, cv_results: Table) -> Eligibility:
        """Explain which candidates are eligible, after checking the parameters."""
        self._check()
        return super().explain(cv_results)

    def conditions(self, cv_results: Table) -> list[Condition]:
        """Return the conditions: a score, an agreement, near the best score, above chance."""
        agreement = column(cv_results, self.agreement, "agreement")
        score = self._score_above_floor(cv_results)
        known, above = score.known(), score.above_chance()
        if not known.met.any():
            raise ValueError(f"cv_results: expected a finite {self.score!r}, got none.")
        agrees = Condition(np.isfinite(agreement), lambda _: f"no {self.agreement}")
        # One that cannot be chosen must not exclude others.
        comparable = known.met & agrees.met
        useful = (comparable & above.met, comparable)
        among = next((mask for mask in useful if mask.any()), known.met)
        return [known, agrees, score.near_best(among, self.n_se), above]

    def keys(self, cv_results: Table) -> list[Floats]:
        """Return the agreement, the score, the log-loss and the error of the score."""
        score = Metric.read(cv_results, self.score)
        log_loss = cv_results.get("mean_test_neg_log_loss", np.zeros_like(score.values))
        agreement = column(cv_results, self.agreement, "agreement")
        return [agreement, score.values, np.asarray(log_loss, dtype=np.float64), -score.errors]

    def _check_before(self, metrics: list[str] | None, params: Sequence[dict[str, Any]]) -> None:
        if self.agreement.startswith("agreement"):  # or `conditions` says how to do without it
            super()._check_before(metrics, params)

    def _check(self) -> None:
        if self.agreement == self.score:
            raise ValueError(f"score: expected another metric than agreement={self.agreement!r}.")
        known = get_scorer_names()
        # Swapped names would guard by the agreement and rank by the score, without an error.
        if self.agreement in known and self.score not in known:
            warn_caller(
                f"agreement: expected the name of an agreement, got {self.agreement!r}, a score "
                f"of scikit-learn, with score={self.score!r}. If the two are swapped, give "
                f"GuardedSelection({self.score!r}, {self.agreement!r})."
            )
        if not isinstance(self.n_se, (int, float, np.number)) or not self.n_se >= 0:
            raise ValueError(f"n_se: expected a number >= 0, got {self.n_se!r}.")

    def _advice_on(self, score: Metric) -> str:
        """Return advice on the scoring if always predicting one class scores high."""
        floor, best = float(score.chance.max()), float(np.nanmax(score.values))
        if not _FREQUENT < floor <= 1:
            return ""
        return (
            f" The best {self.score!r} is {best:.4g}, and always predicting one class gives "
            f"{floor:.4g}: scoring='balanced_accuracy', 'roc_auc' or 'neg_log_loss' "
            "would show what the candidates have learnt."
        )

    def _score_above_floor(self, cv_results: Table) -> Metric:
        """Return the score, whose chance is the floor."""
        score = Metric.read(cv_results, self.score)
        floor: Any = self.floor
        if isinstance(floor, str):
            if floor != "auto":
                raise ValueError(f"floor: expected 'auto', a number or None, got {floor!r}.")
            floor = cv_results.get(f"chance_test_{self.score}")
        floors = np.asarray(-np.inf if floor is None else floor, dtype=float)
        # Chance that is not known excludes nobody.
        chance = np.broadcast_to(np.nan_to_num(floors, nan=-np.inf), score.values.shape)
        return score._replace(chance=chance)


class _SimplestWithin(SelectionRule):
    def __init__(self, complexity: Complexity, score: str = "score", n_se: float = 1) -> None:
        self.complexity = complexity
        self.score = score
        self.n_se = n_se

    def __call__(self, cv_results: Table) -> int:
        warn_of_one_split(cv_results, self.score)
        return super().__call__(cv_results)

    def conditions(self, cv_results: Table) -> list[Condition]:
        conditions, score = super().conditions(cv_results), Metric.read(cv_results, self.score)
        return [*conditions, score.near_best(all_met(conditions), self.n_se)]

    def keys(self, cv_results: Table) -> list[Floats]:
        return [-self._complexities(cv_results), *super().keys(cv_results)]

    def _check_before(self, metrics: list[str] | None, params: Sequence[dict[str, Any]]) -> None:
        super()._check_before(metrics, params)
        known = {f"{prefix}{name}" for one in params for name in one for prefix in ("", "param_")}
        if isinstance(self.complexity, str) and self.complexity not in known | _TIMES:
            # Another name may be that of a column, which only the fits show.
            if meant := get_close_matches(self.complexity, known, 1):
                raise self._unknown(f" Did you mean {meant[0]!r}?")

    def _unknown(self, advice: str = "") -> ValueError:
        return ValueError(
            "complexity: expected a function of the parameters, or a parameter or column of "
            f"cv_results, got {self.complexity!r}.{advice}"
        )

    def _complexities(self, cv_results: Table) -> Floats:
        if callable(self.complexity):
            values = [self.complexity(params) for params in cv_results["params"]]
        else:
            names = (self.complexity, f"param_{self.complexity}")
            key = next((name for name in names if name in cv_results), None)
            if key is None:
                raise self._unknown()
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
        How many standard errors of the best score another one may lie below it.

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
    >>> from pa_select.model_selection import within_one_standard_error
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


class _OnlyAFunction(SelectionRule):
    """A function ``cv_results -> index``, which does not say what decides; None chooses nothing.

    What may have decided is shown: the expected score, the agreement, or else the score.
    """

    _needs_eligible = False

    def __init__(self, function: Rule | None, score: str) -> None:
        self.function, self.score = function, score

    @property
    def decides(self) -> str:
        return ""

    def column(self, cv_results: Table) -> str:
        names = (f"expected_{self.score}", "agreement", f"mean_test_{self.score}")
        return next(name for name in names if name in cv_results)

    def _check_before(self, metrics: list[str] | None, params: Sequence[dict[str, Any]]) -> None:
        """A function does not say what it reads."""

    def __call__(self, cv_results: Table) -> Any:
        assert self.function is not None
        return self.function(cv_results)

    def conditions(self, cv_results: Table) -> list[Condition]:
        n = len(cv_results["params"])
        n_failed = np.asarray(cv_results.get("n_failed_splits", np.zeros(n)))
        agreement = np.asarray(cv_results.get("agreement", np.zeros(n)))
        return [
            Condition(n_failed == 0, lambda _: "failed in a split"),
            Condition(~np.isnan(agreement), lambda _: "no agreement"),
        ]

    def keys(self, cv_results: Table) -> list[Floats]:
        return [np.asarray(cv_results[self.column(cv_results)], dtype=np.float64)]

    def explain(self, cv_results: Table) -> Eligibility:
        # An object may explain itself without being a `SelectionRule`.
        explain = getattr(self.function, "explain", super().explain)
        return Eligibility(*explain(cv_results))


#: The rules that have a name.
SelectionName: TypeAlias = Literal[
    "guarded", "agreement", "score", "score_views", "worst_environment", "new_site", "expected"
]
#: What ``selection`` may be.
Selection: TypeAlias = SelectionName | Callable[..., Any]
SELECTIONS: tuple[SelectionName, ...] = get_args(SelectionName)
DEFAULT: SelectionName = "guarded"

# They are functions of the metric's name.
_NAMED: dict[SelectionName, Callable[[str], SelectionRule]] = {
    "guarded": lambda score: GuardedSelection(score=score),
    "agreement": BestAgreement,
    "score": BestScore,
    "score_views": lambda score: BestScoreOnViews(f"{score}_views"),
    "worst_environment": lambda score: BestWorstEnvironment(f"{score}_worst_environment"),
    "new_site": BestAtNewSite,
    "expected": BestExpected,
}


def named_rule(selection: Selection | None, score: str) -> SelectionRule:
    """Return the rule that ``selection`` names; one that is only a function says nothing."""
    if isinstance(selection, SelectionRule):
        return selection
    if isinstance(selection, str):
        return _NAMED[selection](score)
    return _OnlyAFunction(selection, score)


def without_agreement(rule: SelectionRule, score: str) -> SelectionRule:
    """Return a rule, or the best score in its place if an agreement decides."""
    return BestScore(score) if rule.by_agreement else rule
