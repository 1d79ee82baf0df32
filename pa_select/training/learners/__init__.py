"""Robust learners: skorch nets that use environments of the training rows, or unlabelled pairs."""

from pa_select.training.learners.agreement import AgreementNet
from pa_select.training.learners.erm import ERMNet
from pa_select.training.learners.irm import IRMNet
from pa_select.training.learners.lisa import LISANet

__all__ = ["AgreementNet", "ERMNet", "IRMNet", "LISANet"]
