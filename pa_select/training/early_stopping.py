"""The skorch callback that stops early and keeps the epoch of the best agreement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
from skorch.callbacks import Callback, TrainEndCheckpoint

from pa_select.training.epoch_scoring import PAScoring
from pa_select.training.epoch_selector import EpochSelector
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Net


@dataclass(eq=False, repr=False, kw_only=True)
class PAEarlyStopping(PAScoring):
    """Stop when the agreement no longer improves, and keep the epoch where it was best.

    It records the columns of `PAScoring`. The state of the best epoch is kept on the CPU and
    restored when training ends, also after Ctrl-C. The untrained module is not a candidate.

    Parameters
    ----------
    environments, pairing, prior, every, name, device, tol, uniform
        As in `PAScoring`.
    patience, min_delta, min_epochs
        As in `EpochSelector`, for the epochs that are scored.
    load_best : bool, default=True
        Whether to restore the best epoch's module at the end.
    guard : str or None, default="auto"
        Column of the history with a validation accuracy. The epoch kept then has the best
        agreement among the epochs within one standard error of the best accuracy so far.
        "auto": "valid_acc" if the net records it. None: no guard.
    sink : callable, default=print
        Called with a message when training stops and when a module is restored; print only
        if the net is verbose.

    Attributes
    ----------
    best_epoch_, best_score_, best_state_ : int, float, dict
        The epoch kept, its agreement in nats per pair and the module's state (not
        pickled).
    stopped_epoch_ : int or None
        The epoch at which training was stopped.

    Notes
    -----
    With ``partial_fit`` or ``warm_start`` training continues from the best epoch's weights and
    the last epoch's optimiser. After a crash run the same script again: it continues from a
    checkpoint, for `max_epochs` more epochs, if skorch's callbacks come after this one::

        checkpoint = Checkpoint(monitor="pa_best", dirname="run")
        callbacks = [("pa", stopping), checkpoint, LoadInitState(checkpoint)]

    The checkpoint has the last epoch that was the best when it ended. If the guard has gone back
    to an earlier one (``pa_kept``), a crash loses that. All callbacks process the last epoch
    before training stops.

    Expect an earlier epoch than with early stopping on validation accuracy, with a lower
    accuracy in the old environment; the documentation has the figures. With the uniform prior
    epochs of a constant net may be kept.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> from skorch import NeuralNetClassifier
    >>> from pa_select import PAEarlyStopping
    >>> X, y = load_iris(return_X_y=True)
    >>> X = scale(X).astype("float32")
    >>> noisy = X + np.float32(np.random.default_rng(0).normal(0, 0.3, X.shape))
    >>> _ = torch.manual_seed(0)
    >>> net = NeuralNetClassifier(
    ...     lambda: torch.nn.Linear(4, 3),
    ...     criterion=torch.nn.CrossEntropyLoss,
    ...     callbacks=[("pa", PAEarlyStopping((X, noisy), patience=3))],
    ...     max_epochs=50,
    ...     lr=0.1,
    ...     verbose=0,
    ... ).fit(X, y)
    >>> stopping = dict(net.callbacks_)["pa"]
    >>> net.history[stopping.best_epoch_ - 1, "pa"] == stopping.best_score_
    True
    """

    patience: int = 10
    min_delta: float = 0.0
    load_best: bool = True
    min_epochs: int = 1
    guard: str | None = "auto"
    sink: Callable[[str], object] = print

    def initialize(self) -> PAEarlyStopping:
        """Forget all epochs."""
        super().initialize()
        self.stopped_epoch_: int | None = None
        return self

    def __getstate__(self) -> dict[str, Any]:
        # The net that is pickled with this callback holds its module once already.
        state = super().__getstate__()
        if state.get("selector_") is not None:
            state["selector_"] = state["selector_"]._without_states()
        return state

    @property
    def best_epoch_(self) -> int | None:
        """The epoch kept."""
        return None if self.selector_ is None else self.selector_.best_epoch

    @property
    def best_score_(self) -> float | None:
        """Agreement of the epoch kept, in nats per pair."""
        return None if self.selector_ is None else self.selector_.best_score

    @property
    def best_state_(self) -> dict[str, Any] | None:
        """State of the module in the epoch kept, on the CPU."""
        return None if self.selector_ is None else self.selector_._best_state()

    def on_train_begin(self, net: Net, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Check and pair the environments, and stop after all other callbacks."""
        super().on_train_begin(net, X=X, y=y, **kwargs)
        # Only the callbacks themselves know whether a lower value of their column is better.
        losses = [
            getattr(other, "name_", getattr(other, "name", ""))
            for _, other in net.callbacks_
            if getattr(other, "lower_is_better", False)
        ]
        if self.guard in losses:
            raise ValueError(
                "guard: expected a column in which higher is better, such as 'valid_acc', got "
                f"{self.guard!r}."
            )
        self._warn_of_order(net)
        self.stopped_epoch_ = None
        # The callback that stops training comes last, so that all others process the epoch.
        others = [item for item in net.callbacks_ if not self._is_my_stop(item[1])]
        net.callbacks_ = [*others, (f"{self.name}_stop", _Stop(self))]

    def _warn_of_order(self, net: Net) -> None:
        """Warn of callbacks that store the module too early, or restore another epoch later."""
        if not self.load_best:
            return
        before = list(takewhile(lambda item: item[1] is not self, net.callbacks_))
        for name, other in net.callbacks_[len(before) + 1 :]:
            if getattr(other, "load_best", False):
                warn_caller(
                    f"callbacks: expected {type(self).__name__} after {type(other).__name__} "
                    f"({name!r}), which has load_best=True, too, got it before: at the end the "
                    f"module may be that of the best epoch of {name!r}. Put {name!r} first, or "
                    "set load_best=False in one of the two."
                )
        for name, other in before:
            if isinstance(other, TrainEndCheckpoint):
                warn_caller(
                    f"callbacks: expected {type(self).__name__} before {type(other).__name__} "
                    f"({name!r}), got it after: the checkpoint stores the last epoch, since the "
                    "best one is restored afterwards. Put the checkpoint behind it."
                )

    def on_epoch_end(
        self, net: Net, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any
    ) -> None:
        """Score the epoch, record it, and keep it if it is the best."""
        # An error skips `on_train_end`; the best epoch so far must survive it.
        try:
            super().on_epoch_end(net, dataset_train, dataset_valid, **kwargs)
        except Exception:
            self._restore(net)
            raise
        if self.stopped_epoch_ is None and self.selector_.should_stop:
            self.stopped_epoch_ = net.history[-1, "epoch"]
            self._say(
                net,
                f"Stopping since {self.name} has not improved in the last {self.patience} "
                "scored epochs.",
            )

    def on_train_end(self, net: Net, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Restore the best epoch's module."""
        net.callbacks_ = [item for item in net.callbacks_ if not self._is_my_stop(item[1])]
        # Nearly every training has early epochs of one class: only the kept one is worth a
        # warning.
        for concern in self.selector_.concerns:
            warn_caller(concern)
        if len(net.history) < max(self.every, self.min_epochs):
            warn_caller(
                f"No epoch was chosen: training ended after {len(net.history)} epochs, before the "
                f"first one that every={self.every} and min_epochs={self.min_epochs} allow."
            )
        if self._restore(net):
            self._say(net, f"Restoring the module of epoch {self.best_epoch_}.")

    def _selector(self) -> EpochSelector:
        return EpochSelector(
            prior=self.prior,
            patience=self.patience,
            min_delta=self.min_delta,
            min_epochs=self.min_epochs,
            keep_state=self.load_best,
            device=self.device,
            tol=self.tol,
        )

    def _start(self, net: Net) -> None:
        """Continue from the best epoch."""
        super()._start(net)
        # The last training, or the checkpoint, left the best epoch's weights in the module.
        self.selector_._go_on(net.module_)

    def _guard(self, row: Any) -> tuple[float | None, float]:
        """Return the validation accuracy of an epoch and its standard error."""
        if self.guard is None:
            return None, 0.0
        column = "valid_acc" if self.guard == "auto" else self.guard
        value = row.get(column)
        n = sum(batch.get("valid_batch_size", 0) for batch in row["batches"])
        if value is None:
            # A net without validation rows, or with callbacks of its own, has no accuracy to guard
            # by.
            if self.guard == "auto":
                return None, 0.0
            why = " The callback that records it must come before this one in callbacks."
            if not n:
                why = " The net has no validation rows (train_split=None)."
            raise ValueError(
                f"guard: expected a column of the history, one of {sorted(row)}, got {column!r}."
                + why
            )
        share, size = float(value), float(n)
        if share in (0, 1):
            # The usual formula gives 0, so that one wrong row would exclude an epoch. With two
            # successes and two failures added, one wrong row of 13 or more does not.
            share, size = (share * n + 2) / (n + 4), size + 4
        spread = max(share * (1 - share), 0.0)
        return float(value), float(np.sqrt(spread / size)) if n else 0.0

    def _restore(self, net: Net) -> bool:
        """Load the best epoch's state; return whether it is another epoch than the last one."""
        if not self.load_best or self.best_state_ is None or not len(net.history):
            return False
        # Also if it is the last epoch's: a callback before may have restored another one.
        net.module_.load_state_dict(self.best_state_)
        return bool(self.best_epoch_ != net.history[-1, "epoch"])

    def _is_my_stop(self, callback: object) -> bool:
        return isinstance(callback, _Stop) and callback.of is self

    def _say(self, net: Net, text: str) -> None:
        # A function of the user hears everything; only print follows the verbosity, as in skorch.
        if self.sink is not print or net.verbose:
            self.sink(text)


class _Stop(Callback):
    """End training after all other callbacks, once the owner has a stopped epoch."""

    def __init__(self, of: PAEarlyStopping) -> None:
        self.of = of

    def on_epoch_end(self, net: Net, **kwargs: Any) -> None:
        if self.of.stopped_epoch_ is not None:
            raise KeyboardInterrupt  # skorch's way to end a training
