"""Shifts, attacks and mixtures of rows: the same rows as another environment shows them."""

from pa_select.shifts.attacks.gradient import FGSM, PGD
from pa_select.shifts.images import (
    Blur,
    Contrast,
    Dim,
    ImpulseNoise,
    Pixelate,
    Quantize,
    ShotNoise,
    Translate,
)
from pa_select.shifts.mix import mix, shifted_rows
from pa_select.shifts.shift import Shift, Shifted
from pa_select.shifts.tabular import (
    Drift,
    FeatureDropout,
    FeatureFailure,
    GaussianNoise,
    UniformNoise,
)
from pa_select.shifts.transform import TransformShift, as_shift

__all__ = [
    "Blur",
    "Contrast",
    "Dim",
    "Drift",
    "FGSM",
    "FeatureDropout",
    "FeatureFailure",
    "GaussianNoise",
    "ImpulseNoise",
    "PGD",
    "Pixelate",
    "Quantize",
    "Shift",
    "Shifted",
    "ShotNoise",
    "TransformShift",
    "Translate",
    "UniformNoise",
    "as_shift",
    "mix",
    "shifted_rows",
]
