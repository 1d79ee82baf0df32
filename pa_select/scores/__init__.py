"""Class scores of models, features of rows, and the posterior over candidates by scores."""

from pa_select.scores.class_scores import align_classes, class_scores, log_probabilities

__all__ = ["align_classes", "class_scores", "log_probabilities"]
