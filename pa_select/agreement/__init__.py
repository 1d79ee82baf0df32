"""Posterior agreement of paired class scores: the mathematics, without estimators."""

from pa_select.agreement.agreement_matrix import AgreementMatrix, agreement_matrix
from pa_select.agreement.agreement_of_chunks import agreement_of_chunks
from pa_select.agreement.bootstrap import (
    AgreementBootstrap,
    AgreementComparison,
    bootstrap_agreement,
    compare_agreement,
)
from pa_select.agreement.confidence_interval import confidence_interval
from pa_select.agreement.posterior_agreement import pa_kernel, posterior_agreement
from pa_select.agreement.posteriors import Confidence, EntropyChange, Generalization, Part
from pa_select.agreement.regression_agreement import RegressionAgreement, regression_agreement
from pa_select.agreement.result import NotAllSolvedError, PosteriorAgreement, SolverPath

__all__ = [
    "AgreementBootstrap",
    "AgreementComparison",
    "AgreementMatrix",
    "Confidence",
    "EntropyChange",
    "Generalization",
    "NotAllSolvedError",
    "Part",
    "PosteriorAgreement",
    "RegressionAgreement",
    "SolverPath",
    "agreement_matrix",
    "agreement_of_chunks",
    "bootstrap_agreement",
    "compare_agreement",
    "confidence_interval",
    "pa_kernel",
    "posterior_agreement",
    "regression_agreement",
]
