"""Class scores of fitted estimators, scores from probabilities, and features from layers."""

from pa_select.scores.alignment import align_classes
from pa_select.scores.class_scores import class_scores
from pa_select.scores.features import LayerFeatures
from pa_select.scores.probabilities import log_probabilities

__all__ = ["LayerFeatures", "align_classes", "class_scores", "log_probabilities"]
