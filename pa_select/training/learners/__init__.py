"""Robust learners: skorch nets that know which environment a row of training is from."""

from pa_select.training.learners.erm import ERMNet
from pa_select.training.learners.irm import IRMNet
from pa_select.training.learners.lisa import LISANet

__all__ = ["ERMNet", "IRMNet", "LISANet"]
