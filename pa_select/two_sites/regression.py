"""Regressors: calibrated predictions with residuals stand in for targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.special import stdtrit
from sklearn.metrics import (
    check_scoring,
    max_error,
    mean_absolute_error,
    mean_pinball_loss,
    mean_squared_error,
    r2_score,
    root_mean_squared_error,
)

from pa_select.scores.precomputed import RecordedRegressor, joined, row_numbers
from pa_select.two_sites.score_of_units import (
    LabelledRows,
    ScoreOfUnits,
    best_score,
    scored_rows,
)
from pa_select.utils.sklearn_private import _PassthroughScorer
from pa_select.utils.typing import Array, Floats, Ints, Predictor, Rows, Scorer

#: The outputs of the models of all splits.
Outputs: TypeAlias = Sequence[RecordedRegressor]
# So many values stand in for the residuals of the labelled rows.
_RESIDUALS = 100
# Stands for the regressor when a scorer is made from its name.
_ANY = RecordedRegressor(np.zeros(2))
# Metrics with an interval that does not assume calibrated predictions.
_NORMS = mean_squared_error, root_mean_squared_error, mean_absolute_error


class Line(NamedTuple):
    """Calibrates predictions by a line, about which the residuals of labelled rows lie."""

    strength: float
    offset: float
    residuals: Floats

    def calibrated_labels(self, models: Outputs) -> list[Floats]:
        """Return the calibrated predictions of each regressor."""
        return [self.offset + self.strength * model.predicted for model in models]

    def labels(self, models: Outputs) -> list[Floats]:
        """Return the values that each target may have, with equal probabilities."""
        return [one[:, None] + self.residuals for one in self.calibrated_labels(models)]


class Regression:
    """What the engine asks of regressors; see `engine.Engine`.

    For metrics that are not defined for all numbers, such as deviances of counts, no target is
    below `lowest`, the smallest one that is labelled.
    """

    def __init__(self, lowest: float = -np.inf) -> None:
        self._lowest = lowest

    def scorer(self, scoring: str | Scorer | None, y: Array) -> Scorer:
        """Make a scorer, and check that its metric is no maximum."""
        scorer = check_scoring(_ANY, "r2" if scoring is None else scoring)
        self.check_scorer(scorer, y)
        return scorer

    def check_scorer(self, scorer: Scorer, y: Array) -> None:
        """Refuse a maximum; no metric needs weights, since every value of a target counts once."""
        if getattr(scorer, "_score_func", None) is max_error:
            raise ValueError(
                "scoring: expected a metric that does not grow with the number of rows, such as "
                f"'neg_root_mean_squared_error', got {scorer!r}."
            )

    def score(self, scorer: Scorer, model: RecordedRegressor, y: Array) -> float:
        """Score a regressor on labelled rows."""
        return float(scorer(model, row_numbers(np.arange(len(y))), y))

    def output(self, estimator: Predictor, X: Rows, scorer: Scorer) -> RecordedRegressor:
        """Record what a regressor predicts for X."""
        return RecordedRegressor.of(estimator, X)

    def calibration(self, models: Outputs, y: Array, weight: Floats | None) -> Line:
        """Find the line of least squares, and the quantiles of the residuals of labelled rows."""
        predicted = np.concatenate([model.predicted for model in models])
        slope, offset = _line(predicted, y, weight)
        residuals = y - (offset + slope * predicted)
        if weight is not None:
            residuals, weight = residuals[weight > 0], weight[weight > 0]
        n_values = min(len(residuals), _RESIDUALS)
        shares = (np.arange(n_values) + 0.5) / n_values
        if weight is None:
            shown = np.quantile(residuals, shares)
        else:  # the same for equal weights
            order = np.argsort(residuals)
            below = np.cumsum(weight[order]) - weight[order] / 2
            below -= below[0]
            shown = np.interp(shares, below / (below[-1] or 1.0), residuals[order])
        return Line(slope, offset, shown - shown.mean())  # the mean of all residuals is 0

    def lapses(self, *_: Any) -> Ints:
        """Return no row: large residuals are among those that stand in for the targets."""
        return np.zeros(0, dtype=np.intp)

    def ensemble(self, mean: Floats, member: RecordedRegressor) -> RecordedRegressor:
        """Return a mean prediction as a regressor; it varies less than they do."""
        return RecordedRegressor(mean)

    def known_labels(self, model: RecordedRegressor, y: Array) -> Floats:
        """Return targets as one value for each row."""
        return y[:, None]

    def all_outputs(self, model: RecordedRegressor) -> list[Floats]:
        """Return what is known of a regressor's rows."""
        return [model.predicted]

    def closed_form(
        self,
        scorer: Scorer,
        labels: Floats,
        model: RecordedRegressor,
        *,
        is_counted: bool = True,
        weight: Floats | None = None,
        y: Array | None = None,
    ) -> ScoreOfUnits | None:
        """Score by the formula of a metric of scikit-learn; None if there is none for a scorer."""
        metric, options = getattr(scorer, "_score_func", None), getattr(scorer, "_kwargs", {})
        if isinstance(scorer, _PassthroughScorer):  # a regressor's own score
            metric = r2_score

        def mean_of(values: Floats) -> ScoreOfUnits:
            return ScoreOfUnits.of_mean(values.mean(axis=1), weight=weight)

        residuals = labels - model.predicted[:, None]
        if metric is mean_pinball_loss and set(options) <= {"alpha"}:
            above = options.get("alpha", 0.5)
            losses = np.where(residuals > 0, above, above - 1) * residuals
            scored = mean_of(losses)
        elif options:
            return None
        elif metric is mean_absolute_error:
            scored = mean_of(np.abs(residuals))
        elif metric in (mean_squared_error, root_mean_squared_error, r2_score):
            scored = mean_of(np.square(residuals))
            if metric is root_mean_squared_error:
                scored = _root(scored)
            elif metric is r2_score:
                centre = np.average(labels.mean(axis=1), weights=weight)
                spread = mean_of(np.square(labels - centre))
                if spread.score == 0:
                    return None
                share = scored.score / spread.score
                changes = share * spread.contributions - scored.contributions
                scored = ScoreOfUnits(1 - share, changes / spread.score)
        else:
            return None
        return scored.times(getattr(scorer, "_sign", 1))

    def weighted_score(
        self,
        scorer: Scorer,
        model: RecordedRegressor,
        labels: Floats,
        rows: Ints,
        y: Array | None = None,
    ) -> float:
        """Count each of the rows once for each of the values that its target may have."""
        repeated, values = row_numbers(np.repeat(rows, labels.shape[1])), labels.ravel()
        try:
            return float(scorer(model, repeated, values))
        except ValueError:
            if not (values < self._lowest).any():
                raise
            return float(scorer(model, repeated, np.maximum(values, self._lowest)))

    def is_rate(self, *_: Any) -> bool:
        """Return False: no metric of numbers is a share of the rows."""
        return False

    def error_of_rate(self, *_: Any) -> float | None:
        """Return None: no metric of numbers is a rate."""
        return None

    def validated(
        self,
        scorer: Scorer,
        labelled: LabelledRows,
        outputs: Callable[[], Outputs],
        score: float,
    ) -> float:
        """Return the score on the labelled rows; R2 of the rows of all splits together.

        The mean R2 of small splits is too low, since each compares with its own mean. It counts
        the rows with the weights of the metric.
        """
        if not _is_r2(scorer):
            return score
        model, tested = joined(outputs()), labelled.tested
        weight = labelled.score_weight
        given = {} if weight is None else {"sample_weight": weight[tested]}
        numbers = row_numbers(np.arange(len(tested)))
        return float(scorer(model, numbers, labelled.y[tested], **given))

    def in_range(self, scorer: Scorer, score: float) -> float:
        """Return an expected score that the metric can have."""
        return min(score, best_score(scorer))

    def disagreement(self, outputs_a: Outputs, outputs_b: Outputs) -> float:
        """Return the root mean square of the differences of both predictions."""
        return float(np.sqrt(np.mean(np.square(_differences(outputs_a, outputs_b)))))

    def has_interval(self, scorer: Scorer) -> bool:
        """Whether there is an interval that does not assume calibrated predictions."""
        is_norm = getattr(scorer, "_score_func", None) in _NORMS
        is_error = getattr(scorer, "_sign", 1) == -1 and not getattr(scorer, "_kwargs", {})
        return is_norm and is_error

    def interval(
        self,
        scorer: Any,
        score: float,
        labelled: LabelledRows,
        outputs: Callable[[], Outputs],
        outputs_a: Outputs,
        outputs_b: Outputs,
        groups: Array | None = None,
    ) -> tuple[float, float]:
        """Return the 95 % interval that holds whether or not the predictions are calibrated.

        The errors at the two sites differ by the difference of the two predictions, so a norm of
        the errors changes by the norm of the difference at most (triangle inequality). The
        logarithm of each norm has an interval of Student's t, and the two are combined as in
        `accuracy_interval`. `groups` are those of pairs.
        """
        metric = scorer._score_func
        changes = [
            ScoreOfUnits.of_mean(np.abs(x) if metric is mean_absolute_error else np.square(x))
            for x in _differences(outputs_a, outputs_b)
        ]
        if metric is root_mean_squared_error:  # the mean of the roots of all splits
            changes = [_root(one) for one in changes]
        change = ScoreOfUnits.mean_of(changes)
        if groups is not None:
            change = change.by_group(groups)
        scored = scored_rows(self, scorer, labelled, outputs())
        assert scored is not None
        error = scored.standard_error()
        norm = -score
        if metric is mean_squared_error:
            norm, change = float(np.sqrt(norm)), _root(change)
            error = error / (2 * norm) if norm else 0.0
        least, most = _limits(norm, error, labelled.n)
        n_pairs = len(outputs_a[0].predicted)
        more_change = _limits(change.score, change.standard_error(), n_pairs)[1] - change.score
        high = norm + change.score + float(np.hypot(most - norm, more_change))
        low = max(norm - change.score - float(np.hypot(norm - least, more_change)), 0.0)
        power = 2 if metric is mean_squared_error else 1
        return -(high**power), 0.0 - low**power


def _is_r2(scorer: object) -> bool:
    """Whether a scorer computes R2; a regressor's own score does."""
    return (
        isinstance(scorer, _PassthroughScorer) or getattr(scorer, "_score_func", None) is r2_score
    )


def _line(x: Floats, y: Floats, weight: Floats | None = None) -> tuple[float, float]:
    """Return slope and offset of the line of least squares; the slope of constant x is 0."""
    weight = np.ones(len(x)) if weight is None else weight
    mean_x, mean_y = np.average(x, weights=weight), np.average(y, weights=weight)
    away = x - mean_x
    spread = float(weight * away @ away)
    rounding = weight.sum() * np.square(1e-12 * np.abs(x).max())
    # Of numbers far from 0, such as times, the deviations from the mean count.
    slope = float(weight * away @ (y - mean_y)) / spread if spread > rounding else 0.0
    return slope, float(mean_y - slope * mean_x)


def _differences(outputs_a: Outputs, outputs_b: Outputs) -> list[Floats]:
    return [b.predicted - a.predicted for a, b in zip(outputs_a, outputs_b, strict=True)]


def _root(scored: ScoreOfUnits) -> ScoreOfUnits:
    """Return the square root of a score."""
    root = float(np.sqrt(scored.score))
    contributions = scored.contributions / (2 * root) if root else scored.contributions
    return scored._replace(score=root, contributions=contributions)


def _limits(norm: float, error: float, n: int) -> tuple[float, float]:
    """Return the limits of a norm of n numbers; itself if it is 0 or of one number."""
    if not norm or n < 2:
        return norm, norm
    factor = float(np.exp(stdtrit(n - 1, 0.975) * error / norm))
    return norm / factor, norm * factor
