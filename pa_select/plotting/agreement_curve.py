"""Plots of the kernel against the inverse temperature, with its certified maximum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pa_select.plotting.axes import (
    AGREEMENT,
    DOTTED,
    Display,
    number,
    pyplot,
    style_of,
)
from pa_select.utils.typing import Axes, Floats, Line, Vector

if TYPE_CHECKING:
    from pa_select.agreement import PosteriorAgreement

_BOUND, _TRAINED = "certified upper bound", r"$\beta = 1$, as trained"
# A change of less than this share of the rise is not visible.
_INVISIBLE = 0.02
# How far below its value at 0 a kernel is drawn, as a share of the rise.
_FALL = 0.1
_N_POINTS = 120


@dataclass(eq=False, repr=False, kw_only=True)
class AgreementCurveDisplay(Display):
    """Agreement at every inverse temperature, with the certified maximum marked.

    Create it with `from_result`. A maximum at 0 or infinity is drawn at the edge. Several curves
    may share axes. Keywords of `plot` go to ``ax.plot``.

    Parameters
    ----------
    betas, kernel : array-like of shape (n_betas,)
        Inverse temperatures, positive and increasing, and the normalised kernel there, in nats
        per pair, as from `pa_select.pa_kernel`.
    beta, score : float
        The inverse temperature of the maximum, in [0, inf], and the maximum, in nats per pair.
    upper_bound : float, default=nan
        Certified upper bound of the maximum, in nats per pair; nan if unknown.
    name : str, default=None
        Name of the curve in the legend.

    Attributes
    ----------
    line_, optimum_ : matplotlib Line2D
        The kernel, and the mark of the maximum.
    bound_, trained_ : matplotlib Line2D or None
        The certified upper bound, and the line at beta = 1, as trained. None if the bound is
        unknown, and if all `betas` are two decades from 1.
    ax_, figure_ : matplotlib Axes, Figure

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       section 3.2 (the kernel and its maximum).

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select import AgreementCurveDisplay, posterior_agreement
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(500, 4))
    >>> result = posterior_agreement(logits, logits + rng.normal(size=(500, 4)))
    >>> display = AgreementCurveDisplay.from_result(result)
    >>> round(display.beta, 2), round(float(display.line_.get_ydata().max()), 3)
    (2.28, 1.005)
    """

    betas: Vector
    kernel: Vector
    beta: float
    score: float
    upper_bound: float = math.nan
    name: str | None = None

    @classmethod
    def from_result(
        cls,
        result: PosteriorAgreement,
        *,
        betas: Vector | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw a result of `pa_select.posterior_agreement`.

        Parameters
        ----------
        result : PosteriorAgreement
            A result that holds its scores, so not one of a search or a callback.
        betas : array-like of shape (n_betas,), default=None
            Positive, finite inverse temperatures. None: the range of the kernel's rise and fall.
        name : str, default=None
            Name of the curve in the legend.
        ax, **kwargs
            As in `plot`.
        """
        pyplot()
        betas, kernel = _curve_of(result, betas)
        maximum = {field: getattr(result, field) for field in ("beta", "score", "upper_bound")}
        return cls(betas=betas, kernel=kernel, **maximum, name=name).plot(ax, **kwargs)

    def _draw(self, ax: Axes, **kwargs: Any) -> None:
        appearance = style_of(self._n_drawn(ax))
        style = {"color": appearance.color, "linestyle": appearance.linestyle} | kwargs
        # The legend shows only the mark of the maximum, which has the style of the line.
        style["label"] = "_nolegend_"
        (self.line_,) = ax.plot(self.betas, self.kernel, **style)
        ax.set_xscale("log")
        known = {other.get_label(): other for other in ax.lines}
        self.trained_ = known.get(_TRAINED)
        near = np.min(self.betas) / 100 <= 1 <= 100 * np.max(self.betas)
        if self.trained_ is None and near:
            self.trained_ = ax.axvline(1, label=_TRAINED, **DOTTED)
        self.bound_ = None
        if not math.isnan(self.upper_bound):
            label = "_nolegend_" if _BOUND in known else _BOUND
            style = {"color": self.line_.get_color(), "lw": 0.9, "ls": (0, (6, 3))}
            self.bound_ = ax.axhline(self.upper_bound, label=label, **style)
        self.optimum_ = self._register(self._mark_optimum(ax, appearance.marker))
        ax.set(xlabel=r"inverse temperature $\beta$", ylabel=AGREEMENT)
        self._legend(ax, self._handles(ax))

    def _mark_optimum(self, ax: Axes, marker: str) -> Line:
        """Mark the maximum, at an edge if it is at 0 or infinity."""
        x, transform = self.beta, ax.transData
        if not 0 < self.beta < np.inf:
            x, marker = (0.0, "<") if self.beta == 0 else (1.0, ">")
            transform = ax.get_yaxis_transform()
        line, beta = self.line_, rf"$\beta$ = {number(self.beta)}"
        style: dict[str, Any] = {"transform": transform, "clip_on": False, "markersize": 9}
        style |= {"color": line.get_color(), "linestyle": line.get_linestyle()}
        style["zorder"] = line.get_zorder() + 1
        style["label"] = f"{self.name or 'maximum'}: {number(self.score)} at {beta}"
        return self._mark(ax, [x], [self.score], marker, **style)


def _curve_of(result: PosteriorAgreement, betas: Vector | None) -> tuple[Floats, Floats]:
    """Return betas, by default those that show rise and fall, and the result's kernel there."""
    from pa_select.agreement import pa_kernel
    from pa_select.agreement.result import source_of

    source = source_of(result)
    problem = {"prior": source.prior.argument, "sample_weight": source.weight}

    def kernel(betas: Floats) -> Floats:
        return np.asarray(pa_kernel(source.a, source.b, betas, **problem))

    if betas is not None:
        ordered = np.sort(np.asarray(betas, dtype=np.float64))
        return ordered, kernel(ordered)
    scores = np.concatenate([x.detach().cpu().double().numpy() for x in (source.a, source.b)])
    # Within rows: what is added to all scores of a row has no effect.
    extent = float(np.ma.ptp(np.ma.masked_invalid(scores), axis=1).mean()) or 1.0
    return _sample(kernel, result, 1 / extent)


def _sample(
    kernel: Callable[[Floats], Floats], result: PosteriorAgreement, scale: float
) -> tuple[Floats, Floats]:
    """Return inverse temperatures that show the kernel's rise and fall, and the kernel there.

    If the maximum is at 0 or infinity, they are near `scale`. Without a rise as much of the fall
    is shown as half of the largest possible rise.
    """
    beta = result.beta
    interior = 0 < beta < np.inf
    grid = (beta if interior else scale) * 2.0 ** np.arange(-30, 31)
    values = kernel(np.concatenate([[0.0], grid, [np.inf]]))
    start, values, end = values[0], values[1:-1], values[-1]
    rise = result.score - start
    floor = start - _FALL * rise
    if rise <= 1e-9:
        rise = math.log(result.n_classes) / 2
        floor = start - rise
    with np.errstate(invalid="ignore"):  # -inf where posteriors are disjoint
        moved = np.isfinite(values) & (np.abs(values - start) > _INVISIBLE * rise)
        at_end = np.abs(values - end) <= _INVISIBLE * rise
    if not moved.any():  # a constant, or nothing to draw
        betas = scale * np.geomspace(0.01, 100, _N_POINTS)
        return betas, kernel(betas)
    # The kernel stays at its limit from there on, or has fallen.
    settled = np.logical_and.accumulate(at_end[::-1])[::-1]
    done = settled | ((grid > beta) & (values < floor))
    first = max(int(moved.argmax()) - 1, 0)
    last = max(int(done.argmax()), first + 1) if done.any() else -1
    low = 0.8 if 1 < grid[first] < 100 else grid[first]  # show 1, as trained
    betas = np.geomspace(low, grid[last], _N_POINTS)
    if interior:
        betas = np.union1d(betas, beta)
    values = kernel(betas)
    fallen = np.flatnonzero((betas > beta) & (values < floor))
    shown = slice(None, int(fallen[0]) + 1 if len(fallen) else None)
    return betas[shown], values[shown]
