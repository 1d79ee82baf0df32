"""Norms of a network's weights, multiplied or added over the layers."""

from __future__ import annotations

import math
from typing import Any

import torch

from pa_select.assessment.batch_norm_folding import LAYERS, folded


def norm_measures(
    module: Any, margin: float | None = None, *, initial: Any = None
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
    A batch normalisation is folded into the layer before it, with its running statistics. It
    has to come directly after a linear or convolutional layer, in the order in which the
    network registers its layers: folding across a ReLU would change the function. Biases are
    ignored.

    The weights of a convolution are read as a matrix with a row for each output channel, as
    in the study [1]_. The spectral norm of this matrix differs from that of the convolution
    as an operator. The L1,inf norm is the largest sum of absolute weights in one row.

    References
    ----------
    .. [1] "Benchmarking Robustness Measures", appendix C.2.
    .. [2] Y. Jiang et al., "Fantastic generalization measures and where to find them", 2019,
       appendix C.

    Examples
    --------
    >>> import torch
    >>> from pa_select.assessment import norm_measures
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
    found = {f"log_{name}": value for name, value in logs.items()}
    found["fro_over_spec"] = ratio
    found["sum_of_fro"] = depth * _exp(logs["frobenius"] / depth)
    squared = math.nan
    if margin is not None:
        size = math.log(abs(margin))
        squared = 2 * size
        for name, value in logs.items():
            found[f"{name}_over_margin"] = math.copysign(_exp(value - size), margin)
            found[f"log_{name}_over_squared_margin"] = value - squared
        found["sum_of_fro_over_margin"] = depth * _exp((logs["frobenius"] - squared) / depth)
        found["log_spec_orig_main"] = logs["spectral"] + _log(ratio) - squared
    if before is not None:
        distances = [float((w - w0).norm()) for w, w0 in zip(weights, before, strict=True)]
        found["frobenius_distance"] = sum(distances)
        if margin is not None:
            moved = sum(map(_ratio, distances, norms["spectral"]))
            found["log_spec_init_main"] = logs["spectral"] + _log(moved) - squared
    return found


def _weights(module: Any, name: str) -> list[torch.Tensor]:
    """Return the layers' weights as matrices, with batch normalisations folded in."""
    weights = []
    for part in folded(module, name).modules():
        if isinstance(part, LAYERS):
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
