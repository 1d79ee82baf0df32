"""Heat maps: of the agreement of every two samples, and of rank correlations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from pa_select.plotting.axes import AGREEMENT, SLANTED, Display, check_kind, pyplot, text_colour
from pa_select.utils.typing import Array, Axes, Floats, Matrix

if TYPE_CHECKING:
    from papers.measures import RankCorrelation

    from pa_select.agreement import AgreementMatrix

# Correlations with a smaller p-value are marked.
_LEVEL = 0.05


class HeatMapDisplay(Display):
    """Base class of displays of a matrix of numbers."""

    image_: Any
    # Keywords of the colour bar.
    _bar: ClassVar[dict[str, Any]]

    def plot(
        self,
        ax: Axes | None = None,
        *,
        include_values: bool = True,
        values_format: str = ".2f",
        colorbar: bool = True,
        text_kw: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the heat map.

        Parameters
        ----------
        ax, **kwargs
            As in the other displays. A new figure is larger for a larger matrix. Several matrices
            with the same ``vmin`` and ``vmax`` have the same colours.
        include_values, colorbar : bool, default=True
            Whether to write the values into the cells, and to draw a colour bar.
        values_format : str, default=".2f"
            Format of the values.
        text_kw : dict, default=None
            Passed on to the values' ``ax.text``.
        """
        super().plot(ax, **kwargs)
        self.colorbar_ = self.texts_ = None
        if colorbar:
            self.colorbar_ = self.figure_.colorbar(self.image_, ax=self.ax_, **self._bar)
        if include_values:
            self.texts_ = self._write(self.ax_, values_format, text_kw or {})
        self._label(self.ax_, values_format)
        self.ax_.tick_params(length=0)
        return self

    @abstractmethod
    def _write(self, ax: Axes, form: str, style: dict[str, Any]) -> Array:
        """Write the values into the cells."""

    @abstractmethod
    def _label(self, ax: Axes, form: str) -> None:
        """Label the axes, and add what else there is."""

    def _write_texts(self, ax: Axes, values: Floats, texts: Any, style: dict[str, Any]) -> Array:
        """Write a text into each cell, in black or white for contrast."""
        written = np.empty(values.shape, dtype=object)
        for (i, j), value in np.ndenumerate(values):
            red, green, blue, _ = self.image_.cmap(self.image_.norm(value))
            bright = np.isnan(value) or 0.299 * red + 0.587 * green + 0.114 * blue > 0.5
            look = {"color": "black" if bright else "white", "ha": "center", "va": "center"}
            written[i, j] = ax.text(j, i, texts[i, j], **look | style)
        return written


@dataclass(eq=False, repr=False, kw_only=True)
class AgreementMatrixDisplay(HeatMapDisplay):
    """Agreement of every two samples as a heat map, with a frame around the worst pair.

    Create it with `from_result`. A sample's agreement with itself, on the diagonal, is written
    but not coloured. Keywords of `plot` go to ``ax.imshow``.

    Parameters
    ----------
    scores : array-like of shape (M, M)
        Agreement of samples i and j, in nats per pair.
    worst_pair : tuple of int, default=None
        The samples with the lowest agreement.
    names : sequence of M str, default=None
        Names of the samples. None: their numbers.

    Attributes
    ----------
    image_, colorbar_ : matplotlib AxesImage; Colorbar or None
        The heat map; its diagonal is masked.
    texts_ : ndarray of shape (M, M) of matplotlib Text, or None
        The values in the cells.
    worst_ : list of matplotlib Rectangle
        The frames of the worst pair, in both orders.
    ax_, figure_ : matplotlib Axes, Figure

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select import AgreementMatrixDisplay, agreement_matrix
    >>> rng = np.random.default_rng(0)
    >>> signal = 3 * rng.normal(size=(300, 3))
    >>> samples = [signal + noise * rng.normal(size=(300, 3)) for noise in (0.1, 0.2, 2.0)]
    >>> matrix = agreement_matrix(samples)
    >>> display = AgreementMatrixDisplay.from_result(matrix, names=["day", "dusk", "night"])
    >>> display.texts_[0, 1].get_text()
    '1.04'
    """

    scores: Matrix
    worst_pair: tuple[int, int] | None = None
    names: Sequence[Any] | None = None

    _shapes = {"scores": ("scores", "scores"), "names": ("scores",)}
    _bar = {"label": AGREEMENT, "fraction": 0.046, "pad": 0.04}

    @classmethod
    def from_result(
        cls,
        result: AgreementMatrix,
        *,
        names: Sequence[Any] | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw what `pa_select.agreement_matrix` returns.

        Parameters
        ----------
        result : AgreementMatrix
            The agreements.
        names
            As in the class.
        ax, **kwargs
            As in `plot`.
        """
        pyplot()
        from pa_select.agreement import AgreementMatrix

        check_kind(result, AgreementMatrix)
        display = cls(scores=result.scores, worst_pair=result.worst_pair, names=names)
        return display.plot(ax, **kwargs)

    def _figsize(self) -> tuple[float, float]:
        side = max(4.0, 0.52 * len(self.scores))
        # Names of up to 2.5 inches fit beside the cells.
        beside = max(self._width(self.names or ()) - 2.5, 0)
        return side + 1.6 + beside, side + 0.6 + beside

    def _draw(self, ax: Axes, **kwargs: Any) -> None:
        scores = np.asarray(self.scores, dtype=np.float64)
        between = np.ma.masked_array(scores, mask=np.eye(len(scores), dtype=bool))
        low, high = float(between.min()), float(between.max())
        if low == high:  # two samples
            low, high = min(0.0, low), max(0.0, high)
        style: dict[str, Any] = {"cmap": "cividis", "vmin": low, "vmax": high}
        self.image_ = ax.imshow(between, **style | kwargs)

    def _cell(self, ax: Any) -> float:
        """Return the size of a cell in points; the layout at drawing time changes it little."""
        inches = float(np.min(ax.figure.get_size_inches() * ax.get_position().size))
        return inches * 72 / len(self.scores)

    def _write(self, ax: Axes, form: str, style: dict[str, Any]) -> Array:
        scores = np.asarray(self.scores, dtype=np.float64)
        texts = np.array([[format(value, form) for value in row] for row in scores])
        longest = np.char.str_len(texts).max()
        size = np.clip(self._cell(ax) / (0.7 * longest), 4, pyplot().rcParams["font.size"])
        written = self._write_texts(ax, scores, texts, {"fontsize": float(size)} | style)
        for text in [] if "color" in style else np.diag(written):
            text.set_color(text_colour(ax))
        return written

    def _label(self, ax: Axes, form: str) -> None:
        names = self._names(self.names, len(self.scores))
        wide = 1.2 * 72 * self._width(names) > self._cell(ax)
        ax.set_xticks(range(len(names)), names, **SLANTED if wide else {})
        ax.set_yticks(range(len(names)), names)
        ax.set(xlabel="sample", ylabel="sample")
        self.worst_ = self._frame(ax, self.worst_pair, form) if self.worst_pair else []

    def _frame(self, ax: Axes, pair: tuple[int, int], form: str) -> list[Any]:
        """Frame the worst pair in white with black edges, visible on any colour."""
        from matplotlib.patches import Rectangle
        from matplotlib.patheffects import Normal, Stroke

        i, j = pair
        worst = f"worst pair: {format(np.asarray(self.scores)[i, j], form)}"
        frames = []
        for row, column, label in ((i, j, worst), (j, i, None)):
            corner = column - 0.46, row - 0.46
            frame = Rectangle(corner, 0.92, 0.92, fill=False, ec="white", lw=1.5, label=label)
            frame.set_path_effects([Stroke(linewidth=4, foreground="black"), Normal()])
            frames.append(ax.add_patch(frame))
        self._legend(ax, frames[:1], handlelength=1, handleheight=1)
        return frames


@dataclass(eq=False, repr=False, kw_only=True)
class RankCorrelationDisplay(HeatMapDisplay):
    """Kendall's tau of every measure with every gap as a heat map.

    Create it with `from_result`. Correlations whose adjusted p-value is below 0.05 are written in
    bold with a star. Keywords of `plot` go to ``ax.imshow``.

    Parameters
    ----------
    tau : array-like of shape (n_measures, n_gaps)
        The correlations; nan leaves a cell empty.
    measures, gaps : sequence of str
        Names of the rows and of the columns.
    p_value : array-like of shape (n_measures, n_gaps), default=None
        P-values that decide which correlations are marked. None: no marks.

    Attributes
    ----------
    image_, colorbar_ : matplotlib AxesImage; Colorbar or None
        The heat map, with colours from -1 to 1.
    texts_ : ndarray of shape (n_measures, n_gaps) of matplotlib Text, or None
        The values in the cells.
    ax_, figure_ : matplotlib Axes, Figure

    References
    ----------
    .. [1] "Benchmarking Robustness Measures", figures 7 to 12.

    Examples
    --------
    >>> import numpy as np
    >>> from papers.measures import rank_correlation
    >>> from pa_select.plotting import RankCorrelationDisplay
    >>> rng = np.random.default_rng(0)
    >>> loss = rng.normal(size=40)
    >>> measures = {"good": rng.normal(size=40) - 2 * loss, "useless": rng.normal(size=40)}
    >>> correlation = rank_correlation(measures, {"accuracy drop": loss})
    >>> display = RankCorrelationDisplay.from_result(correlation)
    >>> [text.get_text() for text in display.texts_[:, 0]]
    ['-0.66*', '0.09']
    """

    tau: Matrix
    measures: Sequence[Any]
    gaps: Sequence[Any]
    p_value: Matrix | None = None

    _shapes = dict.fromkeys(("tau", "p_value"), ("measures", "gaps"))
    _bar = {"label": "Kendall's $\\tau$"}

    @classmethod
    def from_result(
        cls, result: RankCorrelation, *, ax: Axes | None = None, **kwargs: Any
    ) -> Self:
        """Draw what `papers.measures.rank_correlation` returns.

        Parameters
        ----------
        result : RankCorrelation
            The correlations.
        ax, **kwargs
            As in `plot`.
        """
        pyplot()
        from papers.measures import RankCorrelation

        check_kind(result, RankCorrelation)
        shown = {name: getattr(result, name) for name in ("tau", "measures", "gaps")}
        return cls(**shown, p_value=result.p_adjusted).plot(ax, **kwargs)

    def _figsize(self) -> tuple[float, float]:
        # Beside and below the cells: the colour bar, names, the slanted names of the gaps.
        width = max(0.65 * len(self.gaps), 1.3) + self._width(self.measures) + 1.7
        return width, max(0.3 * len(self.measures), 1.2) + 0.7 * self._width(self.gaps) + 0.8

    def _draw(self, ax: Axes, **kwargs: Any) -> None:
        tau = np.ma.masked_invalid(np.asarray(self.tau, dtype=np.float64))
        style: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -1, "vmax": 1, "aspect": "auto"}
        self.image_ = ax.imshow(tau, **style | kwargs)

    def _write(self, ax: Axes, form: str, style: dict[str, Any]) -> Array:
        tau = np.asarray(self.tau, dtype=np.float64)
        p_value = np.ones(tau.shape) if self.p_value is None else np.asarray(self.p_value)
        marked = p_value < _LEVEL
        texts = np.full(tau.shape, "", dtype=object)
        for cell in zip(*np.nonzero(~np.isnan(tau)), strict=True):
            text = format(tau[cell], form)
            text = text if text.strip("-0.%") else text.lstrip("-")  # no zero is negative
            texts[cell] = text + "*" * int(marked[cell])
        written = self._write_texts(ax, tau, texts, style)
        for text in [] if "fontweight" in style else written[marked]:
            text.set_fontweight("bold")
        return written

    def _label(self, ax: Axes, form: str) -> None:
        ax.set_xticks(range(len(self.gaps)), [str(gap) for gap in self.gaps], **SLANTED)
        ax.set_yticks(range(len(self.measures)), [str(measure) for measure in self.measures])
        ax.set(xlabel="gap", ylabel="measure")
        if self.texts_ is not None and self.p_value is not None:
            label = f"adjusted p < {_LEVEL:g}"
            style = {"marker": "*", "color": text_colour(ax), "linestyle": "none", "label": label}
            self._legend(ax, [pyplot().Line2D([], [], **style)], handlelength=1)
