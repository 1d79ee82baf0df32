"""The committee of the candidates that a search's data cannot tell apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier, is_regressor
from sklearn.metrics import accuracy_score, check_scoring, r2_score
from sklearn.model_selection import check_cv
from sklearn.utils import get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pa_select.model_selection.candidate_posterior import candidate_posterior, folds_of, no_parts
from pa_select.model_selection.committee_vote import (
    Members,
    calibration,
    calibrations,
    fit_members,
    held_out,
    members_of,
    sum_of,
    towards_best,
    vote,
)
from pa_select.model_selection.evaluation import (
    ONE_METRIC,
    check_only_metric,
    metrics_of,
    with_parameters,
)
from pa_select.model_selection.splits import Split, params_of_rows
from pa_select.model_selection.table_columns import first_metric
from pa_select.scores.candidate_posterior import (
    CandidatePosterior,
    pairs_of_parts,
    posterior_of_parts,
    scores_of_random_parts,
)
from pa_select.scores.class_scores import warn_of_trained_module
from pa_select.scores.precomputed import (
    RecordedClassifier,
    RecordedRegressor,
    one_column,
    taking_classes,
)
from pa_select.utils.arrays import check_column, check_scoring_argument
from pa_select.utils.estimators import SavedWithVersions, named_estimators
from pa_select.utils.messages import keeps_warnings, warn_caller
from pa_select.utils.sklearn_private import (
    Callbacks,
    CallbackSupport,
    HasMethods,
    Interval,
    StrOptions,
    _fit_context,
    _num_samples,
)
from pa_select.utils.typing import (
    Array,
    Estimator,
    Estimators,
    Floats,
    Labels,
    Rows,
    Scorer,
    Search,
)


def _makes_probabilities(committee: Any) -> bool:
    if hasattr(committee, "betas_"):
        return not np.isnan(committee.betas_).any()
    return bool(is_classifier(committee.search))


class PACommittee(
    SavedWithVersions,
    CallbackSupport,
    MetaEstimatorMixin,
    BaseEstimator,
):
    """Keep the candidates of a search that its data cannot tell apart, and let them vote.

    A search chooses one candidate, although its rows can seldom tell the best ones apart. The
    committee keeps them all: their weights are the posterior over the candidates at the
    inverse temperature at which two parts of the data agree most (`candidate_posterior`).
    Classifiers vote by their class probabilities, regressors by their predictions.

    Parameters
    ----------
    search : estimator object
        A search such as `sklearn.model_selection.GridSearchCV`, RandomizedSearchCV, a halving
        search or `PASearchCV`, of classifiers or regressors. It is cloned, and fitted as it is.
        None only for the result of `from_models`, and in ``PASearchCV(refit=PACommittee(...))``.
    members : {"refit", "folds"}, default="refit"
        "refit": one model of each remaining candidate, fitted to all rows. "folds": its models of
        all splits. Take "folds" for nets: what a net learns depends on its start, and the mean
        over several fits depends less on it.
    min_weight : float, default=0.1
        Candidates are left out if their weight is less than this share of the largest weight.
        0 keeps all; 1 keeps those with the largest weight.
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
        regressors in a search of scikit-learn, the best candidate has more: all weights are
        multiplied by 1 - a and it gets a more, where a in [0, 1] minimises the squared error of
        the out-of-fold predictions.
    betas_, biases_ : ndarray of shape (n_estimators,) and (n_estimators, n_classes)
        The inverse temperature, and the biases of the classes, at which the class scores of each
        model fit its out-of-fold rows best, but no vote is more certain than so many rows can
        show. Biases are 0 with fewer than 40 rows. nan: the model has no class scores, and votes
        by its class. Only for classifiers.
    classes_ : ndarray of shape (n_classes,)
        The classes. Only for classifiers.
    metric_ : str
        The metric that compares the candidates, as in ``mean_test_<metric>``.
    n_fits_ : int
        Number of fits of members, beside those of the search. The members of a search of
        scikit-learn are fitted to every split once more, since the search keeps no out-of-fold
        predictions; a regressor that remains alone is not.
    n_features_in_, feature_names_in_
        As in the members.
    warnings_ : list of str
        What the last ``fit`` warned about.

    See Also
    --------
    candidate_posterior : The weights alone.
    PASearchCV : ``refit="committee"`` has the same committee, with pairs, views and environments.

    Notes
    -----
    A prediction takes as long as those of all members. Where one candidate is clearly the best,
    it alone remains. The mean of several regressors can have a larger error than the best one
    alone, if that is much better; the out-of-fold predictions decide this (see `weights_`).

    References
    ----------
    .. [1] J. M. Buhmann, "Information theoretic model validation for clustering", ISIT 2010.
    .. [2] The thesis "Improved robustness of deep learning models through posterior agreement
       based model selection", chapter 2 (posteriors over hypotheses).

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
            The fitted committee.

        Raises
        ------
        TypeError, ValueError
            Before any fit, if a parameter is wrong, `y` has several labels for a row, or the
            search's splits have no two disjoint test folds. After the search, if no candidate has
            a score in every split.
        """
        search = _checked_search(self.search, self.metric)
        if is_classifier(search.estimator) and y is not None:
            check_column(y, _num_samples(y), "y")  # the votes are those for one label of a row
        makes_committees = hasattr(search, "makes_committees")
        callbacks = Callbacks.of_fit(self, 1 if makes_committees else 2, None)
        callbacks.begin(X, y)
        if makes_committees:
            self._fit_by(search, callbacks, X, y, params)
        else:
            self._fit_after(search, callbacks, X, y, params)
        self.search_ = search
        callbacks.end(X, y)
        return self

    def _fit_by(
        self, search: Any, callbacks: Callbacks, X: Rows, y: Any, params: dict[str, Any]
    ) -> None:
        """Let the search fit the members, of which it has more to say."""
        metric = self.metric
        if metric is None and isinstance(search.refit, str) and search.refit != "committee":
            metric = None if metrics_of(search.scoring) == ONE_METRIC else search.refit
        # The search has out-of-fold scores and knows its data, so that it makes the committee
        # itself.
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
        params = params_of_rows(X, params)
        routed = search._get_routed_params_for_fit(params)
        splitter = check_cv(search.cv, y, classifier=is_classifier(search.estimator))
        splits = list(splitter.split(X, y, **routed.splitter.split))
        folds = folds_of(splits)
        if not pairs_of_parts(folds, is_regressor(search.estimator)):
            raise ValueError(no_parts(len(folds)))
        # The members are fitted to the same splits, also if the splitter draws them anew.
        search.set_params(cv=splits)
        # With the splits given as a list, nobody would take what only the splitter asks for.
        elsewhere = {*routed.estimator.fit, *routed.scorer.score}
        split_alone = routed.splitter.split.keys() - elsewhere
        search_params = {name: x for name, x in params.items() if name not in split_alone}
        with callbacks.subtask("search").passed_on_to(search):
            search.fit(X, y, **search_params)
        # The splits are not kept with the search, which they would make large.
        search.cv, search._checked_cv_orig = clone(self.search).cv, splitter
        metric = first_metric(search, search.cv_results_) if self.metric is None else self.metric
        posterior = candidate_posterior(search, metric, splits=splits)
        self._gather(
            posterior,
            search.cv_results_["params"],
            clone(search.estimator),
            (X, y),
            routed.estimator.fit,
            splits,
            metric=metric,
            scorer=search.scorer_,
            n_jobs=search.n_jobs,
            callbacks=callbacks,
        )

    def _gather(
        self,
        posterior: CandidatePosterior,
        params: Sequence[dict[str, Any]],
        estimator: Estimator,
        data: tuple[Any, Any],
        fit_params: dict[str, Any],
        splits: Sequence[Split],
        *,
        metric: str,
        scorer: Any,
        n_jobs: int | None,
        callbacks: Callbacks,
        calibrated: Callable[..., tuple[Floats, Floats]] | None = None,
    ) -> None:
        """Fit the candidates that remain; `fit` and searches call this.

        `params` are those of all candidates. ``calibrated`` returns the inverse temperatures and
        biases of some of them. None: each member is fitted to every split, for the calibration of
        classifiers and the shares of regressors.
        """
        y, weight = data[1], fit_params.get("sample_weight")
        self.posterior_, self.metric_ = posterior, metric
        self.scorer_ = scorer[metric] if isinstance(scorer, Mapping) else scorer
        candidates, shares, *_ = members_of(posterior, self.min_weight)
        of_classifiers, of_folds = is_classifier(estimator), self.members == "folds"
        # Searches of this package know their out-of-fold scores; regressors of others move shares.
        predicts = of_classifiers and calibrated is None
        if is_regressor(estimator) and calibrated is None:
            best = int(np.nan_to_num(_summed(posterior), nan=-np.inf, posinf=-np.inf).argmax())
            if best not in candidates:
                candidates, shares = np.append(candidates, best), np.append(shares, 0.0)
            predicts = len(candidates) > 1
        models, outputs, self.n_fits_ = fit_members(
            [with_parameters(estimator, params[i]) for i in candidates.tolist()],
            splits,
            of_folds,
            predicts,
            data,
            fit_params,
            n_jobs if self.n_jobs is None else self.n_jobs,
            self.verbose,
            callbacks,
        )
        labels = one_column(y)
        if predicts and not of_classifiers:
            (rows, weight), position = held_out(splits, weight), candidates.tolist().index(best)
            predicted = np.array([np.concatenate(of_splits) for of_splits in outputs])
            shares = towards_best(shares, position, predicted, labels[rows], weight)
        # All models of a candidate share its weight equally; a regressor may have none left.
        n_models = len(splits) if of_folds else 1
        kept = np.flatnonzero(np.repeat(shares, n_models))
        self.estimators_ = [models[i] for i in kept.tolist()]
        self.candidates_ = np.repeat(candidates, n_models)[kept]
        self.weights_ = np.repeat(shares / n_models, n_models)[kept]
        if of_classifiers:
            # A frozen model may know more classes.
            known = [getattr(model, "classes_", labels) for model in self.estimators_]
            self.classes_ = np.unique(np.concatenate([labels, *known]))
            if calibrated is None:
                betas, biases = calibrations(outputs, splits, labels, self.classes_, weight)
            else:
                betas, biases = calibrated(candidates)
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
        members = zip(self.estimators_, self.candidates_.tolist(), strict=True)
        other.estimators_ = [of_model(model, candidate) for model, candidate in members]
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
            Labelled rows from where the models will be used, at least two, to which no model was
            fitted.
        y : array-like of shape (n,)
            Their labels.
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
            If the models are not fitted, or both classifiers and regressors; if there are fewer
            than two rows, no model knows a label, or none has a finite score.

        Warns
        -----
        UserWarning
            If no model knows the labels of some rows, or the metric is not defined on some parts.

        Notes
        -----
        The parts are the pairs of five random folds of the rows, or halves of these with fewer
        than 25 rows; for regressors random halves. The order of the rows does not matter. There
        are 10 000 pairs, so that another draw would move no weight by more than about 0.02, for
        accuracy, log-loss, the Brier score and the usual errors of regressors, and 500 for other
        metrics. If a metric is not defined on the rows of a fold, such as the area under the curve
        without a row of some class, the folds are stratified.

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
        labels = check_column(y, _num_samples(X), "y")
        if len(labels) < 2:
            raise ValueError(f"X: expected at least two labelled rows, got {len(labels)}.")
        known, outputs = _recorded(models, X, labels)
        scorer = check_scoring(outputs[0], scoring)
        if isinstance(outputs[0], RecordedClassifier):
            committee.classes_ = outputs[0].classes
            scorer = taking_classes(scorer, committee.classes_)
            for one in outputs:
                one.check_methods(scorer)
        committee.posterior_ = _posterior_of_models(scorer, outputs, labels)
        committee.candidates_, committee.weights_, *_ = committee._members
        committee.estimators_ = [known[i] for i in committee.candidates_.tolist()]
        committee.search_, committee.n_fits_, committee.metric_ = None, 0, "score"
        committee.scorer_ = None if scoring is None else scorer
        if hasattr(committee, "classes_"):
            given = labels, committee.classes_
            found = [
                calibration(outputs[i].scores, *given, alone=len(committee.candidates_) == 1)
                for i in committee.candidates_
            ]
            committee.betas_ = np.array([beta for beta, _ in found])
            committee.biases_ = np.array([bias for _, bias in found])
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
        check_is_fitted(self, "estimators_")
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
        check_is_fitted(self, "estimators_")
        if hasattr(self, "classes_"):
            predicted: Array = self.classes_[self._votes(X).argmax(axis=1)]
            return predicted
        members = zip(self.estimators_, self.weights_, strict=True)
        return sum_of(weight * one_column(model.predict(X)) for model, weight in members)

    def _votes(self, X: Rows) -> Floats:
        members = zip(self.estimators_, self.weights_, self.betas_, self.biases_, strict=True)
        return sum_of(
            weight * vote(model, X, beta, bias, self.classes_)
            for model, weight, beta, bias in members
        )

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
    # What is asked of a search; its class may be anybody's.
    if not all(hasattr(search, name) for name in ("estimator", "cv", "refit")):
        got = "None" if search is None else type(search).__name__
        got = f"the class {search.__name__}" if isinstance(search, type) else got
        raise TypeError(
            f"search: expected a search such as GridSearchCV(estimator, grid), got {got}."
        )
    if not (is_classifier(search.estimator) or is_regressor(search.estimator)):
        raise ValueError(
            "search: expected a search of classifiers or regressors, got one of "
            f"{type(search.estimator).__name__}."
        )
    known = metrics_of(getattr(search, "scoring", None))
    if known == ONE_METRIC:
        check_only_metric(metric)
    elif known is not None and (search.refit if metric is None else metric) not in known:
        raise ValueError(f"metric: expected one of {known}, got {metric!r}.")
    warn_of_trained_module(search.estimator)
    # Cloned, so that the search that was given stays as it is.
    return clone(search)


def _summed(posterior: CandidatePosterior) -> Floats:
    """Return the scores of the candidates in all parts together."""
    return posterior.scores_a.sum(axis=0) + posterior.scores_b.sum(axis=0)


def _recorded(models: Estimators, X: Rows, y: Array) -> tuple[list[Any], list[Any]]:
    """Return trained models, and what they predict for X; classifiers with all classes."""
    try:
        known = list(named_estimators(models).values())
        regress = {hasattr(one, "__sklearn_tags__") and is_regressor(one) for one in known}
        # Votes and means do not mix.
        if len(regress) > 1:
            raise TypeError("models: expected either classifiers or regressors, got both.")
        if regress == {True}:
            return known, [RecordedRegressor.of(one, X) for one in known]
        outputs = [RecordedClassifier.of(one, X) for one in known]
    except (TypeError, ValueError) as error:
        argument, colon, rest = str(error).partition(":")
        if argument not in ("estimator", "estimators"):
            raise
        raise type(error)(f"models{colon}{rest}") from error
    # Models may have been trained on some of the classes each.
    classes = {label for one in outputs for label in one.classes.tolist()}
    try:
        sorted(classes)
    except TypeError as error:
        raise TypeError(f"models: expected classes of one type ({error}).") from error
    strange = [label for label in y.tolist() if label not in classes]
    some = f"y: expected classes that a model knows, such as {min(classes)!r}"
    if len(strange) == len(y):
        raise ValueError(f"{some}, got {strange[0]!r}, and no label that one knows.")
    if strange:
        warn_caller(
            f"{some}, got others such as {strange[0]!r} in {len(strange)} of {len(y)} rows, "
            "which no model predicts."
        )
    of_all = np.unique(np.concatenate([y, *(one.classes for one in outputs)]))
    return known, [one.with_classes(of_all) for one in outputs]


def _posterior_of_models(scorer: Scorer, outputs: Sequence[Any], y: Array) -> CandidatePosterior:
    """Return the posterior over trained models, by the parts of the rows that have scores."""
    of_regressors = isinstance(outputs[0], RecordedRegressor)
    pairs = scores_of_random_parts(scorer, outputs, y, of_regressors)
    # A metric may not be defined on the few rows of a part, whatever the model.
    defined = np.all([np.isfinite(side).any(axis=1) for side in pairs], axis=0)
    a, b = (side[defined] for side in pairs)
    if not defined.any() or not np.isfinite([a, b]).all(axis=(0, 1)).any():
        raise ValueError(
            "scoring: expected a metric that is finite for a model on all parts of the "
            f"{len(y)} labelled rows, got none; give more rows, or another metric."
        )
    if not defined.all():
        warn_caller(
            f"scoring: expected a metric that is defined on all parts of the {len(y)} labelled "
            f"rows, got one that is not on {np.sum(~defined)} of {len(defined)} pairs of parts, "
            "which are left out."
        )
    return posterior_of_parts(a, b)
