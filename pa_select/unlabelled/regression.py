"""The score that regressors are expected to have at another site, from unlabelled pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.metrics import (
    check_scoring,
    mean_absolute_error,
    mean_squared_error,
    root_mean_squared_error,
)

from pa_select.scores.recorded import RecordedRegressor, row_numbers
from pa_select.unlabelled.expectation import (
    Expectation,
    jackknife,
)
from pa_select.unlabelled.result import ExpectedScore
from pa_select.unlabelled.validated import Validated
from pa_select.utils.typing import Floats, Ints

# So many values stand in for the residuals of the labelled rows.
_RESIDUALS = 100
# Of a normal distribution, 95 % lies within so many standard deviations.
_Z = 1.96
# Stands for the regressor when a scorer is made from its name.
_ANY = RecordedRegressor(np.zeros(2))


class Targets(NamedTuple):
    """Values that the targets of the pairs may have, with equal probabilities.

    Attributes
    ----------
    values : ndarray of shape (n, n_values)
    slope : float
        That of the line which calibrates the predictions.
    """

    values: Floats
    slope: float

    @classmethod
    def of(cls, of_a: Floats, of_val: Floats, y_val: Floats) -> Targets:
        """Calibrate predictions by labelled rows, and add the residuals of these rows.

        Parameters
        ----------
        of_a : ndarray of shape (n,)
            Predictions for the rows of the pairs at the labelled site.
        of_val, y_val : ndarray of shape (m,)
            Predictions for labelled rows, and the targets of these rows.
        """
        slope, offset = _line(of_val, y_val)
        residuals = y_val - (offset + slope * of_val)
        n_values = min(len(y_val), _RESIDUALS)
        shown = np.quantile(residuals, (np.arange(n_values) + 0.5) / n_values)
        shown -= shown.mean()  # that of all residuals is 0
        return cls((offset + slope * of_a)[:, None] + shown, slope)


def _line(x: Floats, y: Floats) -> tuple[float, float]:
    """Return slope and offset of the line of least squares; the slope of constant x is 0."""
    away = x - x.mean()
    spread = float(away @ away)
    rounding = len(x) * np.square(1e-12 * np.abs(x).max())
    slope = float(away @ y) / spread if spread > rounding else 0.0
    return slope, float(y.mean() - slope * x.mean())


def of_regressors(
    named: Mapping[str, Any],
    rows: Sequence[Any],
    y_val: NDArray[Any],
    scoring: Any,
    reference: Any,
    groups: NDArray[Any] | None = None,
) -> dict[str, ExpectedScore]:
    """Record what regressors predict, and estimate how they score at the other site.

    Parameters
    ----------
    named : dict of str to regressor
    rows : tuple of three
        Those of the pairs at both sites, and the labelled ones.
    y_val, scoring, reference, groups
        As in `expected_score`.

    Raises
    ------
    TypeError
        If `y_val` are no numbers, or `reference` is a classifier.
    ValueError
        If the metric does not take numbers.
    """
    if y_val.dtype.kind not in "biuf":
        raise TypeError(f"y_val: expected numbers for regressors, got dtype {y_val.dtype}.")
    if not isinstance(reference, str) and is_classifier(reference):
        name = type(reference).__name__
        raise TypeError(f"reference: expected a regressor, got {name}, which is a classifier.")
    y_val = y_val.astype(np.float64)
    scorer = check_scoring(_ANY, "r2" if scoring is None else scoring)
    a, b, val = ({name: RecordedRegressor.of(one, X) for name, one in named.items()} for X in rows)
    try:
        scorer(next(iter(val.values())), row_numbers(np.arange(len(y_val))), y_val)
    except ValueError as error:
        message = f"scoring: expected a metric of numbers, got {scoring!r}: {error}"
        raise ValueError(message) from error
    if not isinstance(reference, str):
        of_a, of_val = (RecordedRegressor.of(reference, X).predicted for X in (rows[0], rows[2]))
        reference = Targets.of(of_a, of_val, y_val)
    return expected_of_regressors(a, b, val, y_val, scorer, reference, groups)


def expected_of_regressors(
    a: Mapping[str, RecordedRegressor],
    b: Mapping[str, RecordedRegressor],
    val: Mapping[str, RecordedRegressor],
    y_val: Floats,
    scorer: Any,
    reference: Targets | Literal["self", "ensemble"] = "ensemble",
    groups: NDArray[Any] | None = None,
) -> dict[str, ExpectedScore]:
    """Estimate how regressors score at another site, from their recorded predictions.

    Parameters
    ----------
    a, b : dict of str to RecordedRegressor
        What each regressor predicts for the same objects at both sites.
    val : dict of str to RecordedRegressor
        What it predicts for labelled rows.
    y_val : ndarray of shape (m,)
        Their targets.
    scorer : callable
        A scorer of scikit-learn.
    reference : {"self", "ensemble"} or Targets, default="ensemble"
        What stands in for the targets of the pairs.
    groups : ndarray of shape (m,), default=None
        The group of each labelled row.
    """
    validated = Validated.of(scorer, val, y_val, groups)
    own = {name: Targets.of(a[name].predicted, val[name].predicted, y_val) for name in a}
    if isinstance(reference, str) and reference == "ensemble" and len(a) > 1:
        of_a, of_val = (
            np.mean(
                [_calibrated(one[n], val[n], y_val) for n in validated.most_accurate()], axis=0
            )
            for one in (a, val)
        )
        # A mean of predictions varies less than they do, so it is calibrated again.
        reference = Targets.of(of_a, of_val, y_val)
    targets, levels = {name: one.values for name, one in own.items()}, None
    if isinstance(reference, Targets):
        targets = dict.fromkeys(a, reference.values)
        if len(a) > 1:
            levels = [_expected(scorer, targets[name], a[name]) for name in a]
    changes = [_expected(scorer, targets[name], b[name], a[name]) for name in a]
    expected = validated.expected(scorer, levels, changes)
    found = {}
    for name, score, error in zip(*validated, strict=True):
        difference = b[name].predicted - a[name].predicted
        limits = _interval(scorer, float(score), float(error), difference)
        size, n = _root_mean_square(difference), len(difference)
        found[name] = ExpectedScore(
            *expected[name], *limits, float(score), size, own[name].slope, n
        )
    return found


def _calibrated(model: RecordedRegressor, on_val: RecordedRegressor, y_val: Floats) -> Floats:
    slope, offset = _line(on_val.predicted, y_val)
    return offset + slope * model.predicted


def _expected(
    scorer: Any, targets: Floats, model: RecordedRegressor, less: RecordedRegressor | None = None
) -> Expectation:
    """Score predictions for objects of uncertain targets, less those of another model.

    Every object counts once for each of the values that its target may have.
    """

    def score_of(rows: Ints) -> float:
        repeated, y = row_numbers(np.repeat(rows, targets.shape[1])), targets[rows].ravel()
        score = float(scorer(model, repeated, y))
        return score if less is None else score - float(scorer(less, repeated, y))

    n = len(targets)
    return Expectation(score_of(np.arange(n)), jackknife(score_of, n))


def _interval(scorer: Any, score: float, error: float, difference: Floats) -> tuple[float, float]:
    """Return the 95 % interval that holds whether or not the predictions are calibrated.

    The errors at the two sites differ by the difference of the two predictions, so a norm of the
    errors changes by the norm of the difference at most (triangle inequality).
    """
    norms = {
        root_mean_squared_error: _root_mean_square,
        mean_squared_error: _root_mean_square,
        mean_absolute_error: _mean_absolute,
    }
    metric = getattr(scorer, "_score_func", None)
    if metric not in norms or scorer._sign != -1 or scorer._kwargs:
        return np.nan, np.nan
    of_error, squared, norm = -score, metric is mean_squared_error, norms[metric]
    if squared:
        of_error = np.sqrt(of_error)
        error = error / (2 * of_error) if of_error else 0.0
    error_of_norm = jackknife(lambda rows: norm(difference[rows]), len(difference))
    reach = norm(difference) + _Z * float(np.hypot(error, np.nan_to_num(error_of_norm)))
    most, least = of_error + reach, max(of_error - reach, 0.0)
    power = 2 if squared else 1
    return -(most**power), -(least**power)


def _root_mean_square(x: Floats) -> float:
    return float(np.sqrt(np.mean(np.square(x))))


def _mean_absolute(x: Floats) -> float:
    return float(np.mean(np.abs(x)))
