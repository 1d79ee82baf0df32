"""Data that scorers and callbacks share, even if they are cloned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch.utils.data
from sklearn.utils.validation import _num_samples


class SharedEnvironment(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """Rows of one environment that are never copied by clone, deepcopy or grid searches.

    scikit-learn's ``clone`` deep-copies the data of callbacks and scorers, so a search over a
    hundred candidates would hold a hundred copies. This torch Dataset of (row, label) is its
    own clone.

    Parameters
    ----------
    X : array-like, tensor, Dataset or dict of array-like of n rows
        Inputs of the module; of several by their names, as in skorch's ``SliceDict``. Items of a
        Dataset are returned unchanged.
    y : array-like of shape (n,) or (n, 1), default=None
        Labels, if they are known. Agreement of views needs no labels.

    Raises
    ------
    ValueError
        If the numbers of labels and rows differ.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.base import clone
    >>> from pa_select.training import SharedEnvironment
    >>> today = SharedEnvironment(np.zeros((3, 2), dtype=np.float32))
    >>> clone(today) is today, len(today)
    (True, 3)
    """

    def __init__(self, X: Any, y: Any = None) -> None:
        self.X = X
        self.y = y
        if y is not None and _num_samples(y) != len(self):
            raise ValueError(f"y: expected {len(self)} labels, got {_num_samples(y)}.")

    def __len__(self) -> int:
        if isinstance(self.X, Mapping):
            return _num_samples(next(iter(self.X.values())))
        return len(self.X) if hasattr(self.X, "__len__") else _num_samples(self.X)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.X, torch.utils.data.Dataset):
            return self.X[index]
        if isinstance(self.X, Mapping):  # such as skorch's SliceDict
            row: Any = {name: part[index] for name, part in self.X.items()}
        else:
            row = self.X.iloc[index].to_numpy() if hasattr(self.X, "iloc") else self.X[index]
        if hasattr(row, "to_numpy"):  # a row of a polars DataFrame
            row = row.to_numpy()[0]
        # Loaders cannot stack None, so a missing label is 0.
        return row, 0 if self.y is None else self.y[index]

    def __sklearn_clone__(self) -> SharedEnvironment:
        return self

    def __deepcopy__(self, memo: object) -> SharedEnvironment:
        return self

    def __repr__(self) -> str:
        return f"SharedEnvironment({type(self.X).__name__} of {len(self)} rows)"
