"""The rules that choose a candidate, and how the columns of ``cv_results_`` are read.

A rule is a function ``cv_results -> index``, as scikit-learn's ``refit``. One that guards has a
method ``eligible(cv_results)``, whose mask a search writes into its table, and `decides`, the name
of the metric or column that ranks. Whoever reads a search reads these two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from pa_select.scores.new_site import interval_of_sites
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Floats, Ints, Mask, Rule, Search

#: The columns of ``cv_results_`` by name.
Table: TypeAlias = Mapping[str, Any]
#: The name of a parameter or of a column, or a function of the parameters.
Complexity: TypeAlias = str | Callable[[dict[str, Any]], float]
#: How many standard errors above chance a candidate must be.
ABOVE_CHANCE = 2
# The solver ends within this many nats of a maximum: closer agreements are not told apart.
_TIE = 1e-6


def cv_results_of(search: Search, name: str = "search") -> dict[str, Any]:
    """Return the table of a fitted search, an argument of this name."""
    if not hasattr(search, "refit"):
        raise TypeError(f"{name}: expected a fitted search, got {type(search).__name__}.")
    check_is_fitted(search, "cv_results_")
    table: dict[str, Any] = search.cv_results_
    return table


def metrics_of(scoring: Any) -> list[str] | None:
    """Return the names of a search's metrics; None if only the results of a function tell."""
    if isinstance(scoring, (list, tuple, set, Mapping)):
        return list(scoring)
    # A scorer that `make_scorer` made returns a number; a function may return several.
    return None if callable(scoring) and not hasattr(scoring, "_score_func") else ["score"]


def check_metric(metric: str | None, scoring: Any) -> None:
    """Refuse the metric of a committee that its search does not have."""
    known = metrics_of(scoring)
    if known is not None and metric not in [None, *known]:
        raise ValueError(f"metric: expected one of {known}, got {metric!r}.")


def first_metric(search: Search, table: Table) -> str:
    """Return the metric of ``refit``, or else the first metric."""
    # A committee says which metric compares its candidates.
    metric = getattr(search.refit, "metric", search.refit)
    if isinstance(metric, str) and f"mean_test_{metric}" in table:
        return metric
    return next(name for name in table if name.startswith("mean_test_"))[len("mean_test_") :]


def name_of_column(table: Table, name: str) -> str:
    """Return the name of the column of a metric's means, or of what is a column itself."""
    # A metric comes first: it may have the name of a column.
    for key in (f"mean_test_{name}", name):
        if key in table:
            return key
    known = [key[10:] for key in table if key.startswith("mean_test_")]
    raise ValueError(
        f"score: expected one of the metrics {known}, or a column of cv_results_, got {name!r}."
    )


def column(table: Table, name: str) -> Floats:
    """Return the means of a metric, or the column of this name."""
    return np.array(table[name_of_column(table, name)], dtype=np.float64)


def split_scores_of(table: Table, metric: str) -> Floats:
    """Return the scores of a metric, (n_splits, n_candidates)."""
    columns: list[Floats] = []
    while (name := f"split{len(columns)}_test_{metric}") in table:
        columns.append(np.asarray(table[name], dtype=np.float64))
    return np.stack(columns)


def errors_of(table: Table, name: str) -> Floats:
    """Return the standard errors of a column, or else those over the splits; 0: not known."""
    # Searches of scikit-learn record the scores of the splits alone.
    for key in (f"se_test_{name}", f"{name}_se"):
        if key in table:
            return np.nan_to_num(np.asarray(table[key], dtype=np.float64))
    splits: Any = split_scores_of(table, name) if f"split1_test_{name}" in table else []
    if len(splits) < 2:
        return np.zeros(len(column(table, name)))
    return np.nan_to_num(np.std(splits, axis=0, ddof=1) / np.sqrt(len(splits)))


def chance_of(table: Table, metric: str) -> Floats:
    """Return the score of predictions that ignore the features; -inf if it is not known."""
    # A constant may be the best in its worst environment; all together show what is learnt.
    known = table.get(f"chance_test_{metric}", np.full(len(column(table, metric)), np.nan))
    return np.nan_to_num(np.asarray(known, dtype=np.float64), nan=-np.inf)


def new_site_names(metric: str) -> tuple[str, str]:
    """Return the names of the columns of the two ends of a metric's interval."""
    suffix = "" if metric == "score" else f"_{metric}"
    return f"new_site_low{suffix}", f"new_site_high{suffix}"


def new_site_columns(
    metric: str, scores: Floats, sizes: Floats, *, of_regressors: bool
) -> dict[str, Floats]:
    """Make the columns from the scores at the sites, (n_sites, n_candidates), and their rows."""
    ends = interval_of_sites(scores, sizes, of_regressors)
    return {} if ends is None else dict(zip(new_site_names(metric), ends, strict=True))


def first(eligible: Mask, *keys: Floats, table: Table, within: float = 0.0) -> int:
    """Return the best of the eligible candidates by the first key; the others decide ties.

    Values of the first key tie if they differ by at most `within`, and those of all keys if they
    differ by rounding. The parameters decide the last ties, not the order of the grid.
    """
    left = np.flatnonzero(eligible)
    for number, key in enumerate(keys):
        values = np.nan_to_num(np.asarray(key, dtype=np.float64)[left], nan=-np.inf)
        best = values.max()
        near = np.isclose(values, best, rtol=1e-9, atol=0.0 if number else within)
        left = left[near | (values == best)]
    params = table.get("params", [{}] * len(eligible))
    return int(min(left, key=lambda i: repr(sorted(params[i].items(), key=str))))


def lowest_near_best(table: Table, score: str, among: Mask, n_se: float) -> float:
    """Return the score that is `n_se` standard errors below the best one of some candidates."""
    values = column(table, score)
    # The limit is set by one that can be chosen, or it might exclude all of these.
    top = int(np.nanargmax(np.where(among, values, np.nan)))
    return float(values[top] - n_se * errors_of(table, score)[top])


def _finite(table: Table, score: str, decides: str) -> Mask:
    """Return who has a score, and a value of what decides; an error if nobody has."""
    known: Mask = np.isfinite(column(table, score)) & np.isfinite(column(table, decides))
    if not known.any():
        names = " and ".join(map(repr, dict.fromkeys((score, decides))))
        raise ValueError(
            f"cv_results: expected a candidate with a finite {names} in every split, got none. "
            f"{_reason(table)}"
        )
    return known


def _reason(table: Table) -> str:
    said = next(filter(None, table.get("error", [])), "")
    if said:
        return f"The first error: {said.rstrip('.')}. error_score='raise' shows the reason."
    return "A metric may be undefined in a split, as an area under the curve with one class."


@dataclass(eq=False, repr=False)
class BestOf(BaseEstimator):
    """The best value of a metric or column among the candidates that are better than chance.

    With `guarded` the score says who is better, or what decides if that is an expected score; if
    nobody is, all with a score are eligible. Without it all are.
    """

    decides: str
    score: str
    guarded: bool = True

    def _above_chance(self, table: Table) -> Mask:
        # Predictions that ignore the features score the same at every site.
        name = self.decides if self.decides.startswith("expected_") else self.score
        limit = chance_of(table, self.score) + ABOVE_CHANCE * errors_of(table, name)
        above: Mask = column(table, name) > limit
        return above

    def eligible(self, table: Table) -> Mask:
        """Return which candidates may be chosen."""
        known = _finite(table, self.score, self.decides)
        useful = known & self._above_chance(table)
        return useful if self.guarded and useful.any() else known

    def __call__(self, table: Table) -> int:
        """Return the chosen candidate, and warn if it is no better than chance."""
        keys = [column(table, name) for name in dict.fromkeys((self.decides, self.score))]
        within = _TIE if self.decides == "agreement" else 0.0
        # The first of equal scores, as in GridSearchCV.
        of_ties = {} if self.decides == self.score else table
        chosen = first(self.eligible(table), *keys, table=of_ties, within=within)
        if not self._above_chance(table)[chosen]:
            warn_caller(
                f"The chosen candidate may be no better than chance: its {self.score!r} is not "
                f"{ABOVE_CHANCE} standard errors above that of predictions that ignore the "
                f"features, {chance_of(table, self.score)[chosen]:.4g}."
            )
        return chosen


@dataclass(eq=False, repr=False)
class GuardedSelection(BaseEstimator):
    """Choose the best agreement among the candidates that are also accurate.

    This is a ``refit`` of `PASearchCV`, and of scikit-learn's searches with several metrics. A
    candidate is eligible if its mean score is within `n_se` standard errors of the best score and
    above chance by two standard errors. The eligible candidate of the best agreement is chosen.
    Ties are decided by the score, then by the log-loss if it was recorded, then by the smaller
    standard error of the score, and never by the order of the grid.

    Parameters
    ----------
    agreement : str, default="agreement"
        Name of the agreement: one of the search's metrics, or a column of its results.
    score : str, default="score"
        Name of the score that decides who is eligible; higher is better.
    n_se : float, default=1
        How many standard errors of the best score an eligible candidate's score may lie
        below it. With views, `PASearchCV` uses the score on the views and 2 standard errors.
    floor : "auto", float or None, default="auto"
        The score of predictions that ignore the features, such as the share of the most frequent
        class for an accuracy; None for no floor. "auto": what `PASearchCV` measured; no floor in
        a search of scikit-learn.

    Notes
    -----
    The standard error of `PASearchCV` is that of the out-of-fold rows, each of which counts once
    however often it was tested; where a scorer looks at more than predictions, it is the spread
    of the scores of the splits. In scikit-learn's searches it is the standard deviation over the
    splits divided by the square root of their number; that of a single split counts as 0. Folds
    share training data, so both are rules of thumb. Candidates without a score or an agreement
    are not eligible. If no candidate is eligible, the score decides, with a warning.

    With this ``refit`` scikit-learn's searches have no ``best_score_``, and their ``score``
    raises a KeyError: read ``cv_results_`` at ``best_index_``, and score ``best_estimator_``.

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

    @property
    def decides(self) -> str:
        """The name of the agreement."""
        return self.agreement

    def eligible(self, cv_results: Table) -> Mask:
        """Return which candidates may be chosen, of shape (n_candidates,)."""
        near = column(cv_results, self.score) >= self.lowest(cv_results)
        return near & self._above_chance(cv_results)

    def lowest(self, cv_results: Table) -> float:
        """Return the lowest score that an eligible candidate may have."""
        scored = _finite(cv_results, self.score, self.score)
        above, known = self._above_chance(cv_results), self._known(cv_results)
        # One that cannot be chosen must not exclude others.
        among = next(some for some in (above, known, scored) if some.any())
        return lowest_near_best(cv_results, self.score, among, self.n_se)

    def __call__(self, cv_results: Table) -> int:
        """Return the index of the chosen candidate."""
        score = column(cv_results, self.score)
        log_loss = cv_results.get("mean_test_neg_log_loss", np.zeros(len(score)))
        others = score, log_loss, -errors_of(cv_results, self.score)
        eligible = self.eligible(cv_results)
        if eligible.any():
            agreement = column(cv_results, self.agreement)
            return first(eligible, agreement, *others, table=cv_results, within=_TIE)
        warn_caller(
            f"No candidate with a finite {self.agreement!r} has a {self.score!r} {ABOVE_CHANCE} "
            "standard errors above chance, which is what predictions that ignore the features "
            f"score: the {self.score!r} alone decides."
        )
        return first(np.isfinite(score), *others, table=cv_results)

    def _known(self, table: Table) -> Mask:
        score, agreement = column(table, self.score), column(table, self.agreement)
        known: Mask = np.isfinite(score) & np.isfinite(agreement)
        return known

    def _above_chance(self, table: Table) -> Mask:
        limit = self._floor(table) + ABOVE_CHANCE * errors_of(table, self.score)
        above: Mask = self._known(table) & (column(table, self.score) > limit)
        return above

    def _floor(self, table: Table) -> Floats:
        floor: Any = self.floor
        if isinstance(floor, str):
            return chance_of(table, self.score)
        return np.asarray(-np.inf if floor is None else floor, dtype=np.float64)


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
        A function ``cv_results -> index``, for ``refit`` of `PASearchCV` or of scikit-learn's
        searches. Among equally simple candidates the best score wins.

    Raises
    ------
    KeyError, ValueError
        Raised by the rule, if there is no such column, or complexities are not numbers.

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
    # A partial function, since one that is made here could not be pickled.
    return partial(_simplest, complexity=complexity, score=score, n_se=n_se)


def _simplest(table: Table, *, complexity: Complexity, score: str, n_se: float) -> int:
    if callable(complexity):
        values: Any = [complexity(params) for params in table["params"]]
    else:
        values = table[complexity if complexity in table else f"param_{complexity}"]
    among = BestOf(score, score).eligible(table)
    near = among & (column(table, score) >= lowest_near_best(table, score, among, n_se))
    return first(near, -np.asarray(values, dtype=np.float64), column(table, score), table=table)


#: The rules that have a name; each is made of the metric's name.
RULES: dict[str, Callable[[str], Any]] = {
    "guarded": lambda score: GuardedSelection(score=score),
    "agreement": lambda score: BestOf("agreement", score, guarded=False),
    "expected": lambda score: BestOf(f"expected_{score}", score),
    "score": lambda score: BestOf(score, score),
}


def rule_of(refit: Any, metric: str, *, may_be_rule: bool, sites: Any, views: Any) -> Any:
    """Return the rule of a search, whose score is a metric.

    `may_be_rule`: `refit` is not the name of one of several metrics. With sites and with views,
    which the search may have, "guarded" looks at what was measured there.
    """
    if callable(refit):
        return refit
    name = refit if may_be_rule and refit in RULES else "guarded"
    if name == "guarded" and sites:
        name = "expected"  # it says what agreement only hints at
    if name == "guarded" and views:
        # The score on the rows of X excludes candidates that resist the shift: in our studies
        # the score on the views, with a wider guard, kept more of the gain.
        return GuardedSelection(score=f"{metric}_views", n_se=2)
    return RULES[name](metric)


def is_certified(table: Table, chosen: int) -> bool:
    """Return whether the upper bounds of no other eligible candidate exceed the best agreement."""
    others = table["eligible"] & (np.arange(len(table["params"])) != chosen)
    upper = table["agreement"] + np.nan_to_num(table["gap"], nan=np.inf)
    return not (others & (upper > table["agreement"][chosen] + 2 * _TIE)).any()


def order_of(search: Search) -> Ints:
    """Return the candidates of a search: the chosen one, the other eligible ones, and the rest."""
    table, chosen = search.cv_results_, getattr(search, "best_index_", -1)
    values = np.nan_to_num(column(table, decides(search)), nan=-np.inf)
    eligible = np.asarray(table.get("eligible", np.ones(len(values))), dtype=bool)
    return np.lexsort((-values, ~eligible, np.arange(len(values)) != chosen))


def decides(search: Search) -> str:
    """Return the name of the column by which a search ranks its candidates."""
    table = search.cv_results_
    usual = getattr(search.refit, "decides", first_metric(search, table))
    return name_of_column(table, getattr(search, "decides_", usual))
