"""Map the rows of one site to what the other site would have measured, learnt on pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import _num_samples, check_is_fitted

from pa_select.unlabelled.paired_rows import aligned_by_index
from pa_select.unlabelled.scored import parts_of
from pa_select.utils.frames import named_like
from pa_select.utils.typing import Floats

# Parts of the pairs that take turns in being mapped by an adapter learnt on the others.
_FOLDS = 5


class SiteAdapter(TransformerMixin, BaseEstimator):
    """Map rows of the other site to rows of the labelled site.

    A regression learns from pairs what the labelled site would have measured ("direct
    standardisation" in chemometrics). A classifier that was fitted to rows of the labelled
    site then predicts the mapped rows.

    Parameters
    ----------
    regressor : "ridge" or estimator, default="ridge"
        A regressor of several outputs, or another estimator with ``fit(X_b, X_a)`` and
        ``predict`` or ``transform``. "ridge": `sklearn.linear_model.RidgeCV` of standardised
        columns, with penalties from 0.01 to 10 000.

    Attributes
    ----------
    regressor_ : estimator
        The fitted regressor.

    References
    ----------
    .. [1] Y. Wang, D. J. Veltkamp, B. R. Kowalski, "Multivariate instrument
       standardization", Analytical Chemistry 1991 (direct standardisation).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_wine
    >>> from pa_select import SiteAdapter
    >>> X_a, _ = load_wine(return_X_y=True)
    >>> X_b = 1.3 * X_a + 5  # another instrument
    >>> adapter = SiteAdapter().fit(X_b[:100], X_a[:100])
    >>> bool(np.allclose(adapter.transform(X_b[100:]), X_a[100:], rtol=0.1))
    True
    """

    def __init__(self, regressor: Any = "ridge") -> None:
        self.regressor = regressor

    def fit(self, X: Any, y: Any) -> SiteAdapter:
        """Learn the map.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Rows of the other site, numbers. They come first: the map goes from there.
        y : array-like or sparse matrix of shape (n, n_features)
            The same objects, measured at the labelled site. DataFrames are aligned by their
            index.

        Returns
        -------
        SiteAdapter
            Itself.

        Raises
        ------
        TypeError
            If `regressor` has neither ``predict`` nor ``transform``.
        ValueError
            If the rows are not numbers.
        """
        y = aligned_by_index(y, X, "X_a", "X_b")
        self.regressor_ = _fitted(self.regressor, _matrix(X, "X_b"), _matrix(y, "X_a"))
        self._dtype = _float_type(y)
        return self

    def transform(self, X: Any) -> Any:
        """Map rows of the other site.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)

        Returns
        -------
        ndarray or DataFrame of shape (n, n_features)
            What the labelled site would have measured; a DataFrame with its index if X is one.
            The rows are dense, also if X is sparse.
            The numbers have the floating type of the rows of the labelled site, such as float32.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the adapter is not fitted.
        ValueError
            If the rows are not numbers.
        """
        check_is_fitted(self)
        mapped = np.asarray(_mapped(self.regressor_, _matrix(X, "X_b")), dtype=self._dtype)
        return named_like(X, mapped.reshape(len(mapped), -1), same_rows=True)


def cross_adapted(regressor: Any, X_b: Any, X_a: Any, seed: int) -> Any:
    """Map each row by an adapter that was learnt on other pairs, whatever their order."""
    if _num_samples(X_b) < 2:
        raise ValueError("adapter: expected at least two pairs to learn from, got one.")
    rows, wanted = _matrix(X_b, "X_b"), _matrix(X_a, "X_a")
    mapped = np.empty_like(wanted, dtype=_float_type(X_a))
    part = parts_of(rows, wanted, n_parts=_FOLDS, seed=seed)
    for test in (part == p for p in np.unique(part)):
        learnt = _fitted(regressor, rows[~test], wanted[~test])
        mapped[test] = np.asarray(_mapped(learnt, rows[test])).reshape(wanted[test].shape)
    return named_like(X_b, mapped, same_rows=True)


def _fitted(regressor: Any, rows: Floats, wanted: Floats) -> Any:
    """Fit a regressor; an error names the adapter."""
    if isinstance(regressor, str) and regressor == "ridge":
        ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 13)))
        regressor = TransformedTargetRegressor(ridge, transformer=StandardScaler())
    _method(regressor)
    try:
        return clone(regressor).fit(rows, wanted)
    except ValueError as error:
        raise ValueError(
            f"adapter: expected a regressor of several outputs that can learn {wanted.shape[1]} "
            f"columns from {rows.shape[1]}, got an error from {regressor!r}: {error}"
        ) from error


def _mapped(regressor: Any, rows: Floats) -> Any:
    return getattr(regressor, _method(regressor))(rows)


def _method(regressor: Any) -> str:
    for name in ("predict", "transform"):
        usable = hasattr(regressor, "fit") and hasattr(regressor, name)
        if usable and not isinstance(regressor, type):
            return name
    raise TypeError(
        "adapter: expected None, 'ridge' or an estimator with fit(X_b, X_a) and predict or "
        f"transform, got {regressor!r}."
    )


def _float_type(rows: Any) -> np.dtype[Any]:
    """Return the floating type of rows, which a net needs to get its rows in."""
    found = rows.dtype if issparse(rows) else np.asarray(rows).dtype
    return found if found.kind == "f" else np.dtype(np.float64)


def _matrix(rows: Any, name: str) -> Floats:
    if issparse(rows):  # a map of all columns to all columns makes dense rows
        rows = rows.toarray()
    try:
        values = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.ndim != 2:
        raise ValueError(
            f"adapter: expected rows of numbers in {name}, of shape (n, n_features), got "
            f"{type(rows).__name__} of shape {getattr(rows, 'shape', 'unknown')}."
        )
    return values
