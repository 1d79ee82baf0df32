"""The problem of an attack: points, their labels, a box and a classifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from pa_select.shifts.attacks.models import Differentiable

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Batch:
    """Some attacked rows, as points of shape (n, d).

    The rows have the precision in which they are returned, and the labels are column numbers of
    the classes; None stands for the decisions at the first evaluated points. Points are clipped to
    the box from `low` to `high`, each of shape (1,) or (d,). The attack increases or decreases the
    `loss`.
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
        # In half precision, small steps would be rounded away.
        work = torch.promote_types(rows.dtype, torch.float32)
        self.points = rows.flatten(1).to(model.device, work)
        self.labels = None if labels is None else labels.to(model.device)
        self.low, self.high = low.to(model.device, work), high.to(model.device, work)

    def rows(self, points: torch.Tensor) -> torch.Tensor:
        """Convert points to rows of the original shape and precision."""
        return points.to(self._dtype).reshape(self._shape)

    def clip(self, points: torch.Tensor) -> torch.Tensor:
        """Clip points to the box."""
        return torch.clamp(points, self.low, self.high)

    def logits(self, points: torch.Tensor) -> torch.Tensor:
        """Return the scores of the classes, (n, n_classes)."""
        return self._model.logits(self.rows(points))

    def evaluate(self, points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss and whether the decisions differ from the labels; both (n,)."""
        logits = self.logits(points)
        decisions = logits.detach().argmax(1)
        if self.labels is None:
            self.labels = decisions
        # Far from the data, outputs may be nan; such points do not count as a success.
        wrong = (decisions != self.labels) & ~logits.detach().isnan().any(1)
        return self._loss(logits, self.labels), wrong

    def differentiate(
        self, points: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the loss, whether the decisions differ, and the gradient of the loss (n, d)."""
        points = points.detach().requires_grad_()
        with torch.enable_grad():
            loss, wrong = self.evaluate(points)
            if not loss.requires_grad:
                raise TypeError(
                    "estimator: expected outputs that depend on the inputs differentiably, got "
                    "outputs without a gradient."
                )
            # Only the inputs get gradients; those of the parameters stay as they are.
            (gradient,) = torch.autograd.grad(loss.sum(), points)
        return loss.detach(), wrong, torch.nan_to_num(gradient)


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return minus the log-probability of the labels, (n,)."""
    return torch.nn.functional.cross_entropy(logits, labels, reduction="none")


def margin(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the score of the label minus the highest other score, (n,)."""
    label = labels[:, None]
    return (logits.gather(1, label) - logits.scatter(1, label, -torch.inf).amax(1, True))[:, 0]


def length(change: torch.Tensor, norm: float) -> torch.Tensor:
    """Return the norms of the rows, (n,)."""
    return torch.linalg.vector_norm(change, norm, dim=1)


def direction(gradient: torch.Tensor) -> torch.Tensor:
    """Scale gradients to Euclidean length 1; zero gradients stay zero."""
    # Gradients of a confident classifier may be so small that their squares underflow.
    largest = gradient.abs().amax(1, keepdim=True)
    gradient = gradient / torch.where(largest > 0, largest, 1)
    size = length(gradient, 2)[:, None]
    return gradient / torch.where(size > 0, size, 1)


def project_onto_ball(change: torch.Tensor, radius: Any, norm: float) -> torch.Tensor:
    """Project rows onto a ball around 0; one radius for all rows, or one for each, (n, 1)."""
    if norm == 2:
        size = length(change, 2)[:, None]
        return change * torch.where(size > radius, radius / size, 1)
    return torch.clamp(change, -radius, radius)
