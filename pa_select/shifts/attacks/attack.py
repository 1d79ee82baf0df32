"""The base class of attacks: rows to points and back, losses, steps within a ball."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch

from pa_select.scores.modules import evaluation
from pa_select.shifts.attacks.models import Differentiable, differentiable
from pa_select.shifts.numeric_rows import check_bounds, seeded
from pa_select.shifts.shift import Shift, Shifted
from pa_select.utils.arrays import check_column
from pa_select.utils.estimators import is_instance
from pa_select.utils.frames import check_row_order
from pa_select.utils.typing import Bounds, Device, Labels, Model, RandomState, Rows

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
            # Only the inputs get gradients; those of the parameters stay as they are.
            (gradient,) = torch.autograd.grad(loss.sum(), points)
        return loss.detach(), wrong, torch.nan_to_num(gradient)


@dataclass(eq=False, repr=False, kw_only=True)
class Attack(Shift):
    """Base class of attacks; to write your own attack, override `_attack`."""

    #: Order of the norm of a change: 2 or infinity. Not every attack has it as a parameter.
    norm: float = field(init=False)
    bounds: Bounds | None = None
    batch_size: int = 256
    random_state: RandomState = None
    device: Device = None

    _aimed = True
    _loss: ClassVar[staticmethod[[torch.Tensor, torch.Tensor], torch.Tensor]]

    def _shift(self, X: Rows, y: Labels | None, estimator: Model | None, power: float) -> Shifted:
        self._check()
        model = self._model(estimator)
        rows, restore = tensor_of(X, estimator)
        low, high = box_of(self.bounds, rows)
        rng = seeded(self.random_state)
        norms, successes = [], []
        # Tensors made in inference mode cannot be differentiated.
        with torch.inference_mode(False), evaluation(*model.parts):
            shifted = rows.clone()
            labels = None if y is None else columns_of(y, X, model, shifted[:1])
            for begin in range(0, len(rows), self.batch_size):
                part = slice(begin, begin + self.batch_size)
                known = None if labels is None else labels[part]
                batch = Batch(model, shifted[part], known, low, high, self._loss)
                if power:
                    points, success = self._attack(batch, power, rng)
                else:
                    points, success = batch.points, batch.evaluate(batch.points)[1]
                after = batch.rows(points)
                change = after.flatten(1).double() - batch.points.double()
                norms.append(length(change, self.norm).cpu())
                successes.append(success.cpu())
                # The batch may share this memory, so it is overwritten last.
                shifted[part] = after.to(shifted.device)
        return Shifted(restore(shifted), torch.cat(norms).numpy(), torch.cat(successes).numpy())

    def _check(self) -> None:
        """Raise an error if a parameter is invalid."""
        if isinstance(self.norm, str) or self.norm not in (2, np.inf):
            raise ValueError(f"norm: expected 2 or np.inf, got {self.norm!r}.")

    def _model(self, estimator: Model | None) -> Differentiable:
        """Return the classifier as a function of points."""
        return differentiable(estimator, self.device)

    @abstractmethod
    def _attack(
        self, batch: Batch, power: float, rng: np.random.RandomState
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return attacked points (n, d) and whether their decisions changed (n,).

        The power is above 0.
        """


def tensor_of(X: Any, estimator: object) -> tuple[torch.Tensor, Callable[[torch.Tensor], Any]]:
    """Return rows as a tensor of floats (n, ...), and a function that converts one to X's type.

    The rows must be finite real numbers, in the columns that the estimator was fitted to.
    """
    restore: Callable[[torch.Tensor], Any] = torch.Tensor.numpy
    if isinstance(X, torch.Tensor):
        rows, restore = X.detach(), lambda rows: rows
        rows = rows if rows.is_floating_point() else rows.double()
    else:
        array = X.to_numpy() if is_instance(X, "pandas", "DataFrame") else np.asarray(X)
        if array.dtype.kind not in "fiu":
            raise TypeError(f"X: expected real numbers, got dtype {array.dtype}.")
        kept = array.dtype in (np.float16, np.float32)
        # torch needs contiguous, writable memory.
        rows = torch.from_numpy(np.require(array, array.dtype if kept else float, ["C", "W"]))
        if is_instance(X, "pandas", "DataFrame"):
            restore = _frame(X, estimator)
    _refuse(~torch.isfinite(rows), rows, "finite numbers")
    return rows, restore


def box_of(bounds: Bounds | None, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the smallest and largest values, of shape (1,) or (d,), on the device of the rows.

    Rows outside of the bounds are refused.
    """
    if bounds is None:
        infinite = torch.full((1,), torch.inf, dtype=rows.dtype, device=rows.device)
        return -infinite, infinite
    # The bounds are rounded like the rows, so that a number at a bound is within it.
    low, high = (torch.tensor(end).to(rows) for end in check_bounds(bounds, tuple(rows.shape[1:])))
    _refuse((rows < low) | (rows > high), rows, "numbers within bounds")
    return low.flatten(), high.flatten()


def columns_of(y: Labels, X: Any, model: Differentiable, row: torch.Tensor) -> torch.Tensor:
    """Return the column number of each label's class, (n,)."""
    check_row_order(y, X, "y")
    labels = check_column(y.detach().cpu() if isinstance(y, torch.Tensor) else y, len(X), "y")
    n_classes = model.logits(row).shape[1]
    known = model.classes is not None and len(model.classes) == n_classes
    classes = np.asarray(model.classes if known else np.arange(n_classes)).tolist()
    column = {label: k for k, label in enumerate(classes)}
    codes = [column.get(label, -1) for label in labels.tolist()]
    if -1 in codes:
        i = codes.index(-1)
        raise ValueError(
            f"y: expected classes of the estimator, {classes}, got {labels.tolist()[i]!r} in row "
            f"{i}."
        )
    return torch.tensor(codes)


def _frame(X: Any, estimator: object) -> Callable[[torch.Tensor], Any]:
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None and list(X.columns) != list(names):
        raise ValueError(f"X: expected the columns {list(names)}, got {list(X.columns)}.")
    return lambda rows: type(X)(rows.numpy(), index=X.index, columns=X.columns)


def _refuse(wrong: torch.Tensor, rows: torch.Tensor, expected: str) -> None:
    if wrong.any():
        where = tuple(wrong.nonzero()[0].tolist())
        raise ValueError(f"X: expected {expected}, got {rows[where].item()!r} in row {where[0]}.")


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return minus the log-probability of the labels, (n,)."""
    return torch.nn.functional.cross_entropy(logits, labels, reduction="none")


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
