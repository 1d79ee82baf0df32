"""The rules by which a search chooses a candidate: what a rule states, and those with a name.

A rule states three things: the conditions that a candidate must meet, the keys that rank those
that meet them, and what decides.  All that reads a search (tables, reports, pictures,
certificates) asks the rule for these, and none asks which rule it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from difflib import get_close_matches
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import get_scorer_names

from pa_select.model_selection.table_columns import (
    column,
    new_site_names,
    recorded_chance,
    scores_and_errors,
    warn_of_one_split,
)
from pa_select.scores.new_site import FEWEST_SITES
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Floats, Ints, Labels, Mask, Rule

#: The columns of ``cv_results_`` by name.
Table: TypeAlias = dict[str, Any]
#: Returns what is said of a candidate.
Words: TypeAlias = Callable[[int], str]
#: The name of a parameter or of a column, or a function of the parameters.
Complexity: TypeAlias = str | Callable[[dict[str, Any]], float]
# A score of chance above this means that most rows have the same class.
_FREQUENT = 0.6
# The columns of times of every search.
_TIMES = {f"{mean}_{of}_time" for mean in ("mean", "std") for of in ("fit", "score")}
# How many standard errors above chance a candidate must be.
_ABOVE_CHANCE = 2


def errors_in_words(n: float) -> str:
    """Return a number of standard errors in words."""
    return f"{n:g} standard error{'' if n == 1 else 's'}"


class Condition(NamedTuple):
    """What an eligible candidate must meet, and what is said of one that does not.

    `Metric` makes the usual conditions.

    Parameters
    ----------
    met : ndarray of shape (n_candidates,) of bool
        Whether each candidate meets it.
    words : callable
        A function of a candidate's number that returns words such as "no agreement", for the
        column ``reason``.
    limit : float, default=nan
        The lowest score that meets it, which pictures show as the guard; nan if it is not the
        same for all candidates, or not about the score. If there is a limit, the words also fit
        the candidates that meet the condition.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select.model_selection import Condition
    >>> fast = Condition(np.array([True, False]), lambda candidate: "takes too long")
    >>> fast.words(1)
    'takes too long'
    """

    met: Mask
    words: Words
    limit: float = np.nan


class Metric(NamedTuple):
    """The values of candidates, their errors, and the value of predictions by chance.

    Parameters
    ----------
    name : str
        What the reasons call it.
    values, errors : ndarray of shape (n_candidates,)
        The values and their standard errors. Higher is better; nan: not known.
    chance : ndarray of shape (n_candidates,)
        The value of predictions that ignore the features; -inf if it is not known.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select.model_selection import Metric
    >>> table = {
    ...     "params": [{"C": 1}, {"C": 10}],
    ...     "mean_test_score": np.array([0.9, 0.7]),
    ...     "se_test_score": np.array([0.05, 0.05]),
    ... }
    >>> near = Metric.read(table, "score").near_best(np.array([True, True]), n_se=1)
    >>> near.met.tolist(), near.words(1)
    ([True, False], 'score 0.7 is below 0.85, the best (0.9) less 1 standard error')
    """

    name: str
    values: Floats
    errors: Floats
    chance: Floats

    @classmethod
    def read(cls, cv_results: Table, name: str, argument: str = "score") -> Metric:
        """Read a metric, or another column with its errors, from ``cv_results_``.

        Parameters
        ----------
        cv_results : dict
            ``cv_results_`` of a search.
        name : str
            A metric, such as "score", or a column, such as "agreement".
        argument : str, default="score"
            What the error calls a name that is neither.

        Returns
        -------
        Metric
            The values of candidates that failed in a split are nan.

        Raises
        ------
        ValueError
            If there is no such metric or column.
        """
        values, errors = scores_and_errors(cv_results, name, argument)
        return cls(name, values, errors, recorded_chance(cv_results, name))

    def known(self) -> Condition:
        """Return the condition that a candidate has a value."""
        return Condition(np.isfinite(self.values), lambda _: f"no {self.name}")

    def above_chance(self) -> Condition:
        """Return the condition that a candidate is two standard errors better than chance."""
        # An error that is not known counts as 0, so that one split can choose.
        return Condition(
            self.values > self.chance + _ABOVE_CHANCE * np.nan_to_num(self.errors),
            lambda candidate: (
                f"{self.name} {self.values[candidate]:.4g} is not "
                f"{errors_in_words(_ABOVE_CHANCE)} above chance, {self.chance[candidate]:.4g}"
            ),
        )

    def near_best(self, among: Mask, n_se: float) -> Condition:
        """Return the condition that a candidate is not far below the best one.

        Parameters
        ----------
        among : ndarray of shape (n_candidates,) of bool
            The candidates of which the best one is taken.
        n_se : float
            How many standard errors of the best one a value may lie below it.

        Returns
        -------
        Condition
            It has a limit.
        """
        # The limit is set by one that can be chosen, or it might exclude all of these.
        top = int(np.nanargmax(np.where(among, self.values, np.nan)))
        best = self.values[top]
        lowest = float(best - n_se * self.errors[top])
        near = self.values >= lowest
        return Condition(
            near,
            lambda candidate: (
                f"{self.name} {self.values[candidate]:.4g} is "
                f"{'at least' if near[candidate] else 'below'} {lowest:.4g}, the best "
                f"({best:.4g}) less {errors_in_words(n_se)}"
            ),
            lowest,
        )


def with_ties(values: Any) -> Floats:
    """Return values, of which those that differ by no more than rounding are made equal."""
    values = np.asarray(values, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    new = np.ones(len(values), dtype=bool)
    # Neighbours are compared, so that values on both sides of a rounded number tie, too.
    new[1:] = ~np.isclose(ordered[1:], ordered[:-1], rtol=1e-9, atol=0)
    tied = np.empty_like(values)
    tied[order] = ordered[new][np.cumsum(new) - 1]
    return tied


class Eligibility(NamedTuple):
    """Which candidates a rule chooses from, and the reason for each in words."""

    eligible: Mask
    reason: list[str]


class SelectionRule(BaseEstimator):
    """A rule that chooses a candidate of a search: the base class of all rules.

    A subclass says what it needs to say otherwise than this class, which chooses the best value
    of what `decides` among the candidates that are better than chance:

    - `decides`, the name of a metric or column;
    - `conditions`, which an eligible candidate meets;
    - `keys`, which rank the eligible candidates.

    Everything that reads a search asks the rule for them: the columns ``eligible``, ``reason``
    and ``not_told_apart``, `certified_choice_`, ``compare``, ``summary``, ``report``,
    `PASearchDisplay`, and Optuna's objective. A rule is an object for ``selection`` of
    `PASearchCV` or ``refit`` of scikit-learn's searches, and is called with ``cv_results_``.

    Parameters
    ----------
    score : str, default="score"
        Name of the score. Higher is better.

    Attributes
    ----------
    needs : str
        What ``fit`` must be given: "paired", "views", "environments", or "" (the default).
    n_unseen_sites : int
        How many sites that no fitted model has seen ``fit`` must be given: environments that are
        held out as a whole, or sites with pairs. The default is 0.
    tie_tol : float
        Values of the first key that are less below the best one tie with it. The default is 0.
    claim : str
        What the chosen candidate is, for reports, such as "has the best {value}" (the default).

    See Also
    --------
    GuardedSelection : The best agreement among the candidates that are also accurate.
    within_one_standard_error : The simplest candidate near the best score.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from pa_select import PASearchCV
    >>> from pa_select.model_selection import Condition, Metric, SelectionRule
    >>> class AmongTheTwoBest(SelectionRule):
    ...     decides = "agreement"
    ...
    ...     def conditions(self, cv_results):
    ...         score = Metric.read(cv_results, self.score)
    ...         near = score.values >= np.sort(score.values)[-2]
    ...         return [
    ...             *super().conditions(cv_results),
    ...             Condition(near, lambda candidate: "two others have better scores"),
    ...         ]
    >>> search = PASearchCV(
    ...     DecisionTreeClassifier(random_state=0),
    ...     {"max_depth": [1, 2, 3]},
    ...     selection=AmongTheTwoBest(),
    ... ).fit(*load_wine(return_X_y=True))
    >>> print(search.cv_results_["reason"][0])
    not eligible: two others have better scores
    """

    needs: ClassVar[str] = ""
    n_unseen_sites: ClassVar[int] = 0
    tie_tol: ClassVar[float] = 0.0
    claim: ClassVar[str] = "has the best {value}"
    # Whether the order of the grid decides the last ties, as in GridSearchCV.
    _by_order: ClassVar[bool] = False
    # Whether it is an error if no candidate is eligible.
    _needs_eligible: ClassVar[bool] = True
    # The ends of the warning that the chosen candidate is no better than chance.
    _chosen, _advice = "The chosen candidate may have learnt nothing: its", ", nor is any other's"

    def __init__(self, score: str = "score") -> None:
        self.score = score

    @property
    def decides(self) -> str:
        """The name of the metric or column of ``cv_results_`` that decides: the score."""
        return self.score

    @property
    def by_agreement(self) -> bool:
        """Whether an agreement decides."""
        return self.decides.startswith("agreement")

    def column(self, cv_results: Table) -> str:
        """Return the name of the column of ``cv_results_`` that decides."""
        mean = f"mean_test_{self.decides}"
        return mean if mean in cv_results else self.decides

    def conditions(self, cv_results: Table) -> list[Condition]:
        """Return what an eligible candidate must meet; the first unmet one is its reason.

        Parameters
        ----------
        cv_results : dict
            ``cv_results_`` of a search.

        Returns
        -------
        list of Condition
            At least one. By default: a score, a value of what decides, and a score above chance
            unless nobody's is.
        """
        known, above = self._known(cv_results), self._against_chance(cv_results).above_chance()
        # If nobody is above chance, the best one is chosen, with a warning.
        return [*known, above] if _all_met([*known, above]).any() else known

    def keys(self, cv_results: Table) -> list[Floats]:
        """Return what ranks candidates; the first key that differs decides.

        Parameters
        ----------
        cv_results : dict
            ``cv_results_`` of a search.

        Returns
        -------
        list of ndarray of shape (n_candidates,)
            Higher is better. By default: what decides, and then the score.
        """
        names = dict.fromkeys((self.decides, self.score))
        return [Metric.read(cv_results, name).values for name in names]

    def why(self, cv_results: Table) -> Words | None:
        """Return what is said of eligible candidates in ``cv_results_``.

        Returns
        -------
        callable or None
            A function of a candidate's number. By default the words of the condition with a
            limit; None: only that they are eligible.
        """
        with_limit = (c.words for c in self.conditions(cv_results) if np.isfinite(c.limit))
        return next(with_limit, None)

    def threshold(self, cv_results: Table) -> float:
        """Return the lowest score that the conditions allow, the guard; nan without a limit."""
        limits = [condition.limit for condition in self.conditions(cv_results)]
        return float(max((limit for limit in limits if np.isfinite(limit)), default=np.nan))

    def explain(self, cv_results: Table) -> Eligibility:
        """Explain which candidates are eligible.

        Parameters
        ----------
        cv_results : dict
            ``cv_results_`` of a search.

        Returns
        -------
        Eligibility
            Whether each candidate is eligible, and the reason in words.

        Raises
        ------
        ValueError
            If a metric was not recorded, or no candidate is eligible.
        """
        conditions, why = self.conditions(cv_results), self.why(cv_results)
        _check_lengths("conditions", [condition.met for condition in conditions], cv_results)
        eligible = _all_met(conditions)
        reasons = []
        for candidate in range(len(eligible)):
            # The first unmet condition is reason enough.
            unmet = [c.words(candidate) for c in conditions if not c.met[candidate]]
            said = unmet[0] if unmet else why(candidate) if why else ""
            reasons.append(("not " if unmet else "") + "eligible" + (f": {said}" if said else ""))
        if self._needs_eligible and not eligible.any():
            raise ValueError(
                f"cv_results: expected an eligible candidate, got none; the first is {reasons[0]}."
            )
        return Eligibility(eligible, reasons)

    def order(self, cv_results: Table, eligible: Mask) -> Ints:
        """Order candidates from the best to the worst.

        Parameters
        ----------
        cv_results : dict
            ``cv_results_`` of a search.
        eligible : ndarray of shape (n_candidates,) of bool
            The candidates that come first, and among which values tie with the best one's.

        Returns
        -------
        ndarray of shape (n_candidates,)
            The numbers of the candidates.
        """
        return self._ordered(cv_results, eligible, self.keys(cv_results), self.tie_tol)

    def __call__(self, cv_results: Table) -> int:
        """Choose a candidate; warn if it is no better than predictions by chance.

        Parameters
        ----------
        cv_results : dict
            ``cv_results_`` of a search.

        Returns
        -------
        int
            Index of the chosen candidate.

        Raises
        ------
        ValueError
            As `explain`.
        """
        chosen = int(self.order(cv_results, self.explain(cv_results).eligible)[0])
        metric = self._against_chance(cv_results)
        if not metric.above_chance().met[chosen]:
            warn_caller(
                f"{self._chosen} {metric.name} {metric.values[chosen]:.4g} is not above that of "
                f"predictions that ignore the features, {metric.chance[chosen]:.4g}, by "
                f"{errors_in_words(_ABOVE_CHANCE)}{self._advice}."
            )
        return chosen

    def _ordered(
        self, cv_results: Table, eligible: Mask, keys: list[Floats], tie_tol: float = 0.0
    ) -> Ints:
        _check_lengths("keys", keys, cv_results)
        first = np.nan_to_num(keys[0], nan=-np.inf)
        best = first[eligible].max(initial=-np.inf)
        first = np.where(eligible & (first >= best - tie_tol), best, first)
        # Where rounding alone differs, the next key decides.
        ranked = [-with_ties(np.nan_to_num(key, nan=-np.inf)) for key in (first, *keys[1:])]
        # Remaining ties are decided by the candidates' parameters, not by the order of the grid.
        params = cv_results.get("params", [{}] * len(first))
        names = ["" if self._by_order else repr(sorted(p.items(), key=str)) for p in params]
        return np.array(
            sorted(
                range(len(first)),
                key=lambda i: (not eligible[i], *(key[i] for key in ranked), names[i]),
            )
        )

    def _check_before(self, metrics: list[str] | None, params: Sequence[dict[str, Any]]) -> None:
        """Refuse what a search, which is not fitted yet, cannot record.

        `metrics` are the names of its metrics, or None if they are not known, and `params` those
        of its candidates.
        """
        score = getattr(self, "score", None)
        # Other names may be those of columns.
        if (
            metrics is not None
            and score not in metrics
            and score in ["score", *get_scorer_names()]
        ):
            raise ValueError(f"score: expected one of the metrics {metrics}, got {score!r}.")

    def _known(self, cv_results: Table) -> list[Condition]:
        """Return the conditions that a candidate has a score, and a value of what decides."""
        names = {self.decides: "decides", self.score: "score"}
        return [Metric.read(cv_results, *named).known() for named in reversed(names.items())]

    def _against_chance(self, cv_results: Table) -> Metric:
        """Return what says whether candidates are better than chance."""
        # A constant may be the best in its worst environment; all together show what is learnt.
        return Metric.read(cv_results, self.score.removesuffix("_worst_environment"))


def _all_met(conditions: Sequence[Condition]) -> Mask:
    met: Mask = np.logical_and.reduce([condition.met for condition in conditions])
    return met


def _check_lengths(name: str, values: Sequence[Any], cv_results: Table) -> None:
    """Refuse what a method of a rule returns if it has not a value for each candidate."""
    n = len(next(iter(cv_results.values())))
    wrong = [np.shape(one) for one in values if np.shape(one) != (n,)]
    if wrong or not len(values):
        got = f"one of the shape {wrong[0]}" if wrong else "none"
        raise ValueError(
            f"{name}: expected at least one, each with a value for all {n} candidates, got {got}."
        )


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
        How many standard errors of the best score an eligible candidate's score may lie
        below it. With views, `PASearchCV` uses the score on the views and 2
        standard errors. If that score was not recorded, 4 standard errors of the score on
        the rows keep more of the gain.
    floor : "auto", float or None, default="auto"
        The score of predictions that ignore the features; None for no floor. "auto": what
        `PASearchCV` measured; else a recorded metric "majority_rate"
        (`pa_select.model_selection.majority_rate`); else no floor.

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
            f"{self.score!r} and {errors_in_words(_ABOVE_CHANCE)} above chance, with a "
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
            recorded = (f"chance_test_{self.score}", "mean_test_majority_rate")
            floor = next((cv_results[name] for name in recorded if name in cv_results), None)
        floors = np.asarray(-np.inf if floor is None else floor, dtype=float)
        # Chance that is not known excludes nobody.
        chance = np.broadcast_to(np.nan_to_num(floors, nan=-np.inf), score.values.shape)
        return score._replace(chance=chance)


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


class _SimplestWithin(SelectionRule):
    claim = "is the simplest with nearly the best {value}"

    def __init__(self, complexity: Complexity, score: str = "score", n_se: float = 1) -> None:
        self.complexity = complexity
        self.score = score
        self.n_se = n_se

    def __call__(self, cv_results: Table) -> int:
        warn_of_one_split(cv_results, self.score)
        return super().__call__(cv_results)

    def conditions(self, cv_results: Table) -> list[Condition]:
        conditions, score = super().conditions(cv_results), Metric.read(cv_results, self.score)
        return [*conditions, score.near_best(_all_met(conditions), self.n_se)]

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


class _OnlyAFunction(SelectionRule):
    """A function ``cv_results -> index``, which does not say what decides; None chooses nothing.

    What may have decided is shown: the expected score, the agreement, or else the score.
    """

    claim = "was chosen by a function"
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
