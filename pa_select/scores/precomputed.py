"""What models predicted, in columns of all classes, as estimators for scikit-learn's scorers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol, Self, cast

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_regressor
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.utils.metaestimators import available_if

from pa_select.scores.answers import METHODS, Answers
from pa_select.scores.class_scores import align_classes, class_scores
from pa_select.utils.arrays import as_matrix, as_numpy, check_values, look_like_probabilities
from pa_select.utils.estimators import is_instance, named_estimators, unwrapped
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Array, Estimators, Floats, Ints, Predictor, Rows, Scorer

# Means of a loss of each row, which are defined whatever classes the labels have.
_LOSSES = (log_loss, brier_score_loss)
# Sums of probabilities in half precision miss 1 by less.
_ROUNDED = 0.01
# Numbers that are sorted are rounded to so many digits: equal rows may be predicted in different
# batches, and their predictions then differ by rounding.
_DIGITS = 9


class _KnownPredictions(BaseEstimator):
    """Returns what was predicted for some rows; X has the numbers of these rows."""

    predicted: Array

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: object, y: object) -> Self:
        """Do nothing; scorers expect estimators to have this method."""
        return self

    def predict(self, X: Ints) -> Array:
        """Return the recorded predictions."""
        predicted: Array = self.predicted[X[:, 0]]
        return predicted


def _has(method: str) -> Callable[[RecordedClassifier], bool]:
    return lambda model: method in model.methods


def response_methods(scorer: Scorer) -> list[str]:
    """Return the methods of a model that a scorer looks at, the first one that there is."""
    methods: Any = getattr(scorer, "_response_method", ())
    return [methods] if isinstance(methods, str) else list(methods)


def taking_classes(scorer: Scorer, classes: Array) -> Scorer:
    """Return a scorer whose metric takes columns of these classes, also of those no label has.

    scikit-learn's losses refuse them unless they know all classes.
    """
    if getattr(scorer, "_score_func", None) not in _LOSSES:
        return scorer
    knowing: Any = copy(scorer)
    knowing._kwargs = {"labels": classes, **knowing._kwargs}
    return cast("Scorer", knowing)


@dataclass(eq=False, repr=False)
class RecordedClassifier(ClassifierMixin, _KnownPredictions):
    """A classifier whose class scores and predictions for some rows are known.

    So scikit-learn's scorers can count each row several times without predicting it again. It has
    those of `METHODS` that its estimator, called `name`, has: decision values are no logits, and
    logs of clipped probabilities are no decision values. Without `probabilities`,
    ``predict_proba`` returns the posteriors at inverse temperature 1.
    """

    classes: Array
    scores: Floats
    predicted: Any
    probabilities: Floats | None = None
    methods: Sequence[str] = METHODS
    name: str = "the model"

    @property
    def classes_(self) -> Array:
        """The classes of the columns of the scores."""
        return self.classes

    @classmethod
    def of(
        cls, estimator: Predictor, X: Rows, with_probabilities: bool = True
    ) -> RecordedClassifier:
        """Record what an estimator predicts for X; the columns are its sorted classes."""
        with Answers() as answers:
            answers.show(X)
            model = answers.of(estimator)
            scores, classes = class_scores(model, X)
            scores, order = np.asarray(as_numpy(scores), dtype=np.float64), np.argsort(classes)
            known = predictions(model, X, scores, classes, with_probabilities)
        if known.probabilities is not None:
            known = known._replace(probabilities=known.probabilities[:, order])
        *_, final = unwrapped(estimator)
        scores = np.ascontiguousarray(scores[:, order])
        return cls(classes[order], scores, *known, type(final).__name__)

    @classmethod
    def of_scores(cls, scores: Any, name: str) -> RecordedClassifier:
        """Record class scores; a DataFrame's columns are classes, those of others 0, 1, ..."""
        matrix = as_matrix(scores, name).astype(np.float64)
        check_values(matrix, name)
        if look_like_probabilities(matrix)[0]:
            raise ValueError(
                f"{name}: expected logits or log-probabilities, got rows that sum to 1. Convert "
                "probabilities with pa_select.scores.log_probabilities."
            )
        classes = np.asarray(getattr(scores, "columns", np.arange(matrix.shape[1])))
        order = np.argsort(classes)
        matrix, classes = np.ascontiguousarray(matrix[:, order]), classes[order]
        return cls(classes, matrix, classes[matrix.argmax(axis=1)])

    def with_classes(self, classes: Array) -> RecordedClassifier:
        """Return it with the columns of these classes, among which its own are.

        A class that it lacks has the row's lowest score, and probability 0.
        """
        if np.array_equal(classes, self.classes):
            return self
        scores, probabilities = align_classes(self.scores, self.classes, classes), None
        if self.probabilities is not None:
            probabilities = np.zeros(scores.shape)
            probabilities[:, np.searchsorted(classes, self.classes)] = self.probabilities
        return replace(self, classes=classes, scores=scores, probabilities=probabilities)

    def check_methods(self, scorer: Scorer) -> None:
        """Refuse a scorer that looks at what the estimator does not return."""
        wanted = response_methods(scorer)
        if not wanted or any(hasattr(self, method) for method in wanted):
            return
        advice = "choose a metric such as accuracy"
        if "predict_proba" in wanted:
            advice = f"give it probabilities with CalibratedClassifierCV, or {advice}"
        raise TypeError(
            f"scoring: expected a metric of what {self.name} returns, got one of other values: "
            f"{self.name} has no {' or '.join(wanted)}. To use it, {advice}."
        )

    @available_if(_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Ints) -> Floats:
        """Return the recorded probabilities."""
        if self.probabilities is not None:
            return self.probabilities[X[:, 0]]
        posterior: Floats = softmax(self.scores[X[:, 0]], axis=1)
        return posterior

    @available_if(_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Ints) -> Floats:
        """Return the scores, of two classes their difference."""
        scores = self.scores[X[:, 0]]
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores


class Predictions(NamedTuple):
    """What an estimator predicts for some rows beside class scores, and its `METHODS`."""

    predicted: Array
    probabilities: Floats | None
    methods: tuple[str, ...]


def predictions(
    estimator: Predictor, X: Rows, scores: Floats, classes: Any, with_probabilities: bool = True
) -> Predictions:
    """Return the classes that an estimator predicts, and its probabilities if it has some.

    An estimator may predict by another threshold than its highest score.
    """
    predicted, probabilities = classes[scores.argmax(1)], None
    if hasattr(estimator, "predict"):
        predicted = one_column(estimator.predict(X))
    if with_probabilities and hasattr(estimator, "predict_proba"):
        probabilities = _summing_to_one(np.asarray(estimator.predict_proba(X), dtype=np.float64))
    methods = tuple(filter(partial(hasattr, estimator), METHODS))
    # A module returns logits, and has no method for probabilities.
    if not methods and is_instance(unwrapped(estimator)[-1], "torch.nn", "Module"):
        methods = METHODS
    return Predictions(predicted, probabilities, methods)


def _summing_to_one(probabilities: Floats) -> Floats:
    """Return probabilities whose sums miss 1 by no more than their double precision.

    Those of a model in single precision miss it by more, and metrics would call them wrong.
    """
    total = probabilities.sum(axis=1, keepdims=True)
    missed = np.abs(total - 1)
    rounded = (missed > np.sqrt(np.finfo(np.float64).eps)) & (missed < _ROUNDED)
    return probabilities / np.where(rounded, total, 1.0)


def one_column(values: Any) -> Array:
    """Return predictions of the shape (n, 1), as some models make them, in the shape (n,)."""
    array = np.asarray(values)
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def row_numbers(rows: Ints) -> Ints:
    """Return the numbers of rows as the X of a `RecordedClassifier` classifier."""
    return rows.reshape(-1, 1)


class RecordedRegressor(RegressorMixin, _KnownPredictions):
    """A regressor whose predictions for some rows are known."""

    def __init__(self, predicted: Floats) -> None:
        self.predicted = predicted

    @classmethod
    def of(cls, estimator: Predictor, X: Rows) -> RecordedRegressor:
        """Record what an estimator predicts for X: one finite value for each row, or an error."""
        predicted = one_column(estimator.predict(X)).astype(np.float64)
        name = type(estimator).__name__
        if predicted.ndim != 1:
            raise ValueError(
                f"estimators: expected regressors of one output, got {name}, which predicts "
                f"{predicted.shape[1]} values for a row."
            )
        if not np.isfinite(predicted).all():
            raise ValueError(
                f"estimators: expected finite predictions, got {name}, which predicts "
                f"{predicted[~np.isfinite(predicted)][0]} for row "
                f"{np.flatnonzero(~np.isfinite(predicted))[0]}."
            )
        return cls(predicted)


def content_order(*content: Floats) -> Ints:
    """Return the order of objects by what is known of them, whatever the order they come in.

    `content` are arrays of shape (n,) or (n, n_columns); objects with the same content are
    interchangeable.
    """
    columns = np.nan_to_num(np.column_stack(content), posinf=0.0, neginf=0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (_DIGITS - np.floor(np.log10(np.abs(columns).max(axis=0, initial=0))))
    rounded = np.round(columns * np.where(np.isfinite(scale), scale, 1.0))
    return np.lexsort(rounded.T)


def joined(
    models: Sequence[RecordedClassifier] | Sequence[RecordedRegressor],
) -> RecordedClassifier | RecordedRegressor:
    """Return one model with the predictions of several, one after the other, of equal classes."""
    first = models[0]
    predicted = np.concatenate([model.predicted for model in models])
    if isinstance(first, RecordedRegressor):
        return RecordedRegressor(predicted)
    scores = np.concatenate([model.scores for model in models])
    probabilities = [model.probabilities for model in models if model.probabilities is not None]
    of_all = np.concatenate(probabilities) if len(probabilities) == len(models) else None
    return replace(first, scores=scores, predicted=predicted, probabilities=of_all)


def recorded_models(models: Estimators, X: Rows, y: Array) -> tuple[list[Any], list[Any]]:
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


def content_of(model: RecordedClassifier | RecordedRegressor) -> Floats:
    """Return all numbers that are known of the rows of a recorded model."""
    if isinstance(model, RecordedRegressor):
        return model.predicted
    codes = np.unique(model.predicted, return_inverse=True)[1]
    probabilities = [] if model.probabilities is None else [model.probabilities]
    return np.column_stack([model.scores, codes, *probabilities])


class OutputsOfSplit(Protocol):
    """What the model of one split returns for the rows of some samples; None if it failed."""

    #: Class scores, checked, and the classes of their columns.
    matrices: dict[int, Array] | None
    classes: Array | None
    #: Of the samples that need them.
    predictions: dict[int, Predictions] | None


class Stacks(Sequence[Array]):
    """Stacked scores: those of all models of a candidate, one below the other.

    The stack of a candidate is made when it is indexed, by its position among `candidates`. It
    needs the outcomes of all splits: candidates whose outcomes lack scores have none. For each
    split, `scored_rows` has the rows of each sample. There are no `labels` of regressors.
    """

    def __init__(
        self,
        outcomes: Sequence[Sequence[OutputsOfSplit]],
        scored_rows: Sequence[Mapping[int, Ints]],
        labels: Array,
    ) -> None:
        #: The number of all candidates, and which of them have a stack.
        self.n_candidates = len(outcomes)
        self.candidates: Ints = np.flatnonzero(
            [all(one.matrices is not None for one in of_candidate) for of_candidate in outcomes]
        )
        self._outcomes = [outcomes[candidate] for candidate in self.candidates.tolist()]
        self._rows = scored_rows
        known = {
            tuple(outcome.classes): outcome.classes
            for of_candidate in self._outcomes
            for outcome in of_candidate
            if outcome.classes is not None
        }
        self.classes = np.unique(np.concatenate([labels, *known.values()]))

    def __len__(self) -> int:
        return len(self._outcomes)

    def __getitem__(self, position: Any) -> Any:
        parts = [
            self.matrix(position, split, sample)
            for split, rows in enumerate(self._rows)
            for sample in sorted(rows)
        ]
        return np.concatenate(parts)

    def of(self, candidates: Ints) -> Stacks:
        """Return the stacks of these candidates."""
        positions = np.searchsorted(self.candidates, candidates).tolist()
        stacks = copy(self)
        stacks.candidates = candidates
        stacks._outcomes = [self._outcomes[position] for position in positions]
        return stacks

    def matrix(self, position: int, split: int, sample: int) -> Array:
        """Return a split's scores of the rows of a sample, with all classes as columns."""
        outcome = self._outcomes[position][split]
        assert outcome.matrices is not None
        assert outcome.classes is not None
        matrix = outcome.matrices[sample]
        if np.array_equal(outcome.classes, self.classes):
            return matrix
        # A fold may lack a class, and then its model has no column of it.
        return align_classes(matrix, outcome.classes, self.classes)

    def recorded(
        self, position: int, split: int, sample: int
    ) -> RecordedClassifier | RecordedRegressor:
        """Return a split's predictions of the rows of a sample, as a classifier of all classes.

        It has no predicted classes of samples that need none. Or return them as a regressor.
        """
        outcome = self._outcomes[position][split]
        assert outcome.matrices is not None
        assert outcome.predictions is not None
        if outcome.classes is None:
            return RecordedRegressor(outcome.matrices[sample][:, 0])
        known_of = outcome.predictions.get(sample, (None,))
        # Workers send single precision where models have it, to send half.
        scores = np.asarray(outcome.matrices[sample], dtype=np.float64)
        known = RecordedClassifier(outcome.classes, scores, *known_of)
        return known.with_classes(self.classes)

    def outputs(self, position: int, sample: int) -> list[RecordedClassifier | RecordedRegressor]:
        """Return the predictions of the models of all splits for the rows of a sample."""
        return [self.recorded(position, split, sample) for split in range(len(self._rows))]
