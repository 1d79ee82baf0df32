"""Robust learners: skorch nets that use environments, unlabelled pairs or attacked rows."""

from pa_select.training.learners.adversarial import AdversarialNet
from pa_select.training.learners.agreement import AgreementNet
from pa_select.training.learners.erm import ERMNet
from pa_select.training.learners.irm import IRMNet
from pa_select.training.learners.lisa import LISANet

__all__ = ["AdversarialNet", "AgreementNet", "ERMNet", "IRMNet", "LISANet"]
