"""What searches have in common: a fit on one page, and its parts."""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from collections.abc import Iterable
from copy import copy
from dataclasses import KW_ONLY, dataclass
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if

from pa_select.model_selection.candidate_posterior import check_parts
from pa_select.model_selection.checks import check_given
from pa_select.model_selection.columns import agreement_columns, score_columns
from pa_select.model_selection.committee import PACommittee
from pa_select.model_selection.committee_vote import (
    Members,
    calibrated_members,
    members_of,
)
from pa_select.model_selection.comparison import Comparison, compare
from pa_select.model_selection.data import Given, is_sequence_of_splitters
from pa_select.model_selection.expected import (
    CommitteeVote,
    Expected,
    expected_at_sites,
    posterior_of,
)
from pa_select.model_selection.rules import (
    RULES,
    check_metric,
    first_metric,
    is_certified,
    rule_of,
)
from pa_select.model_selection.summary import FittedSearchMixin
from pa_select.model_selection.work import (
    Outcome,
    evaluate,
    warn_of_missing_scores,
    with_parameters,
)
from pa_select.scores.precomputed import Stacks
from pa_select.utils.estimators import SavedWithVersions
from pa_select.utils.messages import keeps_warnings
from pa_select.utils.sklearn_private import (
    BaseSearchCV,
    Callbacks,
    HasMethods,
    StrOptions,
    _fit_context,
    _insert_error_scores,
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
    HasPairs,
    Ints,
    Labels,
    PairedRows,
    Prior,
    RandomState,
    Rows,
    Rule,
    Scoring,
)

#: What ``pairing`` may be.
Pairing: TypeAlias = Literal["repeated", "split-half"] | HasPairs


def _delegated(name: str) -> Any:
    """Return scikit-learn's method; before the fit a search knows what its committee will have."""
    inherited = getattr(BaseSearchCV, name)

    @wraps(inherited)
    def method(self: Any, X: Rows) -> Any:
        return inherited(self, X)

    def has(self: Any) -> bool:
        if self._keeps_several and not hasattr(self, "best_estimator_"):
            return name != "decision_function" and is_classifier(self.estimator)
        return bool(_search_estimator_has(name)(self))

    return available_if(has)(method)


# What `refit` may be beside the names of metrics.
_WORDS = (*RULES, "committee")


@dataclass(eq=False, repr=False)
class BasePASearch(FittedSearchMixin, SavedWithVersions, BaseSearchCV):
    """A search over the candidates that a subclass lists."""

    estimator: Estimator
    _: KW_ONLY
    pairing: Pairing = "repeated"
    scoring: Scoring = None
    cv: CrossValidation = None
    refit: bool | str | Rule | PACommittee = True
    prior: Prior = "marginal"
    n_jobs: int | None = None
    pre_dispatch: int | str = "2*n_jobs"
    verbose: int = 0
    error_score: ErrorScore = np.nan
    random_state: RandomState = None
    device: Device = None
    memory: Any = None
    adapter: Adapter = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        key: value
        for key, value in BaseSearchCV._parameter_constraints.items()
        if key != "return_train_score"
    } | {
        "pairing": [StrOptions({"repeated", "split-half"}), HasMethods(["pairs"]), callable],
        "refit": ["boolean", str, callable, PACommittee],
        "prior": [StrOptions({"marginal", "uniform"}), "array-like"],
        "random_state": ["random_state"],
        "device": "no_validation",
        "memory": [str, os.PathLike, HasMethods(["cache"]), None],
        "adapter": "no_validation",
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

    @_fit_context(prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
    @keeps_warnings
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
            Before any fit, if the data are wrong; the message names the argument. After all fits,
            if no candidate has a score.

        Warns
        -----
        sklearn.exceptions.FitFailedWarning
            If fits failed and `error_score` is a number.
        UserWarning
            If the rows or pairs look wrong, or are too few to distinguish the candidates; the
            message explains.
        """
        data = {"environments": environments, "views": views, "paired": paired, "groups": groups}
        given = check_given(self, X, y, params, **data)
        comparison = compare(given, self.cv, self.pairing)
        committee = self._committee(comparison, given)
        # Drawn once: a random state that is an object would draw others the next time.
        candidates, estimator = list(self._candidates()), clone(self.estimator)
        callbacks, tasks = self._begin(given), comparison.tasks(given)
        options: dict[str, Any] = {"n_jobs": self.n_jobs, "pre_dispatch": self.pre_dispatch}
        options |= {"memory": self.memory, "verbose": self.verbose}
        outcomes = evaluate(candidates, estimator, tasks, given, callbacks, **options)

        stacks = Stacks(outcomes, comparison.scored_rows, given.labels)
        table, metric = self._scores(candidates, outcomes, given)
        table |= score_columns(outcomes, stacks, comparison, given)
        columns, self.agreement_terms_, self._pairs = agreement_columns(
            outcomes, stacks, comparison, given, self.prior, self.device
        )
        expected = expected_at_sites(stacks, table, metric, comparison, given)
        table |= columns | expected.columns
        self._differences = expected.differences()
        self.posterior_ = posterior_of(table, metric, comparison, given, expected)
        if self.posterior_ is not None:
            table["weight"] = self.posterior_.weights
        self.cv_results_, self.pairing_ = table, comparison.pairing

        self._choose(table, metric, comparison)
        self.__dict__ |= expected.attributes_of_choice(getattr(self, "best_index_", None))
        if committee is not None:
            self._refit_members(committee, estimator, stacks, comparison, given, callbacks)
            vote = self._vote(committee, stacks, comparison, given, expected)
            self.committee_score_ = np.nan if vote is None else vote.mean_score(committee, given)
            self.__dict__ |= expected.attributes_of_committee(vote)
        elif self.refit:
            self._refit(estimator, given, callbacks)
        if self.refit:
            mapped = self._mapped if committee is None else committee._mapped
            self.__dict__ |= expected.attributes_of_refit(mapped, self.adapter)
        callbacks.end(given.samples[0], given.y_to_fit)
        return self

    @property
    def _keeps_several(self) -> bool:
        """Whether a committee is refitted."""
        return isinstance(self.refit, PACommittee) or self.refit == "committee"

    def _committee(self, comparison: Comparison, given: Given) -> PACommittee | None:
        """Return a new committee with the options of `refit`; None if one model is refitted."""
        if not self._keeps_several:
            return None
        committee = PACommittee(verbose=self.verbose)
        if isinstance(self.refit, PACommittee):
            committee = clone(self.refit)
            committee._validate_params()
            if committee.search is not None:
                raise ValueError(
                    "refit: expected a PACommittee without a search, got one with it."
                )
        check_parts(comparison.folds, given.of_regressors)
        return committee

    def _begin(self, given: Given) -> Callbacks:
        """Forget an earlier fit, and tell the callbacks of this one."""
        for name in [x for x in vars(self) if x.endswith("_") and x != "warnings_"]:
            delattr(self, name)
        metadata = None if given.weight is None else {"sample_weight": given.weight}
        callbacks = Callbacks.of_fit(self, 1 + (self.refit is not False), metadata)
        callbacks.begin(given.samples[0], given.y_to_fit)
        return callbacks

    def _scores(
        self, candidates: list[dict[str, Any]], outcomes: list[list[Outcome]], given: Given
    ) -> tuple[dict[str, Any], str]:
        """Make the columns of scikit-learn's searches; return the metric that is the score."""
        flat = [vars(one) for of_candidate in outcomes for one in of_candidate]
        _warn_or_raise_about_fit_failures(flat, self.error_score)
        if callable(self.scoring):
            # Only its results show whether a callable scorer returns several scores.
            _insert_error_scores(flat, self.error_score)
        warn_of_missing_scores(outcomes)
        self.multimetric_ = isinstance(outcomes[0][0].test_scores, dict)
        if self.multimetric_ and callable(self.scoring):
            self._check_refit_for_multimetric(outcomes[0][0].test_scores)
        self.scorer_ = given.scorers if given.has_several else given.scorer
        self.n_splits_, self.n_fits_ = len(outcomes[0]), len(flat)
        scores = [
            {name: one[name] for name in ("fit_time", "score_time", "test_scores")} for one in flat
        ]
        table: dict[str, Any] = self._format_results(candidates, self.n_splits_, scores)
        # What a function returns is known only now.
        known = outcomes[0][0].test_scores if self.multimetric_ else None
        check_metric(getattr(self.refit, "metric", None), known)
        return table, first_metric(self, table)

    def _choose(self, table: dict[str, Any], metric: str, comparison: Comparison) -> None:
        """Say who is eligible, and choose if that is asked for."""
        named = self.multimetric_ and self.refit == metric
        options = {"sites": comparison.sites, "views": comparison.views}
        rule = rule_of(self.refit, metric, may_be_rule=not named, **options)
        self.decides_ = getattr(rule, "decides", metric)
        known = np.isfinite(np.asarray(table[f"mean_test_{metric}"], dtype=np.float64))
        table["eligible"] = rule.eligible(table) if hasattr(rule, "eligible") else known
        if self.refit is False and self.multimetric_:
            return
        self.best_index_ = int(self._select_best_index(rule, metric, table))
        self.best_params_ = table["params"][self.best_index_]
        self.best_score_ = table[f"mean_test_{metric}"][self.best_index_]
        by_agreement = self.decides_ == "agreement" and "gap" in table
        self.certified_choice_ = is_certified(table, self.best_index_) if by_agreement else None

    def _refit(self, base_estimator: Estimator, given: Given, callbacks: Callbacks) -> None:
        X, y = given.samples[0], given.y_to_fit
        # A clone that was made before the fits, so that no fit can have changed it.
        self.best_estimator_ = with_parameters(base_estimator, self.best_params_)
        part = callbacks.subtask("refit-with-best-params")
        with part.passed_on_to(self.best_estimator_):
            part.begin(X, y)
            start = time.time()
            self.best_estimator_.fit(X, y, **given.fit_params)
            self.refit_time_ = time.time() - start
            self.n_fits_ += 1
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_
        part.end(X, y)

    def _refit_members(
        self,
        committee: PACommittee,
        base_estimator: Estimator,
        stacks: Stacks,
        comparison: Comparison,
        given: Given,
        callbacks: Callbacks,
    ) -> None:
        """Fit the candidates that remain."""
        metric = first_metric(self, self.cv_results_)
        if self.posterior_ is None:
            raise ValueError(
                f"refit: expected a candidate with a finite {metric!r} in all parts of the data "
                "with a committee, got none."
            )
        start = time.time()
        rows = comparison.scored_rows, given.y, given.weight
        committee._fit_members(
            self,
            base_estimator,
            self.posterior_,
            metric,
            (given.samples[0], given.y_to_fit),
            dict(given.fit_params),
            comparison.splits,
            callbacks,
            calibrated=lambda members: calibrated_members(members, stacks, *rows),
        )
        self.refit_time_ = time.time() - start
        self.n_fits_ += committee.n_fits_
        # The committee is part of this search and does not hold it, too: both are saved together.
        committee.search_, committee.warnings_ = None, self.warnings_
        self.best_estimator_ = committee
        if hasattr(committee, "feature_names_in_"):
            self.feature_names_in_ = committee.feature_names_in_

    def _vote(
        self,
        committee: PACommittee,
        stacks: Stacks,
        comparison: Comparison,
        given: Given,
        expected: Expected,
    ) -> CommitteeVote | None:
        """Return the votes of a committee's fold models; None if a member has no class scores."""
        table, metric = self.cv_results_, first_metric(self, self.cv_results_)

        def members_without(rows: Ints) -> Members:
            # Two folds leave none to compare with another one.
            others = posterior_of(table, metric, comparison, given, expected, rows)
            return members_of(others or committee.posterior_, committee.min_weight)

        return CommitteeVote.cross_fitted(
            stacks,
            committee._members.candidates,
            comparison.scored_rows,
            [test for _, test in comparison.splits],
            given.y,
            given.weight,
            members_without,
        )

    predict_proba, predict_log_proba, decision_function = map(
        _delegated, ("predict_proba", "predict_log_proba", "decision_function")
    )

    def _mapped(self, of_model: Any) -> Any:
        return of_model(self.best_estimator_, self.best_index_)

    def score(self, X: Rows, y: Labels | None = None, **params: Any) -> float:
        """Return the score of the refitted model, by the metric that is the score.

        Parameters
        ----------
        X : array-like of n rows
        y : array-like of shape (n,)
        **params : dict
            Passed on to the scorer, as in GridSearchCV.

        Returns
        -------
        float
        """
        if hasattr(self, "committee_score_"):
            committee: Any = self.best_estimator_
            return float(committee.score(X, y, **params))
        scored = copy(self)
        if getattr(self, "multimetric_", False):  # BaseSearchCV takes the metric's name from refit
            scored.refit = first_metric(self, self.cv_results_)
        return float(BaseSearchCV.score(scored, X, y, **params))

    def report(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Write a page for readers who do not program: what was chosen, and how sure it is.

        Parameters
        ----------
        path : str, path or None, default=None
            The file of HTML to write, in UTF-8. None: the page is returned.

        Returns
        -------
        str or None
            The page, if no file is written: what to use, the expected score with its range, who
            votes in a committee, the candidates, and what was warned of. It is self-contained, and
            runs no script.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the search is not fitted.
        ImportError
            If pandas is not installed.
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
        # Imported here: a fit needs no page.
        from pa_select.model_selection.report import report

        page = report(self)
        if path is None:
            return page
        # Not returned, too: a notebook would show its source.
        Path(path).write_text(page, encoding="utf-8")
        return None

    def _check_refit_for_multimetric(self, scores: Any) -> None:
        # Of a rule or a committee the first metric is the score, unless it names another one.
        if self.refit is True or (isinstance(self.refit, str) and self.refit not in _WORDS):
            super()._check_refit_for_multimetric(scores)

    def __sklearn_is_fitted__(self) -> bool:
        # What a rule refuses has no estimator to predict with.
        return hasattr(self, "cv_results_") and (
            not self.refit or hasattr(self, "best_estimator_")
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = False  # class scores are gathered as numpy arrays
        return tags

    def get_metadata_routing(self) -> MetadataRouter:
        """Get metadata routing of this search.

        Returns
        -------
        sklearn.utils.metadata_routing.MetadataRouter
        """
        router = MetadataRouter(owner=self).add_self_request(self)
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        router.add(estimator=self.estimator, method_mapping=to_fit)
        to_score = MethodMapping().add(caller="score", callee="score")
        to_score.add(caller="fit", callee="score")
        router.add(scorer=self._get_scorers()[0], method_mapping=to_score)
        splitters: Any = self.cv if is_sequence_of_splitters(self.cv) else [self.cv]
        to_split = MethodMapping().add(caller="fit", callee="split")
        for i, splitter in enumerate(splitters):
            router.add(**{f"splitter{i or ''}": splitter}, method_mapping=to_split)
        return router
