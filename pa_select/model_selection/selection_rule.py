"""What a selection rule is: conditions, keys and what decides; and what rules are made of.

A rule states three things: the conditions that a candidate must meet, the keys that rank those
that meet them, and what decides.  All that reads a search (tables, reports, pictures,
certificates) asks the rule for these, and none asks which rule it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import get_scorer_names

from pa_select.model_selection.table_columns import recorded_chance, scores_and_errors
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Floats, Ints, Mask

#: The columns of ``cv_results_`` by name.
Table: TypeAlias = dict[str, Any]
#: Returns what is said of a candidate.
Words: TypeAlias = Callable[[int], str]
#: How many standard errors above chance a candidate must be.
ABOVE_CHANCE = 2


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
            self.values > self.chance + ABOVE_CHANCE * np.nan_to_num(self.errors),
            lambda candidate: (
                f"{self.name} {self.values[candidate]:.4g} is not "
                f"{errors_in_words(ABOVE_CHANCE)} above chance, {self.chance[candidate]:.4g}"
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
    and `PASearchDisplay`. A rule is an object for ``selection`` of
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
    # Whether the order of the grid decides the last ties, as in GridSearchCV.
    _by_order: ClassVar[bool] = False
    # Whether it is an error if no candidate is eligible.
    _needs_eligible: ClassVar[bool] = True
    # The ends of the warning that the chosen candidate is no better than chance.
    _chosen = "The chosen candidate may be no better than chance: its"
    _advice = ", nor is any other's"

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
        return [*known, above] if all_met([*known, above]).any() else known

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
        eligible = all_met(conditions)
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
                f"{errors_in_words(ABOVE_CHANCE)}{self._advice}."
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


def all_met(conditions: Sequence[Condition]) -> Mask:
    """Return which candidates meet all conditions."""
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
