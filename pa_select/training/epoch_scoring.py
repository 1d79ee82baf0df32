"""The skorch callback that scores epochs by agreement."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from time import perf_counter
from typing import Any

import numpy as np
import torch
from skorch.callbacks import Callback

from pa_select.agreement.posterior_agreement import agreements
from pa_select.training.epoch_selector import EPOCH_TOL, EpochSelector, refuse_other_prior
from pa_select.training.paired_environments import (
    PairedEnvironments,
    pair_up,
    scores_from,
    scores_on,
    warn_of_raw_rows,
)
from pa_select.utils.estimators import first_output
from pa_select.utils.score_checks import check_count
from pa_select.utils.typing import Device, HasArray, HasItems, Net, Prior, Vector


@dataclass(eq=False, repr=False)
class PAScoring(Callback):
    """Record the posterior agreement of a net on two or more environments, epoch by epoch.

    At the end of each epoch the net's raw outputs on the environments are compared. The net,
    the random states and the training mode stay unchanged.

    Parameters
    ----------
    environments : tuple or list of two or more, or callable
        Arrays, tensors, (X, y) tuples, torch Datasets or
        `pa_select.datasets.SharedEnvironment` (which grid searches do not copy); or a
        function ``dataset_valid -> (A, B, ...)`` that makes them from the net's own
        validation rows, a Dataset of ``(row, label)`` items. If one of them is
        ``dataset_valid`` itself, its outputs are taken from the validation, without another
        forward pass.
    pairing : str, callable or tuple of two arrays, default="identity"
        Which rows are compared: "identity", rows in their order (views of the same
        objects); "label", rows of equal label, which the environments then must have; a
        pairing of two samples, such as `pa_select.pairing.NearestPairing`; or, for two
        environments, the row numbers of the pairs in each. The pairs are made once.
    prior : {"marginal", "uniform"} or array-like of shape (n_classes,), default="marginal"
        Class prior of `posterior_agreement`.
    every : int, default=1
        Number of epochs from one scored epoch to the next; nan is recorded between them.
    name : str, default="pa"
        Name of the agreement's column in the history, and prefix of the other columns.
    sample_weight : array-like of shape (n_pairs,), default=None
        Weights of the pairs, the same for every two environments.
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
    ``pa_agreement_rate``; ``pa_seconds``; with ``uniform=True`` also
    ``pa_uniform``; with more than two environments also ``pa_worst``, the lowest mean of the
    pairs' terms over two environments. skorch's callbacks that come later in the list can use
    the columns: ``Checkpoint(monitor="pa_best")`` and ``EarlyStopping("pa",
    lower_is_better=False, threshold_mode="abs")``.

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
    pairing: str | Callable[..., Any] | Sequence[HasArray] = "identity"
    prior: Prior = "marginal"
    every: int = 1
    name: str = "pa"
    sample_weight: Vector | None = None
    device: Device = None
    tol: float = EPOCH_TOL
    uniform: bool = False

    def initialize(self) -> PAScoring:
        """Forget all epochs."""
        self.selector_: EpochSelector | None = None
        self.paired_: PairedEnvironments | None = None
        self.captured_: list[Any] | None = None
        self.started_ = False
        return self

    def __repr__(self) -> str:
        parameters = inspect.signature(type(self)).parameters.values()
        given = {p.name: getattr(self, p.name) for p in parameters if p.name != "environments"}
        changed = [
            f"{p.name}={reprlib.repr(given[p.name])}"
            for p in parameters
            if p.name in given and repr(given[p.name]) != repr(p.default)
        ]
        return f"{type(self).__name__}({', '.join([_described(self.environments), *changed])})"

    def __getstate__(self) -> dict[str, Any]:
        # These can be computed again.
        return self.__dict__ | {"paired_": None, "captured_": None}

    def on_train_begin(self, net: Net, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Check and pair the environments."""
        check_count(self.every, "every", "epochs")
        self._refuse_same_name(net)
        self.paired_ = None
        if not callable(self.environments):
            self.paired_ = self._pair_up(net, self.environments)
        if len(net.history):
            # `initialize` forgets the selector, for example after ``set_params``.
            refuse_other_prior(getattr(self, "prior_before_", self.prior), self.prior)
        self.prior_before_ = self.prior
        if self.selector_ is None or not len(net.history):
            self.selector_ = self._selector()
        self.started_ = False

    def on_epoch_begin(
        self, net: Net, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any
    ) -> None:
        """Before the first step continue where the history ends, and make environments."""
        if self.paired_ is None:
            if dataset_valid is None:
                raise ValueError(
                    "environments: expected validation rows for the given function, got a net "
                    "with train_split=None."
                )
            self.paired_ = self._pair_up(net, self.environments(dataset_valid))
        if not self.started_:
            warn_of_raw_rows(self.paired_.datasets, dataset_train)
            self._start(net)
            self.started_ = True
        due = self._is_due(net)
        uses_valid = any(dataset is dataset_valid for dataset in self.paired_.datasets)
        self.captured_ = [] if due and uses_valid and dataset_valid is not None else None

    def on_batch_end(
        self, net: Net, batch: Any = None, training: bool = False, **kwargs: Any
    ) -> None:
        """Keep the outputs that the validation computes."""
        if self.captured_ is not None and not training and "y_pred" in kwargs:
            self.captured_.append(first_output(kwargs["y_pred"]).detach())

    def on_epoch_end(
        self, net: Net, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any
    ) -> None:
        """Score the epoch and record it."""
        if not self._is_due(net):
            uniform = ["_uniform"] if self.uniform else []
            for column in ("", "_beta", *uniform, "_agreement_rate"):
                net.history.record(self.name + column, float("nan"))
            net.history.record(f"{self.name}_best", False)
            net.history.record(f"{self.name}_seconds", 0.0)
            self._record_kept(net)
            return
        start = perf_counter()
        assert self.paired_ is not None
        assert self.selector_ is not None
        a, b = self.paired_.gather(self._scores(net, dataset_valid))
        score, error = self._guard(net.history[-1])
        better = self.selector_.update(
            a,
            b,
            net.module_.state_dict(),
            score=score,
            score_error=error,
            sample_weight=self.paired_.weight,
            epoch=net.history[-1, "epoch"],
        )
        result = self.selector_.last
        assert result is not None
        record = net.history.record
        record(self.name, result.score)
        record(f"{self.name}_best", better)
        record(f"{self.name}_beta", result.beta)
        if self.uniform:
            record(f"{self.name}_uniform", self._uniform_score(a, b))
        record(f"{self.name}_agreement_rate", result.agreement_rate)
        if len(self.paired_.pairs) > 1:
            worst = float("nan")
            if result.failure is None:
                worst = self.paired_.worst(result.terms)
            record(f"{self.name}_worst", worst)
        record(f"{self.name}_seconds", perf_counter() - start)
        self._record_kept(net)

    def _record_kept(self, net: Net) -> None:
        assert self.selector_ is not None
        net.history.record(f"{self.name}_kept", self.selector_.best_epoch)

    def _refuse_same_name(self, net: Net) -> None:
        """Raise if another callback writes to the same columns."""
        for _, other in net.callbacks_:
            names = getattr(other, "name", None), getattr(other, "name_", None)
            if other is not self and self.name in names:
                raise ValueError(
                    "name: expected a name of its own for each callback, since it names columns "
                    f"of the history, got {self.name!r} for two of them."
                )

    def _pair_up(self, net: Net, environments: Any) -> PairedEnvironments:
        return pair_up(net, environments, self.pairing, self.prior, self.sample_weight)

    def _is_due(self, net: Net) -> bool:
        return bool(net.history[-1, "epoch"] % self.every == 0)

    def _selector(self) -> EpochSelector:
        return EpochSelector(prior=self.prior, keep_state=False, device=self.device, tol=self.tol)

    def _scores(self, net: Net, dataset_valid: HasItems | None) -> list[torch.Tensor]:
        """Return the scores of each environment; each dataset is scored once."""
        assert self.paired_ is not None
        made: dict[int, torch.Tensor] = {}
        if self.captured_:
            made[id(dataset_valid)] = scores_from(net, self.captured_)
        self.captured_ = None
        for dataset in self.paired_.datasets:
            if id(dataset) not in made:
                made[id(dataset)] = scores_on(net, dataset)
        return [made[id(dataset)] for dataset in self.paired_.datasets]

    def _start(self, net: Net) -> None:
        """Take over the epochs that are already in the history."""
        # Not when the training begins, because a callback after this one may load the history.
        assert self.selector_ is not None
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
        assert self.paired_ is not None
        assert self.selector_ is not None
        if isinstance(self.prior, str) and self.prior == "uniform":
            assert self.selector_.last is not None
            return self.selector_.last.score
        # `agreements` does not warn of constant nets, which this column is there to show, nor
        # again of scores that cannot be compared.
        result = agreements(
            a,
            b,
            sample_weight=self.paired_.weight,
            tol=self.tol,
            device=self.device,
            error_score=np.nan,
        )
        return float(result.score)


def _described(environments: object) -> str:
    """Return what the environments are, without their numbers."""
    if not isinstance(environments, (tuple, list)):
        return reprlib.repr(environments)
    each = []
    for environment in environments:
        rows = environment[0] if isinstance(environment, tuple) and environment else environment
        size = f" of {len(rows)} rows" if hasattr(rows, "__len__") else ""
        each.append(f"<{type(rows).__name__}{size}>")
    return f"({', '.join(each)})"
