"""Train a classifier for another site by unlabelled pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import column_or_1d, get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from pa_select.scores.class_scores import columns_of
from pa_select.unlabelled.paired_rows import aligned_pairs
from pa_select.utils.arrays import check_column
from pa_select.utils.estimators import SavedWithVersions
from pa_select.utils.frames import check_columns, joined, named_like
from pa_select.utils.sklearn_private import HasMethods, _fit_context, _num_samples
from pa_select.utils.typing import Array, Estimator, Floats, Labels, Rows


def _estimator_has(method: str) -> Callable[[PairTrainingClassifier], bool]:
    """Whether the fitted estimator, or the given one, has a method."""

    def check(self: PairTrainingClassifier) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), method)  # raises its own error
        return True

    return check


class PairTrainingClassifier(
    SavedWithVersions, ClassifierMixin, MetaEstimatorMixin, BaseEstimator
):
    """Train a classifier for another site by unlabelled pairs.

    The same objects were measured at the labelled site (a) and at the other one (b). A teacher
    learns from the labelled rows, and predicts the class of each object from its row of a. The
    classifier is fitted to the labelled rows and to the rows of b, with the predicted classes as
    their labels. Rows may be anything that the classifier takes, such as texts.

    Parameters
    ----------
    estimator : estimator
        The classifier.
    teacher : estimator, default=None
        The classifier that predicts the labels. It is cloned, and fitted to the labelled rows.
        None: a clone of `estimator`. With `sklearn.ensemble.VotingClassifier` several classifiers
        vote, and `sklearn.frozen.FrozenEstimator` takes a classifier that is fitted already.

    Attributes
    ----------
    estimator_ : estimator
        The fitted classifier.
    classes_ : ndarray of shape (n_classes,)
        The classes.
    teacher_ : estimator
        The fitted teacher. Only if pairs were given.
    votes_ : ndarray of shape (n_pairs,)
        The predicted class of each pair. Only if pairs were given.
    n_features_in_ : int
        Number of features, if the classifier has this attribute.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if the classifier has this attribute.

    See Also
    --------
    SiteAdapter : Maps the rows of the other site, and leaves the classifier as it is.
    expected_score : The score at the other site, from pairs that have not trained.
    sklearn.semi_supervised.SelfTrainingClassifier : Predicts labels without pairs.

    Notes
    -----
    A teacher that reads another measurement of the same object is known as supervision transfer or
    cross-modal distillation ([1]_), and without pairs as pseudo-labels. A wrong label for the
    row of a is learnt for the row of b. The page :doc:`/teaching` has the measured gains and
    losses.

    References
    ----------
    .. [1] S. Gupta, J. Hoffman, J. Malik, "Cross modal distillation for supervision transfer",
       CVPR 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.svm import SVC
    >>> from sklearn.utils import shuffle
    >>> from pa_select import PairTrainingClassifier
    >>> X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
    >>> again = np.roll(X.reshape(-1, 8, 8), 1, axis=2).reshape(X.shape)  # moved by a pixel
    >>> model = SVC().fit(X[:500], y[:500])
    >>> pairs = X[500:600], again[500:600]  # nobody labelled these
    >>> trained = PairTrainingClassifier(SVC()).fit(X[:500], y[:500], pairs=pairs)
    >>> model.score(again[600:], y[600:]) < 0.6 < 0.75 < trained.score(again[600:], y[600:])
    True
    """

    _parameter_constraints: dict[str, Any] = {
        "estimator": [HasMethods(["fit", "predict"])],
        "teacher": [HasMethods(["fit", "predict"]), None],
    }

    def __init__(self, estimator: Estimator, *, teacher: Estimator | None = None) -> None:
        self.estimator = estimator
        self.teacher = teacher

    @_fit_context(prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
    def fit(
        self, X: Rows, y: Labels, *, pairs: tuple[Rows, Rows] | None = None
    ) -> PairTrainingClassifier:
        """Train the classifier.

        Parameters
        ----------
        X : array-like or sparse matrix of n rows
            Labelled rows.
        y : array-like of shape (n,)
            Their labels.
        pairs : tuple of two array-likes or sparse matrices of m rows, default=None
            The rows of the same objects at the labelled site and at the other one, which nobody
            labelled. DataFrames are aligned by their index. None: the classifier is fitted to the
            labelled rows alone.

        Returns
        -------
        PairTrainingClassifier
            Itself.

        Raises
        ------
        TypeError, ValueError
            Before any fit, if the pairs are not two sets of rows with the columns of X. After the
            teacher's, if it predicts a class that y lacks.
        """
        for name in ("teacher_", "votes_"):
            self.__dict__.pop(name, None)  # left by an earlier fit
        if pairs is None:
            return self._train(X, y)
        X, y = indexable(X, y)
        check_classification_targets(y)
        y = check_column(column_or_1d(y, warn=True), _num_samples(X), "y")
        rows_a, rows_b = _checked(pairs, X)
        self.teacher_ = clone(self.estimator if self.teacher is None else self.teacher).fit(X, y)
        self.votes_ = np.asarray(self.teacher_.predict(rows_a))
        columns_of(self.votes_, np.unique(y), "the labelled rows", "teacher")
        return self._train(joined(X, [rows_b]), np.concatenate([y, self.votes_]))

    @available_if(_estimator_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Rows) -> Floats:
        """Compute the probabilities of the classes.

        Parameters
        ----------
        X : array-like of n rows

        Returns
        -------
        ndarray of shape (n, n_classes)

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the classifier is not fitted.
        """
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    @available_if(_estimator_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Rows) -> Floats:
        """Compute the scores of the classes.

        Parameters
        ----------
        X : array-like of n rows

        Returns
        -------
        ndarray of shape (n, n_classes), or (n,) for two classes
            In the unit of the estimator.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the classifier is not fitted.
        """
        check_is_fitted(self)
        return self.estimator_.decision_function(X)

    def predict(self, X: Rows) -> Array:
        """Predict the classes of rows, measured at either site.

        Parameters
        ----------
        X : array-like of n rows

        Returns
        -------
        ndarray of shape (n,)

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the classifier is not fitted.
        """
        check_is_fitted(self)
        return self.estimator_.predict(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        of_estimator = get_tags(self.estimator).input_tags
        tags.input_tags.sparse = of_estimator.sparse
        tags.input_tags.allow_nan = of_estimator.allow_nan
        return tags

    def _train(self, X: Rows, y: Labels) -> PairTrainingClassifier:
        self.estimator_ = clone(self.estimator).fit(X, y)
        self.classes_ = getattr(self.estimator_, "classes_", None)
        if self.classes_ is None:  # a classifier of the user need not say which classes it knows
            self.classes_ = np.unique(y)
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)  # left by an earlier fit
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self


def _checked(pairs: object, X: Rows) -> tuple[Any, Any]:
    """Return both rows of the pairs, aligned, and of the type of X."""
    if not isinstance(pairs, (tuple, list)) or len(pairs) != 2:
        raise TypeError(
            "pairs: expected a tuple of the rows of the same objects at both sites, got "
            f"{type(pairs).__name__}{f' of {len(pairs)}' if hasattr(pairs, '__len__') else ''}."
        )
    rows_a, rows_b = pairs
    rows_a, rows_b = aligned_pairs(rows_a, rows_b, "pairs[0]", "pairs[1]")
    check_columns(rows_a, X, "pairs[0]")
    return named_like(X, rows_a), named_like(X, rows_b)
