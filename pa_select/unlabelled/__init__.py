"""What can be said of a site where nobody labels, from objects measured at both sites."""

from pa_select.unlabelled.expected_score import expected_score
from pa_select.unlabelled.expected_scorer import ExpectedScorer, expected_scorer
from pa_select.unlabelled.result import ExpectedScore
from pa_select.unlabelled.site_adapter import SiteAdapter

__all__ = ["ExpectedScore", "ExpectedScorer", "SiteAdapter", "expected_score", "expected_scorer"]
