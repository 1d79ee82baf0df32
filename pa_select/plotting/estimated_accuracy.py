"""Estimated accuracies of classifiers on a target against the true ones."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pa_select.plotting.axes import GREY, axes_for, ink, legend_above, look, pyplot
from pa_select.plotting.named_results import in_order, named_results
from pa_select.utils.estimators import named_estimators
from pa_select.utils.typing import Floats

if TYPE_CHECKING:
    from pa_select.calibration import AccuracyEstimate

# What three rules estimate; the estimate is their mean.
_RULES = ("confidence", "agreement_change", "agreement_line")
_N_LOOKS = 6


class EstimatedAccuracyDisplay:
    """The estimated accuracy of each classifier on a target against the true one.

    Create it with `from_estimators` or `from_estimates`. A mark on the diagonal is an accuracy
    that was estimated without error. A thin line reaches from the lowest to the highest of the
    rules whose mean the estimate is. A grey mark is the score on the labelled rows: what to
    expect if nothing is estimated.

    Parameters
    ----------
    score, true_score : array-like of shape (n_classifiers,)
        The estimate for each classifier, and its score on the target.
    low, high : array-like of shape (n_classifiers,), default=None
        The lowest and the highest of the rules. None: no lines.
    claimed : array-like of shape (n_classifiers,), default=None
        The scores on the labelled rows. None: no marks.
    names : sequence of n_classifiers str, default=None
        Names of the classifiers. None: their numbers.
    score_name : str, default="accuracy"
        Name of the score.

    Attributes
    ----------
    marks_ : list of matplotlib Line2D
        The mark of each classifier.
    rules_ : matplotlib LineCollection or None
        The lines from the lowest to the highest rule.
    claimed_ : matplotlib Line2D or None
        The scores on the labelled rows.
    diagonal_ : matplotlib Line2D
        Where the estimate is the true score.
    ax_, figure_ : matplotlib Axes, Figure

    See Also
    --------
    pa_select.estimate_accuracy : Estimates the accuracies, without labels of the target.
    pa_select.ExpectedScoreDisplay : Scores that are expected from rows measured at both sites.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.utils import shuffle
    >>> from pa_select import AgreementCalibratedClassifier, EstimatedAccuracyDisplay
    >>> X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
    >>> X = X / 16
    >>> target = X[900:] + np.random.default_rng(0).normal(0, 0.4, X[900:].shape)
    >>> models = {"logistic": LogisticRegression(max_iter=1000), "bayes": GaussianNB()}
    >>> for name, model in models.items():
    ...     models[name] = AgreementCalibratedClassifier(model).fit(X[:900], y[:900])
    >>> display = EstimatedAccuracyDisplay.from_estimators(models, target, y[900:])
    >>> display.names
    ['logistic', 'bayes']
    >>> off, naive_off = (found - display.true_score for found in (display.score, display.claimed))
    >>> bool(abs(off[0]) < 0.1 < naive_off[0])
    True
    """

    def __init__(
        self,
        *,
        score: Any,
        true_score: Any,
        low: Any = None,
        high: Any = None,
        claimed: Any = None,
        names: Sequence[str] | None = None,
        score_name: str = "accuracy",
    ) -> None:
        self.score = score
        self.true_score = true_score
        self.low = low
        self.high = high
        self.claimed = claimed
        self.names = names
        self.score_name = score_name

    @classmethod
    def from_estimators(
        cls, estimators: Any, X: Any, y: Any, *, scoring: Any = "accuracy", ax: Any = None
    ) -> EstimatedAccuracyDisplay:
        """Estimate the scores of classifiers on labelled rows of a target, and draw both.

        Parameters
        ----------
        estimators : AgreementCalibratedClassifier, or list or dict of them
            Fitted classifiers, as for `pa_select.estimate_accuracy`.
        X : array-like of m rows
            Rows of the target, at least 20.
        y : array-like of shape (m,)
            Their labels, which the estimates do not see.
        scoring : str or callable, default="accuracy"
            A scorer of scikit-learn, as for `pa_select.estimate_accuracy`.
        ax : matplotlib Axes, default=None
            Axes to draw in. None: those of a new figure.

        Returns
        -------
        EstimatedAccuracyDisplay
            Each classifier is scored with the probabilities that are calibrated for `X`.

        Raises
        ------
        TypeError, ValueError
            If `pa_select.estimate_accuracy` refuses an argument, or there is not one label for
            each row.
        """
        pyplot()
        from sklearn.metrics import check_scoring

        from pa_select.calibration import estimate_accuracy
        from pa_select.calibration.ratio import factor_of
        from pa_select.utils.columns import check_column
        from pa_select.utils.sklearn_private import _num_samples

        named = named_estimators(estimators)
        estimates = estimate_accuracy(named, X, scoring=scoring)
        labels = check_column(y, _num_samples(X), "y")
        truth = {}
        for name, one in named.items():
            there = copy.copy(one)
            there.inverse_temperature_ = one.source_inverse_temperature_ * factor_of(
                estimates[name].ratio
            )
            truth[name] = check_scoring(there, scoring)(there, X, labels)
        words = "accuracy" if scoring is None else None
        words = words or (scoring.replace("_", " ") if isinstance(scoring, str) else "score")
        return cls.from_estimates(estimates, truth, score_name=words, ax=ax)

    @classmethod
    def from_estimates(
        cls,
        estimates: AccuracyEstimate | Mapping[str, AccuracyEstimate],
        true_scores: Any,
        *,
        score_name: str = "accuracy",
        ax: Any = None,
    ) -> EstimatedAccuracyDisplay:
        """Draw what `pa_select.estimate_accuracy` returns.

        Parameters
        ----------
        estimates : AccuracyEstimate or dict of str to AccuracyEstimate
            The estimate for a classifier, or for several by their names.
        true_scores : float, array-like of shape (n_classifiers,) or dict of str to float
            Scores of the classifiers on the target, in the order of `estimates` or by name. A
            classifier without one is not drawn.
        score_name : str, default="accuracy"
            Name of the metric.
        ax : matplotlib Axes, default=None
            Axes to draw in. None: those of a new figure.

        Returns
        -------
        EstimatedAccuracyDisplay

        Raises
        ------
        TypeError, ValueError
            If `estimates` are none, or `true_scores` are of other classifiers.
        """
        pyplot()
        from pa_select.calibration import AccuracyEstimate

        named = named_results(estimates, AccuracyEstimate, "estimates")
        names = list(named)
        rules = np.array([[getattr(one, rule) for rule in _RULES] for one in named.values()])
        return cls(
            score=np.array([one.score for one in named.values()]),
            true_score=in_order(true_scores, names),
            low=np.nanmin(rules, axis=1),
            high=np.nanmax(rules, axis=1),
            claimed=np.array([one.validation_score for one in named.values()]),
            names=names,
            score_name=score_name,
        ).plot(ax)

    def plot(self, ax: Any = None, **kwargs: Any) -> EstimatedAccuracyDisplay:
        """Draw the classifiers.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw in. None: those of a new figure.
        **kwargs : dict
            Passed on to ``ax.plot`` of the classifiers.

        Returns
        -------
        EstimatedAccuracyDisplay
            This display.

        Raises
        ------
        ValueError
            If there is not one value and one name for each classifier.
        """
        score = np.asarray(self.score, dtype=np.float64)
        n = len(score)
        truth, low, high, claimed = (
            self._values(name, n) for name in ("true_score", "low", "high", "claimed")
        )
        names = [str(i) for i in range(n)] if self.names is None else [*map(str, self.names)]
        if len(names) != n:
            raise ValueError(f"names: expected one for each of {n} classifiers, got {len(names)}.")
        ax = axes_for(ax, figsize=(5.4, 5.6))
        self.rules_ = self.claimed_ = None
        if low is not None and high is not None:
            style = {"color": ink(ax), "lw": 1, "alpha": 0.7, "zorder": 2}
            self.rules_ = ax.vlines(truth, low, high, label="lowest to highest rule", **style)
        if claimed is not None:
            style = {"color": GREY, "marker": "_", "ls": "none", "markersize": 11, "mew": 2.5}
            label = f"{self.score_name} on the labelled rows"
            (self.claimed_,) = ax.plot(truth, claimed, label=label, zorder=3, **style)
        self.marks_ = []
        for i, name in enumerate(names):
            # The marker moves on once the colours have been used.
            style = {"color": look(i).color, "marker": look(i + i // _N_LOOKS).marker}
            style |= {"ls": "none", "markersize": 7, "mec": ink(ax), "mew": 0.8, "zorder": 4}
            self.marks_ += ax.plot(
                truth[i : i + 1], score[i : i + 1], label=name, **style | kwargs
            )
        known = [values for values in (truth, score, low, high, claimed) if values is not None]
        limits = _limits(np.concatenate(known))
        style = {"color": GREY, "lw": 1, "zorder": 1, "label": "no error"}
        (self.diagonal_,) = ax.plot(limits, limits, **style)
        ax.set(xlim=limits, ylim=limits, aspect="equal")
        ax.set(xlabel=f"true {self.score_name} on the target")
        ax.set(ylabel=f"estimated {self.score_name} on the target")
        others = [one for one in (self.rules_, self.claimed_, self.diagonal_) if one is not None]
        legend_above(ax, [*self.marks_, *others], fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _values(self, name: str, n: int) -> Any:
        given = getattr(self, name)
        if given is None and name != "true_score":
            return None
        values = np.asarray(given, dtype=np.float64)
        if values.shape != (n,):
            raise ValueError(
                f"{name}: expected one for each of {n} classifiers, got shape {values.shape}."
            )
        return values


def _limits(values: Floats) -> tuple[float, float]:
    """Return limits that hold all values that are finite, with a margin."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    margin = 0.07 * (high - low) or 0.05
    return low - margin, high + margin
