"""Robustness against the power of a shift and the share of rows that it reaches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from pa_select._optional_imports import optional_import
from pa_select._rows import reordered
from pa_select.agreement import PosteriorAgreement
from pa_select.agreement.validation import check_prior, check_tol
from pa_select.assessment.arguments import (
    columns_of,
    named_estimators,
    numbers,
    one_of,
    select_metrics,
)
from pa_select.assessment.features import feature_discrepancy
from pa_select.assessment.measures import (
    Outputs,
    accuracy_measures,
    log_loss_measures,
    posterior_measures,
)
from pa_select.assessment.samples import Samples
from pa_select.environments import as_shift
from pa_select.scores import class_scores
from pa_select.scoring.columns import check_column


@dataclass(frozen=True, eq=False)
class RobustnessCurve:
    """What `robustness_curve` measured: one row for each estimator, power and ratio.

    Attributes
    ----------
    table : dict of str to ndarray of shape (n_rows,)
        The columns, see `robustness_curve`.
    estimators : list of str
        Names of the estimators.
    powers, ratios : list of float
        Powers of the shift, and shares of the rows that it reached.
    columns : dict of str to ndarray of shape (n,), or None
        The column of each row's label in an estimator's scores, as `decompose` takes it;
        None without labels.
    """

    table: dict[str, NDArray[Any]]
    estimators: list[str]
    powers: list[float]
    ratios: list[float]
    columns: dict[str, NDArray[np.intp] | None] = field(repr=False)
    _samples: Samples = field(repr=False)

    def __repr__(self) -> str:
        return (
            f"RobustnessCurve({len(self.estimators)} estimators x {len(self.powers)} powers x "
            f"{len(self.ratios)} ratios: {', '.join(self.table)})"
        )

    def to_frame(self) -> Any:
        """Give the table as a DataFrame.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        ImportError
            Without pandas, which comes with the extra ``plot``.
        """
        return optional_import("pandas", "plot").DataFrame(self.table)

    def agreement(
        self, estimator: str | None = None, power: float | None = None, ratio: float = 1.0
    ) -> PosteriorAgreement:
        """Solve one row again, for its decomposition, confidence or bootstrap.

        Parameters
        ----------
        estimator : str, default=None
            Name of the estimator; None where there is one.
        power : float, default=None
            One of `powers`; None where there is one.
        ratio : float, default=1.0
            Share of the rows that the shift reached, in [0, 1].

        Returns
        -------
        PosteriorAgreement

        Raises
        ------
        ValueError
            If there is no such estimator or power, or several and none is named.
        """
        name = one_of(self.estimators, estimator, "estimator")
        strength = one_of(self.powers, power, "power")
        return self._samples.solve([self._samples.pair(name, strength, ratio)])[0]


def robustness_curve(
    estimators: Any,
    X: Any,
    y: Any = None,
    *,
    shift: Any,
    powers: Any = None,
    ratios: Any = (1.0,),
    metrics: Any = "all",
    features: Any = None,
    order: str = "random",
    prior: Any = "uniform",
    tol: float | None = None,
    device: Any = None,
    random_state: Any = None,
    verbose: int = 0,
) -> RobustnessCurve:
    """Measure how fitted classifiers stand a shift of growing power and extent.

    Parameters
    ----------
    estimators : object, list of objects or dict of str to object
        Fitted classifiers, whatever `class_scores` takes; a list is named by their types.
    X : array-like of n rows
        The rows as they are.
    y : array-like of shape (n,), default=None
        Labels: for the metrics that need them, and for attacks, which without them are
        against the estimator's own predictions.
    shift : Shift, callable, fitted transformer or DataFrame
        What happens to the rows, see `pa_select.environments`; an attack is aimed at each
        estimator by itself.
    powers : float or sequence of float, default=None
        Strengths of the shift. None: its own.
    ratios : float or sequence of float, default=(1.0,)
        Shares of the rows that it reaches, in [0, 1].
    metrics : "all" or sequence of str, default="all"
        Among "agreement", "accuracy", "log_loss" (both need `y`), "posterior" and "features"
        (needs `features`); "all": those for which everything is there.
    features : callable, fitted transformer or dict of str to these, default=None
        Where the features metrics look, a dict for each estimator, for example
        `LayerFeatures`.
    order : {"random", "norm"}, default="random"
        Which rows the shift reaches first: at random, or those that it moved least, as in
        the paper; of an attack those for which it found nothing come last.
    prior : {"uniform", "marginal"} or array-like, default="uniform"
        As in `posterior_agreement`; the papers' metric by default.
    tol : float, default=None
        As in `posterior_agreement`.
    device : object, default=None
        As in `posterior_agreement`.
    random_state : int, RandomState instance or None, default=None
        Chooses the rows that are reached at random; None: always the same ones.
    verbose : int, default=0
        Above 0: a line for each estimator and power.

    Returns
    -------
    RobustnessCurve
        Its ``table`` (``to_frame()``) has a row for each estimator, power and ratio:

        - "estimator", "power", "ratio", "n_pairs"; "mean_norm" and "success_rate" of the
          rows that were reached, the latter nan where the shift is no attack;
        - agreement: "pa" in nats per pair, its "beta", first-order "standard_error" and
          certified "gap", "afr_pred" (share of rows whose prediction is the same), and
          "pa_change" and "afr_pred_change" against the rows as they are;
        - accuracy: "afr_true" (accuracy under the shift), "afr_true_change",
          "accuracy_drop", "relative_accuracy_drop" (as a share of the accuracy before);
        - log_loss, of softmax(scores), in nats: "log_loss", "log_loss_gap",
          "relative_log_loss_gap";
        - posterior: "kl" (mean divergence of the shifted posterior from the first, in nats),
          "wasserstein" (mean distance with classes at distance 1, in [0, 1]);
        - features: "cosine_similarity", "mmd", "frechet", see `feature_discrepancy`.

    Raises
    ------
    TypeError, ValueError
        Before the work, if an argument does not fit; the message names it.

    Notes
    -----
    Outputs are computed once for each estimator and power, whatever the ratios; all
    problems are then solved in batches.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       section 4.1 (attack failure rates, adversarial ratio).
    .. [2] Master's thesis on posterior agreement, section 4.2, Experiments 2 to 4.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from pa_select import robustness_curve
    >>> from pa_select.environments import GaussianNoise
    >>> X, y = load_iris(return_X_y=True)
    >>> models = {
    ...     "linear": LogisticRegression(max_iter=500).fit(X, y),
    ...     "tree": DecisionTreeClassifier(random_state=0).fit(X, y),
    ... }
    >>> curve = robustness_curve(models, X, y, shift=GaussianNoise(), powers=[0.1, 1.0])
    >>> curve.to_frame()[["estimator", "power", "pa", "afr_pred", "afr_true"]].round(2)
      estimator  power    pa  afr_pred  afr_true
    0    linear    0.1  1.07      0.99      0.96
    1    linear    1.0  0.62      0.76      0.75
    2      tree    0.1  0.83      0.94      0.94
    3      tree    1.0  0.09      0.54      0.54
    """
    named = named_estimators(estimators)
    shift = as_shift(shift)
    strengths = numbers([getattr(shift, shift._power)] if powers is None else powers, "powers")
    shares = numbers(ratios, "ratios")
    if any(not 0 <= share <= 1 for share in shares):
        raise ValueError(f"ratios: expected numbers in [0, 1], got {shares}.")
    if order not in ("random", "norm"):
        raise ValueError(f"order: expected 'random' or 'norm', got {order!r}.")
    n = _num_samples(X)
    if y is not None and reordered(X, y):
        raise ValueError("y: expected the rows of X in their order, got another order.")
    y = None if y is None else check_column(y, n, "y")
    chosen = select_metrics(metrics, y is not None, features is not None)
    found = None
    if "features" in chosen:
        found = features if isinstance(features, Mapping) else dict.fromkeys(named, features)
        if set(found) != set(named):
            raise ValueError(
                f"features: expected one for each of {list(named)}, got {list(found)}."
            )
    how = {"prior": prior, "tol": check_tol(tol, prior), "device": device}
    few = _safe_indexing(X, np.arange(min(n, 2)))
    before, columns = {}, {}
    for name, estimator in named.items():
        scores, classes = class_scores(estimator, X)
        check_prior(prior, len(classes))
        before[name] = Outputs.of(scores)
        columns[name] = None if y is None else columns_of(y, classes, name)
        if shift._aimed:
            # An attack that cannot be, on a forest for example, should not cost the rest.
            shift(few, None if y is None else y[:2], estimator=estimator, power=strengths[0])
    samples = Samples(before, order, random_state, how)
    samples.take(named, X, y, shift, strengths, found, verbose)

    keys = list(product(named, strengths, shares))
    rows = [_measures(samples, key, columns[key[0]], chosen) for key in keys]
    if "agreement" in chosen:
        # First each estimator against itself: what a change is measured from.
        pairs = [(before[name], before[name]) for name in named]
        results = samples.solve(pairs + [samples.pair(*key) for key in keys])
        own = dict(zip(named, results, strict=False))
        for row, result in zip(rows, results[len(named) :], strict=True):
            row |= {
                "pa": result.score,
                "beta": result.beta,
                "standard_error": result.standard_error,
                "gap": result.gap,
                "pa_change": result.score - own[row["estimator"]].score,
            }
    table = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return RobustnessCurve(table, list(named), strengths, shares, columns, samples)


def _measures(
    samples: Samples, key: tuple[str, float, float], y: Any, chosen: Sequence[str]
) -> dict[str, Any]:
    """One row of the table, but for what is solved in batches."""
    name, power, ratio = key
    replaced = samples.replaced(*key)
    shifted = samples.shifted[name, power]
    before, after = samples.pair(*key)
    row: dict[str, Any] = {
        "estimator": name,
        "power": power,
        "ratio": ratio,
        "n_pairs": len(replaced),
        "mean_norm": _mean(shifted.norm[replaced]),
        "success_rate": np.nan if shifted.success is None else _mean(shifted.success[replaced]),
    }
    if "agreement" in chosen:
        same = float((before.predicted == after.predicted).mean())
        row |= {"afr_pred": same, "afr_pred_change": same - 1}
    if "accuracy" in chosen:
        row |= accuracy_measures(before, after, y)
    if "log_loss" in chosen:
        row |= log_loss_measures(before, after, y)
    if "posterior" in chosen:
        row |= posterior_measures(before, after)
    if "features" in chosen:
        row |= feature_discrepancy(*samples.feature_pair(*key))._asdict()
    return row


def _mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
