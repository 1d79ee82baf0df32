"""Robust learners that the papers compare: ERM, IRM, LISA and adversarial training."""

from papers.learners.adversarial import AdversarialNet as AdversarialNet
from papers.learners.erm import ERMNet as ERMNet
from papers.learners.irm import IRMNet as IRMNet
from papers.learners.lisa import LISANet as LISANet
