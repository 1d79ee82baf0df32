"""Grey images drawn in colour, with a given level for each factor."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from pa_select.shifts.numeric_rows import numeric_rows, seeded
from pa_select.utils.typing import Floats, RandomState
from papers.datasets.levels import (
    HEIGHTS,
    HUES,
    LIGHTS,
    SCALES,
    SHADES,
    SIDEWAYS,
    Level,
    levels_of,
    value_in_level,
)

# Side of an image at scale "normal", in units of the canvas.
_NORMAL = 3 / 8
_CANVAS = 0.5
# Number of images drawn together; it bounds the memory.
_CHUNK = 256


def factor_images(
    images: Any,
    factors: Any = None,
    *,
    size: int = 32,
    random_state: RandomState = None,
) -> NDArray[np.float32]:
    """Draw grey images in colour on a grey canvas: one environment of DiagViB-6.

    An image has six factors [1]_: its shape, which the grey image gives, and hue, lightness,
    position, scale and texture, each at one of a few levels:

    - hue: red, yellow, green, cyan, blue, magenta;
    - lightness: dark, darker, brighter, bright;
    - position: UL, UC, UR, CL, CC, CR, LL, LC, LR; the first letter means upper, centre or
      lower, the second one left, centre or right;
    - scale: small, smaller, normal, larger, large;
    - texture: blank, tiles, wood, carpet, bricks, lava (computed patterns).

    `FACTOR_LEVELS` holds the levels and `FACTOR_LADDERS` the environments of the papers. A
    level is an interval, for example of 30 degrees of hue, from which each image draws its
    value. The draws depend only on the row, so the same images in two environments differ only
    in the factors that were changed.

    Parameters
    ----------
    images : array-like or tensor of shape (n, height, width)
        Share of ink in each pixel, in [0, 1]: 0 shows the canvas, 1 the colour. Divide
        scikit-learn's digits by 16 and MNIST's by 255.
    factors : mapping from factor to level, default=None
        For each factor a level, or an array of n levels, one for each image. Missing factors
        have the level red, dark, CC, normal or blank, as in the paper's first environment.
    size : int, default=32
        Side of the canvas in pixels, at least 8; 128 in the papers. An image of normal scale
        takes 3/8 of it. Textures are recognisable from about 64 pixels on.
    random_state : int, RandomState instance or None, default=None
        Seed of the values within the levels; None: the same ones in every call. An instance
        draws new ones in each call.

    Returns
    -------
    ndarray of shape (n, 3, size, size), float32
        Red, green and blue, in [0, 1]. Images that would reach beyond the canvas are moved
        inwards.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid; the message names it.

    See Also
    --------
    co_occurrence : Levels that depend on the class.

    References
    ----------
    .. [1] E. Eulig et al., "DiagViB-6: a diagnostic benchmark suite for vision models in the
       presence of shortcut and generalization opportunities", ICCV 2021 (factors of variation).
    .. [2] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       section 4.2 and appendix E (environments).

    Examples
    --------
    The same images in two environments, of which the second is blue:

    >>> from sklearn.datasets import load_digits
    >>> from papers.datasets import FACTOR_LADDERS, factor_images
    >>> images = load_digits(n_class=4).images / 16
    >>> red, blue = (factor_images(images, e) for e in FACTOR_LADDERS["discriminability"][:2])
    >>> red.shape, bool(abs(red[:, 0] - blue[:, 2]).max() < 1e-5)
    ((720, 3, 32, 32), True)
    """
    grey = numeric_rows(images, "images").values
    if grey.ndim != 3 or 0 in grey.shape[1:]:
        raise ValueError(f"images: expected shape (n, height, width), got {grey.shape}.")
    # Both comparisons are False for nan.
    if not ((grey >= 0) & (grey <= 1)).all():
        raise ValueError(
            f"images: expected numbers in [0, 1], got {grey.min():g} to {grey.max():g}."
        )
    levels = levels_of(factors, len(grey))
    if not isinstance(size, numbers.Integral):
        raise TypeError(f"size: expected an integer, got {size!r}.")
    if size < 8:
        raise ValueError(f"size: expected at least 8 pixels, got {size}.")
    draws = seeded(random_state).random_sample((len(grey), 8))
    drawn = np.empty((len(grey), 3, size, size), dtype=np.float32)
    for start in range(0, len(grey), _CHUNK):
        part = slice(start, start + _CHUNK)
        some = {name: level[part] for name, level in levels.items()}
        drawn[part] = _drawn(grey[part], some, draws[part].T, int(size))
    return drawn


def _drawn(grey: Floats, levels: dict[str, Level], draws: Floats, size: int) -> Floats:
    hue, shade, light, height, sideways, scale, down, right = draws
    side = _NORMAL * value_in_level(SCALES, levels["scale"], scale)
    # An image that is not square keeps its aspect ratio.
    tall, wide = np.array(grey.shape[1:]) / max(grey.shape[1:])
    rows = _places(value_in_level(HEIGHTS, levels["position"], height), tall * side, size)
    columns = _places(value_in_level(SIDEWAYS, levels["position"], sideways), wide * side, size)
    ink = _weights(rows, grey.shape[1]) @ grey
    ink = (ink @ _weights(columns, grey.shape[2]).swapaxes(1, 2)).clip(0, 1)[:, None]
    grain = _grain(tall * rows + down[:, None], wide * columns + right[:, None], levels["texture"])
    degrees = value_in_level(HUES, levels["hue"], hue)
    dark, bright = (
        _saturated(degrees, value_in_level(bounds, levels["lightness"], draw))[:, :, None, None]
        for bounds, draw in ((SHADES, shade), (LIGHTS, light))
    )
    colour = dark + grain[:, None] * (bright - dark)
    canvas: Floats = _CANVAS + ink * (colour - _CANVAS)
    return canvas


def _places(centre: Floats, side: Floats, size: int) -> Floats:
    """Return the places of the canvas pixels on each image, which spans 0 to 1."""
    centre = np.clip(centre, side / 2, 1 - side / 2)
    pixels = (np.arange(size) + 0.5) / size
    return (pixels - centre[:, None]) / side[:, None] + 0.5


def _weights(places: Floats, count: int) -> Floats:
    """Return the weight of each image pixel for each canvas pixel, of shape (n, size, count).

    The weights interpolate linearly over the image pixels that a canvas pixel covers.
    """
    step = count * (places[:, 1] - places[:, 0])[:, None, None]
    far = np.abs(count * places[:, :, None] - 0.5 - np.arange(count))
    reach = np.maximum(step, 1)
    weights: Floats = np.clip(1 - far / reach, 0, None) / reach
    return weights


def _grain(rows: Floats, columns: Floats, names: Level) -> Floats:
    """Return the textures at places of each image, of shape (n, size, size)."""
    i, j = (np.floor(PERIOD * place).astype(np.intp) % PERIOD for place in (rows, columns))
    blur = PERIOD / (_NORMAL * rows.shape[1]) / 3
    grain = np.empty((*rows.shape, columns.shape[1]))
    for name in np.unique(names):
        of = names == name
        grain[of] = texture(str(name), blur)[i[of][:, :, None], j[of][:, None, :]]
    return grain


def _saturated(degrees: Floats, lightness: Floats) -> Floats:
    """Convert hue and lightness at full saturation to red, green and blue, of shape (n, 3)."""
    sixth = (degrees[:, None] / 60 + np.array([0, 4, 2])) % 6
    share = np.clip(np.abs(sixth - 3) - 1, 0, 1)
    chroma = 1 - np.abs(2 * lightness - 1)
    colours: Floats = lightness[:, None] + chroma[:, None] * (share - 0.5)
    return colours


#: Side of a pattern in pixels.
PERIOD = 96
# A stronger contrast would hide the shape of thin strokes.
_CONTRAST = 0.4


@cache
def texture(name: str, blur: float) -> Floats:
    """Return a pattern by name, a read-only array of shape (PERIOD, PERIOD).

    The blur, in pixels of the pattern, avoids aliasing in small images.
    """
    pattern = gaussian_filter(_PATTERNS[name](*np.mgrid[:PERIOD, :PERIOD]), blur, mode="wrap")
    pattern -= pattern.mean()
    pattern = 0.5 + _CONTRAST * pattern / max(np.abs(pattern).max(), 1e-9)
    pattern.flags.writeable = False
    return pattern


def _noise(seed: int, height: float, width: float) -> Floats:
    """Return smooth noise of variance 1 whose grains have the given height and width."""
    grains = np.random.RandomState(seed).normal(size=(PERIOD, PERIOD))
    noise: Floats = gaussian_filter(grains, (height, width), mode="wrap")
    return noise / noise.std()


def _blank(row: Floats, column: Floats) -> Floats:
    return np.full(row.shape, 0.5)


def _tiles(row: Floats, column: Floats) -> Floats:
    return ((row % 16 >= 4) & (column % 16 >= 4)).astype(float)


def _bricks(row: Floats, column: Floats) -> Floats:
    shifted = column + 12 * (row // 12 % 2)
    return ((row % 12 >= 3) & (shifted % 24 >= 3)).astype(float)


def _wood(row: Floats, column: Floats) -> Floats:
    return 0.5 + 0.5 * np.sin(2 * np.pi * column / 12 + 0.8 * _noise(1, 24, 6))


def _carpet(row: Floats, column: Floats) -> Floats:
    return (_noise(2, 2, 2) > 0).astype(float)


def _lava(row: Floats, column: Floats) -> Floats:
    return np.exp(-3 * np.abs(_noise(3, 5, 5)))


_PATTERNS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "blank": _blank,
    "tiles": _tiles,
    "wood": _wood,
    "carpet": _carpet,
    "bricks": _bricks,
    "lava": _lava,
}
