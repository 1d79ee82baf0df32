"""A heat map of the agreement of every two samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pa_select.plotting.axes import AGREEMENT, axes_for, ink, legend_above, pyplot

if TYPE_CHECKING:
    from pa_select.agreement import AgreementMatrix


class AgreementMatrixDisplay:
    """Agreement of every two samples as a heat map, with a frame around the worst pair.

    Create it with `from_matrix`. A sample's agreement with itself, on the diagonal, is written
    but not coloured.

    Parameters
    ----------
    scores : array-like of shape (M, M)
        Agreement of samples i and j, in nats per pair.
    worst_pair : tuple of int, default=None
        The samples with the lowest agreement.
    names : sequence of M str, default=None
        Names of the samples. None: their numbers.
    kind : str, default="sample"
        What each row and each column stands for, for example "environment" or "model"; the
        label of both axes.

    Attributes
    ----------
    image_ : matplotlib AxesImage
        The heat map; its diagonal is masked.
    texts_ : ndarray of shape (M, M) of matplotlib Text, or None
        The values in the cells.
    worst_ : list of matplotlib Rectangle
        The frames of the worst pair, in both orders.
    colorbar_ : matplotlib Colorbar or None
    ax_, figure_ : matplotlib Axes, Figure

    See Also
    --------
    pa_select.agreement_matrix : Computes the numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select import agreement_matrix
    >>> from pa_select.plotting import AgreementMatrixDisplay
    >>> rng = np.random.default_rng(0)
    >>> signal = 3 * rng.normal(size=(300, 3))
    >>> samples = [signal + noise * rng.normal(size=(300, 3)) for noise in (0.1, 0.2, 2.0)]
    >>> display = AgreementMatrixDisplay.from_matrix(
    ...     agreement_matrix(samples), names=["day", "dusk", "night"], kind="environment"
    ... )
    >>> display.texts_[0, 1].get_text()
    '1.04'
    """

    def __init__(
        self,
        *,
        scores: Any,
        worst_pair: tuple[int, int] | None = None,
        names: Sequence[Any] | None = None,
        kind: str = "sample",
    ) -> None:
        self.scores = scores
        self.worst_pair = worst_pair
        self.names = names
        self.kind = kind

    @classmethod
    def from_matrix(
        cls,
        matrix: AgreementMatrix,
        *,
        names: Sequence[Any] | None = None,
        kind: str = "sample",
        ax: Any = None,
        **kwargs: Any,
    ) -> AgreementMatrixDisplay:
        """Draw what `pa_select.agreement_matrix` returns.

        Parameters
        ----------
        matrix : AgreementMatrix
            The agreements.
        names : sequence of M str, default=None
            Names of the samples. None: their numbers.
        kind : str, default="sample"
            What each row and each column stands for; the label of both axes.
        ax : matplotlib Axes, default=None
            Axes to draw in. None: those of a new figure.
        **kwargs : dict
            Passed on to `plot`.

        Returns
        -------
        AgreementMatrixDisplay

        Raises
        ------
        TypeError, ValueError
            If `matrix` is not an AgreementMatrix, or there is not one name for each sample.
        """
        pyplot()
        if not hasattr(matrix, "worst_pair"):
            raise TypeError(f"matrix: expected an AgreementMatrix, got {type(matrix).__name__}.")
        display = cls(scores=matrix.scores, worst_pair=matrix.worst_pair, names=names, kind=kind)
        return display.plot(ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        include_values: bool = True,
        values_format: str = ".2f",
        cmap: Any = "cividis",
        colorbar: bool = True,
        im_kw: dict[str, Any] | None = None,
        text_kw: dict[str, Any] | None = None,
    ) -> AgreementMatrixDisplay:
        """Draw the heat map.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw in. None: those of a new figure, larger for many samples.
        include_values : bool, default=True
            Whether to write the values into the cells.
        values_format : str, default=".2f"
            Format of the values.
        cmap : str or matplotlib Colormap, default="cividis"
            The colour map; by default one of evenly growing brightness.
        colorbar : bool, default=True
            Whether to draw a colour bar.
        im_kw, text_kw : dict, default=None
            Passed on to ``ax.imshow`` and to the values' ``ax.text``. To draw several
            matrices on one scale, give vmin and vmax in ``im_kw``.

        Returns
        -------
        AgreementMatrixDisplay
            This display.

        Raises
        ------
        ValueError
            If there is not one name for each sample.
        """
        scores = np.asarray(self.scores, dtype=np.float64)
        n = len(scores)
        names = [str(name) for name in (range(n) if self.names is None else self.names)]
        if len(names) != n:
            raise ValueError(f"names: expected one for each of {n} samples, got {len(names)}.")
        side = max(4.0, 0.52 * n)
        ax = axes_for(ax, figsize=(side + 1.6, side + 0.6))
        between = np.ma.masked_array(scores, mask=np.eye(n, dtype=bool))
        low, high = float(between.min()), float(between.max())
        if low == high:  # two samples
            low, high = min(0.0, low), max(0.0, high)
        style = {"cmap": cmap, "vmin": low, "vmax": high} | (im_kw or {})
        self.image_ = ax.imshow(between, **style)
        self.colorbar_ = None
        if colorbar:
            self.colorbar_ = ax.figure.colorbar(
                self.image_, ax=ax, label=AGREEMENT, fraction=0.046, pad=0.04
            )
        # Size of a cell in points; the layout at drawing time changes it little.
        cell = float(np.min(ax.figure.get_size_inches() * ax.get_position().size)) * 72 / n
        self.texts_ = None
        if include_values:
            self.texts_ = self._write(ax, scores, cell, values_format, text_kw or {})
        self.worst_ = []
        if self.worst_pair is not None:
            self.worst_ = self._frame(ax, values_format)
        upright = max(map(len, names)) * 0.7 * pyplot().rcParams["font.size"] > cell
        ax.set_xticks(range(n), names, rotation=45 if upright else 0)
        if upright:
            for label in ax.get_xticklabels():
                label.set(ha="right", rotation_mode="anchor")
        ax.set_yticks(range(n), names)
        ax.set(xlabel=self.kind, ylabel=self.kind)
        ax.tick_params(length=0)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _write(self, ax: Any, scores: Any, cell: float, form: str, style: dict[str, Any]) -> Any:
        """Write the values, as large as cells allow, in black or white for contrast."""
        written = [[format(value, form) for value in row] for row in scores]
        longest = max(len(text) for row in written for text in row)
        size = float(np.clip(cell / (0.7 * longest), 4, pyplot().rcParams["font.size"]))
        texts = np.empty(scores.shape, dtype=object)
        for (i, j), value in np.ndenumerate(scores):
            if i == j:
                colour = ink(ax)
            else:
                red, green, blue, _ = self.image_.cmap(self.image_.norm(value))
                bright = 0.299 * red + 0.587 * green + 0.114 * blue > 0.5
                colour = "black" if bright else "white"
            own = {"ha": "center", "va": "center", "color": colour, "fontsize": size}
            texts[i, j] = ax.text(j, i, written[i][j], **own | style)
        return texts

    def _frame(self, ax: Any, form: str) -> list[Any]:
        """Frame the worst pair in white with black edges, visible on any colour."""
        from matplotlib.patches import Rectangle
        from matplotlib.patheffects import Normal, Stroke

        assert self.worst_pair is not None
        i, j = self.worst_pair
        frames = []
        worst = f"worst pair: {format(self.scores[i][j], form)}"
        for row, column, label in ((i, j, worst), (j, i, None)):
            frame = Rectangle(
                (column - 0.46, row - 0.46),
                0.92,
                0.92,
                fill=False,
                ec="white",
                lw=1.5,
                label=label,
            )
            frame.set_path_effects([Stroke(linewidth=4, foreground="black"), Normal()])
            frames.append(ax.add_patch(frame))
        legend_above(ax, frames[:1], handlelength=1, handleheight=1)
        return frames
