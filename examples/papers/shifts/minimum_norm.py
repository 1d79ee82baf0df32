"""The attack that looks for the smallest change: FMN."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass

import numpy as np
import torch

from pa_select.shifts.attacks.attack import (
    Attack,
    Batch,
    direction,
    length,
    project_onto_ball,
)
from pa_select.utils.arrays import check_count

# Required distance of a point beyond the boundary, in units of its rounding error.
_ROUNDING = 16


def margin(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the score of the label minus the highest other score, (n,)."""
    label = labels[:, None]
    return (logits.gather(1, label) - logits.scatter(1, label, -torch.inf).amax(1, True))[:, 0]


@dataclass(eq=False, repr=False)
class FMN(Attack):
    """Fast minimum-norm attack: look for the smallest change that changes the decision.

    A row whose decision is already wrong stays unchanged, with norm 0 and success. A row for
    which no such point is found within `max_norm` stays unchanged without success.

    Parameters
    ----------
    norm : {2, np.inf}, default=2
        The norm to minimise: the Euclidean length of the change, or the largest change of a
        feature.
    steps : int, default=100
        Number of steps. The norms after 30 steps are usually within a few percent of those
        after 100.
    max_norm : float, default=np.inf
        Largest norm that counts as a success, in the units of the features; `power` overrides
        it. The search does not depend on it, so one search without it gives the success rate
        at every ``max_norm``: the share of rows with ``norm <= max_norm``.
    bounds, batch_size, random_state, device
        As in `FGSM`.

    See Also
    --------
    FGSM : Its notes on models, labels and results apply here too.

    Notes
    -----
    Each step lowers the margin of the label over the best other class within a ball around the
    row. The radius grows to where the boundary would be if the classifier were linear, and
    shrinks once a point has another decision. Three things differ from [1]_:

    - A point with another decision also gives, by its margin, an estimate of the distance to
      the boundary. The radius is at most halved.
    - The radius goes beyond the estimate by the rate at which it changes. The estimate alone
      would lead to the boundary, but not past it.
    - The length of a step is relative to the ball, from its longest radius down to a hundredth
      of it, so that the units of the features do not matter.

    Each step takes one forward and one backward pass of a batch; there are no other passes.

    With two classes and a linear classifier the norm is exact. With more classes, the margin of
    [1]_ leads to the second-best class, whose boundary need not be the nearest. For a logistic
    regression on scikit-learn's standardised wine data, a tenth of the norms are more than 5 %
    too large, by at most a quarter, and more steps do not change that.

    If the gradient vanishes and there are no bounds, the first success may be very far away.

    References
    ----------
    .. [1] M. Pintor, F. Roli, W. Brendel, B. Biggio, "Fast minimum-norm adversarial attacks
       through adaptive norm constraints", NeurIPS 2021, algorithm 1.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from papers.shifts import FMN
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(max_iter=500).fit(X[:100], y[:100])
    >>> shifted = FMN()(X[:100], y[:100], estimator=model)
    >>> distance = abs(model.decision_function(X[:100])) / (model.coef_**2).sum() ** 0.5
    >>> bool((shifted.success & (shifted.norm < 1.02 * distance)).all())
    True
    """

    norm: float = 2
    _: KW_ONLY
    steps: int = 100
    max_norm: float = np.inf

    _power = "max_norm"
    _unbounded = True
    _loss = staticmethod(margin)

    def _check(self) -> None:
        super()._check()
        check_count(self.steps, "steps", "steps")

    def _attack(
        self, batch: Batch, power: float, rng: np.random.RandomState
    ) -> tuple[torch.Tensor, torch.Tensor]:
        start = points = nearest = batch.points
        farthest = length(torch.maximum(start - batch.low, batch.high - start), self.norm)
        # Squares of larger values would overflow.
        farthest = farthest.clamp(max=torch.finfo(start.dtype).max ** 0.5 / start.shape[1])
        longest = 1 if self.norm == 2 else math.sqrt(start.shape[1])
        least = torch.full_like(farthest, torch.inf)
        radius = torch.zeros_like(farthest)
        for step in range(self.steps):
            decay = (1 + math.cos(math.pi * step / self.steps)) / 2
            rate = 0.001 + (0.05 - 0.001) * decay
            ahead, wrong, gradient = batch.differentiate(points)
            if step:
                # A point counts only if rounding elsewhere cannot undo its success.
                rounding = _ROUNDING * torch.finfo(points.dtype).eps * length(points, 2)
                wrong = wrong & (ahead < -rounding * length(gradient, 2))
            change = points - start
            size = length(change, self.norm)
            better = wrong & (size < least)
            nearest = torch.where(better[:, None], points, nearest)
            least = torch.where(better, size, least)
            # By Hölder's inequality the dual norm bounds how fast the margin can shrink.
            slope = length(gradient, 2 if self.norm == 2 else 1)
            boundary = size + torch.where(slope > 0, ahead.to(slope) / slope, 0)
            inwards = torch.clamp(boundary, least / 2, least * (1 - rate))
            outwards = torch.where(least < torch.inf, radius, boundary) * (1 + rate)
            radius = torch.where(wrong, inwards, outwards).nan_to_num().minimum(farthest)
            pace = (0.01 + (1 - 0.01) * decay) * longest * radius[:, None]
            change = project_onto_ball(
                change - pace * direction(gradient), radius[:, None], self.norm
            )
            points = batch.clip(start + change)
        success = (least < torch.inf) & (least <= power)
        return torch.where(success[:, None], nearest, start), success
