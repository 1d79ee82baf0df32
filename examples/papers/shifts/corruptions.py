"""The corruptions of CIFAR-10-C: noise, blur, weather and digital errors at five severities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from io import BytesIO
from typing import Any

import numpy as np
from scipy.ndimage import convolve, gaussian_filter, map_coordinates, zoom

from pa_select.shifts.images import ImageShift, blurred
from pa_select.shifts.numeric_rows import seeded
from pa_select.utils.messages import optional_import
from pa_select.utils.typing import Floats, RandomState
from papers.shifts.pixel_noise import ImpulseNoise, ShotNoise

Random = np.random.RandomState


@dataclass(eq=False, repr=False)
class Corruption(ImageShift):
    """One of the fifteen common corruptions of images, as in the data set CIFAR-10-C.

    Pixels are in [0, 1] before and after.

    Parameters
    ----------
    kind : str
        One of `CORRUPTIONS`: "gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur",
        "glass_blur", "motion_blur", "zoom_blur", "snow", "frost", "fog", "brightness",
        "contrast", "elastic", "pixelate" and "jpeg", which needs Pillow.
    severity : int, default=3
        Severity from 1 to 5, with the strengths for images of 32 x 32; 0 changes nothing.
        ``power`` overrides it.
    shape : tuple of 2 or 3 ints, default=None
        As in `pa_select.shifts.Blur`.
    random_state : int, RandomState instance or None, default=None
        As in `GaussianNoise`.

    Notes
    -----
    These are the formulas of the authors' program, with other random numbers, and without
    rounding to 256 levels. Brightness, contrast, defocus blur, pixelate, zoom blur and JPEG, which
    depends on the version of Pillow, are otherwise the same to the pixel. Three differ in more:

    - frost: the authors add photographs of frozen windows; here it is a random texture that is
      smooth as clouds are;
    - motion blur and snow: the authors blur by ImageMagick, whose kernel was written again;
    - elastic: bilinear interpolation is exact here, and rounded in OpenCV.

    References
    ----------
    .. [1] D. Hendrycks and T. Dietterich, "Benchmarking neural network robustness to common
       corruptions and perturbations", ICLR 2019, and the authors' program for CIFAR-10-C.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from papers.shifts import Corruption
    >>> images = load_digits().images / 16
    >>> [round(float(Corruption("fog")(images, power=p).norm.mean()), 1) for p in (0, 1, 5)]
    [0.0, 0.6, 2.2]
    """

    kind: str
    severity: int = 3
    _: KW_ONLY
    random_state: RandomState = None

    _power = "severity"
    _most = 5.0

    def _images(self, images: Floats, power: float) -> Floats:
        if self.kind not in _KINDS:
            raise ValueError(f"kind: expected one of {list(CORRUPTIONS)}, got {self.kind!r}.")
        if power != int(power):
            raise ValueError(f"severity: expected a whole number from 0 to 5, got {power!r}.")
        if not ((images >= 0) & (images <= 1)).all():
            raise ValueError(
                f"X: expected pixels in [0, 1], got {images.min():g} to {images.max():g}."
            )
        if not power:
            return images
        corrupt, strengths = _KINDS[self.kind]
        corrupted = corrupt(images, strengths[int(power) - 1], seeded(self.random_state))
        return np.clip(corrupted, 0, 1)


def _gaussian_noise(images: Floats, strength: float, rng: Random) -> Floats:
    return images + strength * rng.normal(size=images.shape)


def _shot_noise(images: Floats, quanta: float, rng: Random) -> Floats:
    noisy: Floats = ShotNoise(1 / quanta, random_state=rng)(images).X
    return noisy


def _impulse_noise(images: Floats, share: float, rng: Random) -> Floats:
    noisy: Floats = ImpulseNoise(share, random_state=rng)(images).X
    return noisy


def _defocus_blur(images: Floats, strength: tuple[float, float], rng: Random) -> Floats:
    radius, smoothing = strength
    across = np.arange(-3, 4)
    disk = (across[:, None] ** 2 + across**2 <= radius**2).astype(float)
    side = np.exp(-(np.arange(-1, 2) ** 2) / (2 * smoothing**2))
    kernel = convolve(disk / disk.sum(), np.outer(side, side) / side.sum() ** 2, mode="constant")
    defocused: Floats = convolve(images, kernel[None, None], mode="mirror")
    return defocused


def _glass_blur(images: Floats, strength: tuple[float, int], rng: Random) -> Floats:
    sigma, n_times = strength
    images = blurred(images, sigma)
    n, _, height, width = images.shape
    rows, columns = np.arange(2, height)[:, None], np.arange(2, width)
    for _ in range(n_times):
        # Each pixel becomes one of itself and its neighbours above and to the left.
        up, left = rng.randint(0, 2, (2, n, max(height - 2, 0), max(width - 2, 0)))
        numbers = np.arange(n)[:, None, None]
        moved = images[numbers, :, rows - up, columns - left]
        images[:, :, 2:, 2:] = np.moveaxis(moved, -1, 1)
    return blurred(images, sigma)


def _motion_blur(images: Floats, strength: tuple[int, float], rng: Random) -> Floats:
    return _moved_by_wind(images, *strength, rng.uniform(-45, 45, len(images)))


def _zoom_blur(images: Floats, last: int, rng: Random) -> Floats:
    zooms = [_zoomed(images, 1 + percent / 100) for percent in range(last + 1)]
    mean: Floats = (images + np.sum(zooms, axis=0)) / (len(zooms) + 1)
    return mean


def _snow(images: Floats, strength: tuple[Any, ...], rng: Random) -> Floats:
    mean, deviation, size, least, radius, sigma, kept = strength
    n, channels, height, width = images.shape
    flakes = _zoomed(rng.normal(mean, deviation, (n, 1, height, width)), size)
    flakes = np.where(flakes < least, 0, flakes).clip(0, 1)
    flakes = _moved_by_wind(flakes, radius, sigma, rng.uniform(-135, -45, n))
    weights = np.array([0.299, 0.587, 0.114]) if channels == 3 else np.full(channels, 1 / channels)
    grey = np.einsum("c,nchw->nhw", weights, images)[:, None]
    whitened = kept * images + (1 - kept) * np.maximum(images, 1.5 * grey + 0.5)
    snowy: Floats = whitened + flakes + flakes[:, :, ::-1, ::-1]
    return snowy


def _frost(images: Floats, strength: tuple[float, float], rng: Random) -> Floats:
    kept, added = strength
    return kept * images + added * _clouds(images.shape, 2, rng)


def _fog(images: Floats, strength: tuple[float, float], rng: Random) -> Floats:
    added, decay = strength
    brightest = images.max((1, 2, 3), keepdims=True)
    foggy: Floats = images + added * _clouds(images.shape, decay, rng)
    return foggy * brightest / (brightest + added)


def _brightness(images: Floats, added: float, rng: Random) -> Floats:
    # In the cone of hue, saturation and value, colours scale with the value.
    value = images.max(1, keepdims=True)
    colour = np.divide(images, value, out=np.ones_like(images), where=value > 0)
    return colour * np.minimum(value + added, 1)


def _contrast(images: Floats, kept: float, rng: Random) -> Floats:
    mean: Floats = images.mean((2, 3), keepdims=True)
    return mean + kept * (images - mean)


def _elastic(images: Floats, strength: tuple[float, float, float], rng: Random) -> Floats:
    n, channels, *size = images.shape
    shift, sigma, reach = (min(size) * share for share in strength)
    places = np.mgrid[: size[0], : size[1]].reshape(2, -1)
    centre, side = np.array(size) // 2, min(size) // 3
    corners = centre + side * np.array([[1, 1], [-1, 1], [-1, -1]])
    warped = np.empty_like(images)
    for image, result in zip(images, warped, strict=True):
        moved = corners + rng.uniform(-reach, reach, (3, 2))
        back = np.linalg.lstsq(np.column_stack([moved, np.ones(3)]), corners, rcond=None)[0]
        sources = back.T @ np.vstack([places, np.ones(places.shape[1])])
        drift = rng.uniform(-1, 1, (2, *size))
        drift = shift * gaussian_filter(drift, (0, sigma, sigma), mode="reflect", truncate=3)
        targets = places + drift.reshape(2, -1)
        for k in range(channels):
            turned = map_coordinates(image[k], sources, order=1, mode="mirror").reshape(size)
            result[k] = map_coordinates(turned, targets, order=1, mode="reflect").reshape(size)
    return warped


def _pixelate(images: Floats, share: float, rng: Random) -> Floats:
    for axis in (2, 3):
        size = images.shape[axis]
        few = max(int(size * share), 1)
        weights = _box_weights(size, few) @ _box_weights(few, size)
        images = np.moveaxis(np.moveaxis(images, axis, -1) @ weights.T, -1, axis)
    return images


def _jpeg(images: Floats, quality: int, rng: Random) -> Floats:
    pillow = optional_import("PIL.Image", "plot")
    if images.shape[1] not in (1, 3):
        raise ValueError(f"X: expected 1 or 3 channels for JPEG, got {images.shape[1]}.")
    decoded = np.empty_like(images)
    for image, result in zip(np.round(255 * images).astype(np.uint8), decoded, strict=True):
        file = BytesIO()
        pixels = image[0] if len(image) == 1 else image.transpose(1, 2, 0)
        pillow.fromarray(pixels).save(file, "JPEG", quality=quality)
        found = np.asarray(pillow.open(file)) / 255
        result[:] = found if found.ndim == 2 else found.transpose(2, 0, 1)
    return decoded


def _zoomed(images: Floats, factor: float) -> Floats:
    """Enlarge the middle of images to their size."""
    cut: list[slice] = []
    for size in images.shape[2:]:
        kept = int(np.ceil(size / factor))
        cut.append(slice((size - kept) // 2, (size - kept) // 2 + kept))
    large = zoom(images[:, :, cut[0], cut[1]], (1, 1, factor, factor), order=1)
    trim = [(large.shape[axis] - images.shape[axis]) // 2 for axis in (2, 3)]
    height, width = images.shape[2:]
    middle: Floats = large[:, :, trim[0] : trim[0] + height, trim[1] : trim[1] + width]
    return middle


def _moved_by_wind(images: Floats, radius: int, sigma: float, degrees: Any) -> Floats:
    """Blur images to one side, along a direction for each, with half a Gaussian."""
    n, _, height, width = images.shape
    weights = np.exp(-(np.arange(2 * radius + 1) ** 2) / (2 * sigma**2))
    angle = np.deg2rad(degrees)[:, None]
    moving = np.zeros_like(images)
    for step, weight in enumerate(weights / weights.sum()):
        down, right = (np.ceil(step * of(angle) - 0.5).astype(int) for of in (np.sin, np.cos))
        rows = np.clip(np.arange(height) + down, 0, height - 1)[:, :, None]
        columns = np.clip(np.arange(width) + right, 0, width - 1)[:, None]
        moved = images[np.arange(n)[:, None, None], :, rows, columns]
        moving += weight * np.moveaxis(moved, -1, 1)
    return moving


def _clouds(shape: tuple[int, ...], decay: float, rng: Random) -> Floats:
    """Return smooth random textures in [0, 1] by the diamond-square algorithm, (n, 1, h, w)."""
    n, _, height, width = shape
    side = 1 << (max(height, width) - 1).bit_length()
    field, step, roughness = np.zeros((n, side, side)), side, 1.0
    while step >= 2:
        half = step // 2
        corners = field[:, ::step, ::step]
        across, down = (corners + np.roll(corners, -1, axis) for axis in (2, 1))
        middles = (across + np.roll(across, -1, 1)) / 4
        middles += rng.uniform(-roughness, roughness, middles.shape)
        field[:, half::step, half::step] = middles
        for rows, columns, ends, axis in ((0, half, across, 1), (half, 0, down, 2)):
            edges = (ends + middles + np.roll(middles, 1, axis)) / 4
            edges += rng.uniform(-roughness, roughness, edges.shape)
            field[:, rows::step, columns::step] = edges
        step, roughness = half, roughness / decay**2
    field -= field.min((1, 2), keepdims=True)
    field /= np.maximum(field.max((1, 2), keepdims=True), np.finfo(float).tiny)
    return field[:, None, :height, :width]


def _box_weights(n_out: int, n_in: int) -> Floats:
    """Return the weight of each input pixel in the mean that each output pixel is."""
    scale = n_in / n_out
    place = np.arange(n_in) + 0.5 - scale * (np.arange(n_out)[:, None] + 0.5)
    inside = (place > -max(scale, 1) / 2) & (place <= max(scale, 1) / 2)
    weights: Floats = inside / inside.sum(1, keepdims=True)
    return weights


# For each kind its function and its strengths at the severities 1 to 5.
_KINDS: Mapping[str, tuple[Callable[[Floats, Any, Random], Floats], tuple[Any, ...]]] = {
    "gaussian_noise": (_gaussian_noise, (0.04, 0.06, 0.08, 0.09, 0.10)),
    "shot_noise": (_shot_noise, (500, 250, 100, 75, 50)),
    "impulse_noise": (_impulse_noise, (0.01, 0.02, 0.03, 0.05, 0.07)),
    "defocus_blur": (_defocus_blur, ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1))),
    "glass_blur": (_glass_blur, ((0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2))),
    "motion_blur": (_motion_blur, ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5))),
    "zoom_blur": (_zoom_blur, (5, 10, 15, 20, 25)),
    "snow": (
        _snow,
        (
            (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
        ),
    ),
    "frost": (_frost, ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))),
    "fog": (_fog, ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75))),
    "brightness": (_brightness, (0.05, 0.1, 0.15, 0.2, 0.3)),
    "contrast": (_contrast, (0.75, 0.5, 0.4, 0.3, 0.15)),
    "elastic": (
        _elastic,
        (
            (0, 0, 0.08),
            (0.05, 0.2, 0.07),
            (0.08, 0.06, 0.06),
            (0.1, 0.04, 0.05),
            (0.1, 0.03, 0.03),
        ),
    ),
    "pixelate": (_pixelate, (0.95, 0.9, 0.85, 0.75, 0.65)),
    "jpeg": (_jpeg, (80, 65, 58, 50, 40)),
}

#: The kinds of `Corruption`, in the order of the benchmark.
CORRUPTIONS: tuple[str, ...] = tuple(_KINDS)
