"""Train a classifier for another site by unlabelled pairs."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import _safe_indexing, check_random_state, column_or_1d, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from pa_select.scores.class_scores import columns_of
from pa_select.unlabelled.paired_rows import aligned_pairs
from pa_select.utils.arrays import check_column, check_weight
from pa_select.utils.estimators import SavedWithVersions, is_pipeline
from pa_select.utils.fits import takes_parameter
from pa_select.utils.frames import check_columns, named_like
from pa_select.utils.sklearn_private import (
    HasMethods,
    Interval,
    StrOptions,
    _fit_context,
    _num_samples,
)
from pa_select.utils.typing import Floats, Ints

# What ``fit`` gets is for ``fit`` of the estimators inside.
_FIT = MethodMapping().add(caller="fit", callee="fit")


def _estimator_has(method: str) -> Any:
    """Whether the fitted estimator, or the given one, has a method."""

    def check(self: PairTrainingClassifier) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), method)  # raises its own error
        return True

    return check


class PairTrainingClassifier(
    SavedWithVersions, ClassifierMixin, MetaEstimatorMixin, BaseEstimator
):
    """Train a classifier for another site by unlabelled pairs.

    The same objects were measured at the labelled site (a) and at the other one (b). A teacher,
    which learns from the labelled rows, votes on the class of each object by its row of a. The
    classifier is then trained on three kinds of rows: the labelled rows, the same rows once more,
    each moved by the difference b - a of one of the pairs, and the rows of b with the votes as
    labels.

    Parameters
    ----------
    estimator : estimator
        The classifier.
    teacher : estimator, default=None
        The classifier that votes. It is cloned, and fitted to the labelled rows. None: a clone of
        `estimator`. `sklearn.ensemble.VotingClassifier` lets several classifiers vote,
        `sklearn.calibration.CalibratedClassifierCV` the models of folds, and
        `sklearn.frozen.FrozenEstimator` a classifier that is fitted already.
    voting : {"hard", "soft"}, default="hard"
        What the teacher says of an object: its most probable class, or the probability of each
        class. With "soft" the row of b counts once for each class, with the probability as its
        weight. So the fit of `estimator` must take sample weights.
    weight : float, default=1.0
        Weight of a row of b, in units of the mean weight of a labelled row; above 0. Another
        number than 1 needs an estimator that takes sample weights.
    augment : bool, default=True
        Whether the labelled rows are used once more, moved by the differences of pairs. This needs
        rows of numbers.
    random_state : int, RandomState instance or None, default=None
        Draws the pair by whose difference a labelled row is moved; every pair is drawn equally
        often. None draws always the same.

    Attributes
    ----------
    estimator_ : estimator
        The fitted classifier.
    classes_ : ndarray of shape (n_classes,)
        The classes.
    teacher_ : estimator
        The fitted teacher. Only if pairs were given.
    votes_ : ndarray of shape (n_pairs,) or (n_pairs, n_classes)
        The class of each pair, or the probabilities of its classes. Only if pairs were given.
    n_features_in_ : int
        Number of features, if the classifier knows it.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if the classifier knows them.

    See Also
    --------
    SiteAdapter : Maps the rows of the other site, and leaves the classifier as it is.
    expected_score : The score at the other site, from pairs that have not trained.
    sklearn.semi_supervised.SelfTrainingClassifier : Votes without pairs.

    Notes
    -----
    Votes of a teacher that reads the other measurement of the same object are known as supervision
    transfer or cross-modal distillation ([1]_), and without pairs as pseudo-labels. A wrong vote
    for the row of a is learnt for the row of b. What is gained and lost was measured on the page
    :doc:`/teaching`.

    In a `sklearn.pipeline.Pipeline` the weights are given to all steps that take sample weights.

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
    >>> pairs = X[500:540], again[500:540]  # nobody labelled these
    >>> trained = PairTrainingClassifier(SVC()).fit(X[:500], y[:500], pairs=pairs)
    >>> model.score(again[540:], y[540:]) < 0.55 < 0.75 < trained.score(again[540:], y[540:])
    True
    """

    _parameter_constraints: dict[str, Any] = {
        "estimator": [HasMethods(["fit", "predict"])],
        "teacher": [HasMethods(["fit", "predict"]), None],
        "voting": [StrOptions({"hard", "soft"})],
        "weight": [Interval(Real, 0, np.inf, closed="neither")],
        "augment": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        teacher: Any = None,
        voting: Any = "hard",
        weight: float = 1.0,
        augment: bool = True,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.teacher = teacher
        self.voting = voting
        self.weight = weight
        self.augment = augment
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, pairs: Any = None
    ) -> PairTrainingClassifier:
        """Train the classifier.

        Parameters
        ----------
        X : array-like or sparse matrix of n rows
            Labelled rows.
        y : array-like of shape (n,)
            Their labels.
        sample_weight : array-like of shape (n,), default=None
            Weights of the labelled rows.
        pairs : tuple of two array-likes or sparse matrices of m rows, default=None
            The rows of the same objects at the labelled site and at the other one, which nobody
            labelled. DataFrames are aligned by their index. None: the classifier is trained on
            the labelled rows alone.

        Returns
        -------
        PairTrainingClassifier
            Itself.

        Raises
        ------
        TypeError, ValueError
            Before any fit, if the pairs are not two sets of rows with the columns of X, or
            `voting`, `weight`, `augment` or `sample_weight` ask for what the estimator, the
            teacher or the rows do not have. After the teacher's, if it votes for a class that y
            lacks.
        """
        for name in ("teacher_", "votes_"):
            self.__dict__.pop(name, None)  # left by an earlier fit
        self._check_methods(sample_weight, pairs is not None)
        if pairs is None:
            return self._train(X, y, sample_weight)
        X, y = indexable(X, y)
        check_classification_targets(y)
        y = check_column(column_or_1d(y, warn=True), _num_samples(X), "y")
        weight = None if sample_weight is None else check_weight(sample_weight, len(y))
        rows_a, rows_b = _checked(pairs, X)
        moved = [self._moved(X, rows_a, rows_b)] if self.augment else []
        self.teacher_ = clone(self._votes_of)
        self.teacher_.fit(X, y, **self._weights_for(self._votes_of, weight))
        labels, pair, shares = self._vote(rows_a, np.unique(y))
        rows = _joined([X, *moved, _safe_indexing(rows_b, pair)])
        if weight is not None or self._needs_weights:
            weight = np.ones(len(y)) if weight is None else weight
            of_votes = self.weight * weight.mean() * shares
            weight = np.concatenate([weight, *[weight] * len(moved), of_votes])
        return self._train(rows, np.concatenate([y, *[y] * len(moved), labels]), weight)

    @available_if(_estimator_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
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
    def decision_function(self, X: Any) -> Floats:
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

    def predict(self, X: Any) -> NDArray[Any]:
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

    def get_metadata_routing(self) -> MetadataRouter:
        """Get metadata routing of this classifier.

        Returns
        -------
        sklearn.utils.metadata_routing.MetadataRouter
        """
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(estimator=self.estimator, method_mapping=_FIT)
        return router.add(teacher=self._votes_of, method_mapping=_FIT)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        of_estimator = get_tags(self.estimator).input_tags
        tags.input_tags.sparse = of_estimator.sparse
        tags.input_tags.allow_nan = of_estimator.allow_nan
        return tags

    @property
    def _votes_of(self) -> Any:
        return self.estimator if self.teacher is None else self.teacher

    @property
    def _needs_weights(self) -> bool:
        return self.voting == "soft" or self.weight != 1

    def _check_methods(self, sample_weight: Any, with_pairs: bool) -> None:
        """Refuse what the estimator and the teacher cannot do."""
        if with_pairs and self.voting == "soft" and not hasattr(self._votes_of, "predict_proba"):
            raise TypeError(
                "voting: expected 'hard' for a teacher without predict_proba, got 'soft' and "
                f"{_name(self._votes_of)}. CalibratedClassifierCV of it has probabilities: give "
                "that as the teacher."
            )
        given = {"sample_weight": sample_weight is not None}
        of_votes = {"voting='soft'": self.voting == "soft", "weight": self.weight != 1}
        for role, one, asked in (
            ("estimator", self.estimator, given | (of_votes if with_pairs else {})),
            ("teacher", self._votes_of, given if with_pairs else {}),
        ):
            names = [name for name, is_asked in asked.items() if is_asked]
            if names and not _takes_weights(one):
                raise TypeError(
                    f"{names[0]}: expected {'a' if role == 'teacher' else 'an'} {role} whose fit "
                    f"takes sample_weight, got {_name(one)}."
                )
        if names_of_weights := [n for n, is_asked in of_votes.items() if is_asked and with_pairs]:
            # With metadata routing an estimator may refuse weights.
            if not self._weights_for(self.estimator, np.ones(1)):
                raise TypeError(
                    f"{names_of_weights[0]}: expected an estimator that requests sample_weight, "
                    f"got {_name(self.estimator)}, which does not."
                )

    def _weights_for(self, estimator: Any, weight: Floats | None) -> dict[str, Any]:
        """Return the parameters by which ``fit`` of an estimator gets weights."""
        if weight is None:
            return {}
        if get_config()["enable_metadata_routing"]:
            router = MetadataRouter(owner=self).add(one=estimator, method_mapping=_FIT)
            routed = router.route_params(caller="fit", params={"sample_weight": weight})
            params: dict[str, Any] = routed["one"]["fit"]
            return params
        if is_pipeline(estimator):
            steps = [name for name, step in estimator.steps if _takes_weights(step)]
            return {f"{name}__sample_weight": weight for name in steps}
        return {"sample_weight": weight}

    def _moved(self, X: Any, rows_a: Any, rows_b: Any) -> Any:
        """Move each labelled row by the difference of a pair; the pairs take turns."""
        random_state = check_random_state(0 if self.random_state is None else self.random_state)
        pair = random_state.permutation(np.arange(_num_samples(X)) % _num_samples(rows_a))
        rows, a, b = (_numbers(one, issparse(X)) for one in (X, rows_a, rows_b))
        return named_like(X, rows + (b - a)[pair])

    def _vote(self, rows_a: Any, classes: NDArray[Any]) -> tuple[NDArray[Any], Ints, Floats]:
        """Let the teacher vote; return labels, the pairs that they are of, and their shares."""
        if self.voting == "hard":
            self.votes_ = np.asarray(self.teacher_.predict(rows_a))
            columns_of(self.votes_, classes, "the labelled rows", "teacher")
            return self.votes_, np.arange(len(self.votes_)), np.ones(len(self.votes_))
        columns = columns_of(self.teacher_.classes_, classes, "the labelled rows", "teacher")
        probabilities = np.asarray(self.teacher_.predict_proba(rows_a), dtype=np.float64)
        self.votes_ = np.zeros((len(probabilities), len(classes)))
        self.votes_[:, columns] = probabilities
        pair, column = np.nonzero(self.votes_)
        return classes[column], pair, self.votes_[pair, column]

    def _train(self, X: Any, y: Any, weight: Any) -> PairTrainingClassifier:
        self.estimator_ = clone(self.estimator)
        self.estimator_.fit(X, y, **self._weights_for(self.estimator, weight))
        self.classes_ = getattr(self.estimator_, "classes_", None)
        if self.classes_ is None:
            self.classes_ = np.unique(y)
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)  # left by an earlier fit
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self


def _checked(pairs: Any, X: Any) -> tuple[Any, Any]:
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


def _takes_weights(estimator: Any) -> bool:
    """Whether ``fit`` of an estimator, or of a pipeline's last step, takes sample weights."""
    if get_config()["enable_metadata_routing"]:
        return True  # scikit-learn asks for a request
    if is_pipeline(estimator):
        return _takes_weights(estimator.steps[-1][1])
    # An estimator with several others inside passes the weights on to them.
    several = hasattr(estimator, "estimators")
    return hasattr(estimator, "fit") and takes_parameter(estimator, "sample_weight", several)


def _name(estimator: Any) -> str:
    last = estimator.steps[-1][1] if is_pipeline(estimator) else estimator
    return type(last).__name__


def _numbers(rows: Any, as_sparse: bool) -> Any:
    """Return rows as numbers of the floating type that they have."""
    if issparse(rows) and not as_sparse:
        rows = rows.toarray()
    try:
        values = csr_array(rows) if as_sparse else np.asarray(rows)
        return values if values.dtype.kind == "f" else values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"augment: expected rows of numbers, which the difference of a pair can move ({error})"
            ". With augment=False rows may be anything."
        ) from error


def _joined(parts: Sequence[Any]) -> Any:
    """Join sets of rows, in the type of the first one."""
    first = parts[0]
    if issparse(first):
        rows = vstack([csr_array(part) for part in parts], format="csr")
        return rows.astype(first.dtype if first.dtype.kind == "f" else rows.dtype)
    if hasattr(first, "columns"):
        package = type(first).__module__.split(".")[0]
        options = {"how": "vertical_relaxed"} if package == "polars" else {"ignore_index": True}
        return import_module(package).concat(parts, **options)
    arrays = [part.toarray() if issparse(part) else np.asarray(part) for part in parts]
    is_float = arrays[0].dtype.kind == "f"
    return np.concatenate(arrays, dtype=arrays[0].dtype if is_float else None)
