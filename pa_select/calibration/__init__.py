"""How far to believe a classifier's probabilities where nobody labels."""

from pa_select.calibration.agreement_calibrated_classifier import AgreementCalibratedClassifier
from pa_select.calibration.temperatures import HalvesAgreement

__all__ = ["AgreementCalibratedClassifier", "HalvesAgreement"]
