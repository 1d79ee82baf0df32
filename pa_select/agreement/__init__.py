"""Posterior agreement of paired class scores: the mathematics, without estimators."""

from pa_select.agreement.agreement_of_chunks import agreement_of_chunks
from pa_select.agreement.compare_agreement import AgreementComparison, compare_agreement
from pa_select.agreement.confidence_interval import confidence_interval
from pa_select.agreement.posterior_agreement import pa_kernel, posterior_agreement
from pa_select.agreement.regression_agreement import RegressionAgreement, regression_agreement
from pa_select.agreement.result import NotAllSolvedError, PosteriorAgreement, SolverPath

__all__ = [
    "AgreementComparison",
    "NotAllSolvedError",
    "PosteriorAgreement",
    "RegressionAgreement",
    "SolverPath",
    "agreement_of_chunks",
    "compare_agreement",
    "confidence_interval",
    "pa_kernel",
    "posterior_agreement",
    "regression_agreement",
]
