"""Plots of the agreement and accuracy of a training, epoch by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from pa_select.plotting.axes import AGREEMENT, DOTTED, Display, pyplot, style_of
from pa_select.utils.typing import Axes, Ints, Line, Net, Vector

_WORDS = {
    "pa_uniform": "agreement, uniform prior",
    "valid_acc": "validation accuracy",
    "train_acc": "training accuracy",
}


@dataclass(eq=False, repr=False, kw_only=True)
class EpochsDisplay(Display):
    """Agreement and accuracy against the epoch of a training, with the kept epoch marked.

    Create it with `from_result`. Agreement has the left axis, other scores have the right one.
    Keywords of `plot` go to the agreement's ``ax.plot``.

    Parameters
    ----------
    epochs : array-like of shape (n_epochs,)
        Numbers of the epochs.
    agreement : array-like of shape (n_epochs,)
        Agreement, in nats per pair; nan if an epoch was not scored.
    scores : dict of str to array-like of shape (n_epochs,), default=None
        Other scores, by name.
    kept : int, default=None
        Number of the epoch kept. A guard may exclude the epoch of the highest agreement.

    Attributes
    ----------
    line_, kept_ : matplotlib Line2D; Line2D or None
        The agreement, and the mark of the kept epoch.
    lines_ : dict of str to matplotlib Line2D
        The other scores.
    ax_, figure_, ax_right_ : matplotlib Axes, Figure; Axes or None
        The left axes, their figure, and the right axes.

    Examples
    --------
    >>> from pa_select.plotting import EpochsDisplay
    >>> history = [
    ...     {"epoch": 1, "pa": 0.2, "pa_kept": 1, "valid_acc": 0.6},
    ...     {"epoch": 2, "pa": 0.5, "pa_kept": 2, "valid_acc": 0.8},
    ...     {"epoch": 3, "pa": 0.4, "pa_kept": 2, "valid_acc": 0.8},
    ... ]
    >>> display = EpochsDisplay.from_result(history)
    >>> display.kept, display.ax_.get_ylabel(), display.ax_right_.get_ylabel()
    (2, 'agreement (nats per pair)', 'validation accuracy')
    """

    epochs: Sequence[int] | Ints
    agreement: Vector
    scores: Mapping[str, Any] | None = None
    kept: int | None = None

    @classmethod
    def from_result(
        cls,
        result: Net | Sequence[Mapping[str, Any]],
        *,
        columns: Sequence[str] = ("pa", "valid_acc"),
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the history of a training.

        Parameters
        ----------
        result : skorch net, skorch History or list of dict
            A net with `pa_select.PAScoring` or `pa_select.PAEarlyStopping`, its history, or a
            dict for each epoch. The kept epoch is the last entry of the column "pa_kept".
        columns : sequence of str, default=("pa", "valid_acc")
            Columns of the history: the agreement, then other scores. Those that were not recorded
            are left out.
        ax, **kwargs
            As in `plot`.
        """
        pyplot()
        rows = getattr(result, "history", result)
        # A callback records nothing of an epoch that it does not score, or that was interrupted.
        recorded = set().union(*rows)
        scores = {
            column: np.array([row.get(column, np.nan) for row in rows], dtype=np.float64)
            for column in columns
            if column in recorded
        }
        epochs = [row.get("epoch", number) for number, row in enumerate(rows, 1)]
        agreement = scores.pop(columns[0])
        kept = [row[f"{columns[0]}_kept"] for row in rows if f"{columns[0]}_kept" in row]
        shown: dict[str, Any] = {"epochs": np.array(epochs), "agreement": agreement}
        shown["kept"] = kept[-1] if kept else None
        return cls(**shown, scores=scores).plot(ax, **kwargs)

    def _draw(self, ax: Any, **kwargs: Any) -> None:
        self.line_ = self._draw_line(ax, self.agreement, "agreement", 0, **kwargs)
        self.ax_right_: Any = ax.twinx() if self.scores else None
        # The axes that are drawn last: no line covers their legend and their mark.
        top = self.ax_right_ or ax
        self.lines_ = {
            column: self._draw_line(top, values, _WORDS.get(column, column), i)
            for i, (column, values) in enumerate((self.scores or {}).items(), 1)
        }
        self.kept_ = self._mark_kept(ax, top)
        ax.set(xlabel="epoch", ylabel=AGREEMENT)
        ax.xaxis.get_major_locator().set_params(integer=True)
        if self.lines_:
            only, *others = self.lines_
            top.set_ylabel("score" if others else _WORDS.get(only, only))
        if self.lines_ or self.kept_:
            self._legend(top, [self.line_, *self.lines_.values(), self.kept_])

    def _draw_line(self, ax: Axes, values: Vector, label: str, number: int, **kwargs: Any) -> Line:
        known = np.isfinite(values)
        style = style_of(number).of_line | {"markersize": 4, "label": label} | kwargs
        x, y = np.asarray(self.epochs)[known], np.asarray(values)[known]
        return ax.plot(x, y, **style)[0]

    def _mark_kept(self, ax: Axes, top: Axes) -> Line | None:
        """Mark the kept epoch on the line of the agreement, and with a vertical line."""
        if self.kept is None or self.kept not in self.epochs:
            return None
        ax.axvline(self.kept, **DOTTED)
        y = np.asarray(self.agreement)[np.asarray(self.epochs) == self.kept]
        style = {"color": self.line_.get_color(), "transform": ax.transData, "zorder": 4}
        return self._mark(top, [self.kept], y, "*", label=f"kept, epoch {self.kept}", **style)
