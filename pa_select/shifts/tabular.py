"""Shifts of measurements: noise, failing features, drifting sensors."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from pa_select.shifts.numeric_rows import clip_to_box, seeded
from pa_select.shifts.shift import NumericShift
from pa_select.utils.typing import Bounds, Floats, RandomState


@dataclass(eq=False, repr=False)
class GaussianNoise(NumericShift):
    """Add independent normal noise to each number.

    The rows can be an array, a tensor or a pandas DataFrame, whose numeric columns change;
    integers become floats. Missing and infinite numbers stay unchanged.

    Parameters
    ----------
    scale : float, default=0.1
        Standard deviation, at least 0, in the units of the features; ``power`` overrides it.
    relative : bool, default=False
        Multiply the scale by the standard deviation of each feature over the given rows, for
        tables whose columns have different units.
    bounds : pair of floats or of arrays that fit a row, default=None
        Smallest and largest value, such as (0, 1) for pixels. Numbers are clipped to them;
        numbers that were already outside do not move farther out.
    random_state : int, RandomState instance or None, default=None
        Seed of the noise; None: the same noise in every call. An instance draws new noise in
        each call.

    Notes
    -----
    The noise is one draw times the scale, so measures of robustness are smooth functions of it.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select.shifts import GaussianNoise
    >>> X = np.zeros((10000, 3))
    >>> weak, strong = GaussianNoise(0.1)(X), GaussianNoise(0.2)(X)
    >>> bool(np.allclose(strong.X, 2 * weak.X)), round(float(strong.X.std()), 2)
    (True, 0.2)
    """

    scale: float = 0.1
    _: KW_ONLY
    relative: bool = False
    bounds: Bounds | None = None
    random_state: RandomState = None

    _power = "scale"

    def _changed(self, values: Floats, power: float) -> Floats:
        # One draw for every scale.
        noise = seeded(self.random_state).standard_normal(values.shape)
        unit = _spread(values) if self.relative else 1.0
        return clip_to_box(values + power * unit * noise, self.bounds, values)


@dataclass(eq=False, repr=False)
class FeatureFailure(NumericShift):
    """Replace whole features in all rows, as if their sensors failed.

    A feature that fails with some number of features also fails with every higher number.

    Parameters
    ----------
    n_features : int, default=1
        How many features fail, from 0 to all of them (numeric columns, in a DataFrame); ``power``
        overrides it.
    value : float or "mean", default=0.0
        The replacement: a number, nan for a missing value, or "mean" for the mean of the
        feature over the given rows.
    random_state : int, RandomState instance or None, default=None
        Chooses the features; None: the same ones in every call. An instance draws anew in each
        call.

    See Also
    --------
    TransformShift : A function of your own, to name the features that fail.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select.shifts import FeatureFailure
    >>> shifted = FeatureFailure(2, value=np.nan)(np.ones((3, 4)))
    >>> np.isnan(shifted.X).all(0).sum(), np.isnan(shifted.X).any(0).sum()
    (np.int64(2), np.int64(2))
    """

    n_features: int = 1
    _: KW_ONLY
    value: float | str = 0.0
    random_state: RandomState = None

    _power = "n_features"

    def _changed(self, values: Floats, power: float) -> Floats:
        shape = values.shape[1:]
        n = int(np.prod(shape))
        if power > n or power != int(power):
            raise ValueError(
                f"n_features: expected a whole number of at most {n}, the number of features, got "
                f"{power:g}."
            )
        order = seeded(self.random_state).permutation(n)
        value = _mean(values) if self.value == "mean" else self.value
        return np.where((order < power).reshape(shape), value, values)


@dataclass(eq=False, repr=False)
class Drift(NumericShift):
    r"""Change the gain and the offset of each feature, as drifting sensors do.

    Feature j becomes :math:`x_j (1 + \lambda g_j) + \lambda o_j s_j`, where
    :math:`\lambda` is the strength, :math:`g_j` and :math:`o_j` are one draw each of a
    standard normal distribution and :math:`s_j` is the standard deviation of the feature
    over the given rows.

    Parameters
    ----------
    strength : float, default=0.1
        The strength :math:`\lambda`, at least 0; ``power`` overrides it. Every strength
        multiplies the same draw.
    bounds, random_state
        As in `GaussianNoise`.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select.shifts import Drift
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> drifted = Drift(0.1)(X).X
    >>> lines = [np.polyfit(X[:, j], drifted[:, j], 1, full=True) for j in range(2)]
    >>> [bool(residual[0] < 1e-20) for _, residual, *_ in lines]
    [True, True]
    """

    strength: float = 0.1
    _: KW_ONLY
    bounds: Bounds | None = None
    random_state: RandomState = None

    _power = "strength"

    def _changed(self, values: Floats, power: float) -> Floats:
        gain, offset = seeded(self.random_state).standard_normal((2, *values.shape[1:]))
        drifted = values * (1 + power * gain) + power * offset * _spread(values)
        return clip_to_box(drifted, self.bounds, values)


def _mean(values: Floats) -> Floats:
    """Mean of the finite numbers of each feature; 0 if a feature has none."""
    finite = np.isfinite(values)
    mean: Floats = values.sum(0, where=finite) / np.maximum(finite.sum(0), 1)
    return mean


def _spread(values: Floats) -> Floats:
    """Standard deviation of the finite numbers of each feature; 0 if a feature has none."""
    return np.sqrt(_mean(np.square(values - _mean(values))))
