"""Grey patterns of mean 1/2 that repeat in both directions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.ndimage import gaussian_filter

from pa_select.utils.typing import Floats

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
