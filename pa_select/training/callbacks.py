"""skorch callbacks: score epochs by agreement, stop early, keep the best one."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import torch
from skorch.callbacks import Callback

from pa_select._warnings import warn_caller
from pa_select.agreement import posterior_agreement
from pa_select.training.pairs import PairedEnvironments, pair_up, scores_from, scores_on
from pa_select.training.selector import TIE_TOL, EpochSelector


class PAScoring(Callback):
    """Record the posterior agreement of a net on two or more environments, epoch by epoch.

    At the end of an epoch the net's raw outputs on the environments are compared; the net,
    its random states and its train mode stay as they were.

    Parameters
    ----------
    environments : tuple or list of two or more, or callable
        Arrays, tensors, (X, y) tuples, torch Datasets or
        `pa_select.environments.SharedEnvironment` (which grid searches do not copy); or a
        function ``dataset_valid -> (A, B, ...)`` that makes them from the net's own
        validation rows. Where one of them is that very dataset, the outputs of the
        validation are used and no further pass is made.
    pairing : str or tuple of two arrays, default="identity"
        Which rows are compared: "identity", the rows in their order (views of the same
        things); "label", rows of equal label, which the environments then must have; or
        the row numbers of the pairs in both environments. Made once.
    prior : {"marginal", "uniform"} or array-like of shape (n_classes,), default="marginal"
        Class prior of `posterior_agreement`.
    every : int, default=1
        Score every so many epochs; between them nan is recorded.
    name : str, default="pa"
        What the columns of the history are called.
    sample_weight : array-like of shape (n_pairs,), default=None
        Weights of the pairs of every two environments.
    max_pairs : int, default=None
        Compare at most so many pairs of every two environments, always the same ones.
    device : {None, "auto", "cpu", "cuda"} or torch.device, default=None
        Where the agreement is computed; None: where the net is.
    tol : float, default=1e-6
        As in `posterior_agreement`.

    Notes
    -----
    Columns of ``net.history``: ``pa``, the agreement in nats per pair (of more than two
    environments all pairs are pooled); ``pa_best``, whether it is the best so far;
    ``pa_beta``; ``pa_uniform``, the agreement with the uniform prior;
    ``pa_agreement_rate``; ``pa_seconds``; with more than two environments ``pa_worst``, the
    lowest mean of the pairs' terms over two of them. They work with skorch's
    ``Checkpoint(monitor="pa_best")`` and ``EarlyStopping("pa", lower_is_better=False,
    threshold_mode="abs")``.

    A shuffling ``iterator_valid`` is refused: it would break the pairs.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       section 5.2 (model selection over epochs).

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

    def __init__(
        self,
        environments: Any,
        *,
        pairing: Any = "identity",
        prior: Any = "marginal",
        every: int = 1,
        name: str = "pa",
        sample_weight: Any = None,
        max_pairs: int | None = None,
        device: Any = None,
        tol: float = 1e-6,
    ) -> None:
        self.environments = environments
        self.pairing = pairing
        self.prior = prior
        self.every = every
        self.name = name
        self.sample_weight = sample_weight
        self.max_pairs = max_pairs
        self.device = device
        self.tol = tol

    def initialize(self) -> PAScoring:
        """Forget all epochs."""
        self.selector_: EpochSelector | None = None
        self.paired_: PairedEnvironments | None = None
        self.captured_: list[Any] | None = None
        return self

    def __getstate__(self) -> dict[str, Any]:
        # What can be made again is not pickled.
        return self.__dict__ | {"paired_": None, "captured_": None}

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Check and pair the environments; go on where the history ends."""
        if self.every < 1:
            raise ValueError(f"every: expected a positive number of epochs, got {self.every!r}.")
        self.paired_ = None
        if not callable(self.environments):
            self.paired_ = self._pair_up(net, self.environments)
        if self.selector_ is None or not len(net.history):
            self.selector_ = self._selector()
            self._resume(net)

    def on_epoch_begin(
        self, net: Any, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any
    ) -> None:
        """Make the environments of the validation rows, before the first step."""
        if self.paired_ is None:
            if dataset_valid is None:
                raise ValueError(
                    "environments: a function of the validation rows needs some, and the net "
                    "has train_split=None."
                )
            self.paired_ = self._pair_up(net, self.environments(dataset_valid))
        due = self._is_due(net)
        uses_valid = any(dataset is dataset_valid for dataset in self.paired_.datasets)
        self.captured_ = [] if due and uses_valid and dataset_valid is not None else None

    def on_batch_end(
        self, net: Any, batch: Any = None, training: bool = False, **kwargs: Any
    ) -> None:
        """Keep outputs that the validation makes anyway."""
        if self.captured_ is not None and not training and "y_pred" in kwargs:
            outputs = kwargs["y_pred"]
            outputs = outputs[0] if isinstance(outputs, (tuple, list)) else outputs
            self.captured_.append(outputs.detach())

    def on_epoch_end(
        self, net: Any, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any
    ) -> None:
        """Score the epoch and record it."""
        if not self._is_due(net):
            for column in ("", "_beta", "_uniform", "_agreement_rate"):
                net.history.record(self.name + column, float("nan"))
            net.history.record(f"{self.name}_best", False)
            net.history.record(f"{self.name}_seconds", 0.0)
            return
        start = perf_counter()
        assert self.paired_ is not None
        assert self.selector_ is not None
        a, b = self.paired_.gather(self._scores(net, dataset_valid))
        better = self._update(net, a, b, dataset_valid)
        result = self.selector_.last
        assert result is not None
        uniform = result
        if not (isinstance(self.prior, str) and self.prior == "uniform"):
            uniform = posterior_agreement(
                a, b, sample_weight=self.paired_.weight, tol=self.tol, device=self.device
            )
        record = net.history.record
        record(self.name, result.score)
        record(f"{self.name}_best", better)
        record(f"{self.name}_beta", result.beta)
        record(f"{self.name}_uniform", uniform.score)
        record(f"{self.name}_agreement_rate", result.agreement_rate)
        if len(self.paired_.pairs) > 1:
            record(f"{self.name}_worst", self.paired_.worst(result.terms))
        record(f"{self.name}_seconds", perf_counter() - start)

    def _pair_up(self, net: Any, environments: Any) -> PairedEnvironments:
        return pair_up(
            net, environments, self.pairing, self.prior, self.sample_weight, self.max_pairs
        )

    def _is_due(self, net: Any) -> bool:
        return bool(net.history[-1, "epoch"] % self.every == 0)

    def _selector(self) -> EpochSelector:
        return EpochSelector(prior=self.prior, keep_state=False, device=self.device, tol=self.tol)

    def _scores(self, net: Any, dataset_valid: Any) -> list[torch.Tensor]:
        """The scores of each environment, each dataset's once."""
        assert self.paired_ is not None
        made: dict[int, torch.Tensor] = {}
        if self.captured_:
            made[id(dataset_valid)] = scores_from(net, self.captured_)
        self.captured_ = None
        for k, dataset in enumerate(self.paired_.datasets):
            if id(dataset) not in made:
                made[id(dataset)] = scores_on(net, dataset)
            wrong = ~torch.isfinite(made[id(dataset)])
            if wrong.any():
                row = int(wrong.any(1).nonzero()[0])
                raise ValueError(
                    f"epoch {net.history[-1, 'epoch']}, environment {k}: expected finite "
                    f"outputs of the module, got {made[id(dataset)][row].tolist()} in row {row}."
                )
        return [made[id(dataset)] for dataset in self.paired_.datasets]

    def _update(self, net: Any, a: torch.Tensor, b: torch.Tensor, dataset_valid: Any) -> bool:
        assert self.paired_ is not None
        assert self.selector_ is not None
        return self.selector_.update(
            a, b, sample_weight=self.paired_.weight, epoch=net.history[-1, "epoch"]
        )

    def _resume(self, net: Any) -> None:
        """Learn of epochs that are in the history already."""
        assert self.selector_ is not None
        scored = [
            (row[self.name], row["epoch"])
            for row in net.history
            if np.isfinite(row.get(self.name, np.nan))
        ]
        if scored:
            top = max(score for score, _ in scored)
            score, epoch = next(s for s in scored if s[0] >= top - TIE_TOL)
            self.selector_.resume(len(net.history), epoch, score, net.module_)


class PAEarlyStopping(PAScoring):
    """Stop when the agreement no longer improves, and keep the epoch where it was best.

    Records what `PAScoring` records. The state of the best epoch is kept on the CPU and
    restored when training ends, also by Ctrl-C. The untrained module is no candidate.

    Parameters
    ----------
    environments, pairing, prior, every, name, sample_weight, max_pairs, device, tol
        As in `PAScoring`.
    patience : int, default=5
        Scored epochs without improvement after which to stop.
    min_delta : float, default=0.0
        Smallest improvement, in nats, that counts for the patience. What is kept is the
        best epoch, however small its lead.
    load_best : bool, default=True
        Whether to restore the best epoch's module at the end.
    tie : {"first", "last"}, default="first"
        Which of tied epochs (within 1e-7 nats) is kept.
    min_epochs : int, default=1
        Epochs before this one are neither kept nor counted.
    guard : str or None, default="auto"
        Column of the history with a validation accuracy: kept is the best agreement among
        the epochs within one standard error of the best accuracy so far. "auto":
        "valid_acc" where the net records it. None: no guard but the marginal prior.
    sink : callable, default=print
        Where it says what it does; print only if the net is verbose.

    Attributes
    ----------
    best_epoch_, best_score_, best_state_ : int, float, dict
        The epoch kept, its agreement in nats per pair and the module's state (not
        pickled).
    stopped_epoch_ : int or None
        The epoch at which training was stopped.

    Notes
    -----
    Training goes on with ``partial_fit`` or warm_start from the best epoch so far. All
    callbacks hear of the last epoch before training stops.

    Expect the epochs that validation accuracy would keep, without its labels; the user
    guide has the figures. With the uniform prior collapsed epochs may be kept.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       section 5.2 (model selection over epochs).

    Examples
    --------
    >>> import torch
    >>> from sklearn.datasets import load_iris
    >>> from skorch import NeuralNetClassifier
    >>> from pa_select import PAEarlyStopping
    >>> X, y = load_iris(return_X_y=True)
    >>> X = X.astype("float32")
    >>> net = NeuralNetClassifier(
    ...     lambda: torch.nn.Linear(4, 3),
    ...     criterion=torch.nn.CrossEntropyLoss,
    ...     callbacks=[("pa", PAEarlyStopping((X, 1.1 * X), patience=3))],
    ...     max_epochs=50,
    ...     lr=0.1,
    ...     verbose=0,
    ... ).fit(X, y)
    >>> stopping = dict(net.callbacks_)["pa"]
    >>> net.history[stopping.best_epoch_ - 1, "pa"] == stopping.best_score_
    True
    """

    def __init__(
        self,
        environments: Any,
        *,
        pairing: Any = "identity",
        prior: Any = "marginal",
        every: int = 1,
        name: str = "pa",
        sample_weight: Any = None,
        max_pairs: int | None = None,
        device: Any = None,
        tol: float = 1e-6,
        patience: int = 5,
        min_delta: float = 0.0,
        load_best: bool = True,
        tie: str = "first",
        min_epochs: int = 1,
        guard: str | None = "auto",
        sink: Any = print,
    ) -> None:
        super().__init__(
            environments,
            pairing=pairing,
            prior=prior,
            every=every,
            name=name,
            sample_weight=sample_weight,
            max_pairs=max_pairs,
            device=device,
            tol=tol,
        )
        self.patience = patience
        self.min_delta = min_delta
        self.load_best = load_best
        self.tie = tie
        self.min_epochs = min_epochs
        self.guard = guard
        self.sink = sink

    def initialize(self) -> PAEarlyStopping:
        """Forget all epochs."""
        super().initialize()
        self.stopped_epoch_: int | None = None
        return self

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        if state.get("selector_") is not None:
            state["selector_"] = state["selector_"].without_states()
        return state

    @property
    def best_epoch_(self) -> int | None:
        """The epoch kept."""
        return None if self.selector_ is None else self.selector_.best_epoch

    @property
    def best_score_(self) -> float | None:
        """Its agreement in nats per pair."""
        return None if self.selector_ is None else self.selector_.best_score

    @property
    def best_state_(self) -> Any:
        """Its module's state, on the CPU."""
        return None if self.selector_ is None else self.selector_.best_state

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Check and pair the environments; go on from the best epoch."""
        super().on_train_begin(net, X=X, y=y, **kwargs)
        assert self.selector_ is not None
        self.stopped_epoch_ = None
        self.selector_.go_on(net.module_)
        # Who stops the training goes last, so that all others hear of the epoch.
        others = [item for item in net.callbacks_ if not self._is_my_stop(item[1])]
        net.callbacks_ = [*others, (f"{self.name}_stop", _Stop(self))]

    def on_epoch_end(
        self, net: Any, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any
    ) -> None:
        """Score the epoch, record it, and keep it if it is the best."""
        try:
            super().on_epoch_end(net, dataset_train, dataset_valid, **kwargs)
        except Exception:
            self._restore(net)
            raise
        assert self.selector_ is not None
        if self.stopped_epoch_ is None and self.selector_.should_stop:
            self.stopped_epoch_ = net.history[-1, "epoch"]
            self._say(
                net,
                f"Stopping since {self.name} has not improved in the last {self.patience} "
                "scored epochs.",
            )

    def on_train_end(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Restore the best epoch's module."""
        net.callbacks_ = [item for item in net.callbacks_ if not self._is_my_stop(item[1])]
        assert self.selector_ is not None
        for concern in self.selector_.concerns:
            warn_caller(concern)
        if self._restore(net):
            self._say(net, f"Restoring the module of epoch {self.best_epoch_}.")

    def _selector(self) -> EpochSelector:
        return EpochSelector(
            prior=self.prior,
            patience=self.patience,
            min_delta=self.min_delta,
            tie=self.tie,
            min_epochs=self.min_epochs,
            keep_state=self.load_best,
            device=self.device,
            tol=self.tol,
        )

    def _update(self, net: Any, a: torch.Tensor, b: torch.Tensor, dataset_valid: Any) -> bool:
        assert self.paired_ is not None
        assert self.selector_ is not None
        score, error = self._guard(net, dataset_valid)
        return self.selector_.update(
            a,
            b,
            net.module_,
            score=score,
            score_error=error,
            sample_weight=self.paired_.weight,
            epoch=net.history[-1, "epoch"],
        )

    def _guard(self, net: Any, dataset_valid: Any) -> tuple[float | None, float]:
        """The validation accuracy and its standard error."""
        if self.guard is None:
            return None, 0.0
        column = "valid_acc" if self.guard == "auto" else self.guard
        value = net.history[-1].get(column)
        if value is None:
            if self.guard == "auto":
                return None, 0.0
            raise ValueError(
                f"guard: expected a column of the history, one of {sorted(net.history[-1])}, "
                f"got {column!r}."
            )
        spread = max(float(value) * (1 - float(value)), 0.0)
        n = len(dataset_valid) if dataset_valid is not None else 0
        return float(value), float(np.sqrt(spread / n)) if n else 0.0

    def _restore(self, net: Any) -> bool:
        """Load the best epoch's state, unless the module has it."""
        if not self.load_best or self.best_state_ is None or not len(net.history):
            return False
        if self.best_epoch_ == net.history[-1, "epoch"]:
            return False
        net.module_.load_state_dict(self.best_state_)
        return True

    def _is_my_stop(self, callback: Any) -> bool:
        return isinstance(callback, _Stop) and callback.of is self

    def _say(self, net: Any, text: str) -> None:
        if self.sink is not print or net.verbose:
            self.sink(text)


class _Stop(Callback):
    """Ends the training after all other callbacks, when its owner says so."""

    def __init__(self, of: PAEarlyStopping) -> None:
        self.of = of

    def on_epoch_end(self, net: Any, **kwargs: Any) -> None:
        if self.of.stopped_epoch_ is not None:
            raise KeyboardInterrupt  # skorch's way to end a training
