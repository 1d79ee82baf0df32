"""Learning from attacked rows: adversarial training, and regularisation by attacks."""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple

import torch
from skorch.dataset import unpack_data

from pa_select.shifts import PGD
from pa_select.shifts.attacks.attack import Attack
from papers.learners.learner import LearnerNet


class _Attacked(NamedTuple):
    """The rows of a batch, attacked and as they are."""

    X: torch.Tensor
    clean: torch.Tensor


class AdversarialNet(LearnerNet):
    """A classifier that learns from rows that are attacked in each step.

    It minimises ``clean_weight`` times the loss of the rows plus ``1 - clean_weight`` times the
    loss of the rows under attack. With `pa_select.shifts.PGD` and a weight of 0 this is
    adversarial training [1]_, with `pa_select.shifts.FGSM` and a weight of 0.5 the
    regularisation by attacks [2]_.

    Parameters
    ----------
    module : torch.nn.Module class or instance
        A module that returns logits.
    attack : attack of `pa_select.shifts`, default=None
        The attack, aimed at the module as it is in each step, in evaluation mode. Its draws are
        the same in each step unless its ``random_state`` is an instance. None:
        ``PGD(steps=10)``.
    clean_weight : float, default=0.0
        Weight of the loss of the rows as they are, in [0, 1].
    criterion, **kwargs
        As in `ERMNet`.
    random_state : int, RandomState instance or None, default=None
        Not used; the order of the rows, too, depends on torch's random state.

    References
    ----------
    .. [1] A. Madry et al., "Towards deep learning models resistant to adversarial attacks", ICLR
       2018, equation 2.1.
    .. [2] I. J. Goodfellow, J. Shlens, C. Szegedy, "Explaining and harnessing adversarial
       examples", ICLR 2015, section 6.

    Examples
    --------
    >>> import torch
    >>> from sklearn.datasets import load_digits
    >>> from pa_select.shifts import PGD
    >>> from papers.learners import AdversarialNet
    >>> X, y = load_digits(return_X_y=True)
    >>> X, attack = (X / 16).astype("float32"), PGD(0.15, steps=5, bounds=(0, 1))
    >>> def accuracy_under_attack(weight):  # with a weight of 1 the attack is not used
    ...     _ = torch.manual_seed(0)
    ...     net = AdversarialNet(
    ...         lambda: torch.nn.Linear(64, 10),
    ...         attack=attack,
    ...         clean_weight=weight,
    ...         lr=0.3,
    ...         max_epochs=30,
    ...         verbose=0,
    ...         train_split=None,
    ...     ).fit(X[:1000], y[:1000])
    ...     return net.score(attack(X[1000:], y[1000:], estimator=net).X, y[1000:])
    >>> accuracy_under_attack(0) > accuracy_under_attack(1) + 0.1
    True
    """

    def __init__(
        self, module: Any, *args: Any, attack: Any = None, clean_weight: float = 0.0, **kwargs: Any
    ) -> None:
        super().__init__(module, *args, **kwargs)
        self.attack = attack
        self.clean_weight = clean_weight

    def train_step(self, batch: Any, **fit_params: Any) -> Any:
        """Take a step on a batch, which is attacked once."""
        X, y = unpack_data(batch)
        # In the step and not in the loss, which some optimisers evaluate several times for one
        # step.
        attack = PGD(steps=10) if self.attack is None else self.attack
        moved = attack(X, y, estimator=self.module_).X if self.clean_weight < 1 else X
        return super().train_step((_Attacked(moved, X), y), **fit_params)

    def infer(self, x: Any, **fit_params: Any) -> Any:
        """Return the module's outputs, in training those of attacked rows."""
        return super().infer(x.X if isinstance(x, _Attacked) else x, **fit_params)

    def get_loss(self, y_pred: Any, y_true: Any, X: Any = None, training: bool = False) -> Any:
        """Return the weighted sum of both losses; in validation the loss of the rows."""
        if not isinstance(X, _Attacked):
            return super().get_loss(y_pred, y_true, X=X, training=training)
        attacked = super().get_loss(y_pred, y_true, X=X.X, training=training)
        # The rows as they are need a forward pass of their own; adversarial training saves it.
        if not self.clean_weight:
            return attacked
        outputs = super().infer(X.clean)
        clean = super().get_loss(outputs, y_true, X=X.clean, training=training)
        return self.clean_weight * clean + (1 - self.clean_weight) * attacked

    def _check_parameters(self) -> None:
        if self.attack is not None and not isinstance(self.attack, Attack):
            raise TypeError(
                "attack: expected an attack of pa_select.shifts, such as PGD(), or None, "
                f"got {self.attack!r}."
            )
        if not (isinstance(self.clean_weight, Real) and 0 <= self.clean_weight <= 1):
            raise ValueError(
                f"clean_weight: expected a number in [0, 1], got {self.clean_weight!r}."
            )
