"""Model selection by posterior agreement.

Public names are loaded when they are first used, so that ``import pa_select`` is fast and
needs neither torch nor skorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pa_select._version import __version__ as __version__

if TYPE_CHECKING:
    from pa_select.agreement import (
        AgreementMatrix,
        PosteriorAgreement,
        agreement_matrix,
        agreement_of_chunks,
        bootstrap_agreement,
        compare_agreement,
        confidence_interval,
        pa_kernel,
        posterior_agreement,
        regression_agreement,
    )
    from pa_select.assessment import RobustnessCurve, robustness_curve
    from pa_select.calibration import AgreementCalibratedClassifier
    from pa_select.model_selection import (
        CandidatePosterior,
        GuardedSelection,
        PACommittee,
        PARandomizedSearchCV,
        PASearchCV,
        candidate_posterior,
        within_one_standard_error,
    )
    from pa_select.model_selection.pa_scorer import PAScorer, pa_scorer
    from pa_select.plotting import (
        AgreementCurveDisplay,
        AgreementMatrixDisplay,
        CalibrationUnderShiftDisplay,
        ConfidenceDisplay,
        DecompositionDisplay,
        EpochsDisplay,
        ExpectedScoreDisplay,
        PASearchDisplay,
        RobustnessCurveDisplay,
    )
    from pa_select.scores import class_scores, log_probabilities
    from pa_select.training import (
        EpochSelector,
        PAEarlyStopping,
        PAScoring,
        PosteriorAgreementLoss,
    )
    from pa_select.unlabelled import (
        ExpectedScore,
        PairTrainingClassifier,
        SiteAdapter,
        draw_objects,
        expected_score,
        expected_scorer,
        plan_pairs,
    )

__all__ = [
    "AgreementCalibratedClassifier",
    "AgreementCurveDisplay",
    "AgreementMatrix",
    "AgreementMatrixDisplay",
    "CalibrationUnderShiftDisplay",
    "CandidatePosterior",
    "ConfidenceDisplay",
    "DecompositionDisplay",
    "EpochSelector",
    "EpochsDisplay",
    "ExpectedScore",
    "ExpectedScoreDisplay",
    "GuardedSelection",
    "PACommittee",
    "PAEarlyStopping",
    "PARandomizedSearchCV",
    "PAScorer",
    "PAScoring",
    "PASearchCV",
    "PASearchDisplay",
    "PairTrainingClassifier",
    "PosteriorAgreement",
    "PosteriorAgreementLoss",
    "RobustnessCurve",
    "RobustnessCurveDisplay",
    "SiteAdapter",
    "agreement_matrix",
    "agreement_of_chunks",
    "bootstrap_agreement",
    "candidate_posterior",
    "class_scores",
    "compare_agreement",
    "confidence_interval",
    "draw_objects",
    "expected_score",
    "expected_scorer",
    "log_probabilities",
    "pa_kernel",
    "pa_scorer",
    "plan_pairs",
    "posterior_agreement",
    "regression_agreement",
    "robustness_curve",
    "within_one_standard_error",
]

_HOMES = {
    "AgreementCalibratedClassifier": "calibration",
    "AgreementCurveDisplay": "plotting",
    "AgreementMatrix": "agreement",
    "AgreementMatrixDisplay": "plotting",
    "CalibrationUnderShiftDisplay": "plotting",
    "CandidatePosterior": "model_selection",
    "ConfidenceDisplay": "plotting",
    "DecompositionDisplay": "plotting",
    "EpochSelector": "training",
    "EpochsDisplay": "plotting",
    "ExpectedScore": "unlabelled",
    "ExpectedScoreDisplay": "plotting",
    "GuardedSelection": "model_selection",
    "PACommittee": "model_selection",
    "PAEarlyStopping": "training",
    "PARandomizedSearchCV": "model_selection",
    "PAScorer": "model_selection",
    "PAScoring": "training",
    "PASearchCV": "model_selection",
    "PASearchDisplay": "plotting",
    "PairTrainingClassifier": "unlabelled",
    "PosteriorAgreement": "agreement",
    "PosteriorAgreementLoss": "training",
    "RobustnessCurve": "assessment",
    "RobustnessCurveDisplay": "plotting",
    "SiteAdapter": "unlabelled",
    "agreement_matrix": "agreement",
    "agreement_of_chunks": "agreement",
    "bootstrap_agreement": "agreement",
    "candidate_posterior": "model_selection",
    "class_scores": "scores",
    "compare_agreement": "agreement",
    "confidence_interval": "agreement",
    "draw_objects": "unlabelled",
    "expected_score": "unlabelled",
    "expected_scorer": "unlabelled",
    "log_probabilities": "scores",
    "pa_kernel": "agreement",
    "pa_scorer": "model_selection",
    "plan_pairs": "unlabelled",
    "posterior_agreement": "agreement",
    "regression_agreement": "agreement",
    "robustness_curve": "assessment",
    "within_one_standard_error": "model_selection",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
