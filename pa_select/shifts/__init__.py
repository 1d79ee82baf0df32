"""Shifts and attacks: the same rows as another environment shows them, and robustness to them."""

from pa_select.shifts.attacks.gradient import FGSM, PGD
from pa_select.shifts.images import Blur, Dim, Translate
from pa_select.shifts.robustness_curve import RobustnessCurve, robustness_curve
from pa_select.shifts.shift import Shift, Shifted
from pa_select.shifts.tabular import Drift, FeatureFailure, GaussianNoise
from pa_select.shifts.transform import TransformShift

__all__ = [
    "Blur",
    "Dim",
    "Drift",
    "FGSM",
    "FeatureFailure",
    "GaussianNoise",
    "PGD",
    "RobustnessCurve",
    "Shift",
    "Shifted",
    "TransformShift",
    "Translate",
    "robustness_curve",
]
