"""Shifts of images: coarser levels, less light or contrast, blur, blocks, translation."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from math import prod

import numpy as np
from scipy.ndimage import gaussian_filter

from pa_select.shifts.numeric_rows import seeded
from pa_select.shifts.shift import NumericShift
from pa_select.utils.typing import Floats, RandomState

_SIDES = {"down": (-2, 1), "up": (-2, -1), "right": (-1, 1), "left": (-1, -1)}


class Quantize(NumericShift):
    """Round each number to the nearest multiple of a step.

    Each number changes independently of its neighbours, so rows can have any shape.
    `Shifted.norm` is the Euclidean norm of the change of a row.

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

    _power = "step"

    def __init__(self, step: float = 0.1) -> None:
        self.step = step

    def _changed(self, values: Floats, power: float) -> Floats:
        # With a tiny step the number of steps may overflow; those values stay as they are.
        with np.errstate(over="ignore"):
            changed = np.round(values / power) * power if power else values
        return np.where(np.isfinite(changed), changed, values)


class Dim(NumericShift):
    """Dim images: multiply each number by 1 minus the strength.

    0 is black. Rows can have any shape. `Shifted.norm` is the Euclidean norm of the change of
    a row.

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

    _power = "strength"
    _most = 1.0

    def __init__(self, strength: float = 0.1) -> None:
        self.strength = strength

    def _changed(self, values: Floats, power: float) -> Floats:
        return values * (1 - power)


class _ImageShift(NumericShift):
    """Base class of shifts that depend on the neighbours of a pixel."""

    shape: tuple[int, ...] | None

    def _changed(self, values: Floats, power: float) -> Floats:
        if not np.isfinite(values).all():
            raise ValueError("X: expected finite pixels.")
        return self._images(values.reshape(self._layout(values.shape)), power).reshape(
            values.shape
        )

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


class Blur(_ImageShift):
    """Blur images with a Gaussian, over height and width only.

    The border pixels are repeated beyond the border. `Shifted.norm` is the Euclidean norm of
    the change of all pixels of an image.

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

    _power = "sigma"

    def __init__(self, sigma: float = 1.0, *, shape: tuple[int, ...] | None = None) -> None:
        self.sigma = sigma
        self.shape = shape

    def _images(self, images: Floats, power: float) -> Floats:
        blurred: Floats = gaussian_filter(images, (0, 0, power, power), mode="nearest")
        return blurred


class Contrast(_ImageShift):
    """Lower the contrast of images: move each pixel towards the mean of its image.

    `Shifted.norm` is the Euclidean norm of the change of all pixels of an image.

    Parameters
    ----------
    strength : float, default=0.1
        Share of the contrast that is lost, in [0, 1]; ``power`` overrides it. At 1 all pixels of
        an image are equal.
    shape : tuple of 2 or 3 ints, default=None
        (height, width) or (channels, height, width) of the images if the rows are flat. None:
        the rows have such a shape themselves, with channels before height.

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

    _power = "strength"
    _most = 1.0

    def __init__(self, strength: float = 0.1, *, shape: tuple[int, ...] | None = None) -> None:
        self.strength = strength
        self.shape = shape

    def _images(self, images: Floats, power: float) -> Floats:
        return images + power * (images.mean((1, 2, 3), keepdims=True) - images)


class Pixelate(_ImageShift):
    """Replace square blocks of pixels by their mean, as an image of few pixels shows them.

    Blocks start at the first row and column; those at the end may be smaller. `Shifted.norm` is
    the Euclidean norm of the change of all pixels of an image.

    Parameters
    ----------
    size : float, default=2
        Side of a block in pixels, rounded; ``power`` overrides it. Up to 1 nothing changes.
    shape : tuple of 2 or 3 ints, default=None
        (height, width) or (channels, height, width) of the images if the rows are flat. None:
        the rows have such a shape themselves, with channels before height.

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

    _power = "size"

    def __init__(self, size: float = 2, *, shape: tuple[int, ...] | None = None) -> None:
        self.size = size
        self.shape = shape

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
class Translate(_ImageShift):
    """Move images within their frame.

    The border pixels fill the space that becomes free. Fractions of a pixel are interpolated
    linearly. `Shifted.norm` is the Euclidean norm of the change of all pixels of an image.

    Parameters
    ----------
    pixels : float, default=1.0
        Distance in pixels, at least 0; ``power`` overrides it.
    direction : {"up", "down", "left", "right"}, default=None
        Direction for all images. None: a random direction for each image, the same at every
        distance.
    shape : tuple of 2 or 3 ints, default=None
        (height, width) or (channels, height, width) of the images if the rows are flat. None:
        the rows have such a shape themselves, with channels before height.
    random_state : int, RandomState instance or None, default=None
        Seed of the directions; None: the same ones in every call. An instance draws new ones
        in each call.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select.shifts import Translate
    >>> image = np.array([[[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]])
    >>> Translate(1, direction="left")(image).X[0]
    array([[0., 1., 1.],
           [0., 0., 0.]])
    """

    pixels: float = 1.0
    _: KW_ONLY
    direction: str | None = None
    shape: tuple[int, ...] | None = None
    random_state: RandomState = None

    _power = "pixels"

    def _images(self, images: Floats, power: float) -> Floats:
        if self.direction not in (None, *_SIDES):
            raise ValueError(
                f"direction: expected None or one of {list(_SIDES)}, got {self.direction!r}."
            )
        sides = seeded(self.random_state).choice(list(_SIDES), len(images))
        if self.direction is not None:
            sides[:] = self.direction
        moved = np.empty_like(images)
        for side, (axis, sign) in _SIDES.items():
            moved[sides == side] = _moved(images[sides == side], sign * power, axis)
        return moved


def _moved(images: Floats, pixels: float, axis: int) -> Floats:
    size = images.shape[axis]
    source = np.clip(np.arange(size) - pixels, 0, size - 1)
    left = source.astype(np.intp)
    # Broadcasts along the axis of a (n, channels, height, width) array.
    part = (source - left).reshape((-1, 1) if axis == -2 else -1)
    right = np.minimum(left + 1, size - 1)
    moved: Floats = (1 - part) * images.take(left, axis) + part * images.take(right, axis)
    return moved
