"""The base class of searches by agreement: fit, results, choice and comparison."""

from __future__ import annotations

import numbers
import os
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, get_args

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping
from sklearn.utils.validation import check_is_fitted

from pa_select.model_selection import pairings
from pa_select.model_selection.agreement_difference import (
    AgreementDifference,
    agree_as_well,
    agreement_difference,
    not_told_apart,
)
from pa_select.model_selection.certified_choice import certify_choice
from pa_select.model_selection.class_balance import warn_of_label_shift
from pa_select.model_selection.failures import (
    check_some_succeeded,
    failure,
    report_unsolved,
    warn_of_missing_scores,
)
from pa_select.model_selection.fit_arguments import by_name, suggest_more_data
from pa_select.model_selection.parallel import evaluate, with_parameters
from pa_select.model_selection.search_html import table_of_candidates
from pa_select.model_selection.search_problem import SearchProblem
from pa_select.model_selection.selection_rules import (
    explain,
    looks_at_agreement,
    make_rule,
)
from pa_select.model_selection.sites import adapted_to_sites
from pa_select.model_selection.splits import is_sequence_of_splitters
from pa_select.model_selection.stacks import complete
from pa_select.model_selection.worker import Outcome
from pa_select.utils.messages import warn_caller
from pa_select.utils.pickling import SavedWithVersions
from pa_select.utils.sklearn_private import (
    BaseSearchCV,
    Callbacks,
    HasMethods,
    Interval,
    StrOptions,
    _fit_context,
    _insert_error_scores,
    _MultimetricScorer,
    _warn_or_raise_about_fit_failures,
)
from pa_select.utils.typing import Ints, SelectionName

SELECTIONS = get_args(SelectionName)


class BasePASearch(SavedWithVersions, BaseSearchCV):
    """A search over the candidates that a subclass lists."""

    _parameter_constraints: dict[str, Any] = {
        key: value
        for key, value in BaseSearchCV._parameter_constraints.items()
        if key != "return_train_score"
    } | {
        "pairing": [StrOptions(set(pairings.NAMES)), HasMethods(["pairs"]), callable],
        "selection": [StrOptions(set(SELECTIONS)), callable],
        "prior": [StrOptions({"marginal", "uniform"}), "array-like"],
        "random_state": ["random_state"],
        "device": "no_validation",
        "tol": [Interval(numbers.Real, 0, None, closed="neither")],
        "memory": [str, os.PathLike, HasMethods(["cache"]), None],
        "return_fold_scores": ["boolean"],
        "dtype": "no_validation",
        "adapter": "no_validation",
        "reference": "no_validation",
    }
    # Groups go to a splitter that requests them, as in GridSearchCV.
    __metadata_request__fit = {"groups": UNUSED}  # noqa: RUF012
    # BaseSearchCV reads this attribute; the scores of training rows are never compared.
    return_train_score = False

    def __init__(
        self,
        estimator: Any,
        *,
        pairing: Any,
        scoring: Any,
        cv: Any,
        selection: Any,
        refit: Any,
        prior: Any,
        n_jobs: Any,
        pre_dispatch: Any,
        verbose: int,
        error_score: Any,
        random_state: Any,
        device: Any,
        tol: float,
        memory: Any,
        return_fold_scores: bool,
        dtype: Any,
        adapter: Any,
        reference: Any,
    ) -> None:
        self.estimator = estimator
        self.pairing = pairing
        self.scoring = scoring
        self.cv = cv
        self.selection = selection
        self.refit = refit
        self.prior = prior
        self.n_jobs = n_jobs
        self.pre_dispatch = pre_dispatch
        self.verbose = verbose
        self.error_score = error_score
        self.random_state = random_state
        self.device = device
        self.tol = tol
        self.memory = memory
        self.return_fold_scores = return_fold_scores
        self.dtype = dtype
        self.adapter = adapter
        self.reference = reference

    @abstractmethod
    def _candidates(self) -> Iterable[dict[str, Any]]:
        """Return the parameters of all candidates."""

    def __sklearn_is_fitted__(self) -> bool:
        # After an interruption there may be results without an estimator to predict with.
        return hasattr(self, "cv_results_") and (
            not self.refit or hasattr(self, "best_estimator_")
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = False  # class scores are gathered as numpy arrays
        return tags

    def _html_repr(self) -> str:
        diagram = str(super()._html_repr())
        return diagram + table_of_candidates(self) if hasattr(self, "cv_results_") else diagram

    @_fit_context(prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
    @by_name
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        environments: Any = None,
        views: Any = None,
        target: Any = None,
        paired: Any = None,
        groups: Any = None,
        **params: Any,
    ) -> Any:
        """Fit all candidates to all splits, compare their scores, and refit the best.

        Parameters
        ----------
        X : array-like of n rows
            Rows in any form that the estimator takes.
        y : array-like of shape (n,)
            Labels, or with `paired` numbers for a regressor.
        environments : array-like of shape (n,), default=None
            The environment of each row, at least two; sets pairing="environments". They are the
            groups of a splitter that needs groups, if no `groups` are given.
        views : array-like of n rows, callable, transformer or list of these, default=None
            The rows of X as other environments would show them; sets pairing="views". A
            DataFrame is aligned with a DataFrame X by its index, an array row by row. A
            callable or a transformer is applied to X once, before any fit.
        target : array-like of m rows, default=None
            Unlabelled rows from where the model will be used; sets pairing="target".
        paired : tuple (X_a, X_b) or dict of str to tuple, default=None
            Unlabelled objects that were measured twice: as X was (`X_a`), and where the model
            will be used (`X_b`); sets pairing="paired". Row i of both is the same object;
            DataFrames are aligned by their index. The objects must not be rows of X. A dict
            has such pairs for several sites, by name.
        groups : array-like of shape (n,), default=None
            Groups that no split may divide. The default folds are then
            `StratifiedGroupKFold`, or `GroupKFold` for regressors. With `paired` the interval
            takes into account how alike the rows of a group are.
        **params : dict
            Passed on to the estimator's ``fit``, the scorer and the splitter as in
            GridSearchCV. ``sample_weight`` also weights the pairs: the weight of a pair is
            the geometric mean of the weights of its rows.

        Returns
        -------
        self : object
            The fitted search.

        Raises
        ------
        TypeError, ValueError
            Before any fit, if a parameter or the data are wrong; the message names the
            argument. After all fits, if every candidate failed in some split.
        OSError
            Before any fit, if `memory` is a folder that cannot be written.
        KeyboardInterrupt
            If interrupted; ``cv_results_`` then has the finished candidates.

        Warns
        -----
        sklearn.exceptions.FitFailedWarning
            If fits failed and `error_score` is a number.
        UserWarning
            If rows or pairs do not look like what they should be, or say too little of the
            candidates to choose one; the message says what was found, and what would help.
        """
        for left_by_an_earlier_fit in (
            "expected_score_",
            "expected_interval_",
            "best_adapted_",
            "agreement_terms_",
        ):
            self.__dict__.pop(left_by_an_earlier_fit, None)
        given = {
            "environments": environments,
            "views": views,
            "target": target,
            "paired": paired,
        }
        problem = SearchProblem(self, X, y, groups, params, **given)
        plan, data, sample_weight = problem.plan, problem.data, problem.sample_weight
        if plan.pairing == "repeated" and self.selection != "score":
            suggest_more_data(len(plan.splits))
        X, y = data.sources[0], data.y
        candidates = list(self._candidates())
        if not candidates:
            name = "param_grid" if hasattr(self, "param_grid") else "n_iter"
            raise ValueError(f"{name}: expected at least one candidate, got none.")
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        task = Callbacks.of_fit(self, 1 + (self.refit is not False), metadata)
        task.begin(X, y)
        base_estimator = clone(self.estimator)
        outcomes: list[list[Outcome]] = []
        evaluated = evaluate(
            candidates,
            base_estimator,
            plan.splits,
            data,
            task,
            memory=self.memory,
            scoring=self.scoring,
            n_jobs=self.n_jobs,
            pre_dispatch=self.pre_dispatch,
            verbose=self.verbose,
        )
        try:
            for finished in evaluated:
                outcomes.append(finished)
        except KeyboardInterrupt:
            if hasattr(self, "best_estimator_"):  # left by an earlier fit
                del self.best_estimator_
            if outcomes:
                self._conclude(candidates[: len(outcomes)], outcomes, problem)
                self._warn_of_interruption(len(outcomes), len(candidates))
            raise
        self._conclude(candidates, outcomes, problem)
        if self.refit:
            self._refit(base_estimator, X, y, data.fit_params, task)
            if paired is not None:
                row = {name: column[self.best_index_] for name, column in self.cv_results_.items()}
                self.best_adapted_ = adapted_to_sites(
                    self.best_estimator_, self.adapter, plan.sites, data.sources, row
                )
        task.end(X, y)
        return self

    def _conclude(
        self,
        candidates: list[dict[str, Any]],
        outcomes: list[list[Outcome]],
        problem: SearchProblem,
    ) -> None:
        """Make ``cv_results_``, and choose a candidate."""
        plan, data = problem.plan, problem.data
        self.n_splits_ = len(plan.splits)
        self.n_fits_ = len(outcomes) * len(plan.splits)
        self.pairing_ = plan.pairing
        self._report_failures(outcomes, problem)
        self.multimetric_ = isinstance(outcomes[0][0].test_scores, dict)
        if self.multimetric_ and callable(self.scoring):
            self._check_refit_for_multimetric(outcomes[0][0].test_scores)
        table = self._format_results(
            candidates,
            self.n_splits_,
            [
                {"fit_time": o.fit_time, "score_time": o.score_time, "test_scores": o.test_scores}
                for candidate in outcomes
                for o in candidate
            ],
        )
        columns, metrics = problem.score_columns(outcomes)
        table |= columns
        columns, found, stacks = problem.agreement_columns(outcomes)
        table |= columns
        report_unsolved(found.failures, candidates, self.error_score)
        if not problem.of_regressors:
            self.agreement_terms_ = found.terms
        self._pairs = plan.pairs
        if self.return_fold_scores:
            self.fold_scores_ = [[o.matrices for o in candidate] for candidate in outcomes]
            self.fold_rows_ = plan.layout.wanted
        if self.pairing_ == "target":
            self._record_balances(table, stacks, problem, complete(outcomes))
        failures = [
            failure(x, found.failures.get(c), problem.scored) for c, x in enumerate(outcomes)
        ]
        table["n_failed_splits"] = np.array([n for n, _ in failures])
        # Kept before the choice, since a rule may raise.
        self.cv_results_ = table
        metric = "score"
        if self.multimetric_:
            metric = self.refit if isinstance(self.refit, str) else metrics[0]
        check_some_succeeded(self.estimator, table, metric, failures[0][1], data)
        table |= problem.expected_columns(outcomes, stacks, table, metric)
        refine = problem.refine(table, found, stacks, complete(outcomes))
        self._select(table, metric, [message for _, message in failures], refine)
        if problem.expected is not None and hasattr(self, "best_index_"):
            self.expected_score_, self.expected_interval_ = problem.expected.of_chosen(
                table, metric, self.best_index_
            )
        scorer = data.scorer
        self.scorer_ = scorer._scorers if isinstance(scorer, _MultimetricScorer) else scorer

    def _report_failures(self, outcomes: list[list[Outcome]], problem: SearchProblem) -> None:
        flat = [
            {"fit_error": o.fit_error, "test_scores": o.test_scores}
            for candidate in outcomes
            for o in candidate
        ]
        _warn_or_raise_about_fit_failures(flat, self.error_score)
        consequence = "expected score" if problem.of_regressors else "agreement"
        warn_of_missing_scores(outcomes, problem.scored, consequence)
        if callable(self.scoring):
            # Only its results show whether a callable scorer returns several scores.
            _insert_error_scores(flat, self.error_score)
            scores = iter(flat)
            for candidate in outcomes:
                for outcome in candidate:
                    outcome.test_scores = next(scores)["test_scores"]

    def _record_balances(
        self, table: dict[str, Any], stacks: Any, problem: SearchProblem, complete: Any
    ) -> None:
        found = problem.class_balance(stacks)
        shape = len(table["params"]), len(stacks.classes)
        self.source_class_balance_, self.target_class_balance_ = np.full((2, *shape), np.nan)
        self.source_class_balance_[complete] = found.source
        self.target_class_balance_[complete] = found.target
        table["class_balance_shift"] = np.full(shape[0], np.nan)
        table["class_balance_shift"][complete] = found.shift

    def _select(
        self,
        table: dict[str, Any],
        metric: str,
        failures: list[str | None],
        refine: Callable[[Ints, float], None],
    ) -> None:
        selection = self.refit if callable(self.refit) else self.selection
        rule = make_rule(selection, metric, self.pairing_)
        table |= explain(rule, table, failures)
        if self.refit is False and self.multimetric_:
            return
        self.best_index_, self.certified_choice_ = certify_choice(rule, table, self.tol, refine)
        self.best_params_ = table["params"][self.best_index_]
        self.best_score_ = table[f"mean_test_{metric}"][self.best_index_]
        if self.pairing_ != "paired" or looks_at_agreement(rule):
            self._mark_those_not_told_apart(table, rule)
        warn_of_label_shift(table, self.best_index_)

    def _mark_those_not_told_apart(self, table: dict[str, Any], rule: Any) -> None:
        alike = not_told_apart(
            self.agreement_terms_, self._pairs, self.best_index_, table["eligible"]
        )
        table["not_told_apart"] = alike
        if alike.any() and looks_at_agreement(rule):
            table["reason"][self.best_index_] += f"; {agree_as_well(int(alike.sum()))}"

    def _warn_of_interruption(self, n_finished: int, n: int) -> None:
        resume = "" if self.memory is None else " Call fit again to continue from there."
        warn_caller(
            f"Interrupted: cv_results_ has the {n_finished} of {n} candidates that were "
            f"finished. No estimator was refitted.{resume}"
        )

    def _refit(
        self, base_estimator: Any, X: Any, y: Any, fit_params: dict[str, Any], task: Callbacks
    ) -> None:
        self.best_estimator_ = with_parameters(base_estimator, self.best_params_)
        part = task.subtask("refit-with-best-params")
        with part.passed_on_to(self.best_estimator_):
            part.begin(X, y)
            start = time.time()
            self.best_estimator_.fit(X, y, **fit_params)
            self.refit_time_ = time.time() - start
            self.n_fits_ += 1
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_
        part.end(X, y)

    def compare(self, i: int, j: int) -> AgreementDifference:
        """Compare the agreement of two candidates on the same pairs.

        Parameters
        ----------
        i, j : int
            Indices of candidates in ``cv_results_["params"]``.

        Returns
        -------
        AgreementDifference
            ``difference``, the agreement of i minus that of j in nats per pair; its
            ``standard_error``, which allows for pairs that share a row; and the two-sided
            ``p_value`` of no difference. All are nan if a candidate has no agreement.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the search is not fitted.
        IndexError
            If i or j is not the index of a candidate.
        ValueError
            If the candidates are regressors, which have no agreement.

        Warns
        -----
        UserWarning
            If the pairs are of fewer than six rows.
        """
        check_is_fitted(self, "cv_results_")
        if is_regressor(self.estimator):
            raise ValueError(
                "compare: expected candidates with an agreement, got regressors, which have none."
            )
        n = len(self.agreement_terms_)
        for name, value in (("i", i), ("j", j)):
            if not isinstance(value, numbers.Integral) or not 0 <= value < n:
                raise IndexError(f"{name}: expected a candidate from 0 to {n - 1}, got {value!r}.")
        first, second = self.agreement_terms_[i], self.agreement_terms_[j]
        return agreement_difference(first, second, self._pairs, warn=True)

    def get_metadata_routing(self) -> MetadataRouter:
        """Get metadata routing of this search.

        Returns
        -------
        sklearn.utils.metadata_routing.MetadataRouter
        """
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(
            estimator=self.estimator,
            method_mapping=MethodMapping().add(caller="fit", callee="fit"),
        )
        scorer, _ = self._get_scorers()
        router.add(
            scorer=scorer,
            method_mapping=MethodMapping()
            .add(caller="score", callee="score")
            .add(caller="fit", callee="score"),
        )
        splitters = self.cv if is_sequence_of_splitters(self.cv) else [self.cv]
        for i, splitter in enumerate(splitters):
            router.add(
                **{f"splitter{i or ''}": splitter},
                method_mapping=MethodMapping().add(caller="fit", callee="split"),
            )
        return router
