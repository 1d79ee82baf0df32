"""Shifts, attacks and mixtures of rows: the same rows as another environment shows them."""

from pa_select.shifts.attacks.gradient import FGSM, PGD
from pa_select.shifts.attacks.minimum_norm import FMN
from pa_select.shifts.corruptions import CORRUPTIONS, Corruption
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
from pa_select.shifts.text import CharacterEdits, WordEdits
from pa_select.shifts.transform import TransformShift, as_shift

__all__ = [
    "Blur",
    "CORRUPTIONS",
    "CharacterEdits",
    "Contrast",
    "Corruption",
    "Dim",
    "Drift",
    "FGSM",
    "FMN",
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
    "WordEdits",
    "as_shift",
    "mix",
    "shifted_rows",
]
