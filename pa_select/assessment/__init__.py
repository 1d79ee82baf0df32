"""How robust a trained classifier is: to what, how much, and how sure that is."""

from pa_select.assessment.curve import RobustnessCurve, robustness_curve
from pa_select.assessment.features import (
    FeatureDiscrepancy,
    Invariance,
    feature_discrepancy,
    invariance,
)

__all__ = [
    "FeatureDiscrepancy",
    "Invariance",
    "RobustnessCurve",
    "feature_discrepancy",
    "invariance",
    "robustness_curve",
]
