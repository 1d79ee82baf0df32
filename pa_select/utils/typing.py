"""Short names of array types, and of what public functions accept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


class HasArray(Protocol):
    """What numpy can convert: its arrays, tensors, Series and DataFrames."""

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the values as an array."""


class HasPairs(Protocol):
    """A pairing of a search."""

    def pairs(self, *args: Any, **kwargs: Any) -> Any:
        """Return the rows to compare."""


class Estimator(Protocol):
    """A classifier or a regressor."""

    def fit(self, X: Any, y: Any, **params: Any) -> Any:
        """Fit the estimator."""

    def predict(self, X: Any) -> Any:
        """Predict labels or numbers."""


class Rule(Protocol):
    """A rule that chooses a candidate of a search."""

    def __call__(self, cv_results: dict[str, Any], /) -> Any:
        """Return the index of the candidate."""


# numpy's ArrayLike includes strings, so that a misspelt name would be a prior or a matrix.
Vector: TypeAlias = Sequence[float] | HasArray
Labels: TypeAlias = Sequence[Any] | HasArray
Matrix: TypeAlias = Sequence[Sequence[float]] | Sequence[HasArray] | HasArray
Scores: TypeAlias = Matrix | Sequence[Sequence[Sequence[float]]]
Weights: TypeAlias = Vector | Matrix
Prior: TypeAlias = Literal["uniform", "marginal"] | Vector
Device: TypeAlias = "str | torch.device | None"
RandomState: TypeAlias = int | np.random.RandomState | None
ErrorScore: TypeAlias = Literal["raise"] | float
PairingName: TypeAlias = Literal["repeated", "split-half"]
Pairing: TypeAlias = PairingName | HasPairs | Callable[..., Any]
SelectionName: TypeAlias = Literal[
    "guarded",
    "agreement",
    "score",
    "score_views",
    "worst_environment",
    "rank_sum",
    "expected",
]
Selection: TypeAlias = SelectionName | Callable[..., Any]
