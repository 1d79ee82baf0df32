"""The problem that all candidates of a search solve: the data, the splits and the pairs."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import check_random_state, indexable
from sklearn.utils.multiclass import check_classification_targets

from pa_select.model_selection.agreement_columns import Agreements, agreement_table, refine
from pa_select.model_selection.class_balance import class_balances
from pa_select.model_selection.expected_columns import ExpectedColumns
from pa_select.model_selection.fit_arguments import (
    DATA,
    check_selection,
    check_site_parameters,
    check_text,
)
from pa_select.model_selection.judged_environments import judge_environments
from pa_select.model_selection.parallel import chance_scores
from pa_select.model_selection.plan import Rows, check_environments, make_plan
from pa_select.model_selection.score_columns import split_table
from pa_select.model_selection.selection_rules import looks_at_agreement
from pa_select.model_selection.splits import needs_groups
from pa_select.model_selection.stacks import Stacks, complete
from pa_select.model_selection.worker import Data, Outcome
from pa_select.utils.columns import check_column
from pa_select.utils.fit_params import check_fit_params
from pa_select.utils.sklearn_private import _check_method_params, _num_samples
from pa_select.utils.typing import Floats, Ints


class ClassBalance(NamedTuple):
    """Shares of the classes predicted on X and on the target, (n_candidates, n_classes)."""

    source: Floats
    target: Floats

    @property
    def shift(self) -> Floats:
        """Half of the sum of the absolute differences of the shares, for each candidate."""
        half: Floats = np.abs(self.target - self.source).sum(1) / 2
        return half


class SearchProblem:
    """A search without its candidates: the checked arguments of ``fit``, and the plan.

    Parameters
    ----------
    search : PASearchCV or PARandomizedSearchCV
        The search with its parameters; it need not be fitted.
    X, y, groups
        As in ``fit`` of the search.
    params : dict
        The other keyword arguments of ``fit``, which are routed.
    **given
        `environments`, `views`, `target` and `paired`, as in ``fit`` of the search.

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong; the message names it.
    """

    def __init__(
        self,
        search: Any,
        X: Any,
        y: Any,
        groups: Any,
        params: dict[str, Any],
        **given: Any,
    ) -> None:
        check_fit_params(search.estimator, params, DATA)
        check_text(groups, "groups", X)
        check_selection(search.selection, given)
        check_site_parameters(search.adapter, search.reference, given.get("paired"))
        scorers, _ = search._get_scorers()
        #: Whether the candidates are regressors, which have no agreement.
        self.of_regressors = is_regressor(search.estimator)
        #: What the models of the candidates say of rows, in words.
        self.scored = "predictions" if self.of_regressors else "class scores"
        X, y = _check_data(search, X, y, given.get("paired"))
        # The default splitter takes groups itself; they are routed to a splitter of the user.
        own_folds = search.cv is None or isinstance(search.cv, numbers.Integral)
        if groups is None and given.get("environments") is not None and needs_groups(search.cv):
            groups = check_environments(given["environments"], X)
        if groups is not None and not own_folds:
            params = params | {"groups": groups}
        elif groups is not None:
            groups = check_column(groups, _num_samples(X), "groups")
        params = _check_method_params(X, params=params)
        routed = search._get_routed_params_for_fit(params)
        #: Weights of the rows, or None.
        self.sample_weight = params.get("sample_weight")
        rng = check_random_state(0 if search.random_state is None else search.random_state)
        #: The splits, the pairs, and the rows that each model scores.
        self.plan = make_plan(
            Rows(X, y, groups=groups, sample_weight=self.sample_weight, **given),
            pairing=search.pairing,
            cv=search.cv,
            seed=int(rng.randint(2**31 - 2)),
            split_params=routed.splitter.split,
            estimator=search.estimator,
            adapter=search.adapter,
        )
        # Imported here: workers that fit and score do not need torch.
        from pa_select.agreement.inputs import validation
        from pa_select.utils.estimators import resolve_device

        #: The distinct labels; none for regressors.
        self.labels = np.unique(np.asarray(y)[: 0 if self.of_regressors else None])
        validation.check_tol(search.tol)
        if not self.of_regressors:
            validation.check_prior(search.prior, len(self.labels))
        resolve_device(search.device)
        #: Parameters of `pooled_agreement`.
        self.solver = {"prior": search.prior, "tol": search.tol, "device": search.device}
        #: The data that each fit needs.
        self.data = Data(
            self.plan.sources,
            y,
            scorers,
            routed.estimator.fit,
            routed.scorer.score,
            search.error_score,
            search.dtype,
            labels=self.labels,
            of_regressors=self.of_regressors,
        )
        #: What the columns of expected scores are computed with; None without pairs.
        self.expected: ExpectedColumns | None = None
        if self.plan.sites:
            self.expected = ExpectedColumns(
                self.plan, self.data, search.reference, self.sample_weight
            )
            self.data = replace(self.data, with_probabilities=self.expected.needs_probabilities)
        #: The environments whose scores can be compared.
        self.judged = judge_environments(self.plan.splits, self.data, self.plan.environments)

    @cached_property
    def chance(self) -> list[list[Any]]:
        """Scores of predictions that look at no feature; see `chance_scores`."""
        return chance_scores(self.plan.splits, self.data)

    def score_columns(self, outcomes: list[list[Outcome]]) -> tuple[dict[str, Any], list[str]]:
        """Make the columns of the scores, and list the names of the metrics."""
        return split_table(outcomes, self.chance, self.plan, self.judged)

    def agreement_columns(
        self, outcomes: list[list[Outcome]]
    ) -> tuple[dict[str, Any], Agreements, Stacks]:
        """Make the columns of the agreements; return agreements and stacked scores, too.

        Regressors have none.
        """
        if self.of_regressors:
            some = [outcomes[c] for c in complete(outcomes).tolist()]
            nothing = Agreements({}, np.empty((len(outcomes), 0)), {})
            return {}, nothing, Stacks(some, self.plan.layout, self.labels)
        return agreement_table(outcomes, self.plan, self.labels, **self.solver)

    def refine(
        self,
        table: dict[str, Any],
        found: Agreements,
        stacks: Stacks,
        which: Ints,
    ) -> Callable[[Ints, float], None]:
        """Return a function that enters candidates' agreements within a gap into the table.

        The scores of the candidates `which` are stacked.
        """

        def refined(candidates: Ints, gap: float) -> None:
            chosen = stacks.of(np.searchsorted(which, candidates))
            options = self.solver | {"tol": gap}
            refine(table, found, candidates, chosen, self.plan, **options)

        return refined

    def expected_columns(
        self, outcomes: list[list[Outcome]], stacks: Stacks, table: Any, metric: str
    ) -> dict[str, Any]:
        """Make the columns of the scores expected at the sites; none without sites."""
        if self.expected is None:
            return {}
        return self.expected.table(stacks, complete(outcomes), table, metric)

    def class_balance(self, stacks: Stacks) -> ClassBalance:
        """Compute the shares of the classes predicted for rows of X and of the target."""
        y = np.asarray(self.data.y)
        return ClassBalance(*class_balances(stacks, self.plan.layout, y, 1))


def _check_data(search: Any, X: Any, y: Any, paired: Any) -> tuple[Any, Any]:
    """Check that the estimator is a classifier, or a regressor with pairs, and the labels."""
    of_regressors = is_regressor(search.estimator)
    if not is_classifier(search.estimator) and not (of_regressors and paired is not None):
        name = type(search.estimator).__name__
        raise ValueError(
            f"estimator: expected a classifier, got {name}, which is not a classifier; give a "
            "regressor fit(X, y, paired=(X_a, X_b)), or use GridSearchCV with "
            "scoring=expected_scorer(X_a, X_b), or wrap it as a classifier that has a "
            "decision_function."
        )
    if y is None:
        raise ValueError(
            f"y: {type(search).__name__} requires y to be passed, but the target y is None"
        )
    X, y = indexable(X, y)
    if not of_regressors:
        check_classification_targets(y)
        return X, y
    rule = search.refit if callable(search.refit) else search.selection
    if looks_at_agreement(rule) or rule in ("agreement", "rank_sum"):
        name = "refit" if rule is search.refit else "selection"
        raise ValueError(
            f"{name}: expected a rule that does not look at the agreement, which regressors do "
            f"not have, got {rule!r}."
        )
    values = np.asarray(y)
    if values.dtype.kind not in "biuf":
        raise TypeError(f"y: expected numbers for regressors, got dtype {values.dtype}.")
    if not np.isfinite(values).all():
        raise ValueError("y: expected finite numbers for regressors, got nan or inf.")
    return X, y
