"""Class scores of fitted estimators."""

from pa_select.scores.alignment import align_classes
from pa_select.scores.class_scores import class_scores

__all__ = ["align_classes", "class_scores"]
