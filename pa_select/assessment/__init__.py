"""Measures of how robust a trained classifier is, and of how certain they are."""

from pa_select.assessment.feature_measures import (
    FeatureDiscrepancy,
    Invariance,
    feature_discrepancy,
    invariance,
)
from pa_select.assessment.robustness_curve import RobustnessCurve, robustness_curve

__all__ = [
    "FeatureDiscrepancy",
    "Invariance",
    "RobustnessCurve",
    "feature_discrepancy",
    "invariance",
    "robustness_curve",
]
