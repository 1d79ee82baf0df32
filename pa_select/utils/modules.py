"""Torch modules and their outputs."""

from __future__ import annotations

from typing import Any

import torch
import torch.utils.data


def module_of(net: Any) -> Any:
    """Return the module of a fitted skorch net; other objects are returned as they are."""
    return getattr(net, "module_", net)


def refuse_iterable_dataset(dataset: Any, name: str) -> None:
    """Raise a TypeError for a Dataset whose rows can only be read one after the other."""
    if isinstance(dataset, torch.utils.data.IterableDataset):
        raise TypeError(
            f"{name}: expected a Dataset whose rows have numbers, since pairs are made by these, "
            f"got the IterableDataset {type(dataset).__name__}; read it into a TensorDataset or "
            "a list first."
        )


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
