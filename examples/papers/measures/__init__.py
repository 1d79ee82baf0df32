"""Measures that the papers compare with the agreement."""

from papers.measures.feature_measures import FeatureDiscrepancy as FeatureDiscrepancy
from papers.measures.feature_measures import Invariance as Invariance
from papers.measures.feature_measures import feature_columns as feature_columns
from papers.measures.feature_measures import feature_discrepancy as feature_discrepancy
from papers.measures.feature_measures import invariance as invariance
from papers.measures.heat_map import draw_correlations as draw_correlations
from papers.measures.norm_measures import norm_measures as norm_measures
from papers.measures.norm_measures import path_norm as path_norm
from papers.measures.prediction_measures import PredictionMeasures as PredictionMeasures
from papers.measures.prediction_measures import SampleGap as SampleGap
from papers.measures.prediction_measures import prediction_measures as prediction_measures
from papers.measures.prediction_measures import sample_gap as sample_gap
from papers.measures.rank_correlation import RankCorrelation as RankCorrelation
from papers.measures.rank_correlation import rank_correlation as rank_correlation
from papers.measures.sharpness import Sharpness as Sharpness
from papers.measures.sharpness import pac_bayes_bound as pac_bayes_bound
from papers.measures.sharpness import sharpness as sharpness
