"""Folding batch normalisations into the layers before them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import nn

from pa_select.utils.estimators import module_of

#: Layers whose weights are a matrix, or are read as one with a row for each output channel.
LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def folded(module: Any, name: str) -> nn.Module:
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


def _fold(layer: Any, norm: Any, name: str) -> None:
    if not isinstance(layer, LAYERS) or len(layer.weight) != norm.num_features:
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
