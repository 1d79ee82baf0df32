"""The base class of attacks, which converts rows to batches of points and back."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import torch

from pa_select.environments.attacks.batch import Batch, length
from pa_select.environments.attacks.inputs import box_of, check_count, columns_of, tensor_of
from pa_select.environments.attacks.models import differentiable
from pa_select.environments.numeric_rows import seeded
from pa_select.environments.shift import Shift, Shifted
from pa_select.scores.modules import evaluation


class Attack(Shift):
    """Base class of attacks; to write your own attack, override `_attack`."""

    #: Order of the norm of a change: 2 or infinity.
    norm: float
    _aimed = True
    bounds: Any
    batch_size: int
    random_state: Any
    device: Any
    _loss: staticmethod[[torch.Tensor, torch.Tensor], torch.Tensor]

    def _shift(self, X: Any, y: Any, estimator: Any, power: float) -> Shifted:
        self._check()
        model = differentiable(estimator, self.device)
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
        check_count(self.batch_size, "batch_size")
        if isinstance(self.norm, str) or self.norm not in (2, np.inf):
            raise ValueError(f"norm: expected 2 or np.inf, got {self.norm!r}.")

    @abstractmethod
    def _attack(
        self, batch: Batch, power: float, rng: np.random.RandomState
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return attacked points (n, d) and whether their decisions changed (n,).

        The power is above 0.
        """
