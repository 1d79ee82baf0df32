"""The device that computes: what was asked for, or where the scores are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pa_select.utils.typing import Device

if TYPE_CHECKING:
    import torch


def resolve_device(device: Device, *scores: torch.Tensor) -> torch.device:
    """Return the requested device; None: the device of the scores."""
    import torch

    if device is None:
        for x in scores:
            if x.device.type != "cpu":
                return x.device
        return torch.device("cpu")
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"device: expected None, 'auto', 'cpu', 'cuda' or a torch.device, got {device!r}."
        ) from error
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device: got {device!r}, but torch finds no CUDA device.")
    if resolved.type == "mps":
        raise ValueError("device: got 'mps', which has no float64; use 'cpu' or 'cuda'.")
    return resolved
