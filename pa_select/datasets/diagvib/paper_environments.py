"""The environments in the papers' experiments with images, and all between two of them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from pa_select.datasets.diagvib.levels import DEFAULTS, levels_of

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
    >>> from pa_select.datasets import factor_combinations
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
