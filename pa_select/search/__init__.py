"""Searches and the rules by which they select."""

from pa_select.search.differences import AgreementDifference
from pa_select.search.pa_search import PARandomizedSearchCV, PASearchCV
from pa_select.search.rules import within_one_standard_error
from pa_select.search.selection import GuardedSelection

__all__ = [
    "AgreementDifference",
    "GuardedSelection",
    "PARandomizedSearchCV",
    "PASearchCV",
    "within_one_standard_error",
]
