"""Class scores of fitted estimators, scores from probabilities, and features from layers."""

from pa_select.scores.class_scores import align_classes, class_scores
from pa_select.scores.features import LayerFeatures
from pa_select.scores.probabilities import log_probabilities

__all__ = ["LayerFeatures", "align_classes", "class_scores", "log_probabilities"]
