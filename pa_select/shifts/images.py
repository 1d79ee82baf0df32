"""Shifts of images: light, contrast, blur, blocks, translation, and noise of pixels."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from math import prod

import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.special import ndtri
from scipy.stats import poisson

from pa_select.shifts.numeric_rows import check_bounds, seeded
from pa_select.shifts.shift import NumericShift
from pa_select.utils.typing import Bounds, Floats, RandomState

# Down, up, right and left: the axis, and the sign of the move.
_SIDES = ((-2, 1), (-2, -1), (-1, 1), (-1, -1))
# Quantiles of a Poisson distribution with a larger mean take scipy several times as long.
_MANY = 1000.0


@dataclass(eq=False, repr=False)
class Quantize(NumericShift):
    """Round each number to the nearest multiple of a step.

    Each number changes independently of its neighbours, so rows can have any shape.

    Parameters
    ----------
    step : float, default=0.1
        Distance between levels, at least 0, in the units of the features; ``power``
        overrides it. For pixels in [0, 1], ``1 / (levels - 1)`` leaves that many levels.

    References
    ----------
    .. [1] W. Xu, D. Evans and Y. Qi, "Feature squeezing: detecting adversarial examples in
       deep neural networks", NDSS 2018, section III A (reduction of the color depth).

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select.shifts import Quantize
    >>> Quantize(0.5)(np.array([[0.1, 0.4, 0.9]])).X
    array([[0. , 0.5, 1. ]])
    """

    step: float = 0.1

    _power = "step"

    def _changed(self, values: Floats, power: float) -> Floats:
        # With a tiny step the number of steps may overflow; those values stay as they are.
        with np.errstate(over="ignore"):
            changed = np.round(values / power) * power if power else values
        return np.where(np.isfinite(changed), changed, values)


@dataclass(eq=False, repr=False)
class Dim(NumericShift):
    """Dim images: multiply each number by 1 minus the strength.

    0 is black. Rows can have any shape.

    Parameters
    ----------
    strength : float, default=0.1
        Share of the light that is lost, in [0, 1]; ``power`` overrides it.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select.shifts import Dim
    >>> Dim(0.5)(np.array([[0.0, 1.0]])).X
    array([[0. , 0.5]])
    """

    strength: float = 0.1

    _power = "strength"
    _most = 1.0

    def _changed(self, values: Floats, power: float) -> Floats:
        return values * (1 - power)


@dataclass(eq=False, repr=False, kw_only=True)
class ImageShift(NumericShift):
    """Base class of shifts that depend on the neighbours of a pixel."""

    shape: tuple[int, ...] | None = None

    def _changed(self, values: Floats, power: float) -> Floats:
        if not np.isfinite(values).all():
            raise ValueError("X: expected finite pixels.")
        images = values.reshape(self._layout(values.shape))
        return self._images(images, power).reshape(values.shape)

    def _layout(self, given: tuple[int, ...]) -> tuple[int, int, int, int]:
        """Return the number of rows, channels, height and width."""
        n, image = given[0], given[1:]
        if self.shape is not None:
            wanted = tuple(self.shape)
            if len(wanted) not in (2, 3) or image not in (wanted, (prod(wanted),)):
                raise ValueError(
                    f"shape: expected (height, width) or (channels, height, width) of rows of "
                    f"shape {image}, got {self.shape!r}."
                )
            image = wanted
        elif len(image) not in (2, 3):
            raise ValueError(
                "X: expected images of shape (n, height, width) or (n, channels, height, "
                f"width), got {given}; flat rows need the parameter shape."
            )
        return n, prod(image[:-2]), image[-2], image[-1]

    @abstractmethod
    def _images(self, images: Floats, power: float) -> Floats:
        """Return new images of shape (n, channels, height, width)."""


@dataclass(eq=False, repr=False)
class Blur(ImageShift):
    """Blur images with a Gaussian, over height and width only.

    The border pixels are repeated beyond the border.

    Parameters
    ----------
    sigma : float, default=1.0
        Standard deviation of the Gaussian in pixels, at least 0; ``power`` overrides it.
    shape : tuple of 2 or 3 ints, default=None
        (height, width) or (channels, height, width) of the images if the rows are flat. None:
        the rows have such a shape themselves, with channels before height.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from pa_select.shifts import Blur
    >>> X = load_digits().data
    >>> Blur(0.5, shape=(8, 8))(X).X.shape
    (1797, 64)
    """

    sigma: float = 1.0

    _power = "sigma"

    def _images(self, images: Floats, power: float) -> Floats:
        return blurred(images, power)


@dataclass(eq=False, repr=False)
class Contrast(ImageShift):
    """Lower the contrast of images: move each pixel towards the mean of its image.

    Parameters
    ----------
    strength : float, default=0.1
        Share of the contrast that is lost, in [0, 1]; ``power`` overrides it. At 1 all pixels of
        an image are equal.
    shape
        As in `Blur`.

    References
    ----------
    .. [1] D. Hendrycks and T. Dietterich, "Benchmarking neural network robustness to common
       corruptions and perturbations", ICLR 2019 (contrast).

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select.shifts import Contrast
    >>> Contrast(0.5)(np.array([[[0.0, 1.0], [0.0, 1.0]]])).X[0]
    array([[0.25, 0.75],
           [0.25, 0.75]])
    """

    strength: float = 0.1

    _power = "strength"
    _most = 1.0

    def _images(self, images: Floats, power: float) -> Floats:
        return images + power * (images.mean((1, 2, 3), keepdims=True) - images)


@dataclass(eq=False, repr=False)
class Pixelate(ImageShift):
    """Replace square blocks of pixels by their mean, as an image of few pixels shows them.

    Blocks start at the first row and column; those at the end may be smaller.

    Parameters
    ----------
    size : float, default=2
        Side of a block in pixels, rounded; ``power`` overrides it. Up to 1 nothing changes.
    shape
        As in `Blur`.

    References
    ----------
    .. [1] D. Hendrycks and T. Dietterich, "Benchmarking neural network robustness to common
       corruptions and perturbations", ICLR 2019 (pixelate).

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select.shifts import Pixelate
    >>> Pixelate(2)(np.array([[[0.0, 1.0, 5.0], [2.0, 1.0, 7.0]]])).X[0]
    array([[1., 1., 6.],
           [1., 1., 6.]])
    """

    size: float = 2

    _power = "size"

    def _images(self, images: Floats, power: float) -> Floats:
        for axis in (2, 3):
            length = images.shape[axis]
            # A block is at most as long as the image.
            starts = np.arange(0, length, max(round(min(power, length)), 1))
            sizes = np.diff(starts, append=length)
            means = np.add.reduceat(images, starts, axis) / sizes.reshape((-1, 1)[: 4 - axis])
            images = means.repeat(sizes, axis)
        return images


@dataclass(eq=False, repr=False)
class Translate(ImageShift):
    """Move images within their frame.

    Each image moves up, down, left or right, in a random direction that is the same at every
    distance. The border pixels fill the space that becomes free. Fractions of a pixel are
    interpolated linearly.

    Parameters
    ----------
    pixels : float, default=1.0
        Distance in pixels, at least 0; ``power`` overrides it.
    shape, random_state
        As in `Blur` and `GaussianNoise`.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select.shifts import Translate
    >>> image = np.array([[[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]])
    >>> Translate(0.5)(image).X[0]
    array([[0. , 0. , 0. ],
           [0. , 0.5, 0. ],
           [0. , 0.5, 0. ]])
    """

    pixels: float = 1.0
    _: KW_ONLY
    random_state: RandomState = None

    _power = "pixels"

    def _images(self, images: Floats, power: float) -> Floats:
        sides = seeded(self.random_state).choice(len(_SIDES), len(images))
        moved = np.empty_like(images)
        for side, (axis, sign) in enumerate(_SIDES):
            moved[sides == side] = _moved(images[sides == side], sign * power, axis)
        return moved


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
        As in `GaussianNoise`.

    References
    ----------
    .. [1] D. Hendrycks and T. Dietterich, "Benchmarking neural network robustness to common
       corruptions and perturbations", ICLR 2019 (impulse noise).

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select.shifts import ImpulseNoise
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
    >>> from pa_select.shifts import ShotNoise
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


def blurred(images: Floats, sigma: float) -> Floats:
    """Blur images of shape (n, channels, height, width) over height and width."""
    smooth: Floats = gaussian_filter(images, (0, 0, sigma, sigma), mode="nearest")
    return smooth


def _moved(images: Floats, pixels: float, axis: int) -> Floats:
    size = images.shape[axis]
    source = np.clip(np.arange(size) - pixels, 0, size - 1)
    left = source.astype(np.intp)
    # Broadcasts along the axis of a (n, channels, height, width) array.
    part = (source - left).reshape((-1, 1) if axis == -2 else -1)
    right = np.minimum(left + 1, size - 1)
    moved: Floats = (1 - part) * images.take(left, axis) + part * images.take(right, axis)
    return moved
