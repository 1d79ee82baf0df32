"""Environments: the same things as others would show them."""

from pa_select.environments.attacks import FGSM, FMN, PGD
from pa_select.environments.factors.co_occurrence import co_occurrence
from pa_select.environments.factors.images import factor_images
from pa_select.environments.factors.levels import FACTOR_LEVELS
from pa_select.environments.factors.tables import FACTOR_LADDERS, SHORTCUT_LEVELS
from pa_select.environments.images import Blur, Dim, Quantize, Translate
from pa_select.environments.mix import mix, shifted_rows
from pa_select.environments.shared import SharedEnvironment
from pa_select.environments.shift import Shift, Shifted
from pa_select.environments.tables import Drift, FeatureDropout, GaussianNoise, UniformNoise
from pa_select.environments.text import CharacterEdits, WordEdits
from pa_select.environments.transform import TransformShift, as_shift
from pa_select.environments.wilds import WILDSData

__all__ = [
    "Blur",
    "CharacterEdits",
    "Dim",
    "Drift",
    "FACTOR_LADDERS",
    "FACTOR_LEVELS",
    "FGSM",
    "FMN",
    "FeatureDropout",
    "GaussianNoise",
    "PGD",
    "Quantize",
    "SHORTCUT_LEVELS",
    "SharedEnvironment",
    "Shift",
    "Shifted",
    "TransformShift",
    "Translate",
    "UniformNoise",
    "WILDSData",
    "WordEdits",
    "as_shift",
    "co_occurrence",
    "factor_images",
    "mix",
    "shifted_rows",
]
