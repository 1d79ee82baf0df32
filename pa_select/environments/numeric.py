"""What shifts of rows of numbers have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from pa_select.environments.rows import distances, numeric_rows
from pa_select.environments.shift import Floats, Shift, Shifted


class NumericShift(Shift):
    """Base class of shifts that change numbers, each row to another of the same shape."""

    #: Greatest strength there is.
    _most = np.inf

    def _shift(self, X: Any, y: Any, estimator: Any, power: float) -> Shifted:
        if power > self._most:
            raise ValueError(
                f"{self._power}: expected a number of at most {self._most:g}, got {power!r}."
            )
        rows = numeric_rows(X)
        after = self._changed(rows.values, power)
        return Shifted(rows.restore(after), distances(rows.values, after))

    @abstractmethod
    def _changed(self, values: Floats, power: float) -> Floats:
        """New numbers of shape (n, ...); the old ones must not be written to."""
