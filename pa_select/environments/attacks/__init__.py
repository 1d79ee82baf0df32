"""Attacks: shifts that are chosen to change the decisions of a given classifier."""

from pa_select.environments.attacks.gradient import FGSM, PGD
from pa_select.environments.attacks.minimum_norm import FMN

__all__ = ["FGSM", "FMN", "PGD"]
