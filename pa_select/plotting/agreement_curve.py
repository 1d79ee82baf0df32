"""Plots of the kernel against the inverse temperature, with its certified maximum."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from pa_select.plotting.axes import (
    AGREEMENT,
    GREY,
    axes_for,
    ink,
    legend_above,
    look,
    mark_as,
    n_drawn,
    number,
    pyplot,
)
from pa_select.plotting.inverse_temperatures import check_betas, curve_of

if TYPE_CHECKING:
    from pa_select.agreement import PosteriorAgreement

_KIND = "agreement curve"
_BOUND, _TRAINED = "certified upper bound", r"$\beta = 1$, as trained"


class AgreementCurveDisplay:
    """Agreement at every inverse temperature, with the certified maximum marked.

    Create it with `from_predictions`, `from_estimator` or `from_result`. A maximum at an
    inverse temperature of 0 or infinity is drawn at the edge. Several curves may share axes.

    Parameters
    ----------
    betas : array-like of shape (n_betas,)
        Inverse temperatures, positive and increasing.
    kernel : array-like of shape (n_betas,)
        The normalised kernel at `betas`, in nats per pair.
    beta : float
        The inverse temperature of the maximum, in [0, inf].
    score : float
        The maximum, in nats per pair.
    upper_bound : float, default=nan
        Certified upper bound of the maximum, in nats per pair; nan if unknown.
    name : str, default=None
        Name of the curve in the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The kernel.
    optimum_ : matplotlib Line2D
        The mark of the maximum.
    bound_ : matplotlib Line2D or None
        The certified upper bound; None if unknown.
    trained_ : matplotlib Line2D or None
        The line at beta = 1, the inverse temperature at which a model was trained; None if
        that is more than two decades from all `betas`.
    ax_, figure_ : matplotlib Axes, Figure

    See Also
    --------
    pa_select.pa_kernel : Computes the numbers.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       section 3.2 (the kernel and its maximum).

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select.plotting import AgreementCurveDisplay
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(500, 4))
    >>> noisy = logits + rng.normal(size=(500, 4))
    >>> display = AgreementCurveDisplay.from_predictions(logits, noisy)
    >>> round(display.beta, 2), round(float(display.line_.get_ydata().max()), 3)
    (2.28, 1.005)
    """

    def __init__(
        self,
        *,
        betas: Any,
        kernel: Any,
        beta: float,
        score: float,
        upper_bound: float = math.nan,
        name: str | None = None,
    ) -> None:
        self.betas = betas
        self.kernel = kernel
        self.beta = beta
        self.score = score
        self.upper_bound = upper_bound
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        scores_a: Any,
        scores_b: Any,
        *,
        prior: Any = "uniform",
        sample_weight: Any = None,
        betas: Any = None,
        ax: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> AgreementCurveDisplay:
        """Maximise the agreement of paired scores, and draw it.

        Parameters
        ----------
        scores_a, scores_b : array-like of shape (n_pairs, n_classes)
            Logits or log-probabilities, as in `pa_select.posterior_agreement`.
        prior : {"uniform", "marginal"} or array-like of shape (n_classes,), default="uniform"
            The class prior.
        sample_weight : array-like of shape (n_pairs,), default=None
            Non-negative weights of the pairs.
        betas : array-like of shape (n_betas,), default=None
            Inverse temperatures to draw, positive and finite. None: those where the kernel
            rises to its maximum and falls below its value at 0.
        ax : matplotlib Axes, default=None
            Axes to draw in. None: those of a new figure.
        name : str, default=None
            Name of the curve in the legend.
        **kwargs : dict
            Passed on to the curve's ``ax.plot``.

        Returns
        -------
        AgreementCurveDisplay

        Raises
        ------
        TypeError, ValueError, RuntimeError
            As `pa_select.posterior_agreement`, and for betas that are not positive.
        """
        pyplot()
        betas = check_betas(betas)
        from pa_select.agreement import posterior_agreement
        from pa_select.agreement.inputs.problem import check_pair

        pair = check_pair(scores_a, scores_b)  # one problem only
        result = posterior_agreement(*pair, prior=prior, sample_weight=sample_weight)
        return cls.from_result(result, betas=betas, ax=ax, name=name, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X_a: Any,
        X_b: Any,
        *,
        prior: Any = "uniform",
        sample_weight: Any = None,
        betas: Any = None,
        ax: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> AgreementCurveDisplay:
        """Draw the agreement of a fitted classifier on two samples of the same objects.

        Parameters
        ----------
        estimator : object
            A fitted classifier that `pa_select.class_scores` accepts.
        X_a, X_b : array-like of n_pairs rows
            The samples; row i of one is paired with row i of the other.
        prior, sample_weight, betas, ax, **kwargs
            As in `from_predictions`.
        name : str, default=None
            Name of the curve in the legend. None: the name of the estimator's class.

        Returns
        -------
        AgreementCurveDisplay

        Raises
        ------
        TypeError, ValueError, RuntimeError
            As `pa_select.class_scores` and `from_predictions`.
        """
        pyplot()
        betas = check_betas(betas)
        from pa_select.scores import class_scores

        return cls.from_predictions(
            class_scores(estimator, X_a)[0],
            class_scores(estimator, X_b)[0],
            prior=prior,
            sample_weight=sample_weight,
            betas=betas,
            ax=ax,
            name=type(estimator).__name__ if name is None else name,
            **kwargs,
        )

    @classmethod
    def from_result(
        cls,
        result: PosteriorAgreement,
        *,
        betas: Any = None,
        ax: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> AgreementCurveDisplay:
        """Draw a result of `pa_select.posterior_agreement`.

        Parameters
        ----------
        result : PosteriorAgreement
            A result that holds its scores, so not one of a search or a callback.
        betas, ax, name, **kwargs
            As in `from_predictions`.

        Returns
        -------
        AgreementCurveDisplay

        Raises
        ------
        TypeError, ValueError
            If the result does not hold its scores, or betas are not positive.
        """
        pyplot()
        betas = check_betas(betas)
        if not hasattr(result, "known_source"):
            raise TypeError(f"result: expected a PosteriorAgreement, got {type(result).__name__}.")
        betas, values = curve_of(result, betas)
        display = cls(
            betas=betas,
            kernel=values,
            beta=result.beta,
            score=result.score,
            upper_bound=result.upper_bound,
            name=name,
        )
        return display.plot(ax, **kwargs)

    def plot(
        self, ax: Any = None, *, name: str | None = None, **kwargs: Any
    ) -> AgreementCurveDisplay:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw in. None: those of a new figure.
        name : str, default=None
            Name of the curve in the legend. None: the display's own name.
        **kwargs : dict
            Passed on to the curve's ``ax.plot``.

        Returns
        -------
        AgreementCurveDisplay
            This display.
        """
        ax = axes_for(ax)
        own = look(n_drawn(ax, _KIND))
        style = {"color": own.color, "linestyle": own.linestyle} | kwargs
        # The legend shows only the mark of the maximum, which has the style of the line.
        style["label"] = "_nolegend_"
        (line,) = ax.plot(self.betas, self.kernel, **style)
        self.line_ = mark_as(line, _KIND)
        ax.set_xscale("log")
        known = {other.get_label(): other for other in ax.lines}
        self.trained_ = known.get(_TRAINED)
        lowest, highest = np.min(self.betas), np.max(self.betas)
        if self.trained_ is None and lowest / 100 <= 1 <= 100 * highest:
            self.trained_ = ax.axvline(
                1, color=GREY, lw=1, ls=(0, (1, 3)), label=_TRAINED, zorder=0
            )
        self.bound_ = None
        if not math.isnan(self.upper_bound):
            label = "_nolegend_" if _BOUND in known else _BOUND
            self.bound_ = ax.axhline(
                self.upper_bound, color=line.get_color(), lw=0.9, ls=(0, (6, 3)), label=label
            )
        self.optimum_ = self._mark(ax, line, own.marker, self.name if name is None else name)
        ax.set(xlabel=r"inverse temperature $\beta$", ylabel=AGREEMENT)
        handles = ax.get_legend_handles_labels()[0]
        handles.sort(key=lambda line: line.get_label() in (_BOUND, _TRAINED))
        if n_drawn(ax, _KIND) < 3:
            ax.legend(handles=handles)
        else:
            legend_above(ax, handles)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _mark(self, ax: Any, line: Any, marker: str, name: str | None) -> Any:
        """Mark the maximum, at an edge if it is at 0 or infinity."""
        at, transform = self.beta, ax.transData
        if not 0 < self.beta < np.inf:
            at, marker = (0.0, "<") if self.beta == 0 else (1.0, ">")
            transform = ax.get_yaxis_transform()
        (mark,) = ax.plot(
            [at],
            [self.score],
            transform=transform,
            color=line.get_color(),
            linestyle=line.get_linestyle(),
            marker=marker,
            markersize=9,
            markeredgecolor=ink(ax),
            markeredgewidth=0.8,
            label=f"{name or 'maximum'}: {number(self.score)} at "
            rf"$\beta$ = {number(self.beta)}",
            clip_on=False,
            zorder=line.get_zorder() + 1,
        )
        return mark
