"""Inputs that are read when they are needed, and their features."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch.utils.data import DataLoader, default_collate

from pa_select.scores.features import features_of
from pa_select.scores.modules import evaluation
from pa_select.utils.arrays import resolve_device
from pa_select.utils.estimators import module_of
from pa_select.utils.typing import Array, Device, HasItems, Index


@dataclass(eq=False, repr=False)
class LazyInputs:
    """Inputs of some rows of a Dataset, read one by one.

    This is not a Dataset itself, because callbacks read all items of a Dataset to pair them.
    It has a shape, so that scikit-learn indexes it like an array. The items of the Dataset are
    tuples whose first entry is the input, to which the `transform` is applied.
    """

    dataset: HasItems
    rows: Index
    transform: Callable[[Any], Any] | None

    @property
    def shape(self) -> tuple[int]:
        """Number of inputs, (n,)."""
        return (len(self),)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        # scikit-learn indexes with (rows, ...).
        rows = self.rows[index[0] if isinstance(index, tuple) else index]
        if isinstance(rows, np.ndarray):
            return LazyInputs(self.dataset, rows, self.transform)
        item = self.dataset[int(rows)]
        if not isinstance(item, (tuple, list)):
            raise TypeError(
                "dataset: expected items that are tuples and begin with the input, got "
                f"{type(item).__name__}."
            )
        return item[0] if self.transform is None else self.transform(item[0])


class ComputedFeatures:
    """Look up features that were computed before, for rows of the same Dataset."""

    def __init__(self, points: Array, inputs: LazyInputs) -> None:
        self.points = points
        self.dataset = inputs.dataset
        self.place = np.full(len(inputs.dataset), -1)
        self.place[inputs.rows] = np.arange(len(inputs))

    def __call__(self, X: object) -> Array:
        """Look up the features of some of the rows."""
        if not isinstance(X, LazyInputs) or X.dataset is not self.dataset:
            raise TypeError(
                "pairing: expected rows of the data that the features belong to, got "
                f"{'other data' if isinstance(X, LazyInputs) else type(X).__name__}."
            )
        places = self.place[X.rows]
        if (places < 0).any():
            row = X.rows[(places < 0).argmax()]
            raise ValueError(f"pairing: expected rows with features, got row {row} without.")
        return self.points[places]

    def __deepcopy__(self, memo: object) -> ComputedFeatures:
        # Clones of a callback share the features, which can be large.
        return self


def extract_features(
    inputs: LazyInputs, extractor: Any, batch_size: int, device: Device, num_workers: int
) -> Array:
    """Compute the features of all inputs in batches; see `WILDSData.features`."""
    extractor = module_of(extractor)
    module = extractor if isinstance(extractor, torch.nn.Module) else None
    points = np.empty((0, 0))
    begin = 0
    # Without its own generator the loader would draw from the global one.
    loader = DataLoader(
        cast(Any, inputs),
        batch_size,
        num_workers=num_workers,
        collate_fn=_stack,
        generator=torch.Generator(),
    )
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        home = None if device is None else resolve_device(device)
        if module is not None:
            home = _module_on_device(module, home, stack)
        for batch in loader:
            end = min(begin + batch_size, len(inputs))
            name = f"features of rows {begin} to {end - 1}"
            made = features_of(_extractor_input(batch, extractor, home), extractor, name)
            if len(made) != end - begin:
                raise ValueError(
                    f"extractor: expected features of {end - begin} rows, got {len(made)}."
                )
            if not begin:
                dtype = np.float64 if module is None else np.float32
                points = np.empty((len(inputs), made.shape[1]), dtype=dtype)
            points[begin:end] = made
            begin = end
    return points


def _stack(inputs: list[Any]) -> Any:
    try:
        return default_collate(inputs)
    except (RuntimeError, TypeError) as error:
        raise TypeError(
            "transform: expected outputs of equal shape that torch can stack, got "
            f"{type(inputs[0]).__name__}: {error}"
        ) from error


def _module_on_device(
    module: torch.nn.Module, device: torch.device | None, stack: ExitStack
) -> torch.device:
    """Move a module to a device, in evaluation mode, until the stack is closed."""
    home = next((part.device for part in module.parameters()), torch.device("cpu"))
    stack.enter_context(evaluation(module))
    # A module that is spread over several devices, or that must not be moved, stays.
    if device is None:
        return home
    stack.callback(module.to, home)
    module.to(device)
    return device


def _extractor_input(batch: Any, extractor: Any, device: torch.device | None) -> Any:
    """Convert a batch to the type that the extractor needs."""
    if not isinstance(batch, torch.Tensor):
        return batch
    if isinstance(extractor, torch.nn.Module):
        dtypes = (p.dtype for p in extractor.parameters() if p.is_floating_point())
        dtype = next(dtypes, batch.dtype) if batch.is_floating_point() else batch.dtype
        return batch.to(device, dtype)
    if hasattr(extractor, "transform"):
        return batch.reshape(len(batch), -1).numpy()
    return batch if device is None else batch.to(device)
