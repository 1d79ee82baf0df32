"""How much a network's weights may be disturbed before its accuracy falls; PAC-Bayes bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import nn
from torch.nn.utils import vector_to_parameters

from pa_select.scores.class_scores import columns_of
from pa_select.utils.arrays import check_column
from pa_select.utils.estimators import first_output, module_of
from pa_select.utils.typing import Labels, Module, RandomState, Rows
from papers.measures.norm_measures import folded

_KINDS = ("pac_bayes", "worst")
# Bounds of the search for the largest scale.
_LEAST, _MOST = 2.0**-30, 2.0**20
# Standard deviation of magnitude-aware noise where a weight is 0.
_FLOOR = 1e-3


class Sharpness(NamedTuple):
    """The largest harmless disturbance of a network's weights, from `sharpness`.

    Attributes
    ----------
    sigma : float
        Largest scale found for which the accuracy falls by at most the deviation; 0 if it
        always falls by more, infinite if it never does. The flatness 1 / sigma ** 2 ranks
        models in the opposite order.
    accuracy : float
        Accuracy without a disturbance.
    """

    sigma: float
    accuracy: float


def sharpness(
    module: Module,
    X: Rows,
    y: Labels,
    *,
    kind: str = "pac_bayes",
    magnitude_aware: bool = False,
    deviation: float = 0.1,
    n_draws: int = 10,
    n_steps: int = 20,
    tol: float = 0.02,
    batch_size: int = 1024,
    random_state: RandomState = None,
) -> Sharpness:
    """Find the largest disturbance of a network's weights that costs little accuracy.

    Parameters
    ----------
    module : torch.nn.Module or fitted skorch net
        The network; it is copied. It returns logits of shape (n, n_classes), alone or as the
        first of several tensors.
    X : tensor or array of n rows
        Usually the rows that the network was trained on.
    y : array-like of shape (n,)
        Labels: columns of the outputs for a module, classes for a net.
    kind : {"pac_bayes", "worst"}, default="pac_bayes"
        Normal noise of standard deviation sigma, or the disturbance of at most sigma in each
        weight that gradient ascent on the loss finds.
    magnitude_aware : bool, default=False
        Whether sigma is in units of each weight's magnitude.
    deviation : float, default=0.1
        Accuracy that may be lost, in (0, 1).
    n_draws : int, default=10
        Draws of noise, or random starts of the ascent.
    n_steps : int, default=20
        Steps of the ascent; unused for noise.
    tol : float, default=0.02
        Relative precision of sigma.
    batch_size : int, default=1024
        Rows in each forward pass.
    random_state : int, RandomState instance or None, default=None
        Chooses the draws; with None they are the same in each call.

    Returns
    -------
    Sharpness

    Raises
    ------
    TypeError, ValueError
        If the network, the labels or another argument is invalid; the message names it.

    Notes
    -----
    First, batch normalisations are folded as in `norm_measures`. All scales are tried with the
    same draws. The scale is doubled or halved until it is bracketed, then its logarithm is
    bisected; if the accuracy does not fall steadily, this finds one of several crossings.

    Magnitude-aware noise has the variance sigma ** 2 * w ** 2 + 1e-6. The ascent starts at a
    random point of the box and moves by the signs of the gradient over all rows, in steps of
    2.5 / n_steps of the box. It climbs the loss, so sigma depends on the scale of the logits, and
    it may miss the maximum: the worst disturbance may reach the limit at a smaller sigma.

    References
    ----------
    .. [1] "Benchmarking Robustness Measures", section 5.3 and appendix C.3.
    .. [2] Y. Jiang et al., "Fantastic generalization measures and where to find them", 2019,
       appendices C.4 and D.

    Examples
    --------
    >>> import torch
    >>> from papers.measures import sharpness
    >>> network = torch.nn.Linear(2, 2, bias=False)
    >>> _ = torch.nn.init.eye_(network.weight)
    >>> X, y = torch.eye(2), [0, 1]
    >>> found = sharpness(network, X, y, kind="worst")
    >>> 0.49 < found.sigma <= 0.5
    True
    """
    if kind not in _KINDS:
        raise ValueError(f"kind: expected one of {_KINDS}, got {kind!r}.")
    if not 0 < deviation < 1:
        raise ValueError(f"deviation: expected a number in (0, 1), got {deviation!r}.")
    if not tol > 0:
        raise ValueError(f"tol: expected a positive number, got {tol!r}.")
    for name, number in (("n_draws", n_draws), ("n_steps", n_steps), ("batch_size", batch_size)):
        if not isinstance(number, (int, np.integer)) or number < 1:
            raise ValueError(f"{name}: expected a positive integer, got {number!r}.")
    network = folded(module, "module")
    if next(network.parameters(), None) is None:
        raise ValueError("module: expected a network with parameters, got none.")
    weights = _joined(network.parameters())
    rows = X if isinstance(X, torch.Tensor) else torch.as_tensor(np.require(X, requirements="W"))
    n_classes = _outputs(network.requires_grad_(), rows[:1]).shape[1]
    known = np.asarray(getattr(module, "classes_", np.arange(n_classes)))
    labels = columns_of(check_column(y, len(rows), "y"), known, "the module")
    seeds = check_random_state(0 if random_state is None else random_state)
    disturbed = _Disturbed(
        network,
        list(torch.split(rows, batch_size)),
        list(torch.split(torch.as_tensor(labels, device=weights.device), batch_size)),
        weights,
        [int(seed) for seed in seeds.randint(2**31 - 1, size=n_draws)],
        n_steps if kind == "worst" else 0,
        magnitude_aware,
    )
    return _largest(disturbed, deviation, tol)


def pac_bayes_bound(module: Module, initial: Module, sigma: float, n_rows: int) -> float:
    r"""Compute the complexity term of the PAC-Bayes bound around the initial weights.

    Parameters
    ----------
    module : torch.nn.Module or fitted skorch net
        The trained network.
    initial : torch.nn.Module
        The same network before training.
    sigma : float
        The sharpness of `module`, from `sharpness` with ``kind="pac_bayes"``; positive.
    n_rows : int
        Number of rows that `module` was trained on.

    Returns
    -------
    float
        :math:`\|w - w^0\|^2 / \sigma^2 + \log(m / \sigma) + 10` over all parameters. Lower
        values are meant to go with better generalisation.

    Raises
    ------
    TypeError, ValueError
        If the modules have other parameters, or a number is not positive.

    References
    ----------
    .. [1] "Benchmarking Robustness Measures", appendix C.3 (equation 17).
    .. [2] Y. Jiang et al., "Fantastic generalization measures and where to find them", 2019,
       appendix C.4.

    Examples
    --------
    >>> import copy, torch
    >>> from papers.measures import pac_bayes_bound
    >>> trained = torch.nn.Linear(3, 2)
    >>> initial = copy.deepcopy(trained)
    >>> with torch.no_grad():
    ...     _ = trained.bias.add_(1)
    >>> round(pac_bayes_bound(trained, initial, sigma=0.5, n_rows=100), 3)  # 8 + log(200) + 10
    23.298
    """
    for name, number in (("sigma", sigma), ("n_rows", n_rows)):
        if not 0 < number < math.inf:
            raise ValueError(f"{name}: expected a positive number, got {number!r}.")
    sides = []
    for name, network in (("module", module), ("initial", initial)):
        parameters = getattr(module_of(network), "named_parameters", None)
        if parameters is None:
            raise TypeError(f"{name}: expected a torch module, got {type(network).__name__}.")
        sides.append({key: values.detach().cpu().double() for key, values in parameters()})
    shapes = [{key: tuple(values.shape) for key, values in side.items()} for side in sides]
    if shapes[0] != shapes[1]:
        raise ValueError(f"initial: expected parameters {shapes[0]}, got {shapes[1]}.")
    trained, before = sides
    distance = sum(float((trained[key] - before[key]).square().sum()) for key in trained)
    return distance / sigma**2 + math.log(n_rows / sigma) + 10


def _largest(disturbed: _Disturbed, deviation: float, tol: float) -> Sharpness:
    """Bracket the largest scale that costs at most the deviation, then bisect."""
    accuracy = disturbed.share_right()
    # Allow for the rounding of accuracies.
    least = accuracy - deviation - 1e-12
    good, bad, sigma = 0.0, math.inf, 2.0**-6
    while bad == math.inf or good == 0 or bad > good * (1 + tol):
        if sigma > _MOST:
            return Sharpness(math.inf, accuracy)
        if sigma < _LEAST:
            return Sharpness(0.0, accuracy)
        if disturbed.accuracy(sigma) >= least:
            good = sigma
        else:
            bad = sigma
        if bad == math.inf:
            sigma *= 2
        elif good == 0:
            sigma /= 2
        else:
            sigma = math.sqrt(good * bad)
    return Sharpness(good, accuracy)


def _outputs(network: nn.Module, rows: torch.Tensor) -> torch.Tensor:
    """Return the scores of some rows, with gradients if they are being recorded."""
    first = next(network.parameters())
    rows = rows.to(first.device, first.dtype if rows.is_floating_point() else rows.dtype)
    outputs = first_output(network(rows), "module")
    if outputs.ndim != 2 or outputs.shape[1] < 2:
        raise TypeError(
            "module: expected outputs of shape (n, n_classes) with at least two classes, got "
            f"{tuple(outputs.shape)}."
        )
    return outputs


def _joined(tensors: Iterable[torch.Tensor]) -> torch.Tensor:
    """Return the numbers of tensors one after the other."""
    # torch's `parameters_to_vector` fails on other layouts in memory, such as channels_last.
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


@dataclass(frozen=True)
class _Disturbed:
    """A copy of a network, whose weights are replaced by disturbed ones."""

    network: nn.Module
    rows: list[torch.Tensor]
    labels: list[torch.Tensor]
    #: All undisturbed weights, one after the other.
    weights: torch.Tensor
    seeds: list[int]
    #: Steps of the ascent; 0 for normal noise.
    n_steps: int
    magnitude_aware: bool

    def accuracy(self, sigma: float) -> float:
        """Return the mean accuracy over draws of noise, or the lowest over random starts."""
        shares = []
        for seed in self.seeds:
            self._disturb(sigma, torch.Generator().manual_seed(seed))
            shares.append(self.share_right())
        return min(shares) if self.n_steps else float(np.mean(shares))

    def share_right(self) -> float:
        """Return the accuracy with the current weights."""
        with torch.no_grad():
            right = [
                int((_outputs(self.network, rows).argmax(1) == labels).sum())
                for rows, labels in zip(self.rows, self.labels, strict=True)
            ]
        return sum(right) / sum(map(len, self.labels))

    def _disturb(self, sigma: float, generator: torch.Generator) -> None:
        unit = self.weights.abs() if self.magnitude_aware else torch.ones_like(self.weights)
        if self.n_steps:
            box = sigma * unit
            self._move(box * (2 * self._drawn(torch.rand, generator) - 1))
            for _ in range(self.n_steps):
                self._ascend(box)
        else:
            floor = _FLOOR if self.magnitude_aware else 0.0
            scale = (sigma**2 * unit**2 + floor**2).sqrt()
            self._move(scale * self._drawn(torch.randn, generator))

    def _ascend(self, box: torch.Tensor) -> None:
        """Take one step to a higher loss, clipped to the box."""
        parameters = list(self.network.parameters())
        total = torch.zeros_like(self.weights)
        for rows, labels in zip(self.rows, self.labels, strict=True):
            outputs = _outputs(self.network, rows)
            loss = nn.functional.cross_entropy(outputs, labels, reduction="sum")
            total += _joined(
                torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
            )
        moved = _joined(parameters) - self.weights
        self._move((moved + 2.5 / self.n_steps * box * total.sign()).clamp(-box, box))

    def _move(self, change: torch.Tensor) -> None:
        vector_to_parameters(self.weights + change, self.network.parameters())

    def _drawn(self, draw: Callable[..., torch.Tensor], generator: torch.Generator) -> Any:
        """Return a random number for each weight."""
        numbers = [
            draw(parameter.shape, generator=generator, dtype=parameter.dtype)
            for parameter in self.network.parameters()
        ]
        return _joined(numbers).to(self.weights.device)
