"""The corruptions of CIFAR-10-C: against Pillow, matplotlib, scipy and by hand."""

import numpy as np
import pytest
from matplotlib.colors import hsv_to_rgb, rgb_to_hsv
from numpy.testing import assert_allclose
from PIL import Image
from scipy.ndimage import zoom

from papers.shifts import CORRUPTIONS, Corruption

RNG = np.random.default_rng(0)
# Smooth images, so that blur and motion keep something.
COLOUR = np.cumsum(np.cumsum(RNG.normal(size=(6, 3, 32, 32)), 2), 3)
COLOUR -= COLOUR.min((1, 2, 3), keepdims=True)
COLOUR /= COLOUR.max((1, 2, 3), keepdims=True)
SPARK = np.zeros((1, 32, 32))
SPARK[0, 16, 16] = 1


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_all_corruptions(kind):
    corruption = Corruption(kind)
    norms = []
    for severity in range(6):
        shifted = corruption(COLOUR, power=severity)
        assert shifted.X.shape == COLOUR.shape
        assert 0 <= shifted.X.min() <= shifted.X.max() <= 1
        norms.append(shifted.norm.mean())
    assert norms[0] == 0
    assert norms[1] > 0
    assert norms[5] > norms[1] or kind == "elastic"
    # Flat rows, single channels and other sizes.
    flat = Corruption(kind, shape=COLOUR.shape[1:])(COLOUR.reshape(6, -1)).X
    assert_allclose(flat.reshape(COLOUR.shape), corruption(COLOUR).X)
    assert Corruption(kind)(COLOUR[:, 0, :20]).X.shape == (6, 20, 32)
    assert Corruption(kind)(COLOUR[:2, 0, :3, :2]).X.shape == (2, 3, 2)
    other = Corruption(kind, random_state=1)(COLOUR).X
    same = {"defocus_blur", "zoom_blur", "brightness", "contrast", "pixelate", "jpeg"}
    assert (other == corruption(COLOUR).X).all() == (kind in same)


@pytest.mark.parametrize("severity", range(1, 6))
def test_pixels_as_pillow_makes_them(severity):
    few = int(32 * [0.95, 0.9, 0.85, 0.75, 0.65][severity - 1])
    found = Corruption("pixelate", severity)(COLOUR[:, 0]).X
    for image, shifted in zip(COLOUR[:, 0], found, strict=True):
        small = Image.fromarray(image.astype(np.float32)).resize((few, few), Image.BOX)
        assert_allclose(shifted, np.asarray(small.resize((32, 32), Image.BOX)), atol=1e-6)


def test_brightness_in_hue_saturation_and_value():
    images = COLOUR.copy()
    images[0, :, :4] = 0  # black becomes grey
    hsv = rgb_to_hsv(images.transpose(0, 2, 3, 1))
    hsv[..., 2] = np.minimum(hsv[..., 2] + 0.2, 1)
    expected = hsv_to_rgb(hsv).transpose(0, 3, 1, 2)
    assert_allclose(Corruption("brightness", 4)(images).X, expected, atol=1e-12)


def test_contrast_keeps_the_mean_of_each_channel():
    shifted = Corruption("contrast", 3)(COLOUR).X
    assert_allclose(shifted.mean((2, 3)), COLOUR.mean((2, 3)))
    assert_allclose(shifted.std((2, 3)), 0.4 * COLOUR.std((2, 3)))


def test_zoom_blur_is_the_mean_of_zooms():
    image = COLOUR[0, 0]
    zooms = [image]
    for percent in range(6):
        factor = 1 + percent / 100
        kept = int(np.ceil(32 / factor))
        top = (32 - kept) // 2
        large = zoom(image[top : top + kept, top : top + kept], factor, order=1)
        trim = (len(large) - 32) // 2
        zooms.append(large[trim : trim + 32, trim : trim + 32])
    assert_allclose(Corruption("zoom_blur", 1)(image[None]).X[0], np.mean(zooms, axis=0))


def test_blurs_of_one_bright_pixel():
    # Defocus: a disk of 9 pixels whose smoothing, of width 0.1, is none.
    spark = Corruption("defocus_blur", 5)(SPARK).X[0]
    assert_allclose(spark[15:18, 15:18], 1 / 9, atol=1e-12)
    assert spark.sum() == pytest.approx(1)
    # Motion: half a Gaussian to one side, whichever the angle.
    moved = Corruption("motion_blur", 1)(SPARK).X[0]
    weights = np.exp(-(np.arange(13) ** 2) / 2)
    assert moved[16, 16] == pytest.approx(weights[0] / weights.sum())
    assert moved.sum() == pytest.approx(1)
    assert not moved[:, 17:].any()
    # Glass: the pixel is copied to some of the neighbours below and to the right, or vanishes.
    glass = Corruption("glass_blur", 1)(np.repeat(SPARK, 400, 0)).X.round(6)
    assert set(np.unique(glass)) <= {0, 1}
    copies = glass[:, 16:18, 16:18]
    assert copies.sum() == glass.sum()
    assert copies.mean() == pytest.approx(0.25, abs=0.03)  # each copies one of four pixels


def test_fog_and_snow_of_a_grey_image():
    grey = np.full((50, 32, 32), 0.4)
    fog = Corruption("fog", 4)(grey).X
    # (0.4 + t) * 0.4 / 1.4 for a texture t from 0 to 1.
    assert_allclose(fog.min((1, 2)), 0.4 * 0.4 / 1.4)
    assert_allclose(fog.max((1, 2)), 1.4 * 0.4 / 1.4)
    snow = Corruption("snow", 1)(grey).X
    whitened = 0.95 * 0.4 + 0.05 * (1.5 * 0.4 + 0.5)
    assert snow.min() == pytest.approx(whitened)
    # Flakes are added with their mirror image.
    assert_allclose(snow, snow[:, ::-1, ::-1])


def test_elastic_moves_lines_to_lines_at_severity_1():
    # Without the elastic part an affine map is left: a ramp stays linear inside of the image.
    ramp = np.broadcast_to(np.linspace(0.3, 0.7, 32), (5, 32, 32))
    inside = Corruption("elastic", 1)(ramp).X[:, 12:20, 12:20]
    assert_allclose(np.diff(inside, 2, axis=1), 0, atol=1e-12)
    assert_allclose(np.diff(inside, 2, axis=2), 0, atol=1e-12)
