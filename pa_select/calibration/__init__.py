"""How far to believe a classifier's probabilities where nobody labels, and how accurate it is."""

from pa_select.calibration.agreement_calibrated_classifier import AgreementCalibratedClassifier
from pa_select.calibration.estimate_accuracy import AccuracyEstimate, estimate_accuracy
from pa_select.calibration.inverse_temperatures import HalvesAgreement

__all__ = [
    "AccuracyEstimate",
    "AgreementCalibratedClassifier",
    "HalvesAgreement",
    "estimate_accuracy",
]
