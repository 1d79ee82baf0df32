"""Raw outputs of torch modules and skorch nets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from sklearn.base import is_classifier, is_regressor

from pa_select.agreement.inputs.validation import as_tensor
from pa_select.utils.arrays import (
    DEFAULT_CLIP,
    OF_PIXELS,
    ROUNDING,
)
from pa_select.utils.estimators import first_output
from pa_select.utils.typing import Array, Net, Rows

# Losses of numbers that are no class scores.
_OF_REGRESSORS = (
    *(torch.nn.MSELoss, torch.nn.L1Loss, torch.nn.SmoothL1Loss, torch.nn.HuberLoss),
    *(torch.nn.PoissonNLLLoss, torch.nn.GaussianNLLLoss),
)
# The floating types that numpy has, too.
_KEPT = (torch.float16, torch.float32, torch.float64)


def module_scores(module: torch.nn.Module, X: Rows, batch_size: int) -> tuple[torch.Tensor, Array]:
    """Return the outputs of a module on its device, computed in batches."""
    inputs = X if isinstance(X, torch.Tensor) else as_tensor(X, "X")
    if not inputs.ndim or not len(inputs):
        raise ValueError(f"X: expected at least one row, got shape {tuple(inputs.shape)}.")
    outputs = in_batches(module, inputs, batch_size, first_output)
    return _columns(torch.cat(outputs), module)


def in_batches(
    module: torch.nn.Module, rows: torch.Tensor, batch_size: int, keep: Callable[[Any], Any]
) -> list[Any]:
    """Compute a module in batches of rows, on its device and in its precision.

    Returns what `keep` takes from the output of each batch.
    """
    parameter = next(filter(torch.is_floating_point, module.parameters()), torch.empty(0))
    kept = []
    with evaluation(module):
        for batch in torch.split(rows, batch_size):
            dtype = parameter.dtype if batch.is_floating_point() else batch.dtype
            kept.append(keep(module(batch.to(parameter.device, dtype))))
    return kept


def net_scores(net: Net, X: Rows) -> tuple[torch.Tensor, Array]:
    """Return the outputs of a skorch net's module as logits, on the net's device."""
    check_classifies(net)
    net.check_is_fitted()
    parts = [getattr(net, f"{name}_") for name in (*net._modules, *net._criteria)]
    with evaluation(*(part for part in parts if isinstance(part, torch.nn.Module))):
        batches = list(net.forward_iter(X, training=False, device=net.device))
    return scores_of_net(net, batches)


def check_classifies(net: Net) -> None:
    """Refuse a skorch net that predicts numbers, whose one output would be read as a margin.

    It is a regressor, or trained with a loss of regressors and no classifier.
    """
    name = type(net).__name__
    if is_regressor(net):
        raise TypeError(f"estimator: expected a classifier, got a {name}.")
    criterion = getattr(net, "criterion_", None)
    if isinstance(criterion, _OF_REGRESSORS) and not is_classifier(net):
        raise TypeError(
            "estimator: expected a classifier, got a net that is trained with "
            f"{type(criterion).__name__}."
        )


def scores_of_net(net: Net, batches: list[Any]) -> tuple[torch.Tensor, Array]:
    """Convert the outputs of a skorch net's module to logits."""
    outputs = torch.cat([first_output(batch).detach() for batch in batches])
    if isinstance(net.criterion_, torch.nn.NLLLoss):
        # skorch's convention: such a module returns probabilities.
        if bool((outputs < -ROUNDING).any()):
            raise ValueError(
                "criterion: expected a module that returns probabilities with NLLLoss, as skorch "
                f"does, got {outputs.min():.3g}. For logits or their log-softmax take "
                "CrossEntropyLoss."
            )
        outputs = outputs.clamp_min(DEFAULT_CLIP).log()
    return _columns(outputs, net)


@contextmanager
def evaluation(*modules: torch.nn.Module) -> Iterator[None]:
    """Use evaluation mode without gradients, then restore the mode of every part."""
    modes = [(part, part.training) for module in modules for part in module.modules()]
    try:
        for module in modules:
            module.eval()
        with torch.no_grad():
            yield
    finally:
        for part, training in modes:
            part.training = training


def _columns(outputs: torch.Tensor, estimator: object) -> tuple[torch.Tensor, Array]:
    """Return outputs with a column for each class, and the classes, 0, 1, ... if unknown."""
    if outputs.ndim == 2 and outputs.shape[1] == 1:
        outputs = outputs[:, 0]
    if outputs.ndim == 1:
        outputs = torch.stack([-outputs / 2, outputs / 2], dim=1)
    if outputs.ndim != 2:
        raise TypeError(
            "estimator: expected outputs of shape (n, n_classes) from "
            f"{type(estimator).__name__}, got {tuple(outputs.shape)}.{OF_PIXELS}"
        )
    if outputs.is_floating_point() and outputs.dtype not in _KEPT:
        outputs = outputs.float()
    known, n_classes = getattr(estimator, "classes_", None), outputs.shape[1]
    if known is not None and len(known) == n_classes:
        return outputs, np.asarray(known)
    return outputs, np.arange(n_classes)
