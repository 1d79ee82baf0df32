"""Plots of the agreement and accuracy of a training, epoch by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pa_select.plotting.axes import (
    AGREEMENT,
    GREY,
    STAR,
    axes_for,
    ink,
    legend_above,
    look,
    mark_as,
    n_drawn,
    pyplot,
)

_KIND = "epochs"
_WORDS = {
    "pa_uniform": "agreement, uniform prior",
    "valid_acc": "validation accuracy",
    "train_acc": "training accuracy",
}


class EpochsDisplay:
    """Agreement and accuracy against the epoch of a training, with the kept epoch marked.

    Create it with `from_history`. Agreement has the left axis, other scores have the right
    one. Several trainings may share their axes.

    Parameters
    ----------
    epochs : array-like of shape (n_epochs,)
        Numbers of the epochs.
    agreement : array-like of shape (n_epochs,)
        Agreement, in nats per pair; nan if an epoch was not scored.
    scores : dict of str to array-like of shape (n_epochs,), default=None
        Other scores, by name.
    kept : int, default=None
        Number of the epoch kept.
    name : str, default=None
        Name of the training in the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The agreement.
    lines_ : dict of str to matplotlib Line2D
        The other scores.
    kept_ : matplotlib Line2D or None
        The mark of the kept epoch.
    ax_, figure_ : matplotlib Axes, Figure
        The left axes, and their figure.
    ax_right_ : matplotlib Axes or None
        The right axes.

    See Also
    --------
    pa_select.PAScoring, pa_select.PAEarlyStopping : The callbacks that record agreement.

    Examples
    --------
    >>> from pa_select.plotting import EpochsDisplay
    >>> history = [
    ...     {"epoch": 1, "pa": 0.2, "pa_best": True, "valid_acc": 0.6},
    ...     {"epoch": 2, "pa": 0.5, "pa_best": True, "valid_acc": 0.8},
    ...     {"epoch": 3, "pa": 0.4, "pa_best": False, "valid_acc": 0.8},
    ... ]
    >>> display = EpochsDisplay.from_history(history)
    >>> display.kept, display.ax_.get_ylabel(), display.ax_right_.get_ylabel()
    (2, 'agreement (nats per pair)', 'validation accuracy')
    """

    def __init__(
        self,
        *,
        epochs: Any,
        agreement: Any,
        scores: Mapping[str, Any] | None = None,
        kept: int | None = None,
        name: str | None = None,
    ) -> None:
        self.epochs = epochs
        self.agreement = agreement
        self.scores = scores
        self.kept = kept
        self.name = name

    @classmethod
    def from_history(
        cls,
        net_or_history: Any,
        *,
        names: Sequence[str] = ("pa", "valid_acc"),
        ax: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> EpochsDisplay:
        """Draw the history of a training.

        Parameters
        ----------
        net_or_history : skorch net, skorch History or list of dict
            A net with `pa_select.PAScoring` or `pa_select.PAEarlyStopping`, its history, or a
            dict for each epoch. The kept epoch is that of the net's callback. For a history
            alone it is the last one for which the column "pa_best" is true.
        names : sequence of str, default=("pa", "valid_acc")
            Columns: that of the agreement, then those of other scores. "valid_acc" is left
            out if it was not recorded.
        ax : matplotlib Axes, default=None
            Axes to draw in, best of a figure with ``layout="constrained"``, which makes room
            for the legend and for the labels on the right. None: those of a new figure.
        name : str, default=None
            Name of the training in the legend.
        **kwargs : dict
            Passed on to the agreement's ``ax.plot``.

        Returns
        -------
        EpochsDisplay

        Raises
        ------
        TypeError, ValueError
            If the history is of another type, has no epoch, or lacks a column.
        """
        pyplot()
        rows = list(_rows(net_or_history))
        if isinstance(names, str) or not names:
            raise ValueError(f"names: expected columns of the history, got {names!r}.")
        recorded = set(rows[0]).union(*rows)
        for column in names:
            if column not in recorded and (column != "valid_acc" or column == names[0]):
                known = sorted(key for key in recorded if key != "batches")
                raise ValueError(f"names: expected columns among {known}, got {column!r}.")
        columns = {
            column: np.array([row.get(column, np.nan) for row in rows], dtype=np.float64)
            for column in names
            if column in recorded
        }
        epochs = [row.get("epoch", number) for number, row in enumerate(rows, 1)]
        agreement = columns.pop(names[0])
        kept = _kept(net_or_history, names[0])
        if kept is None:
            best = [e for e, row in zip(epochs, rows, strict=True) if row.get(f"{names[0]}_best")]
            kept = best[-1] if best else None
        display = cls(
            epochs=np.array(epochs), agreement=agreement, scores=columns, kept=kept, name=name
        )
        return display.plot(ax, **kwargs)

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> EpochsDisplay:
        """Draw the training.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw in, best of a figure with ``layout="constrained"``, which makes room
            for the legend and for the labels on the right. None: those of a new figure.
        name : str, default=None
            Name of the training in the legend. None: the display's own name.
        **kwargs : dict
            Passed on to the agreement's ``ax.plot``.

        Returns
        -------
        EpochsDisplay
            This display.
        """
        ax = axes_for(ax)
        name = self.name if name is None else name
        prefix = "" if name is None else f"{name}: "
        self.ax_right_ = getattr(ax, "_pa_select_right", None)
        if self.scores and self.ax_right_ is None:
            # Trainings that share the left axes also share the right axes.
            self.ax_right_ = ax._pa_select_right = ax.twinx()
        used = sum(n_drawn(axes, _KIND) for axes in (ax, self.ax_right_) if axes is not None)
        self.line_ = self._draw(ax, self.agreement, f"{prefix}agreement", used, **kwargs)
        self.lines_ = {}
        for i, (column, values) in enumerate((self.scores or {}).items(), used + 1):
            label = f"{prefix}{_WORDS.get(column, column)}"
            self.lines_[column] = self._draw(self.ax_right_, values, label, i)
        self.kept_ = self._mark(ax, prefix)
        ax.set(xlabel="epoch", ylabel=AGREEMENT)
        ax.xaxis.get_major_locator().set_params(integer=True)
        self._label_right()
        self._legend(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw(self, ax: Any, values: Any, label: str, number: int, **kwargs: Any) -> Any:
        known = np.isfinite(values)
        own = look(number)._asdict() | {"markersize": 4, "label": label}
        del own["hatch"]
        (line,) = ax.plot(
            np.asarray(self.epochs)[known], np.asarray(values)[known], **own | kwargs
        )
        return mark_as(line, _KIND)

    def _mark(self, ax: Any, prefix: str) -> Any:
        """Mark the kept epoch on the line of the agreement, and with a vertical line."""
        if self.kept is None or self.kept not in self.epochs:
            return None
        ax.axvline(self.kept, color=GREY, lw=1, ls=(0, (1, 2)), zorder=0)
        at = np.flatnonzero(np.asarray(self.epochs) == self.kept)
        # Draw in the upper axes, so that none of their lines covers the mark.
        top = ax if self.ax_right_ is None else self.ax_right_
        (mark,) = top.plot(
            [self.kept],
            np.asarray(self.agreement)[at],
            transform=ax.transData,
            color=self.line_.get_color(),
            markeredgecolor=ink(ax),
            label=f"{prefix}kept, epoch {self.kept}",
            zorder=4,
            **STAR,
        )
        return mark

    def _label_right(self) -> None:
        if not self.lines_:
            return
        assert self.ax_right_ is not None
        columns = list(self.lines_)
        alone = len(columns) == 1
        self.ax_right_.set_ylabel(_WORDS.get(columns[0], columns[0]) if alone else "score")

    def _legend(self, ax: Any) -> None:
        """Draw a legend of both axes, above them so that it hides no line."""
        top = ax if self.ax_right_ is None else self.ax_right_
        lines = [*ax.lines, *(top.lines if top is not ax else ())]
        handles = [line for line in lines if not line.get_label().startswith("_")]
        handles.sort(key=lambda line: getattr(line, "_pa_select_kind", None) != _KIND)
        if len(handles) > 1:
            legend_above(top, handles)


def _rows(net_or_history: Any) -> Any:
    history = getattr(net_or_history, "history", net_or_history)
    if not isinstance(history, Sequence) or not all(isinstance(row, Mapping) for row in history):
        raise TypeError(
            "net_or_history: expected a skorch net, its history or a list of dicts, got "
            f"{type(net_or_history).__name__}."
        )
    if not history:
        raise ValueError("net_or_history: expected at least one epoch, got none.")
    return history


def _kept(net: Any, column: str) -> int | None:
    """Return the epoch that the callback of a net keeps, or None."""
    for _, callback in getattr(net, "callbacks_", ()):
        selector = getattr(callback, "selector_", None)
        if getattr(callback, "name", None) == column and selector is not None:
            epoch: int | None = selector.best_epoch
            return epoch
    return None
