"""Attacks: the shift that a classifier takes worst."""

from pa_select.environments.attacks.gradient import FGSM, PGD
from pa_select.environments.attacks.minimum_norm import FMN

__all__ = ["FGSM", "FMN", "PGD"]
