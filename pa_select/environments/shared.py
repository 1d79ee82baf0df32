"""Data that scorers and callbacks share, however often they are cloned."""

from __future__ import annotations

from typing import Any

import torch.utils.data
from sklearn.utils.validation import _num_samples


class SharedEnvironment(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """Rows of one environment that are never copied by clone, deepcopy or grid searches.

    scikit-learn's ``clone`` deep-copies what a callback or a scorer holds; a search over a
    hundred candidates would hold a hundred copies of the data. This is a torch Dataset of
    (row, label) that clones to itself.

    Parameters
    ----------
    X : array-like, tensor or Dataset of n rows
        What the module takes; of a Dataset, its items as they are.
    y : array-like of shape (n,), default=None
        Labels, where they are known. Agreement of views needs none.

    Raises
    ------
    ValueError
        If there are not as many labels as rows.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       section 5.2 (environments).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.base import clone
    >>> from pa_select.environments import SharedEnvironment
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
        return len(self.X) if hasattr(self.X, "__len__") else _num_samples(self.X)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.X, torch.utils.data.Dataset):
            return self.X[index]
        row = self.X.iloc[index].to_numpy() if hasattr(self.X, "iloc") else self.X[index]
        if hasattr(row, "to_numpy"):  # of polars
            row = row.to_numpy()[0]
        # A label of no meaning, which a loader can stack.
        return row, 0 if self.y is None else self.y[index]

    def __sklearn_clone__(self) -> SharedEnvironment:
        return self

    def __deepcopy__(self, memo: Any) -> SharedEnvironment:
        return self

    def __repr__(self) -> str:
        return f"SharedEnvironment({type(self.X).__name__} of {len(self)} rows)"
