"""The path norm of a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from pa_select.assessment.batch_norm_folding import LAYERS, folded
from pa_select.utils.estimators import first_output


def path_norm(module: Any, input_shape: int | Sequence[int]) -> float:
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
    The sum over all paths is that of the network's outputs for an input of ones if each weight is
    squared. Batch normalisations are folded as in `norm_measures`, and biases are ignored.

    References
    ----------
    .. [1] B. Neyshabur et al., "Path-SGD: path-normalized optimization in deep neural networks",
       2015.
    .. [2] Y. Jiang et al., "Fantastic generalization measures and where to find them", 2019,
       appendix C.5.

    Examples
    --------
    >>> import torch
    >>> from pa_select.assessment import path_norm
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
                elif isinstance(part, LAYERS):
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
