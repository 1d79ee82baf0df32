"""Short names of array types, and of what public functions accept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.lines
    import pandas
    import torch
    from skorch import NeuralNet

    from pa_select.utils.sklearn_private import BaseSearchCV

Array = NDArray[Any]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
#: Row numbers as numpy returns them.
Index = NDArray[np.intp]


class HasArray(Protocol):
    """What numpy can convert: its arrays, tensors, Series and DataFrames."""

    def __len__(self) -> int: ...

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the values as an array."""


class HasShape(Protocol):
    """A table or an array, also a sparse one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows, then those of the other axes."""


class HasItems(Protocol):
    """A list of rows, or a torch Dataset."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> Any: ...


class HasPairs(Protocol):
    """A pairing of a search."""

    def pairs(self, *args: Any, **kwargs: Any) -> Any:
        """Return the rows to compare."""


class Predictor(Protocol):
    """A fitted classifier or regressor, such as a skorch net."""

    def predict(self, X: Any) -> Any:
        """Predict labels or numbers."""


class Estimator(Predictor, Protocol):
    """A classifier or a regressor."""

    def fit(self, X: Any, y: Any, **params: Any) -> Any:
        """Fit the estimator."""


class Splitter(Protocol):
    """A splitter of scikit-learn."""

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterable[tuple[Any, Any]]:
        """Yield training and test rows."""


#: A scorer of scikit-learn: it takes an estimator, X and y, and returns a number, or several.
Scorer: TypeAlias = Callable[..., Any]
#: A rule of a search: it takes `cv_results_` and returns the index of the chosen candidate.
Rule: TypeAlias = Callable[[dict[str, Any]], Any]
# numpy's ArrayLike includes strings, so that a misspelt name would be a prior or a matrix.
Vector: TypeAlias = Sequence[float] | HasArray
Labels: TypeAlias = Sequence[Any] | HasArray
Matrix: TypeAlias = Sequence[Sequence[float]] | Sequence[HasArray] | HasArray
Scores: TypeAlias = Matrix | Sequence[Sequence[Sequence[float]]]
Weights: TypeAlias = Vector | Matrix
Prior: TypeAlias = Literal["uniform", "marginal"] | Vector
#: Smallest and largest value of numbers, or of each number of a row.
Bounds: TypeAlias = tuple[float | Vector, float | Vector]
#: Rows in any form that an estimator takes.
Rows: TypeAlias = HasShape | HasItems
#: A fitted model of scikit-learn or skorch, or a torch module.
Model: TypeAlias = "Predictor | torch.nn.Module"
Estimators: TypeAlias = "Model | Sequence[Model] | Mapping[str, Model]"
Net: TypeAlias = "NeuralNet"
#: A network: itself, or as a fitted net of skorch.
Module: TypeAlias = "torch.nn.Module | NeuralNet"
Search: TypeAlias = "BaseSearchCV"
Frame: TypeAlias = "pandas.DataFrame"
Axes: TypeAlias = "matplotlib.axes.Axes"
Line: TypeAlias = "matplotlib.lines.Line2D"
Scoring: TypeAlias = str | Scorer | Sequence[str] | Mapping[str, str | Scorer] | None
CrossValidation: TypeAlias = int | Splitter | Sequence[Splitter] | Iterable[tuple[Any, Any]] | None
PairedRows: TypeAlias = tuple[Rows, Rows] | Mapping[str, tuple[Rows, Rows]]
#: The group of each row or pair, or None.
Groups: TypeAlias = Labels | None
#: What maps rows of another site to rows of the labelled one.
Adapter: TypeAlias = str | Estimator | None
#: Whose posteriors stand in for labels.
Reference: TypeAlias = "str | Model"
Device: TypeAlias = "str | torch.device | None"
RandomState: TypeAlias = int | np.random.RandomState | None
ErrorScore: TypeAlias = Literal["raise"] | float
