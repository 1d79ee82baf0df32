"""Noise of single pixels: impulses, and counts of light."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri
from scipy.stats import poisson

from pa_select.shifts.numeric_rows import check_bounds, seeded
from pa_select.shifts.shift import NumericShift
from pa_select.utils.typing import Bounds, Floats, RandomState

# Quantiles of a Poisson distribution with a larger mean take scipy several times as long.
_MANY = 1000.0


@dataclass(eq=False, repr=False, kw_only=True)
class _PixelNoise(NumericShift):
    """Base class of noise that depends on which numbers are black and white."""

    bounds: Bounds = (0, 1)
    random_state: RandomState = None

    def _changed(self, values: Floats, power: float) -> Floats:
        low, high = check_bounds(self.bounds, values.shape[1:])
        # Rounding, such as that of a blur, may lead a little out of the bounds.
        slack = 1e-6 * (high - low)
        inside = (low - slack <= values) & (values <= high + slack)
        if not inside.all():
            raise ValueError(
                f"X: expected numbers within the bounds {self.bounds!r}, got "
                f"{values[~inside][0]:g}."
            )
        if power == 0:
            return values
        return self._noisy(values, low, high, power, seeded(self.random_state))

    @abstractmethod
    def _noisy(
        self, values: Floats, low: Floats, high: Floats, power: float, rng: np.random.RandomState
    ) -> Floats:
        """Return new numbers within the bounds."""


@dataclass(eq=False, repr=False)
class ImpulseNoise(_PixelNoise):
    """Turn single pixels black or white, as faulty sensors and transmission errors do.

    Each number is replaced independently, by the lowest or the highest value with equal
    probability. A number replaced at one share is replaced by the same value at every higher
    share. Rows can have any shape.

    Parameters
    ----------
    share : float, default=0.1
        Probability that a number is replaced, in [0, 1]; ``power`` overrides it.
    bounds : pair of floats or of arrays that fit a row, default=(0, 1)
        Lowest and highest value (black and white). All numbers must lie within them.
    random_state : int, RandomState instance or None, default=None
        As in `pa_select.shifts.GaussianNoise`.

    References
    ----------
    .. [1] D. Hendrycks and T. Dietterich, "Benchmarking neural network robustness to common
       corruptions and perturbations", ICLR 2019 (impulse noise).

    Examples
    --------
    >>> import numpy as np
    >>> from papers.shifts import ImpulseNoise
    >>> grey = np.full((100, 28, 28), 0.5)
    >>> noisy = ImpulseNoise(0.3)(grey).X
    >>> [round(float((noisy == value).mean()), 2) for value in (0, 0.5, 1)]
    [0.15, 0.7, 0.15]
    """

    share: float = 0.1

    _power = "share"
    _most = 1.0

    def _noisy(
        self, values: Floats, low: Floats, high: Floats, power: float, rng: np.random.RandomState
    ) -> Floats:
        fails = rng.random_sample(values.shape) < power
        white = rng.random_sample(values.shape) < 0.5
        return np.where(fails, np.where(white, high, low), values)


@dataclass(eq=False, repr=False)
class ShotNoise(_PixelNoise):
    r"""Replace each number by a count of light quanta, as cameras see in the dark.

    A number x becomes :math:`b + s N`, where b is black, s is the scale, and N is drawn from a
    Poisson distribution with mean :math:`(x - b) / s`. The mean of the new number is x and its
    variance is :math:`s (x - b)`, both before it is clipped to white. Rows can have any shape.

    Parameters
    ----------
    scale : float, default=0.1
        Value of one quantum, at least 0, in the units of the features; ``power`` overrides it.
        For pixels in [0, 1] a white pixel has ``1 / scale`` quanta on average.
    bounds, random_state
        As in `ImpulseNoise`; the new numbers are within the bounds, too.

    Notes
    -----
    Each count is the quantile of one uniform draw, the same draw for every scale. So a stronger
    shift continues a weaker one. Means above 1000 quanta get normal noise of the same variance,
    which is not rounded to whole quanta.

    References
    ----------
    .. [1] D. Hendrycks and T. Dietterich, "Benchmarking neural network robustness to common
       corruptions and perturbations", ICLR 2019 (shot noise).

    Examples
    --------
    >>> import numpy as np
    >>> from papers.shifts import ShotNoise
    >>> dark, bright = np.full((1000, 9), 0.1), np.full((1000, 9), 0.4)
    >>> [round(float(ShotNoise(0.01)(X).X.std()), 2) for X in (dark, bright)]
    [0.03, 0.06]
    """

    scale: float = 0.1

    _power = "scale"

    def _noisy(
        self, values: Floats, low: Floats, high: Floats, power: float, rng: np.random.RandomState
    ) -> Floats:
        draw = rng.random_sample(values.shape)
        light = np.maximum(values - low, 0)
        counted = light + np.sqrt(power * light) * ndtri(np.maximum(draw, np.finfo(float).tiny))
        few = light <= _MANY * power
        counted[few] = power * poisson.ppf(draw[few], light[few] / power)
        return np.clip(low + counted, low, high)
