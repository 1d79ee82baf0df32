"""Images whose factors are set one by one, the papers' environments, shortcuts."""

import colorsys
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits

from papers.datasets import (
    FACTOR_LADDERS,
    FACTOR_LEVELS,
    SHORTCUT_LEVELS,
    co_occurrence,
    factor_combinations,
    factor_images,
)

X, LABELS = load_digits(return_X_y=True)
DIGITS = X.reshape(-1, 8, 8) / 16
SQUARE = np.ones((1, 8, 8))


class Middle(np.random.RandomState):
    """Draws the middle of each level."""

    def random_sample(self, size):
        return np.full(size, 0.5)


def ink(drawn):
    """Where the canvas is covered, of shape (n, size, size)."""
    return np.abs(drawn - 0.5).max(1) > 1e-6


def centre(drawn):
    """Height and place from the left of what is drawn, in units of the canvas."""
    covered = ink(drawn)
    places = (np.arange(covered.shape[1]) + 0.5) / covered.shape[1]
    total = covered.sum((1, 2))
    return covered.sum(2) @ places / total, covered.sum(1) @ places / total


def size_of(drawn):
    return np.sqrt(ink(drawn).mean((1, 2)))


def test_form_and_draws():
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    before = DIGITS[:300].copy()
    drawn = factor_images(DIGITS[:300])
    assert drawn.shape == (300, 3, 32, 32)
    assert drawn.dtype == np.float32
    assert 0 <= drawn.min() <= drawn.max() <= 1
    assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    assert_array_equal(DIGITS[:300], before)
    assert_array_equal(factor_images(DIGITS[:300]), drawn)
    assert_array_equal(factor_images(before, FACTOR_LADDERS["discriminability"][0]), drawn)
    assert_array_equal(factor_images(torch.tensor(before)), drawn)
    # A row's draws are its own, in whatever company and chunk.
    assert_allclose(factor_images(DIGITS[:7]), drawn[:7], atol=1e-6)
    equal = factor_images(np.repeat(SQUARE, 600, 0))
    assert len(np.unique(equal.reshape(600, -1), axis=0)) == 600
    assert np.abs(factor_images(DIGITS[:7], random_state=1) - drawn[:7]).max() > 0.01


@pytest.mark.parametrize("hue", FACTOR_LEVELS["hue"])
@pytest.mark.parametrize("lightness", FACTOR_LEVELS["lightness"])
def test_colours_by_the_standard_library(hue, lightness):
    degrees = 60 * FACTOR_LEVELS["hue"].index(hue)
    dark = (2 * FACTOR_LEVELS["lightness"].index(lightness) + 0.5) / 11
    # A blank texture is halfway between the two colours.
    expected = np.mean(
        [colorsys.hls_to_rgb(degrees / 360, x, 1.0) for x in (dark, dark + 4 / 11)], 0
    )
    factors = {"hue": hue, "lightness": lightness}
    drawn = factor_images(SQUARE, factors, random_state=Middle())
    assert_allclose(drawn[0, :, 16, 16], expected, atol=1e-6)
    assert_allclose(drawn[0, :, 0, 0], 0.5)
    many = factor_images(np.repeat(SQUARE, 200, 0), factors)[:, :, 16, 16]
    found = np.array([colorsys.rgb_to_hls(*colour)[0] * 360 for colour in many])
    off = (found - degrees + 180) % 360 - 180
    assert np.abs(off).max() < 15.1
    assert np.abs(off).max() > 10
    assert abs(off.mean()) < 3


def test_positions_are_thirds_and_nothing_is_cut_off():
    squares = np.repeat(SQUARE, 50, 0)
    places = {}
    for position, scale in product(FACTOR_LEVELS["position"], ("small", "large")):
        drawn = factor_images(squares, {"position": position, "scale": scale}, size=64)
        high, right = centre(drawn)
        places[position] = high.mean(), right.mean()
        middle = factor_images(squares, {"scale": scale}, size=64)
        # At the border half a pixel of the image fades out.
        amounts = [np.abs(some - 0.5).sum((1, 2, 3)) for some in (drawn, middle)]
        assert_allclose(*amounts, rtol=0.06)
        if scale == "small":
            for letter, where in zip(position, (high, right), strict=True):
                third = {"U": 0, "L": 0, "C": 1, "R": 2}[letter]
                third = 2 if letter == "L" and where is high else third
                assert (where > third * 2 / 7 + 1 / 7 - 0.02).all()
                assert (where < third * 2 / 7 + 2 / 7 + 0.02).all()
    assert places["UL"][0] < places["CL"][0] < places["LL"][0]
    assert places["UL"][1] < places["UC"][1] < places["UR"][1]


def test_scales():
    sizes = [
        size_of(factor_images(np.repeat(SQUARE, 50, 0), {"scale": scale}, size=128))
        for scale in FACTOR_LEVELS["scale"]
    ]
    for smaller, larger in zip(sizes[:-1], sizes[1:], strict=True):
        assert smaller.max() < larger.min()
    assert_allclose(sizes[4].mean() / sizes[0].mean(), 1.4**2, rtol=0.04)


@pytest.mark.parametrize("size", [16, 32, 128])
@pytest.mark.parametrize("shape", [(8, 8), (28, 28), (4, 8)])
def test_the_amount_of_ink_is_that_of_the_image(size, shape):
    images = np.random.default_rng(0).random((20, *shape))
    drawn = factor_images(images, {"scale": "small"}, size=size, random_state=Middle())
    # The middle of the level "small", of 3/8 of the canvas.
    share = (3 / 8 * (1 / 1.45 + 1 / 1.35) / 2) ** 2
    found = (drawn[:, 1] - 0.5).mean((1, 2)) / (factor_images(SQUARE)[0, 1].min() - 0.5)
    share *= min(shape) / max(shape)  # an image that is not square keeps its form
    assert_allclose(found, share * images.mean((1, 2)), rtol=0.05)


def test_textures():
    seen = {}
    for name in FACTOR_LEVELS["texture"]:
        drawn = factor_images(np.repeat(SQUARE, 40, 0), {"texture": name}, size=128)
        inside = drawn[:, 0, 52:76, 52:76]
        seen[name] = inside
        spread = inside.std((1, 2)).mean()
        assert (spread < 1e-4) == (name == "blank")
        # Half as much of each of the two colours, over the whole of the pattern.
        assert inside.mean() == pytest.approx(seen["blank"].mean(), abs=0.04)
    for one, other in product(seen, seen):
        assert one == other or np.abs(seen[one] - seen[other]).mean() > 0.01
    # Each image has another part of the pattern; with equal draws all have the same.
    assert np.abs(seen["tiles"][0] - seen["tiles"][1]).mean() > 0.01
    same = factor_images(np.repeat(SQUARE, 2, 0), {"texture": "tiles"}, random_state=Middle())
    assert_array_equal(same[0], same[1])


def test_a_level_for_each_image():
    rng = np.random.default_rng(0)
    factors = {name: rng.choice(levels, 30) for name, levels in FACTOR_LEVELS.items()}
    drawn = factor_images(DIGITS[:30], factors)
    for i in range(30):
        one = factor_images(DIGITS[:30], {name: factors[name][i] for name in factors})[i]
        assert_allclose(one, drawn[i], atol=1e-6)


def changed(a, b):
    return sum(a[factor] != b[factor] for factor in a)


def test_ladders_against_the_tables():
    for name in ("hue", "position"):
        pairs = {k: FACTOR_LADDERS[f"{name} {k}"] for k in ("SD", "ID", "1F-MD", "5F-MD", "OOD")}
        assert [changed(*pair) for pair in pairs.values()] == [0, 1, 1, 5, 1]
        training = FACTOR_LADDERS[f"{name} training"]
        assert pairs["ID"] == training
        # Sources are the first environment of training; what is out of distribution is new.
        assert FACTOR_LADDERS[name][0] == pairs["5F-MD"][0] == training[0]
        assert FACTOR_LADDERS[name][5] == pairs["5F-MD"][1]
        assert not {e[name] for e in pairs["OOD"]} & {e[name] for e in training}
        ladder = FACTOR_LADDERS[f"{name} shortcut"]
        assert [changed(ladder[0], environment) for environment in ladder] == [0, 0, 1, 2, 3, 4]


# As printed, but for the last two hues of C.3, which are printed as green.
TABLES = {
    "discriminability": """red blue blue blue blue blue
        dark dark bright bright bright bright
        CC CC CC LC LC LC
        normal normal normal normal large large
        blank blank blank blank blank tiles""",
    "hue": """red green green green green green
        dark dark bright bright bright bright
        CC CC CC CC UL UL
        large large large large large small
        blank blank blank tiles tiles tiles""",
    "position": """green green green red red red
        dark dark dark dark bright bright
        UL CC CC CC CC CC
        large large small small small small
        blank blank blank blank blank tiles""",
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_as_printed(name):
    for factor, line in zip(FACTOR_LEVELS, TABLES[name].splitlines(), strict=True):
        assert [environment[factor] for environment in FACTOR_LADDERS[name]] == line.split()


FIRST, SECOND = SHORTCUT_LEVELS["hue"]
TRIO = LABELS[np.isin(LABELS, [4, 7, 9])]
# Rows are 7, 4 and 9, columns blue, red and green: appendix C.2.2 of the thesis.
PATTERNS = {
    "ZGO": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "1-CGO": [[1, 1, 0], [0, 1, 0], [0, 0, 1]],
    "2-CGO": [[1, 1, 0], [0, 1, 0], [1, 0, 1]],
    "3-CGO": [[1, 1, 0], [0, 1, 1], [1, 0, 1]],
    "ZSO": [[1, 1, 1], [1, 1, 1], [1, 1, 1]],
}


def counts(levels):
    names = FIRST.values()
    return np.array([[np.sum(levels[TRIO == k] == level) for level in names] for k in FIRST])


@pytest.mark.parametrize("setting", PATTERNS)
def test_settings_against_the_appendix(setting):
    pattern = np.array(PATTERNS[setting])
    levels = co_occurrence(TRIO, setting, FIRST)
    found = counts(levels)
    assert_array_equal(found > 0, pattern)
    rows = np.array([np.sum(TRIO == k) for k in FIRST])
    assert (np.abs(found - pattern * (rows / pattern.sum(1))[:, None]) < 1).all()
    assert_array_equal(co_occurrence(TRIO, setting, FIRST, random_state=0), levels)
    # The sources divide the rows alike.
    partner = dict(zip(FIRST.values(), SECOND.values(), strict=True))
    second = co_occurrence(TRIO, setting, SECOND)
    assert_array_equal(second, [partner[level] for level in levels])
    if setting != "ZSO":
        unseen = counts(co_occurrence(TRIO, setting, FIRST, unseen=True))
        assert_array_equal(unseen > 0, 1 - pattern)
    if setting != "ZGO":
        other = co_occurrence(TRIO, setting, FIRST, random_state=1)
        assert (other != levels).any()


@settings(max_examples=50, deadline=None)
@given(n_classes=st.integers(2, 7), data=st.data())
def test_any_number_of_classes(n_classes, data):
    own = {f"class {k}": f"level {k}" for k in range(n_classes)}
    k = data.draw(st.integers(1, n_classes))
    labels = np.repeat(list(own), 2 * n_classes)
    levels = co_occurrence(labels, f"{k}-CGO", own)
    together = set(zip(labels, levels, strict=True))
    assert len(together) == n_classes + k
    assert set(own.items()) <= together
    assert len(set(zip(labels, co_occurrence(labels, "ZSO", own), strict=True))) == n_classes**2


def test_all_combinations_of_shifted_factors():
    first, *_, last = FACTOR_LADDERS["discriminability"]
    found = factor_combinations(first, last)
    expected = product(*({first[factor], last[factor]} for factor in FACTOR_LEVELS))
    as_tuples = [tuple(e[factor] for factor in FACTOR_LEVELS) for e in found.values()]
    assert len(as_tuples) == 2**5
    assert set(as_tuples) == set(expected)
    assert (found[()], found[tuple(FACTOR_LEVELS)]) == (first, last)
    for shifted, environment in found.items():
        assert {f for f in FACTOR_LEVELS if environment[f] != first[f]} == set(shifted)
    assert [len(shifted) for shifted in found] == sorted(len(shifted) for shifted in found)
    # Factors that are equal, or that neither environment names, are not shifted.
    first, last = {"hue": "blue"}, {"hue": "blue", "scale": "small"}
    assert list(factor_combinations(first, last)) == [(), ("scale",)]
