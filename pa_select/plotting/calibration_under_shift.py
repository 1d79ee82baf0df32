"""Confidence and accuracy on labelled rows and on a target, before and after a correction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pa_select.plotting.axes import GREY, Display, check_kind, ink, look, number, pyplot
from pa_select.scores.class_scores import columns_of
from pa_select.utils.arrays import check_column
from pa_select.utils.score_checks import check_count, check_shape, wrong_row
from pa_select.utils.typing import Array, Axes, Floats, Index, Labels, Matrix, Rows

if TYPE_CHECKING:
    from pa_select.calibration.reliability import Reliability

_LABELLED, _TARGET = "labelled rows", "target"
_CONFIDENCE = "confidence (probability of the predicted class)"
# The histograms take this part of the height; the curves begin a little above.
_HISTOGRAMS, _CURVES = 0.25, 0.3
_TOP = 1.03
# The accuracy on fewer rows says next to nothing.
_LEAST_ROWS = 5


@dataclass(eq=False, repr=False, kw_only=True)
class CalibrationUnderShiftDisplay(Display):
    """Confidence against accuracy at several places, before and after a correction.

    Create it with `from_result` or `from_estimator`. Rows are sorted into bins by their
    confidence, which is the probability of the predicted class. Where labels are known, a curve
    shows the accuracy in each bin of at least five rows, with its standard error. Below the
    diagonal the classifier is over-confident. Histograms show how many rows are in each bin.
    Each place has a colour. Hollow marks and dashed lines are not corrected, filled marks and
    full lines are. Keywords of `plot` go to ``ax.errorbar`` of the curves.

    The predictions of labelled rows are out-of-fold. The target is predicted by what the
    classifier predicts with: for ``ensemble=True`` the mean scores of all fold models, which are
    a little better. The correction is for the target; the labelled rows show what it would do
    without a shift.

    Parameters
    ----------
    before, after : dict of str to Reliability
        The rows of each place in bins, before and after the correction.
    ratio : float, default=None
        What the correction multiplied the inverse temperature by, for the legend.

    Attributes
    ----------
    curves_, histograms_ : dict of (str, str) to matplotlib ErrorbarContainer; StepPatch
        The curves, where labels are known, and the histograms, by place and "before" or "after".
    diagonal_ : matplotlib Line2D or None
        Where the confidence is the accuracy. None if no labels are known.
    ax_histograms_ : matplotlib Axes
        The axes of the histograms, inside `ax_`; without any labels they are `ax_`.
    ax_, figure_ : matplotlib Axes, Figure

    See Also
    --------
    pa_select.AgreementCalibratedClassifier : Corrects the probabilities for a target.
    sklearn.calibration.CalibrationDisplay : The curve for the probability of one of two classes.

    References
    ----------
    .. [1] A. Niculescu-Mizil, R. Caruana, "Predicting good probabilities with supervised
       learning", ICML 2005 (reliability curves).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.utils import shuffle
    >>> from pa_select import AgreementCalibratedClassifier, CalibrationUnderShiftDisplay
    >>> X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
    >>> X = X / 16
    >>> target = X[900:] + np.random.default_rng(0).normal(0, 0.4, X[900:].shape)
    >>> model = AgreementCalibratedClassifier(LogisticRegression(max_iter=1000))
    >>> model = model.fit(X[:900], y[:900], target=target)
    >>> display = CalibrationUnderShiftDisplay.from_estimator(model, target)
    >>> list(display.curves_)  # nobody labelled the target
    [('labelled rows', 'before'), ('labelled rows', 'after')]
    >>> display.before["target"].mean_confidence > display.after["target"].mean_confidence
    True
    """

    before: Mapping[str, Reliability]
    after: Mapping[str, Reliability]
    ratio: float | None = None

    @classmethod
    def from_result(
        cls,
        result: tuple[Any, Any],
        y: Labels | None = None,
        *,
        n_bins: int = 10,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw probabilities of any classifier, before and after any correction.

        Parameters
        ----------
        result : tuple (before, after)
            The probabilities before and after the correction, each an array-like of shape
            (m, n_classes) for the rows of a target.
        y : array-like of shape (m,), default=None
            The columns of the true classes, if they are known.
        n_bins : int, default=10
            Number of bins of equal width, from 1 / n_classes to 1.
        ax, **kwargs
            As in `plot`.
        """
        pyplot()
        if not isinstance(result, tuple) or len(result) != 2:
            got = type(result).__name__
            raise TypeError(f"result: expected probabilities, a tuple of two, got {got}.")
        from pa_select.calibration.reliability import reliability

        check_count(n_bins, "n_bins", "bins")
        before, after = map(_posteriors, ("before", "after"), result)
        if after.shape != before.shape:
            raise ValueError(f"after: expected shape {before.shape}, got {after.shape}.")
        columns = _columns(y, np.arange(before.shape[1]), len(before))
        tables = [{_TARGET: reliability(one, columns, n_bins=n_bins)} for one in (before, after)]
        return cls(before=tables[0], after=tables[1]).plot(ax, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Rows,
        y: Labels | None = None,
        *,
        n_bins: int = 10,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw how a classifier predicts its "labelled rows" and a "target", the two places.

        Parameters
        ----------
        estimator : AgreementCalibratedClassifier
            A classifier that was calibrated for a target. Before the correction it has the
            temperature of its labelled rows, after it the one that it predicts with.
        X : array-like of m rows
            Rows of the target.
        y : array-like of shape (m,), default=None
            Their labels, if they are known. None: only histograms are drawn for the target.
        n_bins, ax, **kwargs
            As in `from_result`.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If it is not fitted.
        """
        pyplot()
        from sklearn.utils.validation import check_is_fitted

        from pa_select.calibration import AgreementCalibratedClassifier
        from pa_select.calibration.reliability import reliability
        from pa_select.calibration.temperatures import factor_of
        from pa_select.unlabelled.classification import calibrated

        check_kind(estimator, AgreementCalibratedClassifier, "estimator")
        check_is_fitted(estimator)
        if estimator.target_agreement_ is None:
            raise ValueError(
                "estimator: expected one that was calibrated for a target, by fit(X, y, "
                "target=...) or recalibrate(...), got one that has seen no target."
            )
        check_count(n_bins, "n_bins", "bins")
        scores = estimator._scores(X)
        columns = _columns(y, estimator.classes_, len(scores))
        held_out, labels, weight, _ = estimator._held_out
        rows = {"rows": held_out.rows, "weight": weight}
        tables = []
        for beta in (estimator.source_inverse_temperature_, estimator.inverse_temperature_):
            known, target = calibrated(held_out.of_models, beta), calibrated(scores, beta)
            table = {_LABELLED: reliability(known, labels, n_bins=n_bins, **rows)}
            tables.append(table | {_TARGET: reliability(target, columns, n_bins=n_bins)})
        ratio = factor_of(estimator.ratio_)
        return cls(before=tables[0], after=tables[1], ratio=ratio).plot(ax, **kwargs)

    def _check(self) -> None:
        if set(self.after) != set(self.before):
            places = f"expected the places {list(self.before)}, got {list(self.after)}"
            raise ValueError(f"after: {places}.")

    def _figsize(self) -> tuple[float, float]:
        # Wide enough for the legend of places with long names; "before" has the longer words.
        words = [_in_words(place, "before", bins) for place, bins in self.before.items()]
        return max(6.4, 0.8 * self._width(words) + 1.5), 6.0

    def _draw(self, ax: Axes, **kwargs: Any) -> None:
        every = [*self.before.values(), *self.after.values()]
        labelled = any(one.accuracy is not None for one in every)
        self.ax_histograms_ = _histogram_axes(ax) if labelled else ax
        self.curves_: dict[tuple[str, str], Any] = {}
        self.histograms_: dict[tuple[str, str], Any] = {}
        for i, place in enumerate(self.before):
            self._draw_place(ax, i, (place, "before"), self.before[place], kwargs)
            self._draw_place(ax, i, (place, "after"), self.after[place], kwargs)
        low = min(one.edges[0] for one in every)
        margin = 0.02 * (1 - low)
        ax.set(xlim=(low - margin, 1 + margin), xlabel=_CONFIDENCE)
        self.diagonal_ = None
        if labelled:
            (self.diagonal_,) = ax.plot([low, 1], [low, 1], color=GREY, lw=1, zorder=1)
            ax.axhline(0, color=GREY, lw=0.5, zorder=0)
            ax.set(ylim=(-_CURVES / (1 - _CURVES) * _TOP, _TOP), yticks=np.linspace(0, 1, 6))
            ax.set_ylabel("accuracy", y=(1 + _CURVES) / 2)
        self.ax_histograms_.set_ylim(bottom=0)
        self.ax_histograms_.set_ylabel("share of rows")
        title = None
        if self.ratio is not None:
            title = f"corrected: inverse temperature times {number(self.ratio)}"
        handles = list({**self.histograms_, **self.curves_}.values())
        style = {"alignment": "left", "fontsize": "small", "handlelength": 3}
        self._legend(ax, handles, title=title, **style)

    def _draw_place(
        self, ax: Axes, i: int, key: tuple[str, str], bins: Reliability, kwargs: dict[str, Any]
    ) -> None:
        """Draw the histogram of a place, and its curve if there are labels."""
        color, marker, is_after = look(i).color, look(i).marker, key[1] == "after"
        style: dict[str, Any] = {"ls": "-" if is_after else (0, (4, 2))}
        style["label"] = _in_words(*key, bins)
        self.histograms_[key] = self.ax_histograms_.stairs(
            bins.share, bins.edges, edgecolor=color, lw=1.5, **style
        )
        if bins.accuracy is None or bins.error is None:
            return
        enough = bins.in_bin >= _LEAST_ROWS
        style |= {"color": color, "marker": marker, "markersize": 6, "elinewidth": 1}
        style["mfc"] = color if is_after else ax.get_facecolor()
        style |= {"zorder": 3 + 0.1 * len(self.curves_)} | kwargs
        x, y, error = bins.confidence[enough], bins.accuracy[enough], bins.error[enough]
        self.curves_[key] = ax.errorbar(x, y, error, **style)


def _histogram_axes(ax: Any) -> Axes:
    """Return the axes of the histograms inside the lower part of others, once for each."""
    # Clearing the axes removes them, too.
    if getattr(ax, "_pa_select_below", None) not in ax.child_axes:
        below = ax._pa_select_below = ax.inset_axes([0, 0, 1, _HISTOGRAMS], sharex=ax)
        below.tick_params(axis="x", bottom=False, labelbottom=False)
        below.spines[["bottom", "left", "right"]].set_visible(False)
        below.spines["top"].set_color(GREY)
        below.yaxis.label.set_color(ink(ax))
    return ax._pa_select_below


def _in_words(place: str, when: str, bins: Reliability) -> str:
    text = f"{place} (n = {bins.n_rows}), {'not ' if when == 'before' else ''}corrected: "
    text += f"mean confidence {bins.mean_confidence:.2f}"
    return text if bins.accuracy is None else f"{text}, accuracy {bins.mean_accuracy:.2f}"


def _columns(y: Labels | None, classes: Array, n: int) -> Index | None:
    return None if y is None else columns_of(check_column(y, n, "y"), classes, "the columns")


def _posteriors(name: str, given: Matrix) -> Floats:
    """Return checked probabilities as an array."""
    try:
        matrix = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: expected a matrix of numbers ({error}).") from error
    check_shape(matrix, name)
    row = wrong_row(matrix)
    if row is not None:
        got = f"{matrix[row].tolist()} in row {row}"
        raise ValueError(f"{name}: expected probabilities, which sum to 1, got {got}.")
    return matrix
