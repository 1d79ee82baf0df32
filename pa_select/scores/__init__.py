"""Class scores of models, features from layers, and the posterior over candidates by scores."""

from pa_select.scores.class_scores import align_classes, class_scores
from pa_select.scores.features import LayerFeatures
from pa_select.scores.probabilities import log_probabilities

__all__ = ["LayerFeatures", "align_classes", "class_scores", "log_probabilities"]
