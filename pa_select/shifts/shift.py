"""The base classes of shifts, and the result that they return."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from pa_select.shifts.numeric_rows import distances, numeric_rows
from pa_select.utils.typing import Floats, Labels, Mask, Model, Rows


class Shifted(NamedTuple):
    """The result of a shift: the changed rows and how far each row moved.

    Parameters
    ----------
    X : array-like of n rows
        The changed rows, in the type and order of the given rows.
    norm : ndarray of shape (n,)
        How far each row moved, at least 0: the Euclidean norm of the change of its numbers,
        if the shift does not say otherwise. Missing and infinite numbers do not count.
    success : ndarray of shape (n,) of bool, or None
        Whether an attack changed the model's decision; None for other shifts.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select.shifts import GaussianNoise
    >>> shifted = GaussianNoise(0.5)(np.zeros((3, 2)))
    >>> shifted.X.shape, shifted.norm.shape, shifted.success
    ((3, 2), (3,), None)
    """

    X: Any
    norm: Floats
    success: Mask | None = None


class Shift(BaseEstimator, ABC):
    """Base class of shifts: parameters go to the constructor, rows to the call.

    To write your own shift, name its strength parameter in `_power` and override `_shift`. An
    attack also sets ``_aimed = True``: `_shift` is then called with each estimator to attack.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select.shifts import Shift, Shifted
    >>> class Offset(Shift):
    ...     _power = "by"
    ...
    ...     def __init__(self, by=1.0):
    ...         self.by = by
    ...
    ...     def _shift(self, X, y, estimator, power):
    ...         return Shifted(X + power, np.full(len(X), power))
    >>> Offset()(np.zeros(2), power=3).X
    array([3., 3.])
    """

    #: Name of the strength parameter that `power` overrides.
    _power: str
    #: Largest allowed strength.
    _most = np.inf
    #: Whether the strength may be infinite.
    _unbounded = False
    #: Whether the shift depends on the estimator.
    _aimed = False

    def __call__(
        self,
        X: Rows,
        y: Labels | None = None,
        *,
        estimator: Model | None = None,
        power: float | None = None,
    ) -> Shifted:
        """Shift rows.

        Parameters
        ----------
        X : array-like of n rows
            The rows.
        y : array-like of shape (n,), default=None
            The labels of the rows, for shifts that need them.
        estimator : object, default=None
            The fitted classifier to attack.
        power : float, default=None
            Strength of the shift, at least 0; it overrides the constructor's strength. 0
            changes nothing.

        Returns
        -------
        Shifted
            The changed rows, how far each row moved, and whether an attack succeeded.

        Raises
        ------
        TypeError, ValueError
            If an argument is invalid; the message names it.
        """
        strength = getattr(self, self._power) if power is None else power
        self._check_power(strength, self._power if power is None else "power")
        return self._shift(X, y, estimator, float(strength))

    def _check_power(self, power: float, name: str) -> None:
        """Raise an error unless the strength, an argument of this name, can be used."""
        if not (0 <= power < np.inf or (self._unbounded and power == np.inf)):
            finite = "" if self._unbounded else "finite "
            raise ValueError(f"{name}: expected a {finite}number of at least 0, got {power!r}.")
        if power > self._most:
            raise ValueError(
                f"{name}: expected a number of at most {self._most:g}, got {power!r}."
            )

    @abstractmethod
    def _shift(self, X: Rows, y: Labels | None, estimator: Model | None, power: float) -> Shifted:
        """Shift the rows; the strength has been checked."""


class NumericShift(Shift):
    """Base class of shifts that change numbers and keep the shape of each row."""

    def _shift(self, X: Rows, y: Labels | None, estimator: Model | None, power: float) -> Shifted:
        rows = numeric_rows(X)
        after = self._changed(rows.values, power)
        return Shifted(rows.restore(after), distances(rows.values, after))

    @abstractmethod
    def _changed(self, values: Floats, power: float) -> Floats:
        """Return new numbers of shape (n, ...) without writing to the old ones."""
