"""The skorch callback that scores epochs by agreement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from time import perf_counter
from typing import Any

import numpy as np
import torch
from skorch.callbacks import Callback

from pa_select.agreement.posterior_agreement import agreements
from pa_select.training.epoch_selector import EPOCH_TOL, EpochSelector, refuse_other_prior
from pa_select.training.paired_environments import (
    check_exclusive,
    pair_up,
    scores_on,
)
from pa_select.utils.typing import Device, Net, Prior


@dataclass(eq=False, repr=False)
class PAScoring(Callback):
    """Record the posterior agreement of a net on two or more environments, epoch by epoch.

    At the end of each epoch the net's raw outputs on the environments are compared. The net,
    the random states and the training mode stay unchanged.

    Parameters
    ----------
    environments : tuple or list of two or more
        Arrays, tensors, (X, y) tuples, torch Datasets of ``(row, label)`` items or
        `pa_select.training.SharedEnvironment` (which grid searches do not copy).
    pairing : {"identity", "label"} or callable, default="identity"
        Which rows are compared: "identity", rows in their order (views of the same
        objects); "label", rows of equal label, which the environments then must have; or a
        pairing of two samples, such as `pa_select.pairing.NearestPairing`. The pairs are made
        once.
    prior : {"marginal", "uniform"} or array-like of shape (n_classes,), default="marginal"
        Class prior of `posterior_agreement`.
    every : int, default=1
        Number of epochs from one scored epoch to the next; nan is recorded between them.
    name : str, default="pa"
        Name of the agreement's column in the history, and prefix of the other columns.
    device : {None, "auto", "cpu", "cuda"} or torch.device, default=None
        Where the agreement is computed; None: on the net's device.
    tol : float, default=0.01
        Largest certified gap of an epoch's agreement, in nats, as in `EpochSelector`.
    uniform : bool, default=False
        Whether to record also the agreement with the uniform prior, in the column
        ``pa_uniform``. It is the papers' metric, and is not used to choose epochs. If the
        net is constant, it is high while ``pa`` is near 0. Unless `prior` is "uniform", it
        takes a second maximisation in each scored epoch.

    Notes
    -----
    Columns of ``net.history``: ``pa``, the agreement in nats per pair (the pairs of more
    than two environments are pooled); ``pa_best``, whether this epoch is kept
    now; ``pa_kept``, the number of the epoch kept so far (None if there is none); ``pa_beta``;
    ``pa_agreement_rate``; ``pa_seconds``; with ``uniform=True`` also ``pa_uniform``. skorch's
    callbacks that come later in the list can use the columns: ``Checkpoint(monitor="pa_best")``
    and ``EarlyStopping("pa", lower_is_better=False, threshold_mode="abs")``.

    An epoch whose outputs cannot be compared, for example because the training diverged, has
    nan in these columns and causes a warning; training goes on.

    ``iterator_valid`` must not shuffle, because the pairs depend on the order of the rows.

    Examples
    --------
    >>> import torch
    >>> from sklearn.datasets import load_iris
    >>> from skorch import NeuralNetClassifier
    >>> from pa_select import PAScoring
    >>> X, y = load_iris(return_X_y=True)
    >>> X = X.astype("float32")
    >>> net = NeuralNetClassifier(
    ...     lambda: torch.nn.Linear(4, 3),
    ...     criterion=torch.nn.CrossEntropyLoss,
    ...     callbacks=[PAScoring((X, 1.1 * X))],
    ...     max_epochs=3,
    ...     verbose=0,
    ... )
    >>> history = net.fit(X, y).history
    >>> len(history[:, ("pa", "pa_beta", "pa_agreement_rate", "pa_best")])
    3
    """

    environments: Any
    _: KW_ONLY
    pairing: str | Callable[..., Any] = "identity"
    prior: Prior = "marginal"
    every: int = 1
    name: str = "pa"
    device: Device = None
    tol: float = EPOCH_TOL
    uniform: bool = False

    def initialize(self) -> PAScoring:
        """Forget all epochs."""
        self.selector_: Any = None
        self.paired_: Any = None
        self.started_ = False
        return self

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"paired_": None}  # which the next training makes again

    def on_train_begin(self, net: Net, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Check and pair the environments."""
        self._refuse_same_name(net)
        check_exclusive(net, y)
        self.paired_ = pair_up(net, self.environments, self.pairing, self.prior)
        if len(net.history):
            # `initialize` forgets the selector, for example after ``set_params``.
            refuse_other_prior(getattr(self, "prior_before_", self.prior), self.prior)
        self.prior_before_ = self.prior
        # A history without epochs belongs to a new training, also of the same callback.
        if self.selector_ is None or not len(net.history):
            self.selector_ = self._selector()
        self.started_ = False

    def on_epoch_begin(
        self, net: Net, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any
    ) -> None:
        """Before the first step continue where the history ends."""
        if not self.started_:
            self._start(net)
            self.started_ = True

    def on_epoch_end(
        self, net: Net, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any
    ) -> None:
        """Score the epoch and record it."""
        numbers = ["", "_beta", "_agreement_rate"] + ["_uniform"] * self.uniform
        # All epochs have the same columns, so that the history can be read by columns.
        columns = dict.fromkeys(numbers, np.nan) | {"_best": False, "_seconds": 0.0}
        if net.history[-1, "epoch"] % self.every == 0:
            columns |= self._scored(net)
        columns["_kept"] = self.selector_.best_epoch
        for column, value in columns.items():
            net.history.record(self.name + column, value)

    def _scored(self, net: Net) -> dict[str, Any]:
        """Score the epoch and return its columns."""
        start = perf_counter()
        a, b = self.paired_.gather([scores_on(net, rows) for rows in self.paired_.datasets])
        score, error = self._guard(net.history[-1])
        best = self.selector_.update(
            a,
            b,
            # Only a view: the selector copies the states of epochs that can still be chosen.
            net.module_.state_dict(),
            score=score,
            score_error=error,
            epoch=net.history[-1, "epoch"],
        )
        result = self.selector_.last
        columns = {
            "": result.score,
            "_best": best,
            "_beta": result.beta,
            "_agreement_rate": result.agreement_rate,
        }
        if self.uniform:
            columns["_uniform"] = self._uniform_score(a, b)
        return columns | {"_seconds": perf_counter() - start}

    def _refuse_same_name(self, net: Net) -> None:
        """Raise if another callback writes to the same columns."""
        for _, other in net.callbacks_:
            names = getattr(other, "name", None), getattr(other, "name_", None)
            # Both would write to one column, and the second would win without a word.
            if other is not self and self.name in names:
                raise ValueError(
                    "name: expected a name of its own for each callback, since it names columns "
                    f"of the history, got {self.name!r} for two of them."
                )

    def _selector(self) -> EpochSelector:
        return EpochSelector(prior=self.prior, keep_state=False, device=self.device, tol=self.tol)

    def _start(self, net: Net) -> None:
        """Take over the epochs that are already in the history."""
        # Not when the training begins, because a callback after this one may load the history.
        if self.selector_.epoch:
            return
        for row in net.history:
            agreement = row.get(self.name, np.nan)
            if np.isfinite(agreement):
                self.selector_._replay(row["epoch"], agreement, *self._guard(row))

    def _guard(self, row: Any) -> tuple[float | None, float]:
        """Return the validation accuracy of an epoch and its standard error: there is no guard."""
        return None, 0.0

    def _uniform_score(self, a: torch.Tensor, b: torch.Tensor) -> float:
        """Return the agreement with the uniform prior."""
        if isinstance(self.prior, str) and self.prior == "uniform":
            return float(self.selector_.last.score)
        # `agreements` does not warn of constant nets, which this column is there to show, nor
        # again of scores that cannot be compared.
        result = agreements(a, b, tol=self.tol, device=self.device, error_score=np.nan)
        return float(result.score)
