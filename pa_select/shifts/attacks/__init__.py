"""Attacks: shifts that are chosen to change the decisions of a given classifier."""

from pa_select.shifts.attacks.gradient import FGSM, PGD
from pa_select.shifts.attacks.minimum_norm import FMN

__all__ = ["FGSM", "FMN", "PGD"]
