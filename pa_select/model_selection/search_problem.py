"""What a search has in common for all candidates: the data, the splits and the pairs."""

from __future__ import annotations

import numbers
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import check_random_state, indexable
from sklearn.utils.multiclass import check_classification_targets

from pa_select.model_selection import cv_results as results
from pa_select.model_selection.fit_arguments import check_fit_params, check_selection, check_text
from pa_select.model_selection.judged_environments import judge_environments
from pa_select.model_selection.parallel import chance_scores
from pa_select.model_selection.plan import Rows, make_plan
from pa_select.model_selection.worker import Data, Outcome
from pa_select.utils.columns import check_column
from pa_select.utils.sklearn_private import _check_method_params, _num_samples
from pa_select.utils.typing import Floats


class ClassBalance(NamedTuple):
    """Predicted shares of the classes, (n_candidates, n_classes), with a target."""

    source: Floats
    target: Floats

    @property
    def shift(self) -> Floats:
        """Half the summed difference of the shares of each candidate."""
        half: Floats = np.abs(self.target - self.source).sum(1) / 2
        return half


class SearchProblem:
    """A search without its candidates: what `fit` was given, checked and laid out.

    Parameters
    ----------
    search : PASearchCV or PARandomizedSearchCV
        Holds the settings; it need not be fitted.
    X, y, groups
        As in ``fit`` of the search.
    params : dict
        The other keyword arguments of ``fit``, which are routed.
    **given
        Environments, views and target, as in ``fit`` of the search.

    Raises
    ------
    TypeError, ValueError
        If something does not fit; the message names the argument.
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
        check_fit_params(search.estimator, params)
        check_text(groups, "groups", X)
        check_selection(search.selection, given)
        scorers, _ = search._get_scorers()
        X, y = _check_data(search, X, y)
        # Without a splitter of the user's the groups are for the default one.
        own_folds = search.cv is None or isinstance(search.cv, numbers.Integral)
        if groups is not None and not own_folds:
            params = params | {"groups": groups}
        elif groups is not None:
            groups = check_column(groups, _num_samples(X), "groups")
        params = _check_method_params(X, params=params)
        routed = search._get_routed_params_for_fit(params)
        #: The weights of the rows, or None.
        self.sample_weight = params.get("sample_weight")
        rng = check_random_state(0 if search.random_state is None else search.random_state)
        #: Splits, pairs, and the rows that each model scores.
        self.plan = make_plan(
            Rows(X, y, groups=groups, sample_weight=self.sample_weight, **given),
            pairing=search.pairing,
            cv=search.cv,
            seed=int(rng.randint(2**31 - 2)),
            split_params=routed.splitter.split,
        )
        # The mathematics needs torch; a worker that fits and scores does not.
        from pa_select.agreement.inputs import validation
        from pa_select.utils.devices import resolve_device

        #: The distinct labels.
        self.labels = np.unique(np.asarray(y))
        validation.check_tol(search.tol)
        validation.check_prior(search.prior, len(self.labels))
        resolve_device(search.device)
        #: How agreements are computed.
        self.solver = {"prior": search.prior, "tol": search.tol, "device": search.device}
        #: What each fit needs.
        self.data = Data(
            self.plan.sources,
            y,
            scorers,
            routed.estimator.fit,
            routed.scorer.score,
            search.error_score,
            search.dtype,
        )
        #: Which environments can be judged by their scores.
        self.judged = judge_environments(self.plan.splits, self.data, self.plan.environments)

    @cached_property
    def chance(self) -> list[list[Any]]:
        """Scores of predictions that look at no feature, for each split."""
        return chance_scores(self.plan.splits, self.data)

    def score_columns(self, outcomes: list[list[Outcome]]) -> tuple[dict[str, Any], list[str]]:
        """Make the columns of the scores, and list the names of the metrics."""
        return results.split_table(outcomes, self.chance, self.plan, self.judged)

    def agreement_columns(
        self, outcomes: list[list[Outcome]]
    ) -> tuple[dict[str, Any], results.Agreements, results.Stacks]:
        """Make the columns of the agreements; return the terms and the stacked scores, too."""
        return results.agreement_table(outcomes, self.plan, self.labels, **self.solver)

    def class_balance(self, stacks: results.Stacks) -> ClassBalance:
        """Compare the classes predicted for the source rows with those for the target rows."""
        y = np.asarray(self.data.y)
        return ClassBalance(*results.class_balances(stacks, self.plan.layout, y, 1))


def _check_data(search: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Check that a classifier is to be fitted to rows with labels."""
    if not is_classifier(search.estimator):
        name = type(search.estimator).__name__
        raise ValueError(f"estimator: expected a classifier, got {name}, which is not one.")
    if y is None:
        raise ValueError(
            f"y: {type(search).__name__} requires y to be passed, but the target y is None"
        )
    X, y = indexable(X, y)
    check_classification_targets(y)
    return X, y
