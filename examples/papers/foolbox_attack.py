"""Attacks of foolbox as shifts, such as DeepFool, Carlini-Wagner and attacks by decisions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from pa_select.scores.class_scores import class_scores
from pa_select.shifts.attacks.attack import Attack, Batch
from pa_select.shifts.attacks.models import Differentiable
from pa_select.utils.arrays import check_count
from pa_select.utils.messages import optional_import
from pa_select.utils.typing import Device, RandomState
from papers.shifts.minimum_norm import margin

# An attack that evaluates the same points so many times in a row does not end: the smallest step
# in single precision is reached by 150 halvings.
_STUCK = 500


class FoolboxAttack(Attack):
    """An attack of foolbox as a shift (``pip install foolbox``).

    An attack that looks for the smallest change leaves a row unchanged, without success, if it
    finds no point within `max_norm` that has another decision.

    Parameters
    ----------
    attack : foolbox.attacks.Attack
        The attack, such as ``foolbox.attacks.L2DeepFoolAttack()``. Its distance has to be the
        Euclidean length of a change, its sum of absolute values, or its largest absolute value.
    bounds : pair of float
        Smallest and largest value of the features. foolbox needs finite ones, the same for all
        features. Rows must be within them before the attack and are within them after it.
    max_norm : float, default=np.inf
        Largest change of a row, in that norm and the units of the features; `power` overrides it.
        Attacks within a ball, such as ``LinfPGD``, need a finite one.
    batch_size, device
        As in `pa_select.shifts.FGSM`.
    random_state : int, RandomState instance or None, default=None
        Seed of what the attack draws from torch's generator of the CPU; None: the same draws in
        every call.

    Attributes
    ----------
    norm : float
        Order of the norm of the attack's distance: 1, 2 or infinity.

    See Also
    --------
    papers.shifts.FMN : Looks for the smallest change without foolbox. The notes of
        `pa_select.shifts.FGSM` on models, labels and results apply here too.

    Notes
    -----
    Attacks that need decisions alone, such as ``BoundaryAttack``, also take classifiers without
    gradients, such as forests, which they evaluate thousands of times. foolbox raises a
    ValueError if it finds no point from which to start.

    References
    ----------
    .. [1] J. Rauber, R. Zimmermann, M. Bethge, W. Brendel, "Foolbox Native: fast adversarial
       attacks to benchmark the robustness of machine learning models in PyTorch, TensorFlow, and
       JAX", Journal of Open Source Software 5 (53), 2020.

    Examples
    --------
    With two classes and a linear classifier the smallest change is the distance to the boundary.
    DeepFool goes 2 % beyond it:

    >>> from foolbox.attacks import L2DeepFoolAttack
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from papers.foolbox_attack import FoolboxAttack
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(max_iter=500).fit(X[:100], y[:100])
    >>> deepfool = FoolboxAttack(L2DeepFoolAttack(), bounds=(0, 10))
    >>> shifted = deepfool(X[:100], y[:100], estimator=model)
    >>> distance = abs(model.decision_function(X[:100])) / (model.coef_**2).sum() ** 0.5
    >>> bool(shifted.success.all()), round(float((shifted.norm / distance).mean()), 2)
    (True, 1.02)
    """

    _power = "max_norm"
    _unbounded = True
    _loss = staticmethod(margin)

    def __init__(
        self,
        attack: Any,
        bounds: tuple[float, float],
        *,
        max_norm: float = np.inf,
        batch_size: int = 256,
        random_state: RandomState = None,
        device: Device = None,
    ) -> None:
        self.attack = attack
        self.bounds = bounds
        self.max_norm = max_norm
        self.batch_size = batch_size
        self.random_state = random_state
        self.device = device

    @property
    def norm(self) -> float:  # type: ignore[override]
        """Order of the norm of the attack's distance."""
        return float(getattr(getattr(self.attack, "distance", None), "p", np.nan))

    def _check(self) -> None:
        import foolbox

        if not isinstance(self.attack, foolbox.attacks.Attack):
            raise TypeError(f"attack: expected an attack of foolbox, got {self.attack!r}.")
        if self.norm not in (1, 2, np.inf):
            raise ValueError(
                "attack: expected one whose distance is the length, the sum or the largest of a "
                f"change, got {self.attack!r}."
            )
        bounds = np.asarray(self.bounds, dtype=object)
        if bounds.shape != (2,) or not all(map(_is_finite, bounds)) or bounds[0] >= bounds[1]:
            raise ValueError(f"bounds: expected two finite numbers, got {self.bounds!r}.")
        # It clips to 0 and 1 whatever the bounds are, and may then look for a step for ever.
        clips = isinstance(self.attack, foolbox.attacks.HopSkipJumpAttack)
        if clips and tuple(bounds) != (0, 1):
            raise ValueError(
                "bounds: expected (0, 1) for foolbox's HopSkipJumpAttack, which works within them "
                f"alone, got {self.bounds!r}. Scale the features to [0, 1]."
            )
        check_count(self.batch_size, "batch_size", "rows")

    def _model(self, estimator: Any) -> Differentiable:
        """Return the classifier, without gradients if torch cannot compute it."""
        try:
            return super()._model(estimator)
        except TypeError:
            if not hasattr(estimator, "classes_"):
                raise
        names = getattr(estimator, "feature_names_in_", None)

        def scores(rows: torch.Tensor) -> torch.Tensor:
            X: Any = rows.detach().cpu().double().numpy()
            if names is not None:
                X = optional_import("pandas", "plot").DataFrame(X, columns=names)
            return torch.as_tensor(class_scores(estimator, X)[0])

        return Differentiable(scores, np.asarray(estimator.classes_), torch.device("cpu"))

    def _attack(
        self, batch: Batch, power: float, rng: np.random.RandomState
    ) -> tuple[torch.Tensor, torch.Tensor]:
        import foolbox

        minimises = isinstance(self.attack, foolbox.attacks.base.MinimizationAttack)
        if np.isinf(power) and not minimises:
            raise ValueError(
                f"max_norm: expected a finite number for an attack within a ball, got {power!r}."
            )
        start = batch.points
        if batch.labels is None:
            batch.evaluate(start)  # sets the labels
        model = foolbox.PyTorchModel(
            _Logits(batch, self.attack if minimises else None).eval(),
            tuple(map(float, np.asarray(self.bounds))),
            device=start.device,
        )
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(rng.randint(2**31))
            _, points, _ = self.attack(
                model, start, batch.labels, epsilons=None if np.isinf(power) else power
            )
        points = batch.clip(points.detach())
        success = batch.evaluate(points)[1]
        return torch.where(success[:, None] | (not minimises), points, start), success


class _Logits(torch.nn.Module):
    """The scores of points, as foolbox calls them.

    An attack that looks for the smallest change, such as HopSkipJump, may never find a step at
    which a piecewise constant classifier decides otherwise. It then evaluates the same points for
    ever, which is refused here, if the attack is given.
    """

    def __init__(self, batch: Batch, attack: Any = None) -> None:
        super().__init__()
        self._batch, self._attack = batch, attack
        self._last: torch.Tensor | None = None
        self._n_same = 0

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        if self._attack is not None:
            last, self._last = self._last, points.detach().clone()
            is_same = (
                last is not None
                and (last.shape, last.dtype) == (points.shape, points.dtype)
                and torch.allclose(points, last, rtol=0, atol=0, equal_nan=True)
            )
            self._n_same = self._n_same + 1 if is_same else 0
            if self._n_same >= _STUCK:
                raise RuntimeError(
                    f"attack: {type(self._attack).__name__} has evaluated the same points "
                    f"{_STUCK} times and would not end. It needs a classifier whose decision "
                    "changes along its steps; for trees take BoundaryAttack, or another shift."
                )
        scores: torch.Tensor = _OfInputs.apply(points, self._batch.logits)  # type: ignore[no-untyped-call]
        return scores


class _OfInputs(torch.autograd.Function):
    """A function of points of which only the points get gradients.

    foolbox differentiates by ``backward``, which would add to the gradients of the parameters.
    """

    @staticmethod
    def forward(ctx: Any, points: torch.Tensor, function: Any) -> torch.Tensor:
        with torch.enable_grad():
            ctx.points = points.detach().requires_grad_()
            ctx.scores = function(ctx.points)
        scores: torch.Tensor = ctx.scores.detach()
        return scores

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        if not ctx.scores.requires_grad:
            raise TypeError(
                "attack: expected one that needs decisions alone, such as BoundaryAttack, for a "
                "classifier without gradients."
            )
        (found,) = torch.autograd.grad(ctx.scores, ctx.points, gradient)
        return found, None


def _is_finite(value: object) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and bool(np.isfinite(value))
