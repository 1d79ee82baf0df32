"""Shifts of images: light, blur and translation."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from math import prod

import numpy as np
from scipy.ndimage import gaussian_filter

from pa_select.shifts.numeric_rows import seeded
from pa_select.shifts.shift import NumericShift
from pa_select.utils.typing import Floats, RandomState

# Down, up, right and left: the axis, and the sign of the move.
_SIDES = ((-2, 1), (-2, -1), (-1, 1), (-1, -1))


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
        images = values.reshape(self._layout(values.shape))
        return self._images(images, power).reshape(values.shape)

    def _layout(self, given: tuple[int, ...]) -> tuple[int, int, int, int]:
        """Return the number of rows, channels, height and width."""
        image = given[1:] if self.shape is None else tuple(self.shape)
        if len(image) not in (2, 3):
            raise ValueError(
                "X: expected images of shape (n, height, width) or (n, channels, height, "
                f"width), got {given}; flat rows need the parameter shape."
            )
        return given[0], prod(image[:-2]), image[-2], image[-1]

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
