"""Scorers for scikit-learn's searches and cross-validation."""

from pa_select.scoring.companions import majority_rate
from pa_select.scoring.pa_scorer import PAScorer, pa_scorer

__all__ = ["PAScorer", "majority_rate", "pa_scorer"]
