"""Class scores of models, features from layers, and the posterior over candidates by scores."""

from pa_select.scores.class_scores import align_classes, class_scores, log_probabilities
from pa_select.scores.features import LayerFeatures

__all__ = ["LayerFeatures", "align_classes", "class_scores", "log_probabilities"]
