"""The base class of searches by agreement: fit, results, choice and comparison."""

from __future__ import annotations

import numbers
import os
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_args

import numpy as np
from sklearn.base import clone
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pa_select.model_selection.choice import (
    agreement_comparison,
    certify_choice,
    expected_comparison,
    explain,
    indistinguishable,
    indistinguishable_in_words,
    make_rule,
    rule_of,
    selection_of,
)
from pa_select.model_selection.committee import PACommittee
from pa_select.model_selection.committee_checks import (
    ONE_METRIC,
    check_refit_of_one_metric,
    metrics_of,
)
from pa_select.model_selection.evaluation import (
    check_some_succeeded,
    evaluate,
    first_failure,
    warn_of_failed_agreements,
    warn_of_missing_scores,
    with_parameters,
)
from pa_select.model_selection.kinds.kind import ExpectedElsewhere
from pa_select.model_selection.plan import Plan, by_name, is_sequence_of_splitters
from pa_select.model_selection.results_table import objects_of_choice, table_of_candidates
from pa_select.model_selection.rules import DEFAULT, SELECTIONS, Selection, SelectionRule
from pa_select.model_selection.split_scores import Outcome
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
    Frame,
    Groups,
    Ints,
    Labels,
    PairedRows,
    Pairing,
    PairingName,
    Prior,
    RandomState,
    Reference,
    Rows,
    Rule,
    Scoring,
)

if TYPE_CHECKING:
    from pa_select.agreement.bootstrap import AgreementComparison


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
class BasePASearch(SavedWithVersions, BaseSearchCV):
    """A search over the candidates that a subclass lists."""

    estimator: Estimator
    _: KW_ONLY
    pairing: Pairing = "repeated"
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
        "pairing": [StrOptions(set(get_args(PairingName))), HasMethods(["pairs"]), callable],
        "selection": [StrOptions(set(SELECTIONS)), callable],
        "refit": ["boolean", str, callable, PACommittee],
        "prior": [StrOptions({"marginal", "uniform"}), "array-like"],
        "random_state": ["random_state"],
        "device": "no_validation",
        "tol": [Interval(numbers.Real, 0, None, closed="neither")],
        "memory": [str, os.PathLike, HasMethods(["cache"]), None],
        "return_fold_scores": ["boolean"],
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
            If the rows or pairs look wrong, or are too few to distinguish the candidates; the
            message explains.
        """
        # A search may be fitted again with other data, which have other attributes.
        for left_by_an_earlier_fit in (
            "expected_score_",
            "expected_score_se_",
            "expected_interval_",
            "n_objects_",
            "best_adapted_",
            "agreement_terms_",
            "committee_score_",
        ):
            self.__dict__.pop(left_by_an_earlier_fit, None)
        if metrics_of(self.scoring) == ONE_METRIC:
            check_refit_of_one_metric(self.refit, self.scoring)
        # The plan checks all arguments, so that nothing is fitted before an error is raised.
        given = {"environments": environments, "views": views, "paired": paired}
        plan = Plan(self, X, y, params, **given, groups=groups)
        rule = make_rule(selection_of(self))
        if rule.decides != rule.score:  # other data do not change how the score chooses
            plan.kind.suggest_more_data(len(plan.splits))
        # Drawn once: a random state that is an object would draw others the next time.
        candidate_params = list(self._candidates())
        if not candidate_params:
            name = "param_grid" if hasattr(self, "param_grid") else "n_iter"
            raise ValueError(f"{name}: expected at least one candidate, got none.")
        # A rule of the user's own may ask for metrics or parameters that this search lacks.
        if not isinstance(selection_of(self), str):
            rule._check_before(metrics_of(self.scoring), candidate_params)
        weight = plan.sample_weight
        metadata = None if weight is None else {"sample_weight": weight}
        callbacks = Callbacks.of_fit(self, 1 + (self.refit is not False), metadata)
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
            scoring=self.scoring,
            n_jobs=self.n_jobs,
            pre_dispatch=self.pre_dispatch,
            verbose=self.verbose,
        )
        try:
            for finished in evaluated:
                outcomes.append(finished)
        except KeyboardInterrupt:
            # What is left of an earlier fit would predict as if this one had finished.
            if hasattr(self, "best_estimator_"):  # left by an earlier fit
                del self.best_estimator_
            if outcomes:
                self._conclude(params[: len(outcomes)], outcomes, plan)
                self._warn_of_interruption(len(outcomes), len(params))
            raise
        return outcomes

    def _conclude(
        self, params: list[dict[str, Any]], outcomes: list[list[Outcome]], plan: Plan
    ) -> ExpectedElsewhere:
        """Make ``cv_results_``, and choose a candidate; return what is expected elsewhere."""
        # Set first: an interrupted search keeps what it can say about its finished candidates.
        self.n_splits_, self._n_labelled = len(plan.splits), len(plan.data.y)
        self.n_fits_ = len(outcomes) * len(plan.splits)
        kind = plan.comparison.kind
        self.pairing_ = kind.pairing
        self._said = kind.asks, kind.compares, kind.shows_elsewhere
        self._report_failures(outcomes, plan.of_regressors)
        # What a callable `scoring` returns is known only now.
        self.multimetric_ = isinstance(outcomes[0][0].test_scores, dict)
        if self.multimetric_ and callable(self.scoring):
            self._check_refit_for_multimetric(outcomes[0][0].test_scores)
        elif not self.multimetric_:
            check_refit_of_one_metric(self.refit, self.scoring)
        table = self._format_results(
            params,
            self.n_splits_,
            [
                {"fit_time": o.fit_time, "score_time": o.score_time, "test_scores": o.test_scores}
                for of_candidate in outcomes
                for o in of_candidate
            ],
        )
        stacks = plan.stacks(outcomes)
        columns, _ = plan.score_columns(outcomes, stacks)
        table |= columns
        columns, agreements = plan.agreement_columns(stacks)
        table |= columns
        warn_of_failed_agreements(agreements.failures, params, self.error_score)
        if not plan.of_regressors:
            self.agreement_terms_ = agreements.terms
        self._pairs, self._only_class = plan.pairs, plan.only_class
        if self.return_fold_scores:
            self.fold_scores_ = [[o.matrices for o in of_candidate] for of_candidate in outcomes]
            self.fold_rows_ = plan.layout.scored_rows
        failures = [
            first_failure(of_candidate, agreements.failures.get(candidate), plan.of_regressors)
            for candidate, of_candidate in enumerate(outcomes)
        ]
        table["n_failed_splits"] = np.array([n for n, _ in failures])
        # Kept before the choice, since a rule may raise.
        self.cv_results_ = table
        metric = "score"
        if self.multimetric_:
            metric = first_metric(self, table)
        self._held_out = plan.comparison.held_out_environments(metric)
        tests = [test for _, test in plan.training_and_test_rows]
        sites = kind.sites_of_rows
        check_some_succeeded(
            self.estimator, table, metric, failures[0][1], plan.data, tests, sites
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
        scorer = plan.data.scorer
        self.scorer_ = scorer._scorers if isinstance(scorer, _MultimetricScorer) else scorer
        return expected

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
        # Made again: the metric, and whether several classes are compared, are known only now.
        rule = make_rule(selection_of(self), metric, self.pairing_, self._only_class)
        table |= explain(rule, table, failures)
        if self._only_class:
            why = f"; only rows of class {self._only_class} are compared, so the {metric} decides"
            table["reason"][table["eligible"]] += why
        if self.refit is False and self.multimetric_:
            return False
        self.best_index_, self.certified_choice_ = certify_choice(rule, table, self.tol, refine)
        self.best_params_ = table["params"][self.best_index_]
        self.best_score_ = table[f"mean_test_{metric}"][self.best_index_]
        self._mark_the_indistinguishable(table, rule)
        return True

    def _mark_the_indistinguishable(self, table: dict[str, Any], rule: SelectionRule) -> None:
        terms = getattr(self, "agreement_terms_", None)
        # At "" each candidate is taken at its worst site, as the rules take it.
        differences = self._differences.get("")
        if rule.decides != f"expected_{first_metric(self, table)}":  # or of another metric
            differences = None
        given = rule, table, self.best_index_, terms, self._pairs
        found = indistinguishable(*given, differences)
        if found is None:
            return
        table["not_told_apart"] = found
        if found.any():
            value = "agreement" if rule.by_agreement else "expected score"
            added = indistinguishable_in_words(value, int(found.sum()))
            table["reason"][self.best_index_] += f"; {added}"

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
            self.posterior_,
            table["params"],
            base_estimator,
            (plan.data.samples[0], plan.data.y_to_fit),
            plan.data.fit_params,
            plan.training_and_test_rows,
            metric=metric,
            scorer=self.scorer_,
            n_jobs=self.n_jobs,
            callbacks=callbacks,
            temperatures=partial(plan.temperatures, stacks),
        )
        self.refit_time_ = time.time() - start
        self.n_fits_ += committee.n_fits_
        # The committee is part of this search and does not hold it, too: both are saved together.
        committee.search_, committee.warnings_ = None, self.warnings_
        self.best_estimator_ = committee
        if hasattr(committee, "feature_names_in_"):
            self.feature_names_in_ = committee.feature_names_in_
        vote, self.committee_score_ = plan.vote(stacks, committee), np.nan
        if vote is not None:
            try:
                self.committee_score_ = float(vote.scores(committee.scorer_, metric).mean())
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

    def compare(self, i: int, j: int, *, site: str | None = None) -> AgreementComparison:
        """Compare two candidates: their agreement, or with pairs their expected score.

        Parameters
        ----------
        i, j : int
            Indices of candidates in ``cv_results_["params"]``; the column ``index`` of `summary`.
        site : str, default=None
            The site of a dict of pairs at which the expected scores are compared. None: each
            candidate's worst one.

        Returns
        -------
        AgreementComparison
            ``difference``, the agreement of i minus the agreement of j in nats per pair, or the
            difference of their expected scores; its ``standard_error``; and the two-sided
            ``p_value`` of no difference. The error of agreements is that of the mean over the
            same pairs, and allows for pairs that share a row. The error of expected scores is
            that of the differences over the labelled rows and over the pairs, which both
            candidates predict (:doc:`/paired`). On sixteen simulated shifts 1.96 of it held 94 %
            of the differences with 40 pairs and 85 % with 300, as each candidate has a bias of its
            own. The p-value is valid for two candidates that were
            named beforehand: the best of many looks better than it is, and ``p_adjusted`` is the
            same. ``interval`` is nan: nothing is resampled. All are nan if a candidate has no
            such value. With pairs and a rule that looks at the agreement, it is the agreement.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the search is not fitted.
        IndexError
            If i or j is not the index of a candidate.
        ValueError
            If `site` is not the name of one, or agreements are compared.

        Warns
        -----
        UserWarning
            If the pairs are of fewer than six rows.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from pa_select import PASearchCV
        >>> search = PASearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 3]})
        >>> search = search.fit(*load_wine(return_X_y=True))
        >>> found = search.compare(1, 0)
        >>> found.difference > 0, found.p_value < 0.05
        (True, True)
        """
        check_is_fitted(self, "cv_results_")
        table, n = self.cv_results_, len(self.cv_results_["params"])
        for name, value in (("i", i), ("j", j)):
            if not isinstance(value, numbers.Integral) or not 0 <= value < n:
                raise IndexError(
                    f"{name}: expected the index of a candidate in cv_results_['params'], 0 to "
                    f"{n - 1}, got {value!r}."
                )
        expected = f"expected_{first_metric(self, table)}"
        if expected in table and not rule_of(self, table).by_agreement:
            # The empty name is that of the worst sites, which None stands for.
            if site not in {None, *self._differences} - {""}:
                raise ValueError(
                    f"site: expected one of {list(self._differences)[1:]}, got {site!r}."
                )
            return expected_comparison(self._differences[site or ""], i, j)
        if site is not None:
            raise ValueError(f"site: expected None to compare agreements, got {site!r}.")
        return agreement_comparison(
            self.agreement_terms_[i], self.agreement_terms_[j], self._pairs
        )

    def plan_pairs(self, n_pairs: Sequence[int] = (20, 50, 100, 200, 500)) -> dict[int, float]:
        """Predict the standard error of the expected score with other numbers of pairs.

        Parameters
        ----------
        n_pairs : sequence of int, default=(20, 50, 100, 200, 500)
            The numbers of objects measured at both sites, each at least 2.

        Returns
        -------
        dict of int to float
            For each number the standard error that ``expected_score_se_`` would have if further
            objects are like those of the search; with several sites at the worst one. The part of
            it that is not due to the pairs stays (see the notes of the function `plan_pairs`). On
            simulated shifts the prediction was 1.05 to 1.43 times the later one with 20 first
            pairs, in nine of ten cases.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the search is not fitted.
        ValueError
            If the search was fitted without pairs, or with a single one, or `n_pairs` are not
            whole numbers of at least 2.

        See Also
        --------
        pa_select.plan_pairs : The same for trained models, with intervals.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_wine
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from sklearn.utils import shuffle
        >>> from pa_select import PASearchCV
        >>> X, y = shuffle(*load_wine(return_X_y=True), random_state=0)
        >>> again = X + np.random.default_rng(0).normal(scale=0.5 * X.std(axis=0), size=X.shape)
        >>> search = PASearchCV(GaussianNB(), {"var_smoothing": [1e-9, 1e-3]})
        >>> search = search.fit(X[:140], y[:140], paired=(X[140:], again[140:]))
        >>> now, with_100 = search.plan_pairs([38, 100]).values()
        >>> with_100 < now, abs(now - search.expected_score_se_) < 1e-9
        (True, True)
        """
        from pa_select.two_sites.pair_planning import checked_sizes, error_with_pairs

        check_is_fitted(self, "cv_results_")
        sizes, n = checked_sizes(n_pairs), objects_of_choice(self)
        if n < 2:
            raise ValueError(
                "plan_pairs: expected a search that was fitted with at least two pairs, "
                f"fit(X, y, paired=...), got {n} pairs."
            )
        error = f"expected_{first_metric(self, self.cv_results_)}_se"
        whole, of_pairs = (
            self.cv_results_[e][self.best_index_] for e in (error, f"{error}_pairs")
        )
        return {size: error_with_pairs(whole, of_pairs, n, size) for size in sizes}

    def summary(self) -> Frame:
        """Return a small table: a row for each candidate, and what decided between them.

        Returns
        -------
        pandas.DataFrame
            A row is named by the parameters that differ. The chosen candidate is first, then
            come the other eligible ones; the value that decides orders them. The columns are
            those of ``cv_results_`` that decide: scores and agreement with their standard errors,
            for each site if there are several, the worst environment's name, ``eligible``,
            ``not_told_apart``, ``weight``; then ``chosen``, and ``index``, which `compare` takes.
            Print it with ``to_string()``.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the search is not fitted.
        ImportError
            If pandas is not installed.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from pa_select import PASearchCV
        >>> search = PASearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 3]})
        >>> table = search.fit(*load_wine(return_X_y=True)).summary()
        >>> table.index.tolist(), table["chosen"].tolist()
        (['max_depth=3', 'max_depth=1'], [True, False])
        """
        from pa_select.model_selection.results_table import summary

        return summary(self)

    def report(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Write a page for readers who do not program: what was asked, chosen and expected.

        Parameters
        ----------
        path : str, path or None, default=None
            The file of HTML to write, in UTF-8. None: the page is returned.

        Returns
        -------
        str or None
            The page, if no file is written. It is self-contained, can be printed, and runs no
            script.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the search is not fitted.
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from pa_select import PASearchCV
        >>> search = PASearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 3]})
        >>> "with max_depth=3</strong>" in search.fit(*load_wine(return_X_y=True)).report()
        True
        """
        from pa_select.model_selection.report import report

        page = report(self)
        if path is None:
            return page
        # Not returned, too: a notebook would show its source.
        Path(path).write_text(page, encoding="utf-8")
        return None

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
