"""Invariant risk minimisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from skorch.callbacks import PassthroughScoring

from papers.learners.erm import ERMNet, InEnvironment


class IRMNet(ERMNet):
    """A classifier that is optimal in all environments at once (IRMv1).

    It minimises the mean over the environments of
    ``risk + penalty_weight * (d risk(w * logits) / dw at w = 1) ** 2``. The derivative by the
    scalar w, a dummy classifier, vanishes if no rescaling of the logits lowers the risk in
    that environment.

    Parameters
    ----------
    module : torch.nn.Module class or instance
        A module that returns logits.
    penalty_weight : float, default=100.0
        The lambda of [1]_, at least 0; 0 gives `ERMNet`. If it is above 1 the whole loss is
        divided by it, which limits the size of the steps.
    penalty_anneal_epochs : int, default=0
        Number of first epochs in which the weight is at most 1, to lower the risks first.
    criterion, random_state, **kwargs
        As in `ERMNet`.

    Notes
    -----
    ``net.history`` has two more columns, ``train_risk`` and ``train_penalty``: means over the
    environments, neither weighted nor divided. ``train_loss`` is divided by the weight, so it
    falls when the annealing ends; compare ``train_risk`` instead.

    The penalty of a batch exceeds the penalty of all rows by the variance of the gradient, so use
    large batches, or all rows (``batch_size=-1``). With annealing let
    `pa_select.PAEarlyStopping` choose among later epochs (``min_epochs``).

    If ``train_risk`` stays near the log of the number of classes, the weight is too large for the
    data. Do not choose between this net and `ERMNet` by accuracy on rows like the training rows:
    `ERMNet` wins there.

    References
    ----------
    .. [1] M. Arjovsky, L. Bottou, I. Gulrajani, D. Lopez-Paz, "Invariant Risk Minimization",
       2019, section 3, equation (IRMv1); annealing and rescaling as in the authors' code.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from sklearn.datasets import load_iris
    >>> from papers.learners import IRMNet
    >>> X, y = load_iris(return_X_y=True)
    >>> _ = torch.manual_seed(0)
    >>> net = IRMNet(lambda: torch.nn.Linear(4, 3), batch_size=-1, lr=0.1, verbose=0)
    >>> history = net.fit(X.astype("float32"), y, environments=np.arange(150) % 2).history
    >>> bool(history[-1, "train_penalty"] < history[0, "train_penalty"])
    True
    """

    def __init__(
        self,
        module: Any,
        *args: Any,
        penalty_weight: float = 100.0,
        penalty_anneal_epochs: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(module, *args, **kwargs)
        self.penalty_weight = penalty_weight
        self.penalty_anneal_epochs = penalty_anneal_epochs

    def get_loss(self, y_pred: Any, y_true: Any, X: Any = None, training: bool = False) -> Any:
        """Return risk and penalty; in validation the risk of all rows."""
        if not isinstance(X, InEnvironment):
            return super().get_loss(y_pred, y_true, X=X, training=training)
        dummy = torch.ones((), dtype=y_pred.dtype, device=y_pred.device, requires_grad=True)
        risks = self._risks(dummy * y_pred, y_true, X.environment)
        # The penalty is differentiated too, so the graph of the gradients is kept.
        gradients = [torch.autograd.grad(r, dummy, create_graph=True)[0] for r in risks]
        risk, penalty = risks.mean(), torch.stack(gradients).square().mean()
        self.history.record_batch("train_risk", risk.item())
        self.history.record_batch("train_penalty", penalty.item())
        weight = self.penalty_weight
        if len(self.history) <= self.penalty_anneal_epochs:
            # Until the risks are low, the penalty would keep the net constant.
            weight = min(weight, 1.0)
        # As in the authors' code: otherwise steps grow with the weight.
        return (risk + weight * penalty) / max(weight, 1.0)

    @property
    def _default_callbacks(self) -> list[tuple[str, Any]]:
        columns = [
            (name, PassthroughScoring(name=name, on_train=True))
            for name in ("train_risk", "train_penalty")
        ]
        return [*super()._default_callbacks, *columns]

    def _check_parameters(self) -> None:
        if not 0 <= self.penalty_weight < np.inf:
            raise ValueError(
                f"penalty_weight: expected a finite number of at least 0, got "
                f"{self.penalty_weight!r}."
            )
        if self.penalty_anneal_epochs < 0:
            raise ValueError(
                "penalty_anneal_epochs: expected a number of epochs, at least 0, got "
                f"{self.penalty_anneal_epochs!r}."
            )
        self._refuse_probabilities()  # which w must not rescale
