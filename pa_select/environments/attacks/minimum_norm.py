"""The attack of least strength: FMN."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from pa_select.environments.attacks.attack import Attack
from pa_select.environments.attacks.batch import Batch, direction, length, margin, within
from pa_select.environments.attacks.inputs import check_count

# How far past the boundary a point has to be, in units of its own rounding.
_ROUNDING = 16


class FMN(Attack):
    """Fast minimum-norm attack: a point that is decided otherwise, as near as can be found.

    A row whose decision is wrong already stays as it is, with success and norm 0; so does
    one for which no such point is found within `max_norm`, without success.

    Parameters
    ----------
    norm : {2, np.inf}, default=2
        What is least: the Euclidean length of the change, or the greatest change of a
        feature.
    steps : int, default=100
        Number of steps; what 30 find is as a rule within a few percent of that.
    max_norm : float, default=np.inf
        Greatest norm that counts, in the features' units; `power` stands for it. The search
        is the same for any: ``norm <= max_norm`` of a search without one gives every
        success rate at once.
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
    FGSM : What is told there of models, labels and results holds here.

    Notes
    -----
    A step lowers the label's margin over the best other class within a ball around the row,
    whose radius follows: out to where the boundary would be if the classifier were linear,
    in again once a point is decided otherwise. Other than in [1]_, such a point tells by its
    margin, too, how far in the boundary is (the radius is halved at most); the estimate is
    overshot by the rate at which the radius changes, as it would lead to the boundary but
    not past it; and a step's length is relative to the radius, so that the features' units
    do not matter: from the ball's longest radius down to a hundredth of it. Each step takes
    one forward and one backward pass of a batch, and there are no others.

    With two classes and a linear classifier the norm is the exact one. With more, the margin
    of [1]_ leads to the class that is second best, whose boundary need not be the nearest: of
    a logistic regression on scikit-learn's standardised wine a tenth of the norms are more
    than 5 % too large, a quarter at most, and more steps do not change that.

    Where the gradient vanishes, without bounds, the first success may be very far away.

    References
    ----------
    .. [1] M. Pintor, F. Roli, W. Brendel, B. Biggio, "Fast minimum-norm adversarial attacks
       through adaptive norm constraints", NeurIPS 2021, algorithm 1.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from pa_select.environments import FMN
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(max_iter=500).fit(X[:100], y[:100])
    >>> shifted = FMN()(X[:100], y[:100], estimator=model)
    >>> distance = abs(model.decision_function(X[:100])) / (model.coef_**2).sum() ** 0.5
    >>> bool((shifted.success & (shifted.norm < 1.02 * distance)).all())
    True
    """

    _power = "max_norm"
    _unbounded = True
    _loss = staticmethod(margin)

    def __init__(
        self,
        norm: float = 2,
        *,
        steps: int = 100,
        max_norm: float = np.inf,
        bounds: Any = None,
        batch_size: int = 256,
        random_state: Any = None,
        device: Any = None,
    ) -> None:
        self.norm = norm
        self.steps = steps
        self.max_norm = max_norm
        self.bounds = bounds
        self.batch_size = batch_size
        self.random_state = random_state
        self.device = device

    def _check(self) -> None:
        super()._check()
        check_count(self.steps, "steps")

    def _attack(
        self, batch: Batch, power: float, rng: np.random.RandomState
    ) -> tuple[torch.Tensor, torch.Tensor]:
        start = points = nearest = batch.points
        farthest = length(torch.maximum(start - batch.low, batch.high - start), self.norm)
        # Squares of what is larger are infinite.
        farthest = farthest.clamp(max=torch.finfo(start.dtype).max ** 0.5 / start.shape[1])
        longest = 1 if self.norm == 2 else math.sqrt(start.shape[1])
        least = torch.full_like(farthest, torch.inf)
        radius = torch.zeros_like(farthest)
        for step in range(self.steps):
            decay = (1 + math.cos(math.pi * step / self.steps)) / 2
            rate = 0.001 + (0.05 - 0.001) * decay
            ahead, wrong, gradient = batch.differentiate(points)
            if step:
                # Rounding elsewhere must not undo what is found: clearly past the boundary.
                rounding = _ROUNDING * torch.finfo(points.dtype).eps * length(points, 2)
                wrong = wrong & (ahead < -rounding * length(gradient, 2))
            change = points - start
            size = length(change, self.norm)
            better = wrong & (size < least)
            nearest = torch.where(better[:, None], points, nearest)
            least = torch.where(better, size, least)
            # By Hölder's inequality a margin shrinks no faster than the dual norm tells.
            slope = length(gradient, 2 if self.norm == 2 else 1)
            boundary = size + torch.where(slope > 0, ahead.to(slope) / slope, 0)
            inwards = torch.clamp(boundary, least / 2, least * (1 - rate))
            outwards = torch.where(least < torch.inf, radius, boundary) * (1 + rate)
            radius = torch.where(wrong, inwards, outwards).nan_to_num().minimum(farthest)
            pace = (0.01 + (1 - 0.01) * decay) * longest * radius[:, None]
            change = within(change - pace * direction(gradient), radius[:, None], self.norm)
            points = batch.clip(start + change)
        success = (least < torch.inf) & (least <= power)
        return torch.where(success[:, None], nearest, start), success
