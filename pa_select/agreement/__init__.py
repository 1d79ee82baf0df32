"""Posterior agreement of paired class scores: the mathematics, without estimators."""

from pa_select.agreement.matrix import AgreementMatrix, agreement_matrix
from pa_select.agreement.posterior_agreement import (
    PosteriorAgreement,
    pa_kernel,
    posterior_agreement,
)

__all__ = [
    "AgreementMatrix",
    "PosteriorAgreement",
    "agreement_matrix",
    "pa_kernel",
    "posterior_agreement",
]
