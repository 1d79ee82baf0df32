"""The problem that an attack solves: points, their labels, a box and a classifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from pa_select.environments.attacks.models import Differentiable

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Batch:
    """Some rows under attack, as points of shape (n, d).

    Parameters
    ----------
    model : Differentiable
        The classifier.
    rows : Tensor of shape (n, ...)
        The rows, in the precision in which they are returned.
    labels : Tensor of shape (n,), or None
        Columns of their classes; None: what is decided at the first points that are seen.
    low, high : Tensor of shape (1,) or (d,)
        The box that holds the points.
    loss : callable
        What the attack raises or lowers, of logits and labels, (n,).
    """

    def __init__(
        self,
        model: Differentiable,
        rows: torch.Tensor,
        labels: torch.Tensor | None,
        low: torch.Tensor,
        high: torch.Tensor,
        loss: Loss,
    ) -> None:
        self._model, self._loss = model, loss
        self._shape, self._dtype = rows.shape, rows.dtype
        # In half precision the steps of an attack would vanish.
        work = torch.promote_types(rows.dtype, torch.float32)
        self.points = rows.flatten(1).to(model.device, work)
        self.labels = None if labels is None else labels.to(model.device)
        self.low, self.high = low.to(model.device, work), high.to(model.device, work)

    def rows(self, points: torch.Tensor) -> torch.Tensor:
        """Points as the rows that are returned for them."""
        return points.to(self._dtype).reshape(self._shape)

    def clip(self, points: torch.Tensor) -> torch.Tensor:
        """Points in the box."""
        return torch.clamp(points, self.low, self.high)

    def evaluate(self, points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Loss at points, and whether their decisions differ from the labels; both (n,)."""
        logits = self._model.logits(self.rows(points))
        decisions = logits.detach().argmax(1)
        if self.labels is None:
            self.labels = decisions
        # Far out, where outputs are no numbers any more, nothing is decided.
        wrong = (decisions != self.labels) & ~logits.detach().isnan().any(1)
        return self._loss(logits, self.labels), wrong

    def differentiate(
        self, points: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Loss, whether decisions differ, and the loss's gradients (n, d) at points."""
        points = points.detach().requires_grad_()
        with torch.enable_grad():
            loss, wrong = self.evaluate(points)
            if not loss.requires_grad:
                raise TypeError(
                    "estimator: expected outputs that depend on the inputs differentiably, got "
                    "outputs without a gradient."
                )
            # Of the inputs alone: the parameters' own are not touched.
            (gradient,) = torch.autograd.grad(loss.sum(), points)
        return loss.detach(), wrong, torch.nan_to_num(gradient)


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Minus the log-probability of the labels, (n,)."""
    return torch.nn.functional.cross_entropy(logits, labels, reduction="none")


def margin(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Scores of the labels minus the best others', (n,)."""
    label = labels[:, None]
    return (logits.gather(1, label) - logits.scatter(1, label, -torch.inf).amax(1, True))[:, 0]


def length(change: torch.Tensor, norm: float) -> torch.Tensor:
    """Norms of rows, (n,)."""
    return torch.linalg.vector_norm(change, norm, dim=1)


def direction(gradient: torch.Tensor) -> torch.Tensor:
    """Gradients scaled to Euclidean length 1; none stays none."""
    # The square of a gradient of a confident classifier may be too small for a float.
    largest = gradient.abs().amax(1, keepdim=True)
    gradient = gradient / torch.where(largest > 0, largest, 1)
    size = length(gradient, 2)[:, None]
    return gradient / torch.where(size > 0, size, 1)


def within(change: torch.Tensor, radius: Any, norm: float) -> torch.Tensor:
    """The nearest points of a ball around 0; a radius for all rows, or one for each, (n, 1)."""
    if norm == 2:
        size = length(change, 2)[:, None]
        return change * torch.where(size > radius, radius / size, 1)
    return torch.clamp(change, -radius, radius)
