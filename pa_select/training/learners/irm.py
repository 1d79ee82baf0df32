"""Invariant risk minimisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from skorch.callbacks import PassthroughScoring

from pa_select.training.learners.environments import InEnvironment
from pa_select.training.learners.erm import ERMNet


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
    criterion : class or instance, default=torch.nn.CrossEntropyLoss
        A loss that takes logits.
    random_state : int, RandomState instance or None, default=None
        As in `ERMNet`.
    **kwargs
        Other parameters of `skorch.NeuralNetClassifier`.

    Notes
    -----
    ``net.history`` has two more columns, ``train_risk`` and ``train_penalty``: means over the
    environments, neither weighted nor divided. ``train_loss`` is divided by the weight, so it
    falls when the annealing ends; compare ``train_risk`` instead.

    The penalty of a batch exceeds the penalty of all rows by the variance of the gradient, so use
    large batches, or all rows (``batch_size=-1``). With annealing let
    `pa_select.PAEarlyStopping` choose among later epochs (``min_epochs``).

    References
    ----------
    .. [1] M. Arjovsky, L. Bottou, I. Gulrajani, D. Lopez-Paz, "Invariant Risk Minimization",
       2019, section 3, equation (IRMv1); annealing and rescaling as in the authors' code.

    Examples
    --------
    One feature predicts the class equally well in both environments. The other feature does
    not, but is the better predictor on average:

    >>> import numpy as np
    >>> import torch
    >>> from pa_select.training import ERMNet, IRMNet
    >>> rng = np.random.default_rng(0)
    >>> y, environments = rng.integers(2, size=400), np.arange(400) % 2
    >>> stable = np.where(rng.random(400) < 0.75, y, 1 - y)
    >>> spurious = np.where(rng.random(400) < np.where(environments, 0.9, 0.7), y, 1 - y)
    >>> X = (2 * np.column_stack([stable, spurious]) - 1).astype("float32")
    >>> def weights(net):
    ...     _ = torch.manual_seed(0)
    ...     net.set_params(optimizer=torch.optim.Adam, lr=0.3, batch_size=-1, max_epochs=100)
    ...     net.set_params(verbose=0, train_split=None).fit(X, y, environments=environments)
    ...     return np.diff(net.module_.weight.detach().numpy(), axis=0)[0]
    >>> erm = weights(ERMNet(lambda: torch.nn.Linear(2, 2)))
    >>> irm = weights(IRMNet(lambda: torch.nn.Linear(2, 2), penalty_weight=1e4))
    >>> bool(erm[1] > erm[0]), bool(abs(irm[1]) < 0.25 * irm[0])
    (True, True)
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
        gradients = [torch.autograd.grad(r, dummy, create_graph=True)[0] for r in risks]
        risk, penalty = risks.mean(), torch.stack(gradients).square().mean()
        self.history.record_batch("train_risk", risk.item())
        self.history.record_batch("train_penalty", penalty.item())
        weight = self.penalty_weight
        if len(self.history) <= self.penalty_anneal_epochs:
            weight = min(weight, 1.0)
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
