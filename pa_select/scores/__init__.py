"""From a fitted classifier to one column of scores for each class."""

from pa_select.scores.class_scores import class_scores

__all__ = ["class_scores"]
