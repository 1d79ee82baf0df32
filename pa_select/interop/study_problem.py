"""The problem that the trials of one study share, and the evaluation of a trial."""

from __future__ import annotations

from typing import Any

import joblib
import numpy as np
from sklearn.base import clone

from pa_select.agreement.pooled_agreement import PooledPairs, pooled_agreement
from pa_select.model_selection import PASearchCV
from pa_select.model_selection.choice import make_rule
from pa_select.model_selection.evaluation import with_parameters
from pa_select.model_selection.plan import Plan
from pa_select.model_selection.stacks import Stacks
from pa_select.model_selection.table_columns import metric_columns
from pa_select.model_selection.worker import Outcome, fit_and_score_split


class StudyProblem:
    """A search problem whose candidates come one by one, and are fitted split by split.

    Parameters
    ----------
    search : PASearchCV
        The search with its parameters; it is not fitted.
    X, y, groups
        As in ``fit`` of the search.
    params : dict or None
        The ``**params`` of ``fit`` of the search.
    **given
        `environments`, `views`, `target` and `paired`, as in ``fit`` of the search.
    """

    def __init__(
        self, search: PASearchCV, X: Any, y: Any, groups: Any, params: Any, **given: Any
    ) -> None:
        search._validate_params()
        self.search = search
        self.plan = Plan(search, X, y, groups, dict(params or {}), **given)
        self.data = self.plan.data
        if not self.plan.of_regressors and len(self.plan.labels) < 2:
            raise ValueError(f"y: expected at least two classes, got only {self.plan.labels[0]}.")
        #: The metric of the selection rule; the first one if there are several.
        self.metric = "score"
        chance = self.plan.chance[0][0]
        if isinstance(chance, dict):
            self.metric = next(iter(chance))
        #: The splits in the order in which they are evaluated.
        self.order = _pairs_early(self.plan.pairs, len(self.plan.splits))
        self.rule = make_rule(search.selection, self.metric, self.plan.kind.pairing)

    def evaluate(self, parameters: dict[str, Any], split: int) -> Outcome:
        """Fit the estimator with these parameters to a split, and score it."""
        estimator = clone(self.search.estimator)
        return fit_and_score_split(estimator, parameters, self.plan.splits[split], self.data)

    def refit(self, parameters: dict[str, Any]) -> Any:
        """Fit the estimator with these parameters to all rows."""
        estimator = with_parameters(self.search.estimator, parameters)
        return estimator.fit(self.data.sources[0], self.data.y, **self.data.fit_params)

    def failure(self, outcome: Outcome) -> str | None:
        """Return why there is no agreement or no score, or None."""
        error = outcome.fit_error or outcome.score_error
        if error is not None:
            return error.strip().splitlines()[-1]
        scores = outcome.test_scores
        score = scores[self.metric] if isinstance(scores, dict) else scores
        return None if np.isfinite(score) else f"{self.metric} is {score}."

    def agreement_so_far(self, outcomes: list[Outcome | None], last: int) -> float | None:
        """Return the agreement of the pairs that both models scored; None if none is new."""
        pairs = self.plan.pairs
        there = np.array([outcome is not None for outcome in outcomes])
        used = there[pairs.model_a] & there[pairs.model_b]
        new = used & ((pairs.model_a == last) | (pairs.model_b == last))
        if not pairs.weight[new].any():
            return None
        rows = self.plan.layout.wanted
        filled = [
            _without_scores(rows[s], self.plan.labels) if outcome is None else outcome
            for s, outcome in enumerate(outcomes)
        ]
        stacks = Stacks([filled], self.plan.layout, self.plan.labels)
        some = PooledPairs(*(column[used] for column in pairs))
        found = next(pooled_agreement(stacks, some, **self.plan.solver))
        return float(found.score) if found.failure is None else None

    def row(self, outcomes: list[Outcome]) -> tuple[dict[str, Any], str | None]:
        """Return a candidate's row of ``cv_results_`` without nan values.

        Also return why the value of the trial is not in it, or None.
        """
        columns, metrics = self.plan.score_columns([outcomes])
        scores = [outcome.test_scores for outcome in outcomes]
        for name in metrics:
            values = [[s[name] if isinstance(s, dict) else s for s in scores]]
            columns |= metric_columns(name, np.array(values, dtype=np.float64))
        stacks = self.plan.stacks([outcomes])
        of_agreements, agreements = self.plan.agreement_columns([outcomes], stacks)
        columns |= of_agreements
        columns |= self.plan.expected_columns([outcomes], stacks, columns, self.metric)
        columns |= self.plan.class_balance([outcomes], stacks)[0]
        columns["mean_fit_time"] = [np.mean([outcome.fit_time for outcome in outcomes])]
        row = {
            name: getattr(values[0], "tolist", lambda value=values[0]: value)()
            for name, values in columns.items()
            if not name.startswith(("split", "rank"))
        }
        known = {name: value for name, value in row.items() if value == value}
        if self.plan.kind.sites:
            expected = f"expected_{self.metric}"
            return known, None if expected in known else f"{expected} is nan."
        if "agreement" not in known:
            return known, agreements.failures.get(0, "no agreement")
        return known, None

    def describe(self) -> dict[str, Any]:
        """Describe the problem, for `same_problem`."""
        plain = [
            value if isinstance(value, (str, list, tuple)) else None
            for value in (self.search.scoring, self.search.prior)
        ]
        splits = [(split.train, split.test) for split in self.plan.splits]
        sites = [site.name for site in self.plan.kind.sites]  # the columns have these names
        exact = (np.asarray(self.data.y), splits, tuple(self.plan.pairs), plain, sites)
        # Machines may compute views with different rounding errors.
        rows = [np.asarray(source) for source in self.data.sources]
        numeric = [np.abs(x.astype(np.float64)) for x in rows if x.dtype.kind in "fiub"]
        means = [float(np.nanmean(values)) for values in numeric]
        return {"exact": joblib.hash(exact), "means": means}


def same_problem(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two descriptions are of the same problem."""
    if one["exact"] != other["exact"] or len(one["means"]) != len(other["means"]):
        return False
    return bool(np.allclose(one["means"], other["means"], rtol=1e-5, atol=0))


def _pairs_early(pairs: PooledPairs, n_splits: int) -> list[int]:
    """Return an order of the splits in which each one adds as many pairs as it can."""
    counts = np.zeros((n_splits, n_splits))
    np.add.at(counts, (pairs.model_a, pairs.model_b), 1)
    counts += counts.T
    order: list[int] = []
    for _ in range(n_splits):
        gain = counts.diagonal() + counts[:, order].sum(1)
        gain[order] = -1
        order.append(int(gain.argmax()))
    return order


def _without_scores(rows: dict[int, Any], labels: Any) -> Outcome:
    """Make an outcome for a split that is not evaluated yet."""
    blank = {source: np.zeros((len(which), len(labels))) for source, which in rows.items()}
    return Outcome(0.0, 0.0, 0, None, matrices=blank, classes=labels)
