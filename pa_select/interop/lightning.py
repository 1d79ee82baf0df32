"""Early stopping by agreement for Lightning."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.utils.data import DataLoader, RandomSampler

from pa_select.scores.modules import module_scores
from pa_select.training.epoch_selector import EPOCH_TOL, EpochSelector
from pa_select.training.paired_environments import untouched_random_states
from pa_select.utils.messages import optional_import, warn_caller
from pa_select.utils.typing import Device, Prior

_Callback: Any = optional_import("lightning.pytorch", "lightning").Callback


class PAEarlyStopping(_Callback):
    """Stop a Lightning training when the agreement no longer improves; keep the best epoch.

    After each validation epoch (each training epoch, if there is no validation) the module's
    ``forward`` predicts both environments, which have the same objects in the same rows. The
    best epoch's state is restored when the training ends. `pa_select.PAEarlyStopping` is the
    same callback for skorch.

    Parameters
    ----------
    environments : tuple of two tensors, arrays or DataLoaders
        The rows of both environments. From a DataLoader, which must not shuffle, the first
        element of each batch is used.
    patience, min_delta, min_epochs, prior, tol, device
        As in `EpochSelector`. The agreement of an epoch whose outputs cannot be compared is
        logged as nan, with a warning.
    guard : str or None, default=None
        Name of a logged validation accuracy. The epoch with the best agreement is kept among
        those whose accuracy is within `guard_error` of the best one so far.
    guard_error : float, default=0.0
        Standard error of that accuracy.
    load_best : bool, default=True
        Whether to restore the best epoch's state.
    name : str, default="pa"
        The agreement is logged under this name.

    Attributes
    ----------
    selector_ : EpochSelector
        Holds ``best_epoch`` (from 1), ``best_score`` and ``best_state``.

    Raises
    ------
    ValueError
        If there are not two environments, or a loader shuffles.

    Examples
    --------
    >>> import torch
    >>> from lightning.pytorch import LightningModule
    >>> from pa_select.interop.lightning import PAEarlyStopping
    >>> class Module(LightningModule):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer = torch.nn.Linear(4, 3)
    ...
    ...     def forward(self, x):
    ...         return self.layer(x)
    >>> rows = torch.randn(20, 4)
    >>> stopping = PAEarlyStopping((rows, rows + 0.1), patience=3)
    >>> stopping.selector_.patience, stopping.selector_.best_epoch
    (3, None)

    Then ``Trainer(callbacks=[stopping]).fit(Module(), loader)``.
    """

    def __init__(
        self,
        environments: tuple[Any, Any],
        *,
        patience: int = 10,
        min_delta: float = 0.0,
        min_epochs: int = 1,
        prior: Prior = "marginal",
        guard: str | None = None,
        guard_error: float = 0.0,
        load_best: bool = True,
        name: str = "pa",
        tol: float = EPOCH_TOL,
        device: Device = None,
    ) -> None:
        super().__init__()
        if not isinstance(environments, (tuple, list)) or len(environments) != 2:
            got = f" of {len(environments)}" if isinstance(environments, (tuple, list)) else ""
            raise ValueError(
                f"environments: expected two, in a tuple, got {type(environments).__name__}{got}."
            )
        for number, environment in enumerate(environments):
            if isinstance(getattr(environment, "sampler", None), RandomSampler):
                raise ValueError(
                    f"environments[{number}]: expected a DataLoader that does not shuffle, since "
                    "rows are paired by their order."
                )
        if guard is not None and "loss" in guard.lower() and "neg" not in guard.lower():
            raise ValueError(
                "guard: expected a metric in which higher is better, such as 'val_acc', got "
                f"{guard!r}."
            )
        self.environments = environments
        self.guard = guard
        self.guard_error = guard_error
        self.load_best = load_best
        self.name = name
        self.selector_ = EpochSelector(
            prior=prior,
            patience=patience,
            min_delta=min_delta,
            min_epochs=min_epochs,
            keep_state=load_best,
            tol=tol,
            device=device,
        )

    def on_validation_epoch_end(self, trainer: Any, pl_module: torch.nn.Module) -> None:
        """Score the epoch if the training has a validation."""
        if not trainer.sanity_checking:
            self._score(trainer, pl_module)

    def on_train_epoch_end(self, trainer: Any, pl_module: torch.nn.Module) -> None:
        """Score the epoch if the training has no validation."""
        if not trainer.enable_validation:
            self._score(trainer, pl_module)

    def on_train_end(self, trainer: Any, pl_module: torch.nn.Module) -> None:
        """Restore the best epoch's state."""
        if self.load_best and self.selector_.best_epoch is not None:
            pl_module.load_state_dict(self.selector_.best_state)
        for concern in self.selector_.concerns:
            warn_caller(concern)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Restore the best epoch's state if the training is interrupted."""
        self.on_train_end(trainer, pl_module)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return self.selector_.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state from a checkpoint."""
        self.selector_.load_state_dict(state_dict)

    def _score(self, trainer: Any, pl_module: torch.nn.Module) -> None:
        with untouched_random_states(pl_module):
            a, b = (_outputs(pl_module, environment) for environment in self.environments)
        score = None
        if self.guard is not None:
            score = float(trainer.callback_metrics[self.guard])
        self.selector_.update(
            a,
            b,
            pl_module.state_dict(),
            score=score,
            score_error=self.guard_error,
            epoch=trainer.current_epoch + 1,
        )
        assert self.selector_.last is not None
        # nan for an epoch that cannot be compared; the selector warns of it.
        self.log(self.name, self.selector_.last.score)
        if self.selector_.should_stop:
            trainer.should_stop = True


def _outputs(pl_module: torch.nn.Module, environment: Any) -> torch.Tensor:
    batches: Iterable[Any] = [environment]
    if isinstance(environment, DataLoader):
        batches = (b[0] if isinstance(b, (tuple, list)) else b for b in environment)
    return torch.cat([module_scores(pl_module, batch, 1024)[0] for batch in batches])
