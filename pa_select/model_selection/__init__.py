"""Scorers, searches and the rules by which searches choose a candidate."""

from pa_select.model_selection.candidate_posterior import candidate_posterior
from pa_select.model_selection.committee import PACommittee
from pa_select.model_selection.pa_scorer import PAScorer, pa_scorer
from pa_select.model_selection.pa_search import PARandomizedSearchCV, PASearchCV
from pa_select.model_selection.rules import (
    GuardedSelection,
    within_one_standard_error,
)
from pa_select.scores.candidate_posterior import CandidatePosterior
from pa_select.scores.new_site import new_site_interval

__all__ = [
    "CandidatePosterior",
    "GuardedSelection",
    "PACommittee",
    "PARandomizedSearchCV",
    "PAScorer",
    "PASearchCV",
    "candidate_posterior",
    "new_site_interval",
    "pa_scorer",
    "within_one_standard_error",
]
