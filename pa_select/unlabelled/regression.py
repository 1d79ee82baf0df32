"""The score that regressors are expected to have at another site, from unlabelled pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t
from sklearn.base import is_classifier
from sklearn.metrics import (
    check_scoring,
    mean_absolute_error,
    mean_pinball_loss,
    mean_squared_error,
    r2_score,
    root_mean_squared_error,
)

from pa_select.scores.recorded import RecordedRegressor, row_numbers
from pa_select.unlabelled.expectation import error_by_leaving_out
from pa_select.unlabelled.result import ExpectedScore
from pa_select.unlabelled.scored import Scored, parts_of
from pa_select.unlabelled.validated import Validated
from pa_select.utils.typing import Floats, Ints

# So many values stand in for the residuals of the labelled rows.
_RESIDUALS = 100
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
    warnings: list[str] | None = None,
) -> dict[str, ExpectedScore]:
    """Record what regressors predict, and estimate how they score at the other site.

    Parameters
    ----------
    named : dict of str to regressor
    rows : tuple of three
        Those of the pairs at both sites, and the labelled ones.
    y_val, scoring, reference, groups, warnings
        As in `of_classifiers`; of regressors there are no warnings.

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
    validated = Validated.of(scorer, val, y_val, groups, _error_of_score)
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
    targets, is_shared = {name: one.values for name, one in own.items()}, False
    if isinstance(reference, Targets):
        targets, is_shared = dict.fromkeys(a, reference.values), True
    scored = [_expected_scores(scorer, targets[name], a[name], b[name]) for name in a]
    expected = validated.expected(scorer, scored, is_shrunk=is_shared and len(a) > 1)
    found = {}
    for name, score, error in zip(*validated, strict=True):
        difference = b[name].predicted - a[name].predicted
        limits = _interval(scorer, float(score), float(error), len(y_val), difference)
        size, n = _root_mean_square(difference), len(difference)
        found[name] = ExpectedScore(
            *expected[name], *limits, float(score), size, own[name].slope, n
        )
    return found


def _calibrated(model: RecordedRegressor, on_val: RecordedRegressor, y_val: Floats) -> Floats:
    slope, offset = _line(on_val.predicted, y_val)
    return offset + slope * model.predicted


def _expected_scores(scorer: Any, targets: Floats, *sides: RecordedRegressor) -> list[Scored]:
    """Score several sets of predictions for the same objects, whose targets are uncertain.

    Every object counts once for each of the values that its target may have, (n, n_values).
    """

    def score_of(model: RecordedRegressor, rows: Ints) -> float:
        repeated = row_numbers(np.repeat(rows, targets.shape[1]))
        return float(scorer(model, repeated, targets[rows].ravel()))

    found = [_by_formula(scorer, targets, model.predicted) for model in sides]
    known = [one for one in found if one is not None]
    if len(known) == len(sides):
        return known
    part = parts_of(targets, *(model.predicted for model in sides))
    return [Scored.by_leaving_out(partial(score_of, model), part) for model in sides]


def _error_of_score(
    scorer: Any,
    score: float,
    model: RecordedRegressor,
    y: Floats,
    groups: NDArray[Any] | None = None,
) -> float:
    """Return the standard error of the score of labelled rows, which may be in groups."""
    if (found := _by_formula(scorer, y[:, None], model.predicted)) is not None:
        return found.standard_error(groups)
    return error_by_leaving_out(scorer, model, y, groups, y, model.predicted)


def _by_formula(scorer: Any, targets: Floats, predicted: Floats) -> Scored | None:
    """Score by the formula of a metric of scikit-learn; None if there is none for this scorer."""
    metric, options = getattr(scorer, "_score_func", None), getattr(scorer, "_kwargs", {})
    residuals = targets - predicted[:, None]
    if metric is mean_pinball_loss and set(options) <= {"alpha"}:
        above = options.get("alpha", 0.5)
        losses = np.where(residuals > 0, above, above - 1) * residuals
        found = Scored.of_mean(losses.mean(axis=1))
    elif options:
        return None
    elif metric is mean_absolute_error:
        found = Scored.of_mean(np.abs(residuals).mean(axis=1))
    elif metric in (mean_squared_error, root_mean_squared_error, r2_score):
        found = Scored.of_mean(np.square(residuals).mean(axis=1))
        if metric is root_mean_squared_error:
            found = _root(found)
        elif metric is r2_score:
            spread = Scored.of_mean(np.square(targets - targets.mean()).mean(axis=1))
            if spread.score == 0:
                return None
            share = found.score / spread.score
            changes = share * spread.contributions - found.contributions
            found = Scored(1 - share, changes / spread.score)
    else:
        return None
    return found.times(scorer._sign)


def _root(found: Scored) -> Scored:
    """Return the square root of a score."""
    root = float(np.sqrt(found.score))
    return Scored(root, found.contributions / (2 * root) if root else found.contributions)


def _interval(
    scorer: Any, score: float, error: float, n_labelled: int, difference: Floats
) -> tuple[float, float]:
    """Return the 95 % interval that holds whether or not the predictions are calibrated.

    The errors at the two sites differ by the difference of the two predictions, so a norm of the
    errors changes by the norm of the difference at most (triangle inequality). The logarithm of
    each norm has an interval of Student's t, and the two are combined as in `accuracy_interval`.
    """
    metric = getattr(scorer, "_score_func", None)
    squared = metric is mean_squared_error
    if not (squared or metric in (root_mean_squared_error, mean_absolute_error)):
        return np.nan, np.nan
    if scorer._sign != -1 or scorer._kwargs:
        return np.nan, np.nan
    if metric is mean_absolute_error:
        change = Scored.of_mean(np.abs(difference))
    else:
        change = _root(Scored.of_mean(np.square(difference)))
    here = -score
    if squared:
        here = float(np.sqrt(here))
        error = error / (2 * here) if here else 0.0
    least, most = _limits(here, error, n_labelled)
    more_change = _limits(*change.expectation(), len(difference))[1] - change.score
    high = here + change.score + float(np.hypot(most - here, more_change))
    low = max(here - change.score - float(np.hypot(here - least, more_change)), 0.0)
    power = 2 if squared else 1
    return -(high**power), -(low**power)


def _limits(norm: float, error: float, n: int) -> tuple[float, float]:
    """Return the limits of a norm of n numbers; itself if it is 0 or of one number."""
    if not norm or n < 2:
        return norm, norm
    factor = float(np.exp(t.ppf(0.975, n - 1) * error / norm))
    return norm / factor, norm * factor


def _root_mean_square(x: Floats) -> float:
    return float(np.sqrt(np.mean(np.square(x))))
