"""Attacks of a given strength that increase the loss: FGSM and PGD."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np
import torch

from pa_select.shifts.attacks.attack import (
    Attack,
    Batch,
    cross_entropy,
    direction,
    project_onto_ball,
)


@dataclass(eq=False, repr=False)
class FGSM(Attack):
    """Fast gradient sign method: one step of a given length that increases the loss.

    Each row x moves to ``x + eps * sign(gradient of the cross-entropy at x)``, even if its
    decision is already wrong.

    Parameters
    ----------
    eps : float, default=8/255
        Largest change of a feature, in the units of the features, at least 0; `power`
        overrides it.
    bounds : pair of float or of arrays that fit a row, default=None
        Smallest and largest value of the features. Rows must be within them before the attack
        and are within them after it. None: no bounds.
    batch_size : int, default=256
        Number of rows that are differentiated together.
    random_state : int, RandomState instance or None, default=None
        Not used; all attacks have this parameter.
    device : torch.device or str, default=None
        Device for the computations of a scikit-learn model. None: the CPU. Modules and nets
        stay on their device.

    See Also
    --------
    PGD : Many smaller steps.

    Notes
    -----
    Call it like every shift, ``FGSM()(X, y, estimator=model)``. The model is a torch module
    that returns logits, a fitted skorch net, or a scikit-learn classifier that has an exact
    torch copy: a linear model, an MLPClassifier, or a pipeline of affine steps before one of
    them. `y` holds classes; without it the model's own decisions are attacked. In the result
    `norm` is the largest change of a feature and `success` is whether the decision differs
    from `y`. Both refer to the returned rows, which have the type and precision of the given
    ones. Integers are returned in double precision, the columns of a DataFrame in the widest
    precision among them.

    References
    ----------
    .. [1] I. J. Goodfellow, J. Shlens, C. Szegedy, "Explaining and harnessing adversarial
       examples", ICLR 2015, section 4.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from pa_select.shifts import FGSM
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(max_iter=500).fit(X, y)
    >>> shifted = FGSM(0.5)(X, y, estimator=model)
    >>> round(float(shifted.norm.max()), 6), round(float(shifted.success.mean()), 2)
    (0.5, 0.47)
    """

    eps: float = 8 / 255

    norm = np.inf
    _power = "eps"
    _loss = staticmethod(cross_entropy)

    def _attack(
        self, batch: Batch, power: float, rng: np.random.RandomState
    ) -> tuple[torch.Tensor, torch.Tensor]:
        _, _, gradient = batch.differentiate(batch.points)
        points = batch.clip(batch.points + power * gradient.sign())
        return points, batch.evaluate(points)[1]


@dataclass(eq=False, repr=False)
class PGD(Attack):
    """Projected gradient descent: many small steps within a ball of a given radius.

    For each row the strongest point of all steps is returned: the one with the largest
    cross-entropy among those with a wrong decision, or among all if there are none. Rows whose
    decision is already wrong are attacked too.

    Parameters
    ----------
    eps : float, default=8/255
        Radius of the ball around each row, in the units of the features, at least 0; `power`
        overrides it.
    norm : {2, np.inf}, default=np.inf
        Norm of the ball: Euclidean length, or the largest change of a feature.
    steps : int, default=40
        Number of steps.
    step_size : float, default=None
        Length of a step in that norm. None: ``2.5 * eps / steps``, so that the steps together
        can lead from any point of the ball to any other.
    random_start : bool, default=True
        Whether to start at a random point of the ball instead of at the row.
    bounds, batch_size, device
        As in `FGSM`. The random start does not depend on the size of the batches.
    random_state : int, RandomState instance or None, default=None
        Seed of the start; None: the same start in every call.

    See Also
    --------
    FGSM : One step; its notes on models, labels and results apply here too.

    Notes
    -----
    A batch takes one forward and one backward pass per step and one more forward pass. With a
    random start and without labels there is another forward pass.

    References
    ----------
    .. [1] A. Madry, A. Makelov, L. Schmidt, D. Tsipras, A. Vladu, "Towards deep learning
       models resistant to adversarial attacks", ICLR 2018, sections 2.1 and 5 (the length of
       a step).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from pa_select.shifts import PGD
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(max_iter=500).fit(X, y)
    >>> shifted = PGD(0.5, norm=2)(X, y, estimator=model)
    >>> round(float(shifted.norm.max()), 6), round(float(shifted.success.mean()), 2)
    (0.5, 0.28)
    """

    eps: float = 8 / 255
    _: KW_ONLY
    norm: float = np.inf
    steps: int = 40
    step_size: float | None = None
    random_start: bool = True

    _power = "eps"
    _loss = staticmethod(cross_entropy)

    def _attack(
        self, batch: Batch, power: float, rng: np.random.RandomState
    ) -> tuple[torch.Tensor, torch.Tensor]:
        start = points = batch.points
        if self.random_start:
            if batch.labels is None:
                batch.evaluate(start)  # sets the labels
            points = batch.clip(start + power * _in_unit_ball(start, self.norm, rng))
        size = 2.5 * power / self.steps if self.step_size is None else float(self.step_size)
        strongest = points
        greatest = torch.full_like(start[:, 0], -torch.inf)
        success = torch.zeros_like(greatest, dtype=torch.bool)
        for step in range(self.steps + 1):
            if step < self.steps:
                loss, wrong, gradient = batch.differentiate(points)
            else:
                loss, wrong = batch.evaluate(points)
            better = torch.where(wrong == success, loss > greatest, wrong)
            strongest = torch.where(better[:, None], points, strongest)
            greatest = torch.where(better, loss.to(greatest), greatest)
            success = success | wrong
            if step < self.steps:
                ascent = direction(gradient) if self.norm == 2 else gradient.sign()
                change = project_onto_ball(points + size * ascent - start, power, self.norm)
                points = batch.clip(start + change)
        return strongest, success


def _in_unit_ball(points: torch.Tensor, norm: float, rng: np.random.RandomState) -> torch.Tensor:
    """Draw uniform points of a ball around 0, row by row."""
    n, d = points.shape
    if norm == 2:
        # The first d coordinates of uniform points of the sphere in d + 2 dimensions are
        # uniform in the ball in d dimensions.
        drawn = rng.standard_normal((n, d + 2))
        drawn = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True))[:, :d]
    else:
        drawn = rng.uniform(-1, 1, (n, d))
    return torch.from_numpy(drawn).to(points)
