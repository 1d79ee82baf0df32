"""Torch modules and their outputs."""

from __future__ import annotations

from typing import Any

import torch


def module_of(net: Any) -> Any:
    """Return the module of a fitted skorch net; other objects are returned as they are."""
    return getattr(net, "module_", net)


def first_output(outputs: Any, name: str = "estimator") -> torch.Tensor:
    """Return the scores: the output of a module, or the first of several outputs.

    Raises
    ------
    TypeError
        If this is not a tensor; the message begins with `name`.
    """
    result = outputs[0] if isinstance(outputs, (tuple, list)) else outputs
    if not isinstance(result, torch.Tensor):
        raise TypeError(
            f"{name}: expected a module that returns a tensor, or several tensors with the "
            f"scores first, got {type(result).__name__}."
        )
    return result
