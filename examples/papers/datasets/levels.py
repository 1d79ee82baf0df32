"""The factors of an image, their levels, and the environments in the papers' experiments."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
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


Environment = Mapping[str, str]

_HUE = {"hue": "red", "lightness": "dark", "position": "CC", "scale": "large", "texture": "blank"}
_POSITION = {**_HUE, "hue": "green", "position": "UL"}
_HUE_5F = {
    "hue": "green",
    "lightness": "bright",
    "position": "UL",
    "scale": "small",
    "texture": "tiles",
}
_POSITION_5F = {**_HUE_5F, "hue": "red", "position": "CC"}


def _ladder(first: Environment, *changes: Environment) -> tuple[Environment, ...]:
    """Return environments, each with some factors of the one before changed."""
    ladder: list[Environment] = [dict(first)]
    for change in changes:
        ladder.append({**ladder[-1], **change})
    return tuple(ladder)


def factor_combinations(
    source: Environment, target: Environment
) -> dict[tuple[str, ...], Environment]:
    """List the environments that take some factors of one environment from another.

    The paper proposes to test on all of them, so that the order in which factors shift does not
    matter.

    Parameters
    ----------
    source, target : mapping from factor to level
        Two environments, as for `factor_images`. Missing factors have its default levels.

    Returns
    -------
    dict of tuple of str to dict
        For each subset of the factors in which the two differ the environment with these factors
        of `target` and all others of `source`. Small subsets come first: the first environment
        is `source`, the last one `target`, and d factors give 2 to the power of d.

    Raises
    ------
    TypeError, ValueError
        If a factor or a level is unknown; the message names it.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach", section
       4.2.

    Examples
    --------
    >>> from papers.datasets import factor_combinations
    >>> found = factor_combinations({"hue": "red"}, {"hue": "blue", "position": "UL"})
    >>> for shifted, environment in found.items():
    ...     print(shifted, environment["hue"], environment["position"])
    () red CC
    ('hue',) blue CC
    ('position',) red UL
    ('hue', 'position') blue UL
    """
    for environment in (source, target):
        levels_of(environment, 0)
    whole, other = ({**DEFAULTS, **environment} for environment in (source, target))
    differing = [factor for factor in DEFAULTS if whole[factor] != other[factor]]
    return {
        shifted: {**whole, **{factor: other[factor] for factor in shifted}}
        for n_shifted in range(len(differing) + 1)
        for shifted in combinations(differing, n_shifted)
    }


#: Sequences of environments by name, for `factor_images`.
#:
#: - ``"discriminability"``: Table 2 of the paper, Tables 4.6 and C.1 of the thesis; digits 4 and
#:   9. Environment j differs from environment 0 in j factors; 0 and 1 are the sources.
#: - ``"hue"``, ``"position"``: test environments of model selection, Tables 5.2 (C.2) and C.3
#:   of the thesis; digits 1, 4, 7 and 9. Table C.3 prints the last two hues as green; here they
#:   are red, which agrees with the number of changed factors and with Table C.5.
#: - ``"hue training"``, ``"hue SD"``, ``"hue ID"``, ``"hue 1F-MD"``, ``"hue 5F-MD"``,
#:   ``"hue OOD"``: pairs for training and validation, Table 3 of the paper, Tables 5.1 and C.4
#:   of the thesis. ``"position training"`` and so on: Table C.5. The digits are 1, 4, 7 and 9.
#: - ``"hue shortcut"``, ``"position shortcut"``: test environments of the experiments with
#:   `co_occurrence`, Table C.6 of the thesis; digits 7, 4 and 9. They do not set the learning
#:   factor; `SHORTCUT_LEVELS` has its levels.
FACTOR_LADDERS: Mapping[str, tuple[Environment, ...]] = {
    "discriminability": _ladder(
        {**_HUE, "scale": "normal"},
        {"hue": "blue"},
        {"lightness": "bright"},
        {"position": "LC"},
        {"scale": "large"},
        {"texture": "tiles"},
    ),
    "hue": _ladder(
        _HUE,
        {"hue": "green"},
        {"lightness": "bright"},
        {"texture": "tiles"},
        {"position": "UL"},
        {"scale": "small"},
    ),
    "position": _ladder(
        _POSITION,
        {"position": "CC"},
        {"scale": "small"},
        {"hue": "red"},
        {"lightness": "bright"},
        {"texture": "tiles"},
    ),
    "hue training": _ladder(_HUE, {"hue": "blue"}),
    "hue SD": _ladder(_HUE, {}),
    "hue ID": _ladder(_HUE, {"hue": "blue"}),
    "hue 1F-MD": _ladder(_HUE, {"hue": "magenta"}),
    "hue 5F-MD": _ladder(_HUE, _HUE_5F),
    "hue OOD": _ladder({**_HUE, "hue": "yellow"}, {"hue": "magenta"}),
    "position training": _ladder(_POSITION, {"position": "LR"}),
    "position SD": _ladder(_POSITION, {}),
    "position ID": _ladder(_POSITION, {"position": "LR"}),
    "position 1F-MD": _ladder(_POSITION, {"position": "UR"}),
    "position 5F-MD": _ladder(_POSITION, _POSITION_5F),
    "position OOD": _ladder({**_POSITION, "position": "UR"}, {"position": "LL"}),
    "hue shortcut": _ladder(
        {"lightness": "bright", "position": "CC", "scale": "large", "texture": "tiles"},
        {},
        {"position": "CR"},
        {"scale": "small"},
        {"lightness": "dark"},
        {"texture": "wood"},
    ),
    "position shortcut": _ladder(
        {"hue": "blue", "lightness": "bright", "scale": "large", "texture": "tiles"},
        {},
        {"scale": "small"},
        {"hue": "red"},
        {"lightness": "dark"},
        {"texture": "wood"},
    ),
}

#: The level of the learning factor for each digit in the first and in the second source
#: (appendix C.2.2 of the thesis), for `co_occurrence`.
SHORTCUT_LEVELS: Mapping[str, tuple[Mapping[int, str], Mapping[int, str]]] = {
    "hue": ({7: "blue", 4: "red", 9: "green"}, {7: "yellow", 4: "cyan", 9: "magenta"}),
    "position": ({7: "UL", 4: "CC", 9: "LR"}, {7: "LC", 4: "UR", 9: "CL"}),
}
