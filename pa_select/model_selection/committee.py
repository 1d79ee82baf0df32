"""The committee of the candidates that a search's data cannot tell apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from numbers import Integral, Real
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier, is_regressor
from sklearn.metrics import accuracy_score, check_scoring, r2_score
from sklearn.model_selection import check_cv
from sklearn.utils import get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pa_select.model_selection.candidate_posterior import candidate_posterior, check_parts
from pa_select.model_selection.committee_vote import (
    Members,
    calibrations,
    members_of,
    out_of_fold_scores,
    predicted_by,
    sum_of,
    towards_best,
    vote,
)
from pa_select.model_selection.data import Split, folds_of
from pa_select.model_selection.rules import check_metric, first_metric, metrics_of
from pa_select.model_selection.work import fit_members, seen_by_scorer, with_parameters
from pa_select.scores.candidate_posterior import CandidatePosterior, posterior_of_models
from pa_select.scores.class_scores import warn_of_trained_module
from pa_select.scores.precomputed import (
    RecordedClassifier,
    one_column,
    recorded_models,
    taking_classes,
)
from pa_select.utils.arrays import check_column, check_scoring_argument, refuse_no_rows
from pa_select.utils.estimators import SavedWithVersions
from pa_select.utils.messages import keeps_warnings
from pa_select.utils.sklearn_private import (
    Callbacks,
    CallbackSupport,
    HasMethods,
    Interval,
    NotesOfFits,
    StrOptions,
    _check_method_params,
    _fit_context,
    _num_samples,
)
from pa_select.utils.typing import Array, Estimators, Floats, Labels, Rows, Scorer, Search


def _makes_probabilities(committee: Any) -> bool:
    if hasattr(committee, "betas_"):
        return not np.isnan(committee.betas_).any()
    return bool(is_classifier(committee.search))


class PACommittee(SavedWithVersions, CallbackSupport, MetaEstimatorMixin, BaseEstimator):
    """Keep the candidates of a search that its data cannot tell apart, and let them vote.

    A search chooses one candidate, although its rows can seldom tell the best ones apart. The
    committee keeps them all, with the posterior over the candidates as weights
    (`candidate_posterior`). Classifiers vote by their class probabilities, regressors by their
    predictions. A prediction takes as long as those of all members.

    Parameters
    ----------
    search : estimator object
        A search such as `sklearn.model_selection.GridSearchCV`, a halving search or `PASearchCV`,
        of classifiers or regressors. It is cloned, and fitted as it is. None only for the result
        of `from_models`, and in ``PASearchCV(refit=PACommittee(...))``.
    members : {"refit", "folds"}, default="refit"
        "refit": one model of each remaining candidate, fitted to all rows. "folds": its models of
        all splits, for nets and trees, which another start or a few other rows change much.
    min_weight : float, default=0.1
        Candidates are left out if their weight is less than this share of the largest weight.
    metric : str, default=None
        The metric of a search with several ones that compares the candidates. None: the one of
        the search's `refit`, or the only one.
    n_jobs : int, default=None
        Number of fits of members in parallel. None: as in the search.
    verbose : int, default=0
        1: a line shows the progress of the fits of the members.

    Attributes
    ----------
    search_ : estimator
        The fitted search; None after `from_models`, and of the ``best_estimator_`` of a search.
    posterior_ : CandidatePosterior
        The weights of all candidates, and how many remain.
    estimators_ : list of estimator
        The fitted models that vote.
    candidates_ : ndarray of shape (n_estimators,)
        The candidate of each model, as in ``cv_results_["params"]``, or its place in `models`.
    weights_ : ndarray of shape (n_estimators,)
        The weights of the models, which sum to 1: the posterior of the candidates that remain. Of
        regressors in a search of scikit-learn a part of all weights goes to the best candidate,
        the part that minimises the squared error of the out-of-fold predictions.
    betas_, biases_ : ndarray of shape (n_estimators,) and (n_estimators, n_classes)
        The inverse temperature and the biases of the classes at which the class scores of each
        model fit its out-of-fold rows best, but no vote is more certain than so many rows can
        show. Biases are 0 with fewer than 40 rows, and of a candidate that remains alone. nan: the
        model has no class scores, and votes by its class. Only for classifiers.
    classes_ : ndarray of shape (n_classes,)
        The classes. Only for classifiers.
    metric_ : str
        The metric that compares the candidates, as in ``mean_test_<metric>``.
    n_fits_ : int
        Number of fits of members, beside those of the search: one for each, and none of "folds",
        since the search's scorer sees the models of the splits. Members are fitted to every split
        once more where it does not: in a halving search over numbers of rows, and in searches that
        are not of scikit-learn's kind. With `PASearchCV` "folds" are.
    n_features_in_, feature_names_in_
        As in the members.
    warnings_ : list of str
        What the last ``fit`` warned about.

    See Also
    --------
    PASearchCV : ``refit="committee"`` has the same committee, with pairs, views and environments.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.svm import SVC
    >>> from pa_select import PACommittee
    >>> X, y = load_wine(return_X_y=True)
    >>> grid = {"svc__C": [0.01, 0.1, 1, 10]}
    >>> search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid)
    >>> committee = PACommittee(search).fit(X[::2], y[::2])
    >>> committee.posterior_
    CandidatePosterior(0.5 of 1.4 nats: 2.3 of 4 candidates remain)
    >>> [committee.search_.cv_results_["params"][i]["svc__C"] for i in committee.candidates_]
    [0.1, 1, 10]
    >>> committee.predict_proba(X[1::2]).shape
    (89, 3)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "search": [HasMethods(["fit"]), None],
        "members": [StrOptions({"refit", "folds"})],
        "min_weight": [Interval(Real, 0, 1, closed="both")],
        "metric": [str, None],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        search: Search | None = None,
        *,
        members: Literal["refit", "folds"] = "refit",
        min_weight: float = 0.1,
        metric: str | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.search = search
        self.members = members
        self.min_weight = min_weight
        self.metric = metric
        self.n_jobs = n_jobs
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
    @keeps_warnings
    def fit(self, X: Rows, y: Labels | None = None, **params: Any) -> Self:
        """Fit the search, and the candidates that remain.

        Parameters
        ----------
        X : array-like of n rows
            Rows in any form that the search takes.
        y : array-like of shape (n,)
            Labels or numbers; of regressors also of shape (n, n_outputs).
        **params : dict
            Passed on to ``fit`` of the search, such as ``sample_weight`` or ``groups``; those that
            the search passes on to its estimator also go to the fits of the members.

        Returns
        -------
        self : object

        Raises
        ------
        TypeError, ValueError
            Before any fit, if there is no such search or metric, `y` has several labels for a row,
            or no two test folds are disjoint. Later, if no candidate has a score in every split.
        """
        search = _checked_search(self.search, self.metric)
        refuse_no_rows(X, "X", may_be_dataset=False)
        if is_classifier(search.estimator) and y is not None:
            check_column(y, _num_samples(y), "y")  # the votes are those for one label of a row
        makes_committees = hasattr(search, "makes_committees")
        callbacks = Callbacks.of_fit(self, 1 if makes_committees else 2, None)
        callbacks.begin(X, y)
        fit = self._fit_by if makes_committees else self._fit_after
        fit(search, callbacks, X, y, params)
        self.search_ = search
        callbacks.end(X, y)
        return self

    def _fit_by(
        self, search: Any, callbacks: Callbacks, X: Rows, y: Any, params: dict[str, Any]
    ) -> None:
        """Let the search fit the members, of which it has more to say."""
        metric = self.metric
        if metric is None and search.refit in (metrics_of(search.scoring) or []):
            metric = search.refit
        search.set_params(refit=clone(self).set_params(search=None, metric=metric))
        with callbacks.subtask("search").passed_on_to(search):
            search.fit(X, y, **params)
        # Only what is fitted: parameters stay what the user gave.
        own = {x: value for x, value in vars(search.best_estimator_).items() if x.endswith("_")}
        own["warnings_"] = vars(self)["warnings_"] + own["warnings_"]
        self.__dict__.update(own)

    def _fit_after(
        self, search: Any, callbacks: Callbacks, X: Any, y: Any, params: dict[str, Any]
    ) -> None:
        """Fit the search, and then the members."""
        X, y = indexable(X, y)
        params = _check_method_params(X, params=params)
        routed = search._get_routed_params_for_fit(params)
        splitter = check_cv(search.cv, y, classifier=is_classifier(search.estimator))
        splits = list(splitter.split(X, y, **routed.splitter.split))
        check_parts(folds_of(splits), is_regressor(search.estimator))
        # The members are fitted to the same splits, also if the splitter draws them anew.
        search.set_params(cv=splits)
        # With the splits given as a list, nobody would take what only the splitter asks for.
        split_alone = {*routed.splitter.split} - {*routed.estimator.fit, *routed.scorer.score}
        search_params = {name: x for name, x in params.items() if name not in split_alone}
        with TemporaryDirectory(prefix="pa_select-") as folder:
            kept_in = folder if self.members == "folds" else None
            seen = NotesOfFits(search, partial(seen_by_scorer, kept_in))
            with seen, callbacks.subtask("search").passed_on_to(search):
                search.fit(X, y, **search_params)
            # The splits are not kept with the search, which they would make large.
            search.cv, search._checked_cv_orig = clone(self.search).cv, splitter
            metric = self.metric or first_metric(search, search.cv_results_)
            posterior = candidate_posterior(search, metric, splits=splits)
            given = (X, y), routed.estimator.fit, splits, callbacks
            self._fit_members(search, clone(search.estimator), posterior, metric, *given, seen)

    def _fit_members(
        self,
        search: Any,
        estimator: Any,
        posterior: CandidatePosterior,
        metric: str,
        data: tuple[Any, Any],
        fit_params: dict[str, Any],
        splits: Sequence[Split],
        callbacks: Callbacks,
        seen: NotesOfFits | None = None,
        calibrated: Callable[[Members], Any] | None = None,
    ) -> None:
        """Fit the candidates of a search that remain; `fit` and searches call this.

        ``calibrated`` calibrates members. None: ``seen`` knows what the models of splits predict,
        for the calibration of classifiers and the shares of regressors; what it has not seen is
        fitted to the splits once more.
        """
        y, weight = one_column(data[1]), fit_params.get("sample_weight")
        self.posterior_, self.metric_ = posterior, metric
        of_many = isinstance(search.scorer_, Mapping)
        self.scorer_ = search.scorer_[metric] if of_many else search.scorer_
        candidates, shares, *_ = self._members
        of_classifiers, of_folds = is_classifier(estimator), self.members == "folds"
        # Searches of this package know their out-of-fold scores; regressors of others move shares.
        predicts = of_classifiers and calibrated is None
        if is_regressor(estimator) and calibrated is None:
            summed = posterior.scores_a.sum(axis=0) + posterior.scores_b.sum(axis=0)
            best = int(np.where(np.isfinite(summed), summed, -np.inf).argmax())
            if best not in candidates:
                candidates, shares = np.append(candidates, best), np.append(shares, 0.0)
            predicts = len(candidates) > 1
        every = candidates.tolist()
        models, outputs, self.n_fits_ = fit_members(
            [with_parameters(estimator, search.cv_results_["params"][i]) for i in every],
            [seen.of(i) if seen else [] for i in every],
            splits,
            of_folds,
            predicts,
            data,
            fit_params,
            search.n_jobs if self.n_jobs is None else self.n_jobs,
            self.verbose,
            callbacks,
        )
        rows = np.concatenate(folds_of(splits))
        weight = None if weight is None else np.asarray(weight, dtype=np.float64)[rows]
        if predicts and not of_classifiers:
            predicted = np.array([np.concatenate(of_splits) for of_splits in outputs])
            best = every.index(best)
            shares = towards_best(shares, best, predicted, y[rows], weight)
        # All models of a candidate share its weight equally; a regressor may have none left.
        n_models = len(splits) if of_folds else 1
        kept = np.flatnonzero(np.repeat(shares, n_models))
        self.estimators_ = [models[i] for i in kept.tolist()]
        self.candidates_ = np.repeat(candidates, n_models)[kept]
        self.weights_ = np.repeat(shares / n_models, n_models)[kept]
        if of_classifiers:
            # A frozen model may know more classes.
            known = [getattr(model, "classes_", y) for model in self.estimators_]
            self.classes_ = np.unique(np.concatenate([y, *known]))
            if calibrated is None:
                scores = [out_of_fold_scores(one, self.classes_) for one in outputs]
                betas, biases = calibrations(scores, y[rows], self.classes_, weight)
            else:
                *_, betas, biases = calibrated(self._members)
            self.betas_ = np.repeat(betas, n_models)
            self.biases_ = np.repeat(biases, n_models, axis=0)
        self._keep_features()

    @property
    def _members(self) -> Members:
        """The candidates that remain, and their shares of the vote."""
        return members_of(self.posterior_, self.min_weight)

    def _mapped(self, of_model: Callable[[Any, int], Any]) -> PACommittee:
        """Return the committee with other models, a function of each and its candidate."""
        other = copy(self)
        other.estimators_ = list(map(of_model, self.estimators_, self.candidates_.tolist()))
        other._keep_features()
        return other

    def _keep_features(self) -> None:
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimators_[0], name):
                setattr(self, name, getattr(self.estimators_[0], name))

    @classmethod
    def from_models(
        cls,
        models: Estimators,
        X: Rows,
        y: Labels,
        *,
        scoring: str | Scorer | None = None,
        min_weight: float = 0.1,
    ) -> PACommittee:
        """Make a committee of trained models, from a few labelled rows; nothing is fitted.

        Parameters
        ----------
        models : list or dict of fitted estimators
            Classifiers of scikit-learn, skorch nets or torch modules; or regressors.
        X : array-like of n rows
            Rows from where the models will be used, at least two, to which no model was fitted.
        y : array-like of shape (n,)
            Their labels. The order of the rows does not matter.
        scoring : str or callable, default=None
            The metric that compares the models. None: accuracy, or R2 for regressors.
        min_weight : float, default=0.1
            As for `PACommittee`.

        Returns
        -------
        PACommittee
            A fitted committee, without a search.

        Raises
        ------
        TypeError, ValueError
            If models are not fitted, or of both kinds; if there are fewer than two rows, no model
            knows a label, or none has a finite score.

        Warns
        -----
        UserWarning
            If no model knows the labels of some rows, or the metric is not defined on some parts.

        Notes
        -----
        The committee's `score` on these rows is too high, since they chose it; `FewLabels`
        estimates its accuracy from the same labels.

        The parts are pairs of five random folds of the rows, or halves of these with fewer than 25
        rows; for regressors random halves. Of accuracy, log-loss, the Brier score, R2 and mean
        errors there are 10 000 pairs, so that another draw moves a weight by less than 0.02; of
        other metrics 500, which leave about 0.05.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from sklearn.linear_model import LogisticRegression
        >>> from pa_select import PACommittee
        >>> X, y = load_digits(return_X_y=True)
        >>> models = [LogisticRegression(C=C, max_iter=50) for C in (1e-5, 0.01, 0.1)]
        >>> models = [model.fit(X[:500] / 16, y[:500]) for model in models]
        >>> committee = PACommittee.from_models(models, X[500:550] / 16, y[500:550])
        >>> committee.candidates_
        array([1, 2])
        >>> bool(committee.score(X[550:] / 16, y[550:]) > 0.85)
        True
        """
        committee = cls(min_weight=min_weight)
        committee._validate_params()
        check_scoring_argument(scoring)
        refuse_no_rows(X, "X")
        labels = check_column(y, _num_samples(X), "y")
        if len(labels) < 2:
            raise ValueError(f"X: expected at least two labelled rows, got {len(labels)}.")
        known, outputs = recorded_models(models, X, labels)
        scorer = check_scoring(outputs[0], scoring)
        if isinstance(outputs[0], RecordedClassifier):
            committee.classes_ = outputs[0].classes
            scorer = taking_classes(scorer, committee.classes_)
            for one in outputs:
                one.check_methods(scorer)
        committee.posterior_ = posterior_of_models(scorer, outputs, labels)
        committee.candidates_, committee.weights_, *_ = committee._members
        committee.estimators_ = [known[i] for i in committee.candidates_.tolist()]
        committee.search_, committee.n_fits_, committee.metric_ = None, 0, "score"
        committee.scorer_ = None if scoring is None else scorer
        if hasattr(committee, "classes_"):
            scores = [outputs[i].scores for i in committee.candidates_]
            found = calibrations(scores, labels, committee.classes_, None)
            committee.betas_, committee.biases_ = found
        committee._keep_features()
        return committee

    @available_if(_makes_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Rows) -> Floats:
        """Return the mean of the members' class probabilities, each calibrated by itself.

        Parameters
        ----------
        X : array-like of n rows

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        return self._votes(X)

    @available_if(_makes_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Rows) -> Floats:
        """Return the logarithms of `predict_proba`.

        Parameters
        ----------
        X : array-like of n rows

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        with np.errstate(divide="ignore"):
            logs: Floats = np.log(self.predict_proba(X))
        return logs

    def predict(self, X: Rows) -> Array:
        """Return the classes with the most votes, or the mean of the members' predictions.

        Parameters
        ----------
        X : array-like of n rows

        Returns
        -------
        ndarray of shape (n,) or (n, n_outputs)
        """
        votes = self._votes(X)
        return self.classes_[votes.argmax(axis=1)] if hasattr(self, "classes_") else votes

    def _votes(self, X: Rows) -> Any:
        check_is_fitted(self, "estimators_")
        if not hasattr(self, "classes_"):
            of_numbers = zip(self.estimators_, self.weights_, strict=True)
            return sum_of(weight * predicted_by(model, X) for model, weight in of_numbers)
        members = zip(self.estimators_, self.weights_, self.betas_, self.biases_, strict=True)
        return sum_of(
            weight * vote(model, X, beta, bias, self.classes_)
            for model, weight, beta, bias in members
        )

    @available_if(lambda self: is_classifier(self))  # type: ignore[untyped-decorator]
    def dissent(self, X: Rows) -> Floats:
        """Return the weight of the members that predict another class than the committee.

        Much dissent is a reason to look at a row: where it is above 0.2, the best candidate alone
        is wrong about twice as often as elsewhere (:doc:`/measured`). To leave some rows to
        people, take the lowest ``predict_proba(X).max(axis=1)``, which finds more errors.

        Parameters
        ----------
        X : array-like of n rows

        Returns
        -------
        ndarray of shape (n,)
            In [0, 1]; 0: all members agree.
        """
        agreed = self.predict(X)
        members = zip(self.estimators_, self.weights_, strict=True)
        return sum_of(weight * (predicted_by(model, X) != agreed) for model, weight in members)

    def score(self, X: Rows, y: Labels, sample_weight: Any = None) -> float:
        """Return the search's metric of the committee's predictions.

        Parameters
        ----------
        X : array-like of n rows
        y : array-like of shape (n,)
            Labels or numbers.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        float
            The accuracy, or R2 for regressors, if the search has no `scoring`.
        """
        check_is_fitted(self, "estimators_")
        weight = {} if sample_weight is None else {"sample_weight": sample_weight}
        if self.scorer_ is None:
            usual = accuracy_score if hasattr(self, "classes_") else r2_score
            return float(usual(y, self.predict(X), **weight))
        # A scorer may call `score` of what it is given, as that of a search without `scoring`.
        plain = copy(self)
        plain.scorer_ = None
        scores = self.scorer_(plain, X, y, **weight)
        return float(scores[self.metric_] if isinstance(scores, Mapping) else scores)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimators_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # The result of `from_models` has no search; its models are all of one kind.
        model = self.search if self.search is not None else getattr(self, "estimators_", [None])[0]
        if hasattr(model, "__sklearn_tags__"):
            of_model = get_tags(model)
            for name in ("estimator_type", "classifier_tags", "regressor_tags", "input_tags"):
                setattr(tags, name, getattr(of_model, name))
        return tags

    def get_metadata_routing(self) -> MetadataRouter:
        """Get metadata routing of this committee.

        Returns
        -------
        sklearn.utils.metadata_routing.MetadataRouter
        """
        router = MetadataRouter(owner=self)
        if self.search is not None:
            mapping = MethodMapping().add(caller="fit", callee="fit")
            router.add(search=self.search, method_mapping=mapping)
        return router


def _checked_search(search: Any, metric: str | None) -> Any:
    """Return a clone of a search; refuse what is none, or has another kind of estimator."""
    if not all(hasattr(search, name) for name in ("estimator", "cv", "refit")):
        raise TypeError(
            "search: expected a search such as GridSearchCV(estimator, grid), got "
            f"{type(search).__name__}."
        )
    if not (is_classifier(search.estimator) or is_regressor(search.estimator)):
        raise ValueError(
            "search: expected a search of classifiers or regressors, got one of "
            f"{type(search.estimator).__name__}."
        )
    check_metric(metric, getattr(search, "scoring", None))
    warn_of_trained_module(search.estimator)
    return clone(search)
