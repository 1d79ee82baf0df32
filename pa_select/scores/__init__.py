"""Class scores of fitted estimators, and scores of probabilities."""

from pa_select.scores.alignment import align_classes
from pa_select.scores.class_scores import class_scores
from pa_select.scores.probabilities import log_probabilities

__all__ = ["align_classes", "class_scores", "log_probabilities"]
