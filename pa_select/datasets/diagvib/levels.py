"""The factors of an image and their levels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pa_select.utils.typing import Floats

Level = NDArray[np.str_]
Bounds = Mapping[str, tuple[float, float]]

# A level is an interval, as in DiagViB-6. Hues are in degrees on the colour circle.
HUES: Bounds = {
    name: (60.0 * i - 15, 60.0 * i + 15)
    for i, name in enumerate(("red", "yellow", "green", "cyan", "blue", "magenta"))
}
_LIGHTNESS = {"dark": 0, "darker": 2, "brighter": 4, "bright": 6}
# Lightness of the darker and of the lighter of the two colours that a texture mixes.
SHADES: Bounds = {name: (i / 11, (i + 1) / 11) for name, i in _LIGHTNESS.items()}
LIGHTS: Bounds = {name: ((i + 4) / 11, (i + 5) / 11) for name, i in _LIGHTNESS.items()}
# Position of the centre in units of the canvas: the first letter is vertical, the second
# horizontal.
_THIRDS = ((1 / 7, 2 / 7), (3 / 7, 4 / 7), (5 / 7, 6 / 7))
HEIGHTS: Bounds = {
    high + right: third for high, third in zip("UCL", _THIRDS, strict=True) for right in "LCR"
}
SIDEWAYS: Bounds = {
    high + right: third for high in "UCL" for right, third in zip("LCR", _THIRDS, strict=True)
}
SCALES: Bounds = {
    "small": (1 / 1.45, 1 / 1.35),
    "smaller": (1 / 1.25, 1 / 1.15),
    "normal": (1 / 1.05, 1.05),
    "larger": (1.15, 1.25),
    "large": (1.35, 1.45),
}
TEXTURES = ("blank", "tiles", "wood", "carpet", "bricks", "lava")

#: The levels of each factor except the shape, which the images give.
FACTOR_LEVELS: Mapping[str, tuple[str, ...]] = {
    "hue": tuple(HUES),
    "lightness": tuple(_LIGHTNESS),
    "position": tuple(HEIGHTS),
    "scale": tuple(SCALES),
    "texture": TEXTURES,
}
#: The level of each factor that is not given.
DEFAULTS: Mapping[str, str] = {
    "hue": "red",
    "lightness": "dark",
    "position": "CC",
    "scale": "normal",
    "texture": "blank",
}


def levels_of(factors: Any, n: int) -> dict[str, Level]:
    """Check the factors and return the level of each factor for each of n images."""
    if factors is not None and not isinstance(factors, Mapping):
        raise TypeError(f"factors: expected a mapping from factor to level, got {factors!r}.")
    factors = dict(factors or {})
    unknown = [name for name in factors if name not in FACTOR_LEVELS]
    if unknown:
        raise ValueError(
            f"factors: expected some of {list(FACTOR_LEVELS)}, got {unknown[0]!r}; the shape "
            "is that of the images."
        )
    levels = {}
    for name, default in DEFAULTS.items():
        given = np.asarray(factors.get(name, default))
        if given.shape not in ((), (n,)):
            raise ValueError(
                f"factors: expected one {name} or {n}, one for each image, got an array of "
                f"shape {given.shape}."
            )
        given = given.astype(str)
        wrong = [level for level in np.unique(given) if level not in FACTOR_LEVELS[name]]
        if wrong:
            raise ValueError(
                f"factors: expected a {name} among {list(FACTOR_LEVELS[name])}, got "
                f"{str(wrong[0])!r}."
            )
        levels[name] = np.broadcast_to(given, (n,))
    return levels


def value_in_level(bounds: Bounds, level: Level, draw: Floats) -> Floats:
    """Return a value within each level: the lower bound for a draw of 0, the upper for 1."""
    names, code = np.unique(level, return_inverse=True)
    low, high = np.array([bounds[name] for name in names]).reshape(-1, 2)[code].T
    values: Floats = low + draw * (high - low)
    return values
