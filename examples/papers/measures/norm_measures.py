"""Norms of a network's weights, and its path norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import nn

from pa_select.utils.estimators import first_output, module_of
from pa_select.utils.typing import Module

# Layers whose weights are a matrix, or are read as one with a row for each output channel.
_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def norm_measures(
    module: Module, margin: float | None = None, *, initial: Module | None = None
) -> dict[str, float]:
    """Compute norms of a network's weights, also relative to margin and initial weights.

    Parameters
    ----------
    module : torch.nn.Module or fitted skorch net
        A network of linear and convolutional layers. Other layers may have vectors of
        parameters, which are ignored, but no matrices.
    margin : float, default=None
        Margin of the network, not 0, for example from `prediction_measures` on the training
        rows. None leaves out the measures that use it.
    initial : torch.nn.Module, default=None
        The network before training. None leaves out the distances from it.

    Returns
    -------
    dict of str to float
        For each norm among "spectral", "frobenius", "trace" and "l1_inf":

        - "log_<norm>": log of the product of the layers' norms (the product may overflow);
        - "<norm>_over_margin": the product divided by the margin; infinite if it overflows;
        - "log_<norm>_over_squared_margin".

        Also, with their equations in [1]_: "fro_over_spec" (10), "sum_of_fro" (14),
        "sum_of_fro_over_margin" (15) and "log_spec_orig_main" (log of 13); with `initial`
        "frobenius_distance" (11); with both arguments "log_spec_init_main" (log of 12).

    Raises
    ------
    TypeError, ValueError
        If there is no linear or convolutional layer, another layer has a matrix of weights, a
        batch normalisation cannot be folded, the layers of `initial` have other shapes, or
        `margin` is 0 or not finite.

    Notes
    -----
    A batch normalisation is folded into the layer before it, with its running statistics: in
    the order in which the network registers its layers, it has to come directly after a linear
    or convolutional one. Biases are ignored.

    The weights of a convolution are read as a matrix with a row for each output channel, as
    in the study [1]_. The spectral norm of this matrix differs from the norm of the convolution
    as an operator. The L1,inf norm is the largest sum of absolute weights in one row.

    References
    ----------
    .. [1] "Benchmarking Robustness Measures", appendix C.2.
    .. [2] Y. Jiang et al., "Fantastic generalization measures and where to find them", 2019,
       appendix C.

    Examples
    --------
    >>> import torch
    >>> from papers.measures import norm_measures
    >>> network = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    >>> for layer in network:
    ...     _ = torch.nn.init.eye_(layer.weight)
    >>> found = norm_measures(network, margin=0.5)
    >>> round(found["log_spectral"], 6), round(found["frobenius_over_margin"], 6)
    (0.0, 4.0)
    """
    weights = _weights(module, "module")
    if margin is not None and (not math.isfinite(margin) or margin == 0):
        raise ValueError(f"margin: expected a finite number other than 0, got {margin!r}.")
    before = None if initial is None else _weights(initial, "initial")
    if before is not None:
        shapes, others = ([tuple(w.shape) for w in layers] for layers in (weights, before))
        if shapes != others:
            raise ValueError(f"initial: expected layers of shapes {shapes}, got {others}.")

    values = [torch.linalg.svdvals(w) for w in weights]
    norms = {
        "spectral": [float(v[0]) for v in values],
        "frobenius": [float(w.norm()) for w in weights],
        "trace": [float(v.sum()) for v in values],
        "l1_inf": [float(w.abs().sum(1).max()) for w in weights],
    }
    logs = {name: sum(map(_log, of_layers)) for name, of_layers in norms.items()}
    depth = len(weights)
    ratio = sum(map(_ratio, norms["frobenius"], norms["spectral"]))
    measures = {f"log_{name}": value for name, value in logs.items()}
    measures["fro_over_spec"] = ratio
    measures["sum_of_fro"] = depth * _exp(logs["frobenius"] / depth)
    squared = math.nan
    if margin is not None:
        size = math.log(abs(margin))
        squared = 2 * size
        for name, value in logs.items():
            measures[f"{name}_over_margin"] = math.copysign(_exp(value - size), margin)
            measures[f"log_{name}_over_squared_margin"] = value - squared
        measures["sum_of_fro_over_margin"] = depth * _exp((logs["frobenius"] - squared) / depth)
        measures["log_spec_orig_main"] = logs["spectral"] + _log(ratio) - squared
    if before is not None:
        distances = [float((w - w0).norm()) for w, w0 in zip(weights, before, strict=True)]
        measures["frobenius_distance"] = sum(distances)
        if margin is not None:
            moved = sum(map(_ratio, distances, norms["spectral"]))
            measures["log_spec_init_main"] = logs["spectral"] + _log(moved) - squared
    return measures


def path_norm(module: Module, input_shape: int | Sequence[int]) -> float:
    """Compute the root of the summed squared weights of all paths through a network.

    A path leads from one input to one output. Its weight is the product of the weights on it.

    Parameters
    ----------
    module : torch.nn.Module or fitted skorch net
        A network whose layers with weights are linear or convolutional. Between them may be
        activations that leave positive numbers as they are, such as ReLU, and sums, means or
        pooling.
    input_shape : int or sequence of int
        The shape of one row.

    Returns
    -------
    float
        At least 0. `prediction_measures` has the margin by which the study divides its square.

    Raises
    ------
    TypeError, ValueError
        If the module is not one of torch, a batch normalisation cannot be folded, another layer
        has weights, or the network does not take rows of this shape.

    Notes
    -----
    The sum over all paths is the sum of the network's outputs for an input of ones if each weight
    is squared. Batch normalisations are folded as in `norm_measures`, and biases are ignored.

    References
    ----------
    .. [1] B. Neyshabur et al., "Path-SGD: path-normalized optimization in deep neural networks",
       2015.
    .. [2] Y. Jiang et al., "Fantastic generalization measures and where to find them", 2019,
       appendix C.5.

    Examples
    --------
    >>> import torch
    >>> from papers.measures import path_norm
    >>> layers = torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1)
    >>> network = torch.nn.Sequential(*layers)
    >>> for layer in (network[0], network[2]):
    ...     _ = torch.nn.init.constant_(layer.weight, 2.0)
    >>> path_norm(network, 2)  # four paths of weight 4
    8.0
    """
    network = folded(module, "module")
    with torch.no_grad():
        for part in network.modules():
            for name, values in part.named_parameters(recurse=False):
                if name == "bias":
                    values.zero_()
                elif isinstance(part, _LAYERS):
                    values.square_()
                else:
                    raise TypeError(
                        "module: expected weights only in linear and convolutional layers, got "
                        f"{name!r} in {type(part).__name__}."
                    )
        shape = (input_shape,) if isinstance(input_shape, int) else tuple(input_shape)
        ones = torch.ones((1, *shape), dtype=torch.float64)
        ones = ones.to(next(network.parameters(), ones).device)
        try:
            outputs = first_output(network(ones), "module")
        except RuntimeError as error:
            raise ValueError(
                f"input_shape: expected the shape of a row of the module, got {shape} ({error})."
            ) from error
    return float(outputs.sum().sqrt())


def folded(module: Module, name: str) -> nn.Module:
    """Return a copy in evaluation mode and double precision, with batch norms folded in."""
    network = module_of(module)
    if not isinstance(network, nn.Module):
        raise TypeError(f"{name}: expected a torch module, got {type(module).__name__}.")
    network = deepcopy(network).double().eval()
    previous: Any = None
    for path, part in list(network.named_modules()):
        if isinstance(part, _BATCH_NORMS):
            _fold(previous, part, name)
            parent, _, key = path.rpartition(".")
            setattr(network.get_submodule(parent), key, nn.Identity())
        elif not list(part.children()):
            previous = part
    return network


def _fold(layer: torch.nn.Module, norm: Any, name: str) -> None:
    if not isinstance(layer, _LAYERS) or len(layer.weight) != norm.num_features:
        raise ValueError(
            f"{name}: expected each batch normalisation directly after a linear or convolutional "
            f"layer of its size, got one after {type(layer).__name__}."
        )
    if norm.running_var is None:
        raise ValueError(f"{name}: expected batch normalisation with running statistics.")
    with torch.no_grad():
        scale, shift = (norm.running_var + norm.eps).rsqrt(), torch.zeros_like(norm.running_mean)
        if norm.affine:
            scale, shift = scale * norm.weight, norm.bias
        bias = -norm.running_mean if layer.bias is None else layer.bias - norm.running_mean
        layer.weight.mul_(scale.reshape(-1, *[1] * (layer.weight.ndim - 1)))
        layer.bias = nn.Parameter(scale * bias + shift)


def _weights(module: Module, name: str) -> list[torch.Tensor]:
    """Return the layers' weights as matrices, with batch normalisations folded in."""
    weights = []
    for part in folded(module, name).modules():
        if isinstance(part, _LAYERS):
            weights.append(part.weight.detach().cpu().flatten(1))
        elif any(parameter.ndim > 1 for parameter in part.parameters(recurse=False)):
            raise TypeError(
                f"{name}: expected matrices of weights only in linear and convolutional layers, "
                f"got one in {type(part).__name__}."
            )
    if not weights:
        raise ValueError(f"{name}: expected a linear or convolutional layer, got none.")
    return weights


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def _exp(value: float) -> float:
    return math.exp(value) if value < 709 else math.inf


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.nan
