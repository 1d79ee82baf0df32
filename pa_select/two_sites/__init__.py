"""What can be said of a site where nobody labels, from objects measured at both sites."""

from pa_select.two_sites.expected_score import expected_score, expected_scorer
from pa_select.two_sites.pair_planning import plan_pairs
from pa_select.two_sites.site_adapter import SiteAdapter
from pa_select.two_sites.trained import ExpectedScore

__all__ = [
    "ExpectedScore",
    "SiteAdapter",
    "expected_score",
    "expected_scorer",
    "plan_pairs",
]
