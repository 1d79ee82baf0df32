"""A classifier whose probabilities are calibrated for a target without labels."""

from __future__ import annotations

import numbers
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state, column_or_1d, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from pa_select.calibration.fold_models import (
    aligned_scores,
    fit_folds,
    make_folds,
    scores_by_folds,
)
from pa_select.calibration.temperatures import (
    HalvesAgreement,
    HeldOutScores,
    check_target,
    factor_of,
    ratio_of,
    summary_of,
    warn_of_ratio,
)
from pa_select.scores.class_scores import columns_of
from pa_select.unlabelled.classification import calibrated
from pa_select.utils.arrays import check_column, check_weight
from pa_select.utils.estimators import SavedWithVersions
from pa_select.utils.fits import routed_params
from pa_select.utils.frames import check_row_order
from pa_select.utils.sklearn_private import HasMethods, StrOptions, _fit_context, _num_samples
from pa_select.utils.typing import (
    Array,
    CrossValidation,
    Estimator,
    Floats,
    Groups,
    Labels,
    RandomState,
    Rows,
    Vector,
)

# The arguments of ``fit`` beside X, y and the weights.
_DATA = ("target", "groups")


@dataclass(eq=False, repr=False)
class AgreementCalibratedClassifier(
    SavedWithVersions, ClassifierMixin, MetaEstimatorMixin, BaseEstimator
):
    r"""Calibrate a classifier's probabilities for a target that has no labels.

    Temperature scaling calibrates probabilities where there are labels. Under a shift they are
    then over-confident. This classifier rescales the inverse temperature by how well models
    trained on disjoint rows predict each other on the target, relative to held-out labelled rows.
    The target needs no labels.

    For each fold one model is fitted to the other folds, and two more to disjoint halves of the
    other folds. The inverse temperature is

    .. math:: \beta = \beta_{\text{labels}}
              \cdot \min\left(1, \frac{\beta_{\text{halves}}(\text{target})}
                         {\beta_{\text{halves}}(\text{held-out rows})}\right)

    where :math:`\beta_{\text{labels}}` comes from temperature scaling on the held-out rows. At
    :math:`\beta_{\text{halves}}` the posteriors of one half's model best predict the decisions of
    the other half's model, in both directions and over all folds.

    Parameters
    ----------
    estimator : estimator
        A classifier with ``decision_function`` or ``predict_proba``, or a skorch net.
    cv : int, splitter or iterable of splits, default=5
        The folds, as in `sklearn.calibration.CalibratedClassifierCV`. For a number the folds are
        stratified; with groups they come from `StratifiedGroupKFold`.
    partner : {"hard", "soft"}, default="hard"
        Whether a half's posteriors predict the decisions of the other half's model, or are
        compared with its posteriors (the agreement with the uniform prior).
    ensemble : bool, default=True
        Whether to use the mean scores of the fold models, or the scores of one model that is
        fitted to all rows.
    n_jobs : int, default=None
        Number of fits at a time, as in scikit-learn.
    random_state : int, RandomState instance or None, default=None
        Divides the training rows into halves. None divides them always in the same way.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.
    inverse_temperature_ : float
        The inverse temperature of the probabilities.
    source_inverse_temperature_ : float
        The inverse temperature of temperature scaling on the labelled rows.
    ratio_ : float
        The ratio in the formula, at least 0. Below 1, the models predict each other less well on
        the target than on labelled rows, and the inverse temperature is multiplied by it. A ratio
        above 1 changes nothing. 1 without a target.
    source_agreement_ : HalvesAgreement
        How the models of halves predict each other on labelled rows that neither has seen.
    target_agreement_ : HalvesAgreement or None
        The same on the target; None without one.
    fold_models_ : list of FoldModels
        The ``model`` and the two ``halves`` of each fold.
    estimator_ : estimator
        The model that was fitted to all rows. Only for ``ensemble=False``.
    n_features_in_ : int
        Number of features, if the estimator has this attribute.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if the estimator has this attribute.

    See Also
    --------
    expected_score : The score at another site, from objects that were measured at both.
    sklearn.calibration.CalibratedClassifierCV : Calibration where there are labels.

    Notes
    -----
    The agreement of the models on the target alone does not calibrate: models can agree on a
    class that is right seven times in ten. Labels reveal this only on the source; the
    ratio of the two agreements transfers it to the target. It assumes that models of different
    rows make different errors on the target. A shift on which all models make the same errors
    cannot be seen by any rule without labels.

    Each inverse temperature is found with a pseudo-count of one error, so that it is finite also
    where no error was seen. Both temperatures in the ratio count it as one error in n rows, where
    n is the size of the smaller sample.

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger, "On calibration of modern neural
       networks", ICML 2017 (temperature scaling).
    .. [2] Y. Jiang, V. Nagarajan, C. Baek, J. Z. Kolter, "Assessing generalization of SGD via
       disagreement", ICLR 2022 (the disagreement of two models as an estimate of their error).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.metrics import log_loss
    >>> from sklearn.utils import shuffle
    >>> from pa_select import AgreementCalibratedClassifier
    >>> X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
    >>> X = X / 16
    >>> noise = np.random.default_rng(0).normal(0, 0.4, X[900:].shape)
    >>> target = X[900:] + noise  # on another scanner
    >>> model = AgreementCalibratedClassifier(LogisticRegression(max_iter=1000))
    >>> corrected = model.fit(X[:900], y[:900], target=target).predict_proba(target)
    >>> model.ratio_ < 0.8
    True
    >>> source = AgreementCalibratedClassifier(LogisticRegression(max_iter=1000))
    >>> not_corrected = source.fit(X[:900], y[:900]).predict_proba(target)
    >>> log_loss(y[900:], corrected) < log_loss(y[900:], not_corrected)
    True
    """

    estimator: Estimator
    _: KW_ONLY
    cv: CrossValidation = 5
    partner: str = "hard"
    ensemble: bool = True
    n_jobs: int | None = None
    random_state: RandomState = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": [
            HasMethods(["fit", "predict_proba"]),
            HasMethods(["fit", "decision_function"]),
        ],
        "cv": ["cv_object"],
        "partner": [StrOptions({"hard", "soft"})],
        "ensemble": ["boolean"],
        "n_jobs": [numbers.Integral, None],
        "random_state": ["random_state"],
    }

    @_fit_context(prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: Rows,
        y: Labels,
        sample_weight: Vector | None = None,
        *,
        target: Rows | None = None,
        groups: Groups = None,
        **params: Any,
    ) -> AgreementCalibratedClassifier:
        """Fit the models, and find the inverse temperature for the target.

        Parameters
        ----------
        X : array-like of n rows
            Labelled rows.
        y : array-like of shape (n,)
            Their labels.
        sample_weight : array-like of shape (n,), default=None
            Weights of the labelled rows.
        target : array-like of m rows, default=None
            Unlabelled rows from where the probabilities will be used, at least 20. None: the
            probabilities are those for rows like `X`; `recalibrate` can be called later. Inside a
            pipeline the rows must have passed its first steps already; better make the pipeline
            the `estimator`. A search splits a target of exactly n rows as it splits X.
        groups : array-like of shape (n,), default=None
            Groups of rows that belong together, such as rows of one patient. Neither folds nor
            halves divide them.
        **params : dict
            Passed on to the estimator's ``fit`` and to the splitter as in
            `CalibratedClassifierCV`.

        Returns
        -------
        AgreementCalibratedClassifier
            Itself.

        Raises
        ------
        TypeError, ValueError
            Before any fit, if the estimator is frozen, there is one class only, a class or the
            groups are too few for the folds and their halves, or `target` has other columns or
            fewer than 20 rows.

        Warns
        -----
        UserWarning
            If the target has fewer than 100 rows, or the ratio is one that is found without a
            shift, or far above 1.
        """
        if isinstance(self.estimator, FrozenEstimator):
            raise ValueError(
                "estimator: expected one that is trained on halves of the rows, got a "
                "FrozenEstimator, of which both halves are the same model."
            )
        X, y = indexable(X, y)
        if not _num_samples(X):
            raise ValueError("X: expected at least one row, got none.")
        check_classification_targets(y)
        for name, values in {"y": y, "sample_weight": sample_weight, "groups": groups}.items():
            check_row_order(values, X, name)
        labels = check_column(column_or_1d(y, warn=True), _num_samples(X), "y")
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y: expected at least two classes, got one class, {self.classes_.tolist()[0]!r}."
            )
        weight = np.ones(len(labels))
        shape: Any = getattr(sample_weight, "shape", ())
        if len(shape) == 2 and shape[1] > 1:
            raise ValueError(
                f"sample_weight: expected shape ({len(labels)},), got {shape}. A target is given "
                "by name: fit(X, y, target=...)."
            )
        if sample_weight is not None:
            weight = check_weight(sample_weight, len(labels))
        if target is not None:
            check_target(target, X, "target")
        if groups is not None:
            groups = check_column(groups, len(labels), "groups")
        fit_params, split_params = routed_params(self, X, sample_weight, groups, params, _DATA)
        rng = check_random_state(0 if self.random_state is None else self.random_state)
        seed = int(rng.randint(2**31 - 2))
        folds = make_folds(self.cv, X, labels, groups, seed, split_params)
        self.fold_models_, scores = fit_folds(
            self.estimator, X, labels, folds, self.classes_, fit_params, self.n_jobs
        )
        columns = columns_of(labels[scores.rows], self.classes_, "the estimator")
        self._held_out = HeldOutScores(scores, columns, weight, self.partner)
        if self.ensemble:
            self.__dict__.pop("estimator_", None)  # left by an earlier fit
        else:
            self.estimator_ = clone(self.estimator).fit(X, labels, **fit_params)
        self._copy_features(self.fold_models_[0].model)
        self.source_inverse_temperature_ = self._held_out.labels_beta()
        self.source_agreement_ = self._held_out.agreement()
        self.target_agreement_: HalvesAgreement | None = None
        self.ratio_ = 1.0
        self.inverse_temperature_ = self.source_inverse_temperature_
        return self if target is None else self._calibrate_for(target, "target")

    def recalibrate(self, X: Rows) -> AgreementCalibratedClassifier:
        """Find the inverse temperature for another target, without fitting any model again.

        Parameters
        ----------
        X : array-like of m rows
            Unlabelled rows of the target, at least 20.

        Returns
        -------
        AgreementCalibratedClassifier
            Itself; ``inverse_temperature_``, ``ratio_`` and ``target_agreement_`` are those for
            this target.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the classifier is not fitted.
        ValueError
            If there are fewer than 20 rows, or the models cannot take them.

        Warns
        -----
        UserWarning
            As `fit`.
        """
        check_is_fitted(self)
        check_target(X, X, "X")
        return self._calibrate_for(X, "X")

    def predict_proba(self, X: Rows) -> Floats:
        """Compute the calibrated probabilities of the classes.

        Parameters
        ----------
        X : array-like of m rows

        Returns
        -------
        ndarray of shape (m, n_classes)
            Probabilities that sum to 1 in each row.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the classifier is not fitted.
        """
        return calibrated(self._scores(X), self.inverse_temperature_)

    def decision_function(self, X: Rows) -> Floats:
        """Compute the scores whose softmax are the calibrated probabilities.

        Parameters
        ----------
        X : array-like of m rows

        Returns
        -------
        ndarray of shape (m, n_classes), or (m,) for two classes
            The mean scores times the inverse temperature, in nats. For two classes, the score of
            the second minus the score of the first.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the classifier is not fitted.
        """
        scores = self._scores(X) * self.inverse_temperature_
        difference: Floats = scores[:, 1] - scores[:, 0]
        return difference if len(self.classes_) == 2 else scores

    def predict(self, X: Rows) -> Array:
        """Predict the class of the highest probability.

        Parameters
        ----------
        X : array-like of m rows

        Returns
        -------
        ndarray of shape (m,)
            The predicted classes.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the classifier is not fitted.
        """
        scores = self._scores(X)  # raises before the classes are asked for
        predicted: Array = self.classes_[scores.argmax(1)]
        return predicted

    def summary(self) -> str:
        """Say in words what was found on the target.

        Returns
        -------
        str
            Sentences with both agreements and their ratio.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the classifier is not fitted.
        """
        check_is_fitted(self)
        return summary_of(
            self.source_agreement_,
            self.target_agreement_,
            self.ratio_,
            self.source_inverse_temperature_,
        )

    def get_metadata_routing(self) -> MetadataRouter:
        """Get metadata routing of this classifier.

        Returns
        -------
        sklearn.utils.metadata_routing.MetadataRouter
        """
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(
                estimator=self.estimator,
                method_mapping=MethodMapping().add(caller="fit", callee="fit"),
            )
            .add(
                splitter=self.cv,
                method_mapping=MethodMapping().add(caller="fit", callee="split"),
            )
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
        return tags

    def _calibrate_for(self, target: Rows, name: str) -> AgreementCalibratedClassifier:
        scores = scores_by_folds(self.fold_models_, target, self.classes_, self.n_jobs)
        self.target_agreement_, self.source_agreement_ = self._held_out.agreements_with(
            scores, _num_samples(target)
        )
        self.ratio_ = ratio_of(self.target_agreement_, self.source_agreement_, name)
        warn_of_ratio(self.ratio_, name)
        self.inverse_temperature_ = self.source_inverse_temperature_ * factor_of(self.ratio_)
        return self

    def _scores(self, X: Rows) -> Floats:
        """Return the scores that the inverse temperature is for, (m, n_classes)."""
        check_is_fitted(self)
        if hasattr(self, "estimator_"):
            return aligned_scores(self.estimator_, X, self.classes_)
        scores = [aligned_scores(fold.model, X, self.classes_) for fold in self.fold_models_]
        return np.mean(scores, axis=0)

    def _copy_features(self, model: object) -> None:
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)  # left by an earlier fit
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))
