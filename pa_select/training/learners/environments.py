"""Rows that carry their environment from the data to the loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from skorch.dataset import Dataset, get_len, unpack_data
from torch.utils.data import Sampler, Subset

from pa_select.utils.arrays import check_column
from pa_select.utils.typing import Ints, Labels

#: The key of a dict X that holds environments.
KEY = "environments"


class InEnvironment(NamedTuple):
    """The inputs of the module and their environment; loaders stack both."""

    X: Any
    environment: torch.Tensor


class EnvironmentDataset(Dataset):
    """A dataset whose rows carry a number for their environment.

    It is a skorch Dataset, since callbacks read rows and labels only from those.
    """

    def __init__(self, dataset: Any, environments: Ints) -> None:
        self.dataset = dataset
        self.environments = environments

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> tuple[InEnvironment, Any]:
        X, y = unpack_data(self.dataset[index])
        return InEnvironment(X, self.environments[index]), y

    @property
    def X(self) -> Any:
        """The rows without their environments."""
        return self.dataset.X

    @property
    def y(self) -> Any:
        """The labels."""
        return self.dataset.y


class EnvironmentSampler(Sampler[int]):
    """Every row once, in an order that spreads each environment evenly.

    Batches of any size then hold about the same share of every environment.
    """

    def __init__(
        self, environments: Ints, random_state: np.random.RandomState, shuffle: bool
    ) -> None:
        self.environments = environments
        self.random_state = random_state
        self.shuffle = shuffle

    def __len__(self) -> int:
        return len(self.environments)

    def __iter__(self) -> Iterator[int]:
        position = np.empty(len(self))
        for environment in np.unique(self.environments):
            rows = np.flatnonzero(self.environments == environment)
            start = 0.5
            if self.shuffle:
                rows, start = self.random_state.permutation(rows), self.random_state.uniform()
            position[rows] = (np.arange(len(rows)) + start) / len(rows)
        yield from np.argsort(position, kind="stable").tolist()


def environment_numbers(X: Any, environments: Labels | None) -> Ints:
    """Return a number for each row's environment, from the argument or else from a dict X.

    At least two environments are needed, and none may be missing.
    """
    if environments is None and isinstance(X, Mapping):
        environments = X.get(KEY)
    if environments is None:
        raise ValueError(
            "environments: expected the environment of each row, in fit(X, y, "
            f"environments=...) or as X[{KEY!r}] of a dict X, got None."
        )
    if isinstance(environments, torch.Tensor):
        environments = environments.cpu()
    names, numbers = np.unique(
        check_column(environments, get_len(X), "environments"), return_inverse=True
    )
    if len(names) < 2:
        raise ValueError(f"environments: expected at least two, got only {names.tolist()[0]!r}.")
    return numbers.astype(np.int64)


def without_environments(X: Any) -> Any:
    """Return X without environments, as the module takes it."""
    if isinstance(X, Mapping) and KEY in X:
        return {name: values for name, values in X.items() if name != KEY}
    return X


def numbers_of(dataset: Any) -> Ints:
    """Return the environments of the training rows, at least two."""
    numbers = _numbers_of(dataset)
    if len(np.unique(numbers)) < 2:
        raise ValueError(
            "train_split: expected training rows of at least two environments, got one."
        )
    return numbers


def _numbers_of(dataset: Any) -> Ints:
    if isinstance(dataset, EnvironmentDataset):
        return dataset.environments
    if isinstance(dataset, Subset):
        return _numbers_of(dataset.dataset)[np.asarray(dataset.indices)]
    raise ValueError(
        "train_split: expected training rows that are a torch Subset of those given, got "
        f"{type(dataset).__name__}."
    )


def plain(dataset: Any) -> Any:
    """Return a subset for validation without environments."""
    if isinstance(dataset, Subset) and isinstance(dataset.dataset, EnvironmentDataset):
        return Subset(dataset.dataset.dataset, dataset.indices)
    return dataset
