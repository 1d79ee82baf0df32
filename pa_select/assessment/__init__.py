"""Measures of how robust a trained classifier is, and of how certain they are."""

from pa_select.assessment.feature_measures import (
    FeatureDiscrepancy,
    Invariance,
    feature_discrepancy,
    invariance,
)
from pa_select.assessment.norm_measures import norm_measures, path_norm
from pa_select.assessment.prediction_measures import (
    PredictionMeasures,
    SampleGap,
    prediction_measures,
    sample_gap,
)
from pa_select.assessment.rank_correlation import RankCorrelation, rank_correlation
from pa_select.assessment.robustness_curve import RobustnessCurve, robustness_curve
from pa_select.assessment.sharpness import Sharpness, pac_bayes_bound, sharpness

__all__ = [
    "FeatureDiscrepancy",
    "Invariance",
    "PredictionMeasures",
    "RankCorrelation",
    "RobustnessCurve",
    "SampleGap",
    "Sharpness",
    "feature_discrepancy",
    "invariance",
    "norm_measures",
    "pac_bayes_bound",
    "path_norm",
    "prediction_measures",
    "rank_correlation",
    "robustness_curve",
    "sample_gap",
    "sharpness",
]
