"""Shifts made from functions, transformers and DataFrames."""

from __future__ import annotations

import inspect
from copy import copy
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

from pa_select.shifts.numeric_rows import distances, numeric_rows
from pa_select.shifts.shift import Shift, Shifted
from pa_select.utils.frames import view_of
from pa_select.utils.typing import Floats, Labels, Model, Rows


class TransformShift(Shift):
    """Use a function of rows, a fitted transformer or a DataFrame of other rows as a shift.

    In `Shifted.norm` only the numeric columns of a DataFrame count: it is 0 where only text or
    categories change. It is nan if the rows hold no numbers, or change their shape.

    Parameters
    ----------
    transform : callable, fitted transformer or DataFrame
        ``transform(X)``, ``transform.transform(X)``, or the rows of a DataFrame with the
        index of X. A callable with a parameter ``power`` is called with the strength.
    power : float, default=1.0
        The strength, at least 0; 0 changes nothing. It must be 0 or 1 if the transform has no
        parameter ``power``.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select.shifts import TransformShift
    >>> darker = TransformShift(lambda X, power: X * (1 - power))
    >>> shifted = darker(np.array([[3.0, 4.0]]), power=0.5)
    >>> shifted.X, shifted.norm
    (array([[1.5, 2. ]]), array([2.5]))
    """

    _power = "power"

    def __init__(self, transform: Any, power: float = 1.0) -> None:
        self.transform = transform
        self.power = power

    def __sklearn_clone__(self) -> TransformShift:
        # A plain clone would lose the fit of the transformer.
        return copy(self)

    def _check_power(self, power: float, name: str) -> None:
        super()._check_power(power, name)
        if _power_of(self.transform) is None and power not in (0, 1):
            raise ValueError(
                f"{name}: expected 0 or 1, as the transform has no parameter named power, got "
                f"{power!r}. For other powers write def shift(X, power=1)."
            )

    def _shift(self, X: Rows, y: Labels | None, estimator: Model | None, power: float) -> Shifted:
        transform = self.transform
        if _power_of(transform) is not None:
            transform = partial(transform, power=power)
        other = view_of(transform if power else lambda rows: rows, X, "shift")
        return Shifted(other, _distances(X, other))


def as_shift(shift: object) -> Shift:
    """Return a shift unchanged; make one of a function, a transformer or a DataFrame.

    If a callable's parameter ``power`` has a default, that is the shift's own power, otherwise 1.
    """
    if isinstance(shift, Shift):
        return shift
    if not (callable(shift) or hasattr(shift, "transform") or hasattr(shift, "loc")):
        raise TypeError(
            "shift: expected a shift, a callable X -> X2 (for given rows lambda X: X_shifted), a "
            f"fitted transformer or a DataFrame, got {type(shift).__name__}."
        )
    # 1 would silently replace the strength that a function has when it is called with X alone.
    default = getattr(_power_of(shift), "default", None)
    own = default if isinstance(default, (int, float)) else 1.0
    return TransformShift(shift, power=own)


def _power_of(transform: object) -> inspect.Parameter | None:
    """Return the parameter of a function that is its strength, if it has one."""
    if hasattr(transform, "transform") or not callable(transform):
        return None
    try:
        return inspect.signature(transform).parameters.get("power")
    except ValueError:  # some C functions have no signature
        return None


def _distances(X: Rows, other: Rows) -> Floats:
    try:
        before, after = numeric_rows(X).values, numeric_rows(other).values
    except TypeError:
        return np.full(_num_samples(X), np.nan)
    if before.shape != after.shape:
        return np.full(_num_samples(X), np.nan)
    return distances(before, after)
