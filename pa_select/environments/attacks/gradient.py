"""Attacks of a given strength, which climb the loss: FGSM and PGD."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import torch

from pa_select.environments.attacks.attack import Attack
from pa_select.environments.attacks.batch import Batch, cross_entropy, direction, within
from pa_select.environments.attacks.inputs import check_count


class FGSM(Attack):
    """Fast gradient sign method: one step of a given length against the decision.

    A row x moves to ``x + eps * sign(gradient of the cross-entropy at x)``, also one whose
    decision is wrong already.

    Parameters
    ----------
    eps : float, default=8/255
        Greatest change of a feature, in the features' units, at least 0; `power` stands
        for it.
    bounds : pair of float or of arrays that fit a row, default=None
        Least and greatest value of the features: the given rows have to be within, the
        attacked ones are. None: none.
    batch_size : int, default=256
        Rows that are differentiated at once.
    random_state : int, RandomState instance or None, default=None
        Not used: nothing is random. All attacks take the same.
    device : torch.device or str, default=None
        Where a scikit-learn model is computed, None: on the CPU. Modules and nets stay
        where they are.

    See Also
    --------
    PGD : Many smaller steps.

    Notes
    -----
    Called as every shift, ``FGSM()(X, y, estimator=model)``. The model is a torch module
    that returns logits, a fitted skorch net, or one of scikit-learn's that an exact twin
    stands in for: linear ones, MLPClassifier, and pipelines of affine steps before one.
    `y` holds classes; without it the model's own decisions are attacked. The result's
    `norm` is the greatest change of a feature, `success` whether the decision differs from
    `y`, both of the rows as returned: in the type and precision in which they came, integers
    in double precision, columns of a DataFrame in the widest precision of theirs.

    References
    ----------
    .. [1] I. J. Goodfellow, J. Shlens, C. Szegedy, "Explaining and harnessing adversarial
       examples", ICLR 2015, section 4.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from pa_select.environments import FGSM
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(max_iter=500).fit(X, y)
    >>> shifted = FGSM(0.5)(X, y, estimator=model)
    >>> round(float(shifted.norm.max()), 6), round(float(shifted.success.mean()), 2)
    (0.5, 0.47)
    """

    norm = np.inf
    _power = "eps"
    _loss = staticmethod(cross_entropy)

    def __init__(
        self,
        eps: float = 8 / 255,
        *,
        bounds: Any = None,
        batch_size: int = 256,
        random_state: Any = None,
        device: Any = None,
    ) -> None:
        self.eps = eps
        self.bounds = bounds
        self.batch_size = batch_size
        self.random_state = random_state
        self.device = device

    def _attack(
        self, batch: Batch, power: float, rng: np.random.RandomState
    ) -> tuple[torch.Tensor, torch.Tensor]:
        _, _, gradient = batch.differentiate(batch.points)
        points = batch.clip(batch.points + power * gradient.sign())
        return points, batch.evaluate(points)[1]


class PGD(Attack):
    """Projected gradient descent: many small steps within a ball of a given radius.

    The strongest point on the way is returned: one of a wrong decision if there was any,
    among those the one of greatest cross-entropy. Rows whose decision is wrong already are
    attacked all the same.

    Parameters
    ----------
    eps : float, default=8/255
        Radius of the ball around each row, in the features' units, at least 0; `power`
        stands for it.
    norm : {2, np.inf}, default=np.inf
        Norm of the ball: Euclidean length, or the greatest change of a feature.
    steps : int, default=40
        Number of steps.
    step_size : float, default=None
        Length of a step in that norm; None: ``2.5 * eps / steps``, which leads from any
        point of the ball to any other and a little farther.
    random_start : bool, default=True
        Start at a random point of the ball, else at the row.
    bounds : pair of float or of arrays that fit a row, default=None
        Least and greatest value of the features: the given rows have to be within, the
        attacked ones are. None: none.
    batch_size : int, default=256
        Rows that are differentiated at once. A row's random start does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Chooses the start; None: always the same one.
    device : torch.device or str, default=None
        Where a scikit-learn model is computed, None: on the CPU. Modules and nets stay
        where they are.

    See Also
    --------
    FGSM : One step; what is told there of models, labels and results holds here.
    FMN : The least radius that is enough.

    Notes
    -----
    A batch takes a forward and a backward pass for each step and one more forward pass; with
    a random start and without labels another.

    References
    ----------
    .. [1] A. Madry, A. Makelov, L. Schmidt, D. Tsipras, A. Vladu, "Towards deep learning
       models resistant to adversarial attacks", ICLR 2018, sections 2.1 and 5 (the length of
       a step).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from pa_select.environments import PGD
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(max_iter=500).fit(X, y)
    >>> shifted = PGD(0.5, norm=2)(X, y, estimator=model)
    >>> round(float(shifted.norm.max()), 6), round(float(shifted.success.mean()), 2)
    (0.5, 0.28)
    """

    _power = "eps"
    _loss = staticmethod(cross_entropy)

    def __init__(
        self,
        eps: float = 8 / 255,
        *,
        norm: float = np.inf,
        steps: int = 40,
        step_size: float | None = None,
        random_start: bool = True,
        bounds: Any = None,
        batch_size: int = 256,
        random_state: Any = None,
        device: Any = None,
    ) -> None:
        self.eps = eps
        self.norm = norm
        self.steps = steps
        self.step_size = step_size
        self.random_start = random_start
        self.bounds = bounds
        self.batch_size = batch_size
        self.random_state = random_state
        self.device = device

    def _check(self) -> None:
        super()._check()
        check_count(self.steps, "steps")
        size = self.step_size
        if size is not None and not (isinstance(size, numbers.Real) and 0 < size < np.inf):
            raise ValueError(f"step_size: expected a positive number or None, got {size!r}.")

    def _attack(
        self, batch: Batch, power: float, rng: np.random.RandomState
    ) -> tuple[torch.Tensor, torch.Tensor]:
        start = points = batch.points
        if self.random_start:
            if batch.labels is None:
                batch.evaluate(start)  # which tells the labels
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
                change = within(points + size * ascent - start, power, self.norm)
                points = batch.clip(start + change)
        return strongest, success


def _in_unit_ball(points: torch.Tensor, norm: float, rng: np.random.RandomState) -> torch.Tensor:
    """Uniform points of a ball around 0, drawn row after row."""
    n, d = points.shape
    if norm == 2:
        # The first d coordinates of uniform points of the sphere in d + 2 dimensions.
        drawn = rng.standard_normal((n, d + 2))
        drawn = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True))[:, :d]
    else:
        drawn = rng.uniform(-1, 1, (n, d))
    return torch.from_numpy(drawn).to(points)
