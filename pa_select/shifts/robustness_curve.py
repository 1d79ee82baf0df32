"""Robustness as a function of a shift's power and of the share of rows it reaches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import _num_samples

from pa_select.agreement import PosteriorAgreement
from pa_select.agreement.inputs.validation import check_groups, check_prior
from pa_select.scores.class_scores import columns_of, comparable_scores
from pa_select.shifts.numeric_rows import seeded
from pa_select.shifts.shifted_outputs import Outputs, Samples, curve_table
from pa_select.shifts.transform import as_shift
from pa_select.utils.arrays import check_column
from pa_select.utils.estimators import named_estimators
from pa_select.utils.frames import check_row_order
from pa_select.utils.messages import optional_import
from pa_select.utils.typing import (
    Array,
    Device,
    ErrorScore,
    Estimators,
    Frame,
    Groups,
    Labels,
    Prior,
    RandomState,
    Rows,
    Vector,
)

# Each metric, and whether it needs labels.
_METRICS = {"agreement": False, "accuracy": True, "log_loss": True, "posterior": False}


@dataclass(frozen=True, eq=False)
class RobustnessCurve:
    """Result of `robustness_curve`: one row for each estimator, power and ratio.

    Attributes
    ----------
    table : dict of str to ndarray of shape (n_rows,)
        The columns, see `robustness_curve`.
    estimators : list of str
        Names of the estimators.
    powers, ratios : list of float
        Powers of the shift, and shares of the rows that it reached.
    prior : {"uniform", "marginal"} or array-like
        The class prior of the agreement.
    failures : dict of (str, float) to str
        Why rows of the table are nan, by estimator and power.
    """

    table: dict[str, Array]
    estimators: list[str]
    powers: list[float]
    ratios: list[float]
    prior: Prior
    _samples: Samples = field(repr=False)

    @property
    def failures(self) -> dict[tuple[str, float], str]:
        """Why rows of the table are nan, by estimator and power."""
        return {key: f"{type(e).__name__}: {e}" for key, e in self._samples.failures.items()}

    @property
    def n_classes(self) -> int | None:
        """Number of classes; None if the estimators' numbers differ."""
        numbers = {outputs.scores.shape[1] for outputs in self._samples.before.values()}
        return numbers.pop() if len(numbers) == 1 else None

    def __repr__(self) -> str:
        return (
            f"RobustnessCurve({len(self.estimators)} estimators x {len(self.powers)} powers x "
            f"{len(self.ratios)} ratios: {', '.join(self.table)})"
        )

    def to_frame(self) -> Frame:
        """Return the table as a DataFrame.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        ImportError
            If pandas, which comes with the extra ``plot``, is missing.
        """
        return optional_import("pandas", "plot").DataFrame(self.table)

    def agreement(
        self, estimator: str | None = None, power: float | None = None, ratio: float = 1.0
    ) -> PosteriorAgreement:
        """Compute the agreement of one row again, for an interval, a comparison or posteriors.

        Parameters
        ----------
        estimator : str, default=None
            Name of the estimator; may be None if there is only one.
        power : float, default=None
            One of `powers`; may be None if there is only one.
        ratio : float, default=1.0
            Share of the rows that the shift reached, in [0, 1].

        Returns
        -------
        PosteriorAgreement

        Raises
        ------
        ValueError
            If there is no such estimator or power, if one is None but there are several, or
            if the estimator failed at this power.
        """
        name = one_of(self.estimators, estimator, "estimator")
        strength = one_of(self.powers, power, "power")
        if (name, strength) in self.failures:
            reason = self.failures[name, strength]
            raise ValueError(f"estimator: {name} has no agreement at power {strength:g}: {reason}")
        return self._samples.solve([self._samples.pair(name, strength, ratio)], self.prior)[0]


def robustness_curve(
    estimators: Estimators,
    X: Rows,
    y: Labels | None = None,
    *,
    shift: Any,
    powers: float | Vector | None = None,
    ratios: float | Vector = (1.0,),
    metrics: str | Sequence[str] = "all",
    order: Literal["random", "norm"] = "random",
    prior: Prior = "marginal",
    tol: float = 1e-6,
    device: Device = None,
    groups: Groups = None,
    random_state: RandomState = None,
    verbose: int = 0,
    error_score: ErrorScore = np.nan,
) -> RobustnessCurve:
    """Measure how fitted classifiers withstand a shift of growing power and extent.

    Parameters
    ----------
    estimators : object, list of objects or dict of str to object
        Fitted classifiers that `class_scores` accepts. Those in a list are named by type.
    X : array-like of n rows
        The rows without the shift.
    y : array-like of shape (n,), default=None
        Labels, for attacks and for the metrics that need them. Without labels an attack is
        against the estimator's own predictions.
    shift : Shift, callable, fitted transformer or DataFrame
        The shift of the rows, see `pa_select.shifts`. An attack is run for each
        estimator separately.
    powers : float or sequence of float, default=None
        Powers of the shift. None: the shift's own power, or the default of a function's
        parameter ``power``.
    ratios : float or sequence of float, default=(1.0,)
        Shares of the rows that the shift reaches, in [0, 1].
    metrics : "all" or sequence of str, default="all"
        Some of "agreement", "accuracy" and "log_loss" (which need `y`) and "posterior". "all":
        all of them, without `y` the first and the last.
    order : {"random", "norm"}, default="random"
        Which rows are shifted if a ratio is below 1: random ones, or those that the shift
        moves least, as in the paper. Rows on which an attack failed come last.
    prior : {"marginal", "uniform"} or array-like, default="marginal"
        The class prior of the column "pa", as in `posterior_agreement`. With "marginal" a
        model that gives all rows the same posterior scores 0; with "uniform", the papers' metric,
        one that always predicts the same class scores the most that any model can, log n_classes:
        do not rank models by it.
    tol, device
        As in `posterior_agreement`.
    groups : array-like of shape (n,), default=None
        The group of each row, such as its patient. Standard errors then do not take rows of one
        group as independent. None: all rows are independent.
    random_state : int, RandomState instance or None, default=None
        Chooses the rows for ``order="random"``; with None they are the same in each call.
    verbose : int, default=0
        If above 0, print a line for each estimator and power.
    error_score : nan or "raise", default=nan
        What becomes of an estimator that raises an error or returns scores that cannot be
        compared, such as nan. nan: a warning, and its rows of the table are nan; ``failures``
        has the reasons. "raise": an error that names the estimator.

    Returns
    -------
    RobustnessCurve
        Its ``table`` (``to_frame()``) has a row for each estimator, power and ratio, and these
        columns. ``<name>_se`` is the standard error of a mean over rows; it covers the choice
        of the rows, and neither other draws of the shift nor models that are trained again.

        - "estimator", "power", "ratio";
        - accuracy: "clean_accuracy" (without the shift) and "shifted_accuracy" (with the share
          "ratio" of the rows shifted), "clean_accuracy_se" and "shifted_accuracy_se";
        - "n_pairs"; "mean_norm" and "success_rate" of the rows that were reached; the latter
          is nan unless the shift is an attack;
        - agreement: "pa" in nats per pair under `prior`, and "pa_uniform" under the uniform
          prior (the papers' metric); for "pa" the inverse temperature "beta", the first-order
          "standard_error", the certified "gap", and "pa_change", the difference from the
          agreement of the unshifted rows with themselves, with "pa_change_se"; for
          "pa_uniform" the "standard_error_uniform"; "afr_pred" (share of rows whose prediction
          is the same) and "afr_pred_se";
        - accuracy that is lost: "accuracy_drop", "accuracy_drop_se" (it accounts for the same
          rows being predicted twice), and "relative_accuracy_drop" (as a share of the accuracy
          before); the papers' "afr_true" is equal to "shifted_accuracy";
        - log_loss, of softmax(scores), in nats: "log_loss", "log_loss_gap", both with "_se",
          and "relative_log_loss_gap";
        - posterior: "kl" (mean divergence KL(unshifted || shifted), in nats) and "wasserstein"
          (mean distance if all classes are at distance 1, in [0, 1]), both with "_se".

    Raises
    ------
    TypeError, ValueError
        Before any computation, if an argument is invalid; the message names it. Also if no
        estimator has scores for the rows of X.

    Warns
    -----
    UserWarning
        If an estimator failed.
        If the outputs of a module look like probabilities: they are read as logits.

    Notes
    -----
    The outputs of an estimator at one power are computed once for all ratios. The column
    "pa_uniform" adds 10 to 25 % to the time that "pa" takes with the marginal prior.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       section 4.1 (attack failure rates, adversarial ratio; its agreement is
       "pa_uniform").
    .. [2] Master's thesis on posterior agreement, sections 4.1 and 4.2, Experiments 2 to 4.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from pa_select import robustness_curve
    >>> from pa_select.shifts import GaussianNoise
    >>> X, y = load_wine(return_X_y=True)
    >>> models = {"bayes": GaussianNB(), "constant": DummyClassifier()}
    >>> models = {name: model.fit(X[::2], y[::2]) for name, model in models.items()}
    >>> noise = GaussianNoise(relative=True)  # in standard deviations of each feature
    >>> curve = robustness_curve(models, X[1::2], y[1::2], shift=noise, powers=[0.5, 1])
    >>> columns = ["estimator", "power", "clean_accuracy", "shifted_accuracy", "pa", "pa_uniform"]
    >>> curve.to_frame()[columns].round(2)
      estimator  power  clean_accuracy  shifted_accuracy    pa  pa_uniform
    0     bayes    0.5            0.93              0.93  0.98        1.00
    1     bayes    1.0            0.93              0.78  0.63        0.67
    2  constant    0.5            0.40              0.40  0.00        1.10
    3  constant    1.0            0.40              0.40  0.00        1.10

    The constant model is useless: "pa" ranks it last, "pa_uniform" first.
    """
    named = named_estimators(estimators)
    shift = as_shift(shift)
    strengths = _listed(getattr(shift, shift._power) if powers is None else powers)
    for strength in strengths:
        shift._check_power(strength, shift._power if powers is None else "powers")
    shares = _listed(ratios)
    if any(not 0 <= share <= 1 for share in shares):
        raise ValueError(f"ratios: expected numbers in [0, 1], got {shares}.")
    if order not in ("random", "norm"):
        raise ValueError(f"order: expected 'random' or 'norm', got {order!r}.")
    chosen = _chosen_metrics(metrics, y is not None)
    n = _num_samples(X)
    check_row_order(y, X, "y")
    y = None if y is None else check_column(y, n, "y")
    check_row_order(groups, X, "groups")
    codes = None if groups is None else check_groups(groups, n)
    options = {"tol": tol, "device": device, "error_score": error_score, "groups": codes}
    # Drawn once, also with an instance, so that all estimators are shifted in the same rows.
    rows = None if order == "norm" else seeded(random_state).permutation(n)
    samples = Samples({}, rows, prior, options)
    labels: dict[str, Any] = dict.fromkeys(named)
    for name, estimator in named.items():
        # What is no fitted classifier is a wrong argument, not a failure.
        with samples.isolated(name, strengths, raised=(TypeError, NotFittedError)):
            scores, classes = comparable_scores(estimator, X)
            labels[name] = None if y is None else columns_of(y, classes, name)
            samples.before[name] = Outputs.of(scores)
        if name in samples.before:
            check_prior(prior, len(classes))
    samples.check_some_are_left(samples.before)
    scorable = {name: named[name] for name in samples.before}
    samples.compute(scorable, X, y, shift, strengths, verbose)
    keys = list(product(named, strengths, shares))
    table = curve_table(samples, keys, labels, chosen, n)
    samples.warn_of_failures(len(named))
    return RobustnessCurve(table, list(named), strengths, shares, prior, samples)


def one_of(values: Sequence[Any], choice: Any, name: str) -> Any:
    """Return the value asked for; `choice` may be None if there is only one."""
    if choice is None and len(values) == 1:
        return values[0]
    if isinstance(choice, (int, float)):
        # Rounding: asking for 0.3 finds 0.1 + 0.2.
        near = (value for value in values if np.isclose(value, choice, rtol=1e-9, atol=0))
        choice = next(near, choice)
    if choice not in values:
        raise ValueError(f"{name}: expected one of {list(values)}, got {choice!r}.")
    return choice


def _listed(values: float | Vector) -> list[float]:
    """Return one number or several as a list."""
    numbers: list[float] = np.atleast_1d(np.asarray(values, dtype=np.float64)).tolist()
    return numbers


def _chosen_metrics(metrics: str | Sequence[str], has_labels: bool) -> list[str]:
    """Return the metrics asked for; "all" means those whose arguments are given."""
    if isinstance(metrics, str) and metrics == "all":
        return [name for name, needs_y in _METRICS.items() if has_labels or not needs_y]
    named = [metrics] if isinstance(metrics, str) else list(metrics)
    if not named or not set(named) <= set(_METRICS):
        raise ValueError(f"metrics: expected 'all' or some of {(*_METRICS,)}, got {metrics!r}.")
    for name in named:
        if _METRICS[name] and not has_labels:
            raise ValueError(f"y: expected a value for the metric {name!r}, got None.")
    return named
