"""The base class of searches by agreement: fit, results, choice and comparison."""

from __future__ import annotations

import numbers
import os
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from functools import partial, wraps
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if

from pa_select.model_selection.choice import (
    certify_choice,
    explain,
    indistinguishable,
    mark_the_indistinguishable,
    selection_of,
)
from pa_select.model_selection.committee import PACommittee
from pa_select.model_selection.evaluation import (
    ONE_METRIC,
    check_refit_of_one_metric,
    check_some_succeeded,
    different_candidates,
    evaluate,
    first_failure,
    metrics_of,
    warn_of_failed_agreements,
    warn_of_missing_scores,
    with_parameters,
)
from pa_select.model_selection.fitted_search import FittedSearchMixin
from pa_select.model_selection.kinds.kind import ExpectedElsewhere
from pa_select.model_selection.kinds.kind_of import DEFAULT_PAIRING, PAIRINGS, Pairing
from pa_select.model_selection.plan import Plan, by_name
from pa_select.model_selection.results_table import table_of_candidates
from pa_select.model_selection.rules import DEFAULT, SELECTIONS, Selection
from pa_select.model_selection.split_scores import Outcome
from pa_select.model_selection.splits import is_sequence_of_splitters
from pa_select.model_selection.table_columns import first_metric
from pa_select.utils.estimators import SavedWithVersions
from pa_select.utils.html import visible
from pa_select.utils.messages import keeps_warnings, warn_caller
from pa_select.utils.sklearn_private import (
    BaseSearchCV,
    Callbacks,
    HasMethods,
    Interval,
    StrOptions,
    _fit_context,
    _insert_error_scores,
    _MultimetricScorer,
    _search_estimator_has,
    _warn_or_raise_about_fit_failures,
)
from pa_select.utils.typing import (
    Adapter,
    CrossValidation,
    Device,
    ErrorScore,
    Estimator,
    Groups,
    Ints,
    Labels,
    PairedRows,
    Prior,
    RandomState,
    Reference,
    Rows,
    Rule,
    Scoring,
)


def _of_best_estimator(name: str) -> Any:
    """Return scikit-learn's method; with an adapter its errors name `best_adapted_`."""
    # scikit-learn's methods are kept, so that their checks and messages are those that its users
    # know.
    inherited = getattr(BaseSearchCV, name)

    @wraps(inherited)
    def method(self: Any, *args: Any, **params: Any) -> Any:
        called = inherited
        # BaseSearchCV.score takes the refit metric from `scorer_`, and `refit` need not name one
        # here.
        if name == "score" and self._committee and hasattr(self, "best_estimator_"):

            def called(self: Any, *args: Any, **params: Any) -> Any:
                return self.best_estimator_.score(*args, **params)

        try:
            return called(self, *args, **params)
        except ValueError as error:
            if self.adapter is None or not hasattr(self, "best_adapted_"):
                raise
            raise ValueError(
                f"{error}\nIf these are rows of the other site, use best_adapted_, which maps "
                "them to rows like X."
            ) from error

    return method if name == "score" else available_if(_search_estimator_has(name))(method)


@dataclass(eq=False, repr=False)
class BasePASearch(FittedSearchMixin, SavedWithVersions, BaseSearchCV):
    """A search over the candidates that a subclass lists."""

    estimator: Estimator
    _: KW_ONLY
    pairing: Pairing = DEFAULT_PAIRING
    scoring: Scoring = None
    cv: CrossValidation = None
    selection: Selection = DEFAULT
    refit: bool | str | Rule | PACommittee = True
    prior: Prior = "marginal"
    n_jobs: int | None = None
    pre_dispatch: int | str = "2*n_jobs"
    verbose: int = 0
    error_score: ErrorScore = np.nan
    random_state: RandomState = None
    device: Device = None
    tol: float = 1e-6
    memory: Any = None
    return_fold_scores: bool = False
    adapter: Adapter = None
    reference: Reference = "ensemble"

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        key: value
        for key, value in BaseSearchCV._parameter_constraints.items()
        if key != "return_train_score"
    } | {
        "pairing": [StrOptions(set(PAIRINGS)), HasMethods(["pairs"]), callable],
        "selection": [StrOptions(set(SELECTIONS)), callable],
        "refit": ["boolean", str, callable, PACommittee],
        "prior": [StrOptions({"marginal", "uniform"}), "array-like"],
        "random_state": ["random_state"],
        "device": "no_validation",
        "tol": [Interval(numbers.Real, 0, None, closed="neither")],
        "memory": [str, os.PathLike, HasMethods(["cache"]), None],
        "return_fold_scores": ["boolean"],
        # Refused by their own messages.
        "scoring": "no_validation",
        "adapter": "no_validation",
        "reference": "no_validation",
    }
    # Groups go to a splitter that requests them, as in GridSearchCV.
    __metadata_request__fit = {"groups": UNUSED}  # noqa: RUF012
    #: A `PACommittee` lets this search fit the members.
    makes_committees = True
    # BaseSearchCV reads this attribute; the scores of training rows are never compared.
    return_train_score = False

    @abstractmethod
    def _candidates(self) -> Iterable[dict[str, Any]]:
        """Return the parameters of all candidates."""

    @property
    def _committee(self) -> PACommittee | None:
        """A new committee with the options of `refit`; None if the best candidate is refitted."""
        if isinstance(self.refit, str) and self.refit == "committee":
            return PACommittee(verbose=self.verbose)
        if not isinstance(self.refit, PACommittee):
            return None
        committee: PACommittee = clone(self.refit)
        committee._validate_params()
        if committee.search is not None:
            raise ValueError(
                "refit: expected a PACommittee without a search, which says how this search keeps "
                f"its candidates, got one with a {type(committee.search).__name__}."
            )
        return committee

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
        return (
            diagram + visible(table_of_candidates(self))
            if hasattr(self, "cv_results_")
            else diagram
        )

    predict, predict_proba, predict_log_proba, decision_function, score = map(
        _of_best_estimator,
        ("predict", "predict_proba", "predict_log_proba", "decision_function", "score"),
    )

    @_fit_context(prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
    @keeps_warnings
    @by_name
    def fit(
        self,
        X: Rows,
        y: Labels | None = None,
        *,
        environments: Labels | None = None,
        views: Any = None,
        paired: PairedRows | None = None,
        groups: Groups = None,
        **params: Any,
    ) -> Self:
        """Fit all candidates to all splits, compare their scores, and refit the best.

        Parameters
        ----------
        X : array-like of n rows
            Rows in any form that the estimator takes.
        y : array-like of shape (n,)
            Labels, or with `paired` numbers for a regressor.
        environments : array-like of shape (n,), default=None
            The environment of each row, at least two. A Series is looked up by the index of a
            DataFrame X. They are the groups of a splitter that needs groups, if no `groups` are
            given.
        views : array-like of n rows, callable, transformer or list of these, default=None
            The rows of X as other environments would show them. A DataFrame is aligned with a
            DataFrame X by its index, an array row by row. A callable or a transformer is applied
            to X once, before any fit.
        paired : tuple (X_a, X_b) or dict of str to tuple, default=None
            Unlabelled objects that were measured twice: as X was (`X_a`), and where the model
            will be used (`X_b`). Row i of both is the same object; DataFrames are aligned by
            their index. The objects must not be rows of X. Both have the columns of X; with an
            `adapter` `X_b` may have others; new rows of that site are then for `best_adapted_`,
            which maps them, and not for ``predict``. A dict has such pairs for several sites, by
            name.
        groups : array-like of shape (n,), default=None
            Groups that no split may divide. The default folds are then
            `StratifiedGroupKFold`, or `GroupKFold` for regressors. With `paired` the interval
            takes into account how alike the rows of a group are.
        **params : dict
            Passed on to the estimator's ``fit``, the scorer and the splitter as in
            GridSearchCV. ``sample_weight`` also weights the pairs: the weight of a pair is
            the geometric mean of the weights of its rows. With pairs it weights the scores of
            labelled rows, as in GridSearchCV, and their calibration; each pair counts once.

        Returns
        -------
        self : object
            The fitted search.

        Raises
        ------
        TypeError, ValueError
            Before any fit, if a parameter or the data are wrong; the message names the
            argument. After all fits, if every candidate failed in some split.
        KeyboardInterrupt
            If interrupted; ``cv_results_`` then has the finished candidates.

        Warns
        -----
        sklearn.exceptions.FitFailedWarning
            If fits failed and `error_score` is a number.
        UserWarning
            If the rows or pairs look wrong, or are too few to distinguish the candidates; the
            message explains.
        """
        if metrics_of(self.scoring) == ONE_METRIC:
            check_refit_of_one_metric(self.refit, self.scoring)
        # The plan checks all arguments, so that nothing is fitted before an error is raised.
        given = {"environments": environments, "views": views, "paired": paired}
        plan = Plan(self, X, y, params, **given, groups=groups)
        rule = plan.rule()
        if rule.decides != rule.score:  # other data do not change how the score chooses
            plan.kind.suggest_more_data(len(plan.splits))
        # Drawn once: a random state that is an object would draw others the next time.
        candidate_params = list(self._candidates())
        if not candidate_params:
            name = "param_grid" if hasattr(self, "param_grid") else "n_iter"
            raise ValueError(f"{name}: expected at least one candidate, got none.")
        plan.kind.check_candidates(different_candidates(candidate_params, self.estimator))
        # A rule of the user's own may ask for metrics or parameters that this search lacks.
        if not isinstance(selection_of(self), str):
            rule._check_before(metrics_of(self.scoring), candidate_params)
        weight = plan.sample_weight
        metadata = None if weight is None else {"sample_weight": weight}
        callbacks = Callbacks.of_fit(self, 1 + (self.refit is not False), metadata)
        # A search may be fitted again with other data, which have other attributes.
        for left_by_an_earlier_fit in [x for x in vars(self) if x.endswith("_")]:
            if left_by_an_earlier_fit != "warnings_":
                delattr(self, left_by_an_earlier_fit)
        # From here on X and y are what the plan has checked and aligned.
        X, y = plan.data.samples[0], plan.data.y_to_fit
        callbacks.begin(X, y)
        base_estimator = clone(self.estimator)
        outcomes = self._evaluate(candidate_params, base_estimator, plan, callbacks)
        expected = self._conclude(candidate_params, outcomes, plan)
        committee = self._committee
        # Members are fitted after the choice, which the committee's expected score needs.
        if committee is not None:
            self._refit_members(committee, base_estimator, outcomes, plan, expected, callbacks)
            mapped = committee._mapped
        elif self.refit:
            self._refit(base_estimator, X, y, plan.data.fit_params, callbacks)
            mapped = self._mapped
        if self.refit:
            self.__dict__.update(plan.comparison.attributes_of_refit(mapped, self.cv_results_))
        callbacks.end(X, y)
        return self

    def _evaluate(
        self,
        params: list[dict[str, Any]],
        base_estimator: Estimator,
        plan: Plan,
        callbacks: Callbacks,
    ) -> list[list[Outcome]]:
        """Fit and score all candidates; conclude from those that finished if interrupted."""
        outcomes: list[list[Outcome]] = []
        self._n_planned = len(params)
        evaluated = evaluate(
            params,
            base_estimator,
            plan.splits,
            plan.data,
            callbacks,
            memory=self.memory,
            n_jobs=self.n_jobs,
            pre_dispatch=self.pre_dispatch,
            verbose=self.verbose,
        )
        try:
            for finished in evaluated:
                outcomes.append(finished)
        except KeyboardInterrupt:
            if outcomes:
                self._conclude(params[: len(outcomes)], outcomes, plan)
                self._warn_of_interruption(len(outcomes), len(params))
            raise
        return outcomes

    def _conclude(
        self, params: list[dict[str, Any]], outcomes: list[list[Outcome]], plan: Plan
    ) -> ExpectedElsewhere:
        """Make ``cv_results_``, and choose a candidate; return what is expected elsewhere."""
        self._report_failures(outcomes, plan.of_regressors)
        table = self._table_of_scores(params, outcomes)
        stacks = plan.stacks(outcomes)
        columns, _ = plan.score_columns(outcomes, stacks)
        table |= columns
        columns, agreements = plan.agreement_columns(stacks)
        table |= columns
        warn_of_failed_agreements(agreements.failures, params, self.error_score)
        if not plan.of_regressors:
            self.agreement_terms_ = agreements.terms
        metric = first_metric(self, table) if self.multimetric_ else "score"
        failures = [
            first_failure(
                of_candidate, metric, agreements.failures.get(candidate), plan.of_regressors
            )
            for candidate, of_candidate in enumerate(outcomes)
        ]
        table["n_failed_splits"] = np.array([n for n, _ in failures])
        # Kept before the choice, since a rule may raise.
        self._keep(plan, outcomes, metric)
        self.cv_results_ = table
        tests = [test for _, test in plan.training_and_test_rows]
        sites = plan.kind.sites_of_rows
        check_some_succeeded(
            self.estimator, table, metric, failures[0][1], plan.data, outcomes[0], tests, sites
        )
        # Needs the errors of the scores, which are columns by now; the posterior needs what is
        # expected.
        expected = plan.comparison.expected(stacks, table, metric)
        table |= expected.columns
        self._differences = expected.differences()
        self.posterior_ = plan.posterior(table, metric, expected)
        if self.posterior_ is not None:
            table["weight"] = self.posterior_.weights
        refine = plan.refinement(stacks, table, agreements)
        if self._select(table, metric, [message for _, message in failures], refine):
            plan.comparison.warn_of_table(table)
            self.__dict__.update(expected.attributes_of_choice(self.best_index_))
        return expected

    def _table_of_scores(
        self, params: list[dict[str, Any]], outcomes: list[list[Outcome]]
    ) -> dict[str, Any]:
        """Make the columns of scikit-learn's searches."""
        # What a callable `scoring` returns is known only now.
        self.multimetric_ = isinstance(outcomes[0][0].test_scores, dict)
        if self.multimetric_ and callable(self.scoring):
            self._check_refit_for_multimetric(outcomes[0][0].test_scores)
        elif not self.multimetric_:
            check_refit_of_one_metric(self.refit, self.scoring)
        flat = [
            {"fit_time": o.fit_time, "score_time": o.score_time, "test_scores": o.test_scores}
            for of_candidate in outcomes
            for o in of_candidate
        ]
        table: dict[str, Any] = self._format_results(params, len(outcomes[0]), flat)
        return table

    def _keep(self, plan: Plan, outcomes: list[list[Outcome]], metric: str) -> None:
        """Keep what will be asked of the search: about its data, what it compared and its rule."""
        self.n_splits_ = len(plan.splits)
        self.n_fits_ = len(outcomes) * len(plan.splits)
        kind = plan.kind
        self.pairing_, self._shows_elsewhere = kind.pairing, kind.shows_elsewhere
        self._pairs, self._only_class = plan.pairs, plan.only_class
        self._rule = plan.rule(metric)
        if self.return_fold_scores:
            self.fold_scores_ = [[o.matrices for o in of_candidate] for of_candidate in outcomes]
            self.fold_rows_ = plan.layout.scored_rows
        scorer = plan.data.scorer
        self.scorer_ = scorer._scorers if isinstance(scorer, _MultimetricScorer) else scorer

    def _report_failures(self, outcomes: list[list[Outcome]], of_regressors: bool) -> None:
        flat = [
            {"fit_error": o.fit_error, "test_scores": o.test_scores}
            for of_candidate in outcomes
            for o in of_candidate
        ]
        _warn_or_raise_about_fit_failures(flat, self.error_score)
        warn_of_missing_scores(outcomes, of_regressors)
        if callable(self.scoring):
            # Only its results show whether a callable scorer returns several scores.
            _insert_error_scores(flat, self.error_score)
            scores = iter(flat)
            for of_candidate in outcomes:
                for outcome in of_candidate:
                    outcome.test_scores = next(scores)["test_scores"]

    def _select(
        self,
        table: dict[str, Any],
        metric: str,
        failures: list[str | None],
        refine: Callable[[Ints, float], None],
    ) -> bool:
        """Make the columns that explain the choice, and choose if that is asked for."""
        rule = self._rule
        table |= explain(rule, table, failures)
        if self._only_class:
            why = f"; only rows of class {self._only_class} are compared, so the {metric} decides"
            table["reason"][table["eligible"]] += why
        if self.refit is False and self.multimetric_:
            return False
        self.best_index_, self.certified_choice_ = certify_choice(rule, table, self.tol, refine)
        self.best_params_ = table["params"][self.best_index_]
        self.best_score_ = table[f"mean_test_{metric}"][self.best_index_]
        # At "" each candidate is taken at its worst site, as the rules take it.
        differences = self._differences.get("")
        if rule.decides != f"expected_{metric}":  # or of another metric
            differences = None
        terms = getattr(self, "agreement_terms_", None)
        given = rule, table, self.best_index_
        found = indistinguishable(*given, terms, self._pairs, differences)
        if found is not None:
            mark_the_indistinguishable(*given, found)
        return True

    def _warn_of_interruption(self, n_finished: int, n: int) -> None:
        resume = "" if self.memory is None else " Call fit again to continue from there."
        warn_caller(
            f"Interrupted: cv_results_ has the {n_finished} of {n} candidates that were "
            f"finished. No estimator was refitted.{resume}"
        )

    def _refit(
        self,
        base_estimator: Estimator,
        X: Rows,
        y: Labels,
        fit_params: dict[str, Any],
        callbacks: Callbacks,
    ) -> None:
        # A clone that was made before the fits, so that no fit can have changed it.
        self.best_estimator_ = with_parameters(base_estimator, self.best_params_)
        part = callbacks.subtask("refit-with-best-params")
        with part.passed_on_to(self.best_estimator_):
            part.begin(X, y)
            start = time.time()
            self.best_estimator_.fit(X, y, **fit_params)
            self.refit_time_ = time.time() - start
            self.n_fits_ += 1
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_
        part.end(X, y)

    def _mapped(self, of_model: Callable[[Any, int], Any]) -> Any:
        return of_model(self.best_estimator_, self.best_index_)

    def _refit_members(
        self,
        committee: PACommittee,
        base_estimator: Estimator,
        outcomes: list[list[Outcome]],
        plan: Plan,
        expected: ExpectedElsewhere,
        callbacks: Callbacks,
    ) -> None:
        """Fit the candidates that remain, and say what they will score together."""
        table, metric = self.cv_results_, first_metric(self, self.cv_results_)
        if self.posterior_ is None:
            raise ValueError(
                f"refit: expected a candidate with a finite {metric!r} in all parts of the data "
                "with a committee, got none."
            )
        stacks, start = plan.stacks(outcomes), time.time()
        committee._gather(
            self,
            base_estimator,
            self.posterior_,
            metric,
            (plan.data.samples[0], plan.data.y_to_fit),
            plan.data.fit_params,
            plan.training_and_test_rows,
            callbacks,
            partial(plan.calibrated, stacks),
        )
        self.refit_time_ = time.time() - start
        self.n_fits_ += committee.n_fits_
        # The committee is part of this search and does not hold it, too: both are saved together.
        committee.search_, committee.warnings_ = None, self.warnings_
        self.best_estimator_ = committee
        if hasattr(committee, "feature_names_in_"):
            self.feature_names_in_ = committee.feature_names_in_
        vote = plan.vote(stacks, committee, table, metric, expected)
        self.committee_score_ = np.nan
        if vote is not None:
            try:
                given = committee.scorer_, metric, plan.data.score_weight(metric)
                self.committee_score_ = float(vote.scores(*given).mean())
            except Exception as error:  # a scorer of the user's may look at more than predictions
                warn_caller(
                    "scoring: expected a scorer of predictions, got one that cannot score those "
                    f"of a committee's fold models; committee_score_ is nan ({error})."
                )
            self.__dict__.update(expected.attributes_of_committee(vote))

    def _check_refit_for_multimetric(self, scores: Any) -> None:
        committee = self._committee
        if committee is None:
            super()._check_refit_for_multimetric(scores)
        elif committee.metric not in scores:
            raise ValueError(
                "refit: expected the metric that compares the candidates of a committee, such as "
                f"PACommittee(metric={next(iter(scores))!r}), got metric={committee.metric!r}."
            )

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
        splitters: Any = self.cv if is_sequence_of_splitters(self.cv) else [self.cv]
        for i, splitter in enumerate(splitters):
            router.add(
                **{f"splitter{i or ''}": splitter},
                method_mapping=MethodMapping().add(caller="fit", callee="split"),
            )
        return router
