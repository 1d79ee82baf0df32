"""Robust learners: skorch nets that use the environment of each training row."""

from pa_select.training.learners.erm import ERMNet
from pa_select.training.learners.irm import IRMNet
from pa_select.training.learners.lisa import LISANet

__all__ = ["ERMNet", "IRMNet", "LISANet"]
