"""The base class of shifts of numeric rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from pa_select.environments.numeric_rows import distances, numeric_rows
from pa_select.environments.shift import Shift, Shifted
from pa_select.utils.typing import Floats


class NumericShift(Shift):
    """Base class of shifts that change numbers and keep the shape of each row."""

    #: Largest allowed strength.
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
        """Return new numbers of shape (n, ...) without writing to the old ones."""
