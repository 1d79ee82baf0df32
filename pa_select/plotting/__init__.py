"""Displays like those of scikit-learn; matplotlib is imported when one is drawn."""

from pa_select.plotting.agreement_curve import AgreementCurveDisplay
from pa_select.plotting.epochs import EpochsDisplay
from pa_select.plotting.expected_score import ExpectedScoreDisplay
from pa_select.plotting.robustness_curve import RobustnessCurveDisplay
from pa_select.plotting.search import PASearchDisplay

__all__ = [
    "AgreementCurveDisplay",
    "EpochsDisplay",
    "ExpectedScoreDisplay",
    "PASearchDisplay",
    "RobustnessCurveDisplay",
]
