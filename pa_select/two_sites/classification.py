"""Classifiers: calibrated posteriors stand in for labels, and metrics count every class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.metrics import accuracy_score, check_scoring

from pa_select.scores.calibration import beta_and_bias, without_score
from pa_select.scores.class_scores import calibrated, columns_of
from pa_select.scores.precomputed import (
    RecordedClassifier,
    joined,
    response_methods,
    row_numbers,
    taking_classes,
)
from pa_select.two_sites.class_metrics import SHARES, of_probabilities, value_and_gradient
from pa_select.two_sites.score_of_units import (
    LabelledRows,
    ScoreOfUnits,
    accuracy_interval,
    best_score,
    effective_number,
    error_of_rate,
)
from pa_select.utils.sklearn_private import _PassthroughScorer
from pa_select.utils.typing import Array, Floats, Ints, Mask, Predictor, Rows, Scorer

#: The outputs of the models of all splits.
Outputs: TypeAlias = Sequence[RecordedClassifier]
# The least mean posterior, of which the log is taken.
_LEAST = 1e-12
# Stands for the classifier when a scorer is made from its name.
_ANY = RecordedClassifier(np.array([0, 1]), np.eye(2), np.array([0, 1]))


def is_accuracy(scorer: object) -> bool:
    """Whether a scorer of scikit-learn computes the accuracy; None does, for classifiers."""
    if isinstance(scorer, _PassthroughScorer):
        return True
    plain = getattr(scorer, "_sign", 0) == 1 and not getattr(scorer, "_kwargs", {})
    return plain and getattr(scorer, "_score_func", None) is accuracy_score


class TemperatureAndBias(NamedTuple):
    """Calibrates scores by an inverse temperature and a bias of each class.

    No temperature gives a class of score -inf a probability. A share of the labels is drawn at
    random instead (`lapse`).
    """

    strength: float
    bias: Floats
    lapse: float = 0.0

    def calibrated_labels(self, models: Outputs) -> list[Floats]:
        """Return the posteriors of each classifier."""
        keep, drawn = 1 - self.lapse, self.lapse / len(self.bias)
        found = (calibrated(model.scores, self.strength, self.bias) for model in models)
        return [keep * posterior + drawn for posterior in found]

    def labels(self, models: Outputs) -> list[Floats]:
        """Return the posteriors: they stand in for the labels."""
        return self.calibrated_labels(models)


class Classification:
    """What the engine asks of classifiers; see `engine.Engine`."""

    #: Whether a metric is a share of the rows, and has an interval without calibration.
    is_rate = has_interval = staticmethod(is_accuracy)

    def scorer(self, scoring: str | Scorer | None, y: Array) -> Scorer:
        """Make a scorer, and check that its metric takes sample weights."""
        scorer = check_scoring(_ANY, scoring)
        self.check_scorer(scorer, y)
        return scorer

    def check_scorer(self, scorer: Scorer, y: Array) -> None:
        """Refuse a scorer whose metric takes no sample weights."""
        classes = np.unique(y)
        rows = np.arange(2 * len(classes))
        scores = np.tile(np.eye(len(classes)), (2, 1))
        known = RecordedClassifier(classes, scores, np.tile(classes, 2))
        labels = np.tile(classes, 2)
        try:
            _weighted(scorer, known, rows, labels, np.ones(len(rows)))
        except TypeError:
            raise
        except Exception as error:
            try:
                scorer(known, row_numbers(rows), labels)
            except Exception:  # the metric does not like these labels, and says so for real ones
                return
            other = ", such as 'roc_auc_ovr'" if "ovo" in repr(scorer) else ""
            raise TypeError(
                f"scoring: expected a scorer whose metric takes sample weights{other}, got "
                f"{scorer!r} ({error})."
            ) from error

    def score(self, scorer: Scorer, model: RecordedClassifier, y: Array) -> float:
        """Score a classifier on labelled rows."""
        scorer = taking_classes(scorer, model.classes)
        return float(scorer(model, row_numbers(np.arange(len(y))), y))

    def output(self, estimator: Predictor, X: Rows, scorer: Scorer) -> RecordedClassifier:
        """Record what a classifier predicts for X; the columns are its sorted classes."""
        return RecordedClassifier.of(estimator, X, not is_accuracy(scorer))

    def calibration(self, models: Outputs, y: Array, weight: Floats | None) -> TemperatureAndBias:
        """Find the inverse temperature and the biases at which labelled rows are most likely."""
        scores = np.concatenate([model.scores for model in models])
        columns = columns_of(y, models[0].classes, "the candidate")
        beta, bias = beta_and_bias(scores, columns, weight)
        share = float(np.average(without_score(scores, columns), weights=weight))
        missed = 1 - 1 / len(bias)  # so many of them, if they are drawn at random
        return TemperatureAndBias(beta, bias, min(share / missed, 1.0) if share else 0.0)

    def lapses(self, models: Outputs, y: Array) -> Ints:
        """Return the labelled rows whose label has the score -inf."""
        scores = np.concatenate([model.scores for model in models])
        return np.flatnonzero(without_score(scores, columns_of(y, models[0].classes, "the model")))

    def ensemble(self, posterior: Floats, member: RecordedClassifier) -> RecordedClassifier:
        """Return a mean posterior as a classifier; it is too uncertain, so it is calibrated."""
        scores = np.log(np.maximum(posterior, _LEAST))
        return RecordedClassifier(member.classes, scores, member.predicted)

    def known_labels(self, model: RecordedClassifier, y: Array) -> Floats:
        """Return labels as posteriors."""
        return (y[:, None] == model.classes).astype(np.float64)

    def all_outputs(self, model: RecordedClassifier) -> list[Floats]:
        """Return all numbers that are known of a classifier's rows."""
        codes = np.unique(model.predicted, return_inverse=True)[1].astype(np.float64)
        probabilities = [] if model.probabilities is None else [model.probabilities]
        return [model.scores, codes, *probabilities]

    def closed_form(
        self,
        scorer: Scorer,
        labels: Floats,
        model: RecordedClassifier,
        *,
        is_counted: bool = True,
        weight: Floats | None = None,
        y: Array | None = None,
    ) -> ScoreOfUnits | None:
        """Score by the formula of a metric of scikit-learn; None if there is none for a scorer.

        ``is_counted``: every object counts once for each class, for which `y` is as in
        `weighted_score`; else each row has one label. `weight` has the weights of the rows.
        """
        if is_accuracy(scorer):
            columns = columns_of(model.predicted, model.classes, "the model")
            return ScoreOfUnits.of_mean(labels[np.arange(len(labels)), columns], 1.0, weight)
        metric, options = getattr(scorer, "_score_func", None), getattr(scorer, "_kwargs", {})
        methods, scored = response_methods(scorer), None
        if methods == ["predict"]:
            counted = _counted(model, y) if is_counted else None
            scored = _of_table(metric, options, labels, model, counted, weight)
        elif (formula := of_probabilities(metric, options, labels.shape[1])) is not None:
            every = row_numbers(np.arange(len(labels)))
            # A candidate may have no probabilities, as the scorer will say.
            for method in [method for method in methods if hasattr(model, method)][:1]:
                scored = formula(labels, np.asarray(getattr(model, method)(every)), weight)
        return None if scored is None else scored.times(getattr(scorer, "_sign", 1))

    def weighted_score(
        self,
        scorer: Scorer,
        model: RecordedClassifier,
        labels: Floats,
        rows: Ints,
        y: Array | None = None,
    ) -> float:
        """Count each of the rows once for every class, with the class's probability as weight.

        Labelled rows `y` say which classes there are: one that no label is, and that is never
        predicted, is in no mean over the classes. None: all of them are.
        """
        model.check_methods(scorer)
        counted = _counted(model, y)
        given = np.tile(model.classes[counted], len(rows))
        every = np.repeat(rows, np.count_nonzero(counted))
        return _weighted(scorer, model, every, given, labels[:, counted].ravel())

    def error_of_rate(
        self,
        scorer: Scorer,
        score: float,
        model: RecordedClassifier,
        y: Array,
        labelled: LabelledRows,
    ) -> float | None:
        """Return the standard error of an accuracy, after two successes and failures are added."""
        if not is_accuracy(scorer):
            return None
        n = labelled.n_independent
        if labelled.groups is not None:
            given = labelled.groups[labelled.tested], labelled.n_effective, labelled.weight_of_rows
            n = effective_number(model.predicted == y, *given)
        return float(error_of_rate(np.asarray(score), n))

    def validated(self, scorer: Scorer, labelled: object, outputs: object, score: float) -> float:
        """Return the score on the labelled rows, the mean over the splits."""
        return score

    def in_range(self, scorer: Scorer, score: float) -> float:
        """Return an expected score that the metric can have."""
        is_share = getattr(scorer, "_score_func", None) in SHARES
        if getattr(scorer, "_kwargs", {}).get("adjusted") or getattr(scorer, "_sign", 1) == -1:
            is_share = False
        low = 0.0 if is_share or is_accuracy(scorer) else -np.inf
        return min(max(score, low), best_score(scorer))

    def disagreement(self, outputs_a: Outputs, outputs_b: Outputs) -> float:
        """Return the share of pairs whose rows are predicted to belong to different classes."""
        differ = [a.predicted != b.predicted for a, b in zip(outputs_a, outputs_b, strict=True)]
        return float(np.mean(differ))

    def interval(
        self,
        scorer: Scorer,
        score: float,
        labelled: LabelledRows,
        outputs: Callable[[], Outputs],
        outputs_a: Outputs,
        outputs_b: Outputs,
        groups: Array | None = None,
    ) -> tuple[float, float]:
        """Return the interval of the accuracy at the other site; `groups` are those of pairs."""
        n = labelled.n_effective
        if labelled.groups is not None:
            tested = labelled.tested
            right = joined(outputs()).predicted == labelled.y[tested]
            n = effective_number(right, labelled.groups[tested], n, labelled.weight_of_rows)
        disagreement = self.disagreement(outputs_a, outputs_b)
        n_pairs: float = len(outputs_a[0].predicted)
        if groups is not None:
            equal = joined(outputs_a).predicted == joined(outputs_b).predicted
            n_pairs = effective_number(equal, np.tile(groups, len(outputs_a)), n_pairs)
        low, high = accuracy_interval(score, n, disagreement, n_pairs)
        return float(low), float(high)


def doubt_of_lapses(rows: Ints, n: int, name: str) -> list[str]:
    """Return what to warn of if labels of rows, which `name` has, are lapses."""
    if not len(rows):
        return []
    return [
        f"{name}: expected a score of each row's label, got -inf in {len(rows)} of {n} rows, the "
        f"first in row {rows[0]}. No temperature explains them, and it ignores them. If only the "
        "largest probabilities are known, give each missing class an equal part of the rest: "
        "log((1 - sum of the known ones) / number of missing classes)."
    ]


def _counted(model: RecordedClassifier, y: Array | None) -> Mask:
    """Return the classes of a model that labelled rows have or that it predicts; None: all."""
    if y is None:
        return np.ones(len(model.classes), dtype=bool)
    counted: Mask = np.isin(model.classes, y) | np.isin(model.classes, model.predicted)
    return counted


def _of_table(
    metric: object,
    options: dict[str, Any],
    labels: Floats,
    model: RecordedClassifier,
    counted: Mask | None,
    weight: Floats | None,
) -> ScoreOfUnits | None:
    """Score predicted classes by the table of the expected counts of labels and predictions.

    ``counted`` has the classes that the metric sees; None: those of labels and predictions.
    """
    n, columns = len(labels), columns_of(model.predicted, model.classes, "the model")
    share = np.ones(n) if weight is None else weight / weight.mean()
    table = (share * labels.T) @ (columns[:, None] == np.arange(labels.shape[1])) / n
    known = (table.sum(0) > 0) | (table.sum(1) > 0) if counted is None else counted
    inside = np.ix_(known, known)
    result = value_and_gradient(metric, options, table[inside], model.classes[known])
    if result is None:
        return None
    of_known = result[1]
    gradient = np.zeros_like(table)
    gradient[inside] = of_known
    influence = (labels * gradient.T[columns]).sum(axis=1)
    changes = np.square(np.diag(of_known)[:, None] - of_known).sum(axis=1)
    steps = changes / max(len(of_known) - 1, 1)
    # Of a class of which less than one object is expected, a whole one changes more than the
    # gradient there says, which may be arbitrarily large.
    of_class = table.sum(axis=1)[known]
    step = float(np.sqrt(of_class @ (steps * np.square(np.minimum(1, n * of_class)))))
    contributions = share * (influence - float((gradient * table).sum())) / n
    return ScoreOfUnits(result[0], contributions, step)


def _weighted(
    scorer: Any, model: RecordedClassifier, rows: Ints, y: Array, weight: Floats
) -> float:
    try:
        return float(scorer(model, row_numbers(rows), y, sample_weight=weight))
    except TypeError as error:
        raise TypeError(
            f"scoring: expected a scorer whose metric takes sample weights, got {scorer!r} "
            f"({error})."
        ) from error
