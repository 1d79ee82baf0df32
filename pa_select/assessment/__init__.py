"""How robust a trained classifier is: to what, how much, and how sure that is."""

from pa_select.assessment.curve import RobustnessCurve, robustness_curve
from pa_select.assessment.disturbance import Sharpness, sharpness
from pa_select.assessment.features import (
    FeatureDiscrepancy,
    Invariance,
    feature_discrepancy,
    invariance,
)
from pa_select.assessment.norms import norm_measures
from pa_select.assessment.predictions import PredictionMeasures, prediction_measures
from pa_select.assessment.ranks import RankCorrelation, rank_correlation

__all__ = [
    "FeatureDiscrepancy",
    "Invariance",
    "PredictionMeasures",
    "RankCorrelation",
    "RobustnessCurve",
    "Sharpness",
    "feature_discrepancy",
    "invariance",
    "norm_measures",
    "prediction_measures",
    "rank_correlation",
    "robustness_curve",
    "sharpness",
]
