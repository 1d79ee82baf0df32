"""Map the rows of one site to what the other site would have measured, learnt on pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import svd
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from pa_select.two_sites.paired_rows import (
    aligned_by_index,
    doubts_of_pairing,
    has_own_columns,
)
from pa_select.two_sites.score_of_units import parts_of, parts_of_groups
from pa_select.utils.frames import check_columns, named_like
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Array, Estimator, Floats, Rows

# Parts of the pairs that take turns in being mapped by an adapter learnt on the others.
_FOLDS = 5
# What the slope of 1 weighs beside the pairs; infinite, which comes first: no other slope.
_WEIGHTS = np.append(np.inf, np.logspace(1, -2, 4))
# Penalties of the ridge regression for each standardised column; infinite: it predicts nothing.
_PENALTIES = np.append(np.inf, np.logspace(3, -4, 15))
# The spreads of a column in equal units differ by a smaller factor at the two sites.
_OTHER_UNIT = 10
# A column that varies by less than this share of its mean is constant.
_ROUNDING = 1e-12


class SlopesAndRidge(BaseEstimator):
    r"""Predict rows of one site from rows of another, shrunk to the rows as measured.

    Each column has a slope, which is shrunk to 1. With the variance :math:`v_j` of column j at the
    other site and its covariance :math:`s_j` with the same column at the labelled site,

    .. math:: w_j = \frac{s_j + c v_j}{(1 + c) v_j}.

    A ridge regression of what is left on all standardised columns is added. Of :math:`c`
    (``weight_``) and of the penalty (``penalty_``, divided by the number of columns) those are
    taken whose errors for pairs that are left out are smallest; infinite ones keep rows as
    measured, but for the difference of the means. The slope of a column whose spreads differ by a
    factor of more than ten, as in other units, is that of least squares. `partners` says, by the
    number of a column of y, which column of X measures the same; columns without one have no
    slope. None: both have the same columns.
    """

    def __init__(self, partners: dict[int, int] | None = None) -> None:
        self.partners = partners

    def fit(self, X: Floats, y: Floats) -> SlopesAndRidge:
        """Learn from rows X of the other site and the same objects' rows y."""
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=np.float64)
        self._centre, self._mean = X.mean(0), y.mean(0)
        X, y = X - self._centre, y - self._mean
        spread, unit = _spread(X, self._centre), _spread(y, self._mean)
        self._unit = np.where(spread > 0, spread, 1.0)
        X = np.where(spread > 0, X / self._unit, 0.0)
        partner, spread = self._of_partners(X), self._of_partners(spread)
        # Columns whose spreads differ so much are in other units: no slope is near 1.
        less, more = np.minimum(unit, spread), np.maximum(unit, spread)
        is_other = (less > 0) & (more > _OTHER_UNIT * less)
        unit = np.where(is_other, unit, more)
        unit = np.where(unit > 0, unit, 1.0)
        y = y / unit - partner * np.where(is_other, 0.0, spread / unit)
        slopes = (partner * y).mean(0)

        def error_of_slopes(weight: float) -> float:
            share = np.where(is_other, 1.0, 1 / (1 + weight))
            return _left_out(y - partner * (share * slopes), share * partner**2 / len(X))

        self.weight_ = _best(_WEIGHTS, error_of_slopes)
        slopes = np.where(is_other, slopes, slopes / (1 + self.weight_))
        per_unit = unit * self._of_partners(1 / self._unit)
        self.slopes_ = np.where(is_other, 0.0, 1.0) + slopes * per_unit
        y = y - partner * slopes
        rows, values, columns = svd(X, full_matrices=False)
        told = rows.T @ y

        def error_of_ridge(penalty: float) -> float:
            shares = (values**2 / (values**2 + penalty * X.shape[1]))[:, None]
            return _left_out(y - rows @ (shares * told), rows**2 @ shares)

        self.penalty_ = _best(_PENALTIES, error_of_ridge)
        # Two factors of the coefficients, which may be too many for the memory.
        told *= (values / (values**2 + self.penalty_ * X.shape[1]))[:, None]
        self._factors = columns.T, told * unit
        return self

    def predict(self, X: Floats) -> Floats:
        """Predict what the labelled site would have measured."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64) - self._centre
        first, second = self._factors
        return self._mean + (X / self._unit) @ first @ second + self.slopes_ * self._of_partners(X)

    def _of_partners(self, values: Floats) -> Floats:
        """Return the values of each column's partner, of those of the columns of X; else 0."""
        if self.partners is None:
            return values
        found = np.zeros((*values.shape[:-1], len(self._mean)))
        found[..., list(self.partners)] = values[..., list(self.partners.values())]
        return found


def _spread(rows: Floats, mean: Floats) -> Floats:
    """Return the standard deviation of centred columns; 0 for that of rounding errors."""
    # Squares of very large or small numbers have none.
    largest = np.abs(rows).max(0)
    spread = largest * np.sqrt(np.square(rows / np.where(largest > 0, largest, 1.0)).mean(0))
    return np.where(spread > _ROUNDING * np.abs(mean), spread, 0.0)


def _best(penalties: Floats, error: Callable[[float], float]) -> float:
    """Return the penalty with the smallest error; the first one of those that are equal."""
    errors = np.array([error(penalty) for penalty in penalties])
    return float(penalties[np.argmax(errors <= (1 + 1e-9) * errors.min())])


def _left_out(residuals: Floats, leverage: Floats) -> float:
    """Return the squared error for rows that are left out, by the leverage beside the mean's."""
    left = np.maximum(1 - 1 / len(residuals) - leverage, 1e-9)
    return float(np.square(residuals / left).sum())


class SiteAdapter(TransformerMixin, BaseEstimator):
    """Map rows of the other site to rows of the labelled site.

    A regression learns from pairs what the labelled site would have measured ("direct
    standardisation" in chemometrics). A classifier that was fitted to rows of the labelled
    site then predicts the mapped rows.

    Parameters
    ----------
    regressor : "ridge" or estimator, default="ridge"
        "ridge": a slope for each column, shrunk to 1, and a ridge regression on all columns of
        what is left. With few pairs rows stay nearly as measured. If the sites have different
        columns, those whose names both DataFrames have keep a slope, and the ridge regression
        predicts the others alone. Or an estimator with ``fit(X_b, X_a)`` and ``predict``, such
        as a regressor of several outputs, or ``transform``, such as a piecewise direct
        standardisation.

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

    def __init__(self, regressor: str | Estimator = "ridge") -> None:
        self.regressor = regressor

    def fit(self, X: Any, y: Any) -> SiteAdapter:
        """Learn the map.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features_b)
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
            If `regressor` has no ``fit``, or neither ``predict`` nor ``transform``.
        ValueError
            If the sites have other numbers of rows, or both have the same columns in different
            orders. The regressor refuses what it does not take, such as missing values.

        Warns
        -----
        UserWarning
            If the rows seem to be in different orders.
        """
        y = aligned_by_index(y, X, "X_a", "X_b")
        n, n_of_a = _num_samples(X), _num_samples(y)
        if n_of_a != n:
            raise ValueError(
                f"X_a: expected the {n} objects of X_b, measured again, got {n_of_a} rows."
            )
        for message in doubts_of_pairing(y, X, "X_a", "X_b"):
            warn_caller(message)
        return self._learn(X, y)

    def _learn(self, X: Any, y: Any) -> SiteAdapter:
        """Learn the map of aligned rows, of which `check_pairs` has warned."""
        regressor = _regressor(self.regressor, X, y)
        rows_b, rows_a = _matrix(X), _matrix(y)
        self.regressor_ = clone(regressor).fit(rows_b, rows_a)
        # Without rows: the columns of both sites, and the type of mapped rows.
        self._rows_b = X.head(0) if hasattr(X, "columns") else rows_b[:0]
        self._rows_a = y.head(0) if hasattr(y, "columns") else rows_a[:0]
        self._dtype = _float_type(y)
        return self

    def transform(self, X: Any) -> Any:
        """Map rows of the other site.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features_b)

        Returns
        -------
        ndarray or DataFrame of shape (n, n_features)
            What the labelled site would have measured: dense, with the floating type of its rows.
            If the adapter has learnt from a DataFrame of that site, a DataFrame with its columns
            and the index of X.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the adapter is not fitted.
        ValueError
            If the rows have other columns than in ``fit``, or are not mapped to the columns of
            the labelled site.
        """
        check_is_fitted(self)
        check_columns(X, self._rows_b, "X", "X_b")
        mapped = _mapped(self.regressor_, _matrix(X), self._rows_a.shape[1])
        named = named_like(self._rows_a, mapped.astype(self._dtype, copy=False))
        return named.set_axis(X.index) if hasattr(named, "loc") and hasattr(X, "loc") else named


def cross_adapted(
    regressor: str | Estimator, X_b: Rows, X_a: Rows, seed: int, groups: Array | None = None
) -> Rows:
    """Map each row by an adapter that was learnt on other pairs, whatever their order.

    Pairs of one group are mapped by one adapter, which has seen none of them.
    """
    if _num_samples(X_b) < 2:
        raise ValueError("adapter: expected at least two pairs to learn from, got one.")
    regressor = _regressor(regressor, X_b, X_a)
    rows, wanted = _matrix(X_b), _matrix(X_a)
    mapped = np.empty_like(wanted, dtype=_float_type(X_a))
    if groups is None:
        part = parts_of(rows, wanted, n_parts=_FOLDS, seed=seed)
    else:
        part = parts_of_groups(groups, _FOLDS)
    for test in (part == p for p in np.unique(part)):
        learnt = clone(regressor).fit(rows[~test], wanted[~test])
        mapped[test] = _mapped(learnt, rows[test], wanted.shape[1])
    return named_like(X_a, mapped, same_rows=True)


def _regressor(regressor: Any, X_b: Rows, X_a: Rows) -> Estimator:
    """Return the estimator that learns to map rows of b to rows of a."""
    if isinstance(regressor, SiteAdapter):
        regressor = regressor.regressor
    has_own = has_own_columns(X_b, X_a)
    if not has_own:
        check_columns(X_b, X_a, "X_b", "X_a")
    if isinstance(regressor, str) and regressor == "ridge":
        regressor = SlopesAndRidge(_partners(X_b, X_a) if has_own else None)
    usable = hasattr(regressor, "fit") and _map_of(regressor) is not None
    if not usable or isinstance(regressor, type):
        raise TypeError(
            "adapter: expected None, 'ridge' or an estimator with fit(X_b, X_a) and predict or "
            f"transform, got {regressor!r}."
        )
    return regressor


def _partners(X_b: Any, X_a: Any) -> dict[int, int]:
    """Return the columns of b that a has by name, by the number of the column of a."""
    places = {name: i for i, name in enumerate(getattr(X_b, "columns", []))}
    names = enumerate(getattr(X_a, "columns", []))
    return {i: places[name] for i, name in names if name in places}


def _map_of(regressor: Any) -> Any:
    """Return the method that maps rows: ``predict``, or ``transform`` of what has none."""
    return getattr(regressor, "predict", None) or getattr(regressor, "transform", None)


def _mapped(regressor: Estimator, rows: Floats, n_columns: int) -> Floats:
    """Map rows, and check that they have the columns of the labelled site."""
    mapped = np.asarray(_map_of(regressor)(rows))
    if mapped.ndim == 1:
        mapped = mapped[:, None]  # some regressors of one output return no columns
    if mapped.shape != (len(rows), n_columns):
        raise ValueError(
            f"adapter: expected rows of the {n_columns} columns of the labelled site, got shape "
            f"{mapped.shape} for {len(rows)} rows from {regressor!r}."
        )
    return mapped


def _float_type(rows: Any) -> np.dtype[Any]:
    """Return the floating type of rows, which a net needs to get its rows in."""
    found = rows.dtype if issparse(rows) else np.asarray(rows).dtype
    return found if found.kind == "f" else np.dtype(np.float64)


def _matrix(rows: Any) -> Floats:
    if issparse(rows):  # a map of all columns to all columns makes dense rows
        rows = rows.toarray()
    if hasattr(rows, "isna"):  # pandas' columns may have NA
        rows = rows.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.asarray(rows, dtype=np.float64)
