"""Pairings: which rows are compared with which."""

from pa_select.pairing.one_sample import Pairs, pair_environments, pair_within_label
from pa_select.pairing.two_samples import IdentityPairing, LabelPairing, NearestPairing

__all__ = [
    "IdentityPairing",
    "LabelPairing",
    "NearestPairing",
    "Pairs",
    "pair_environments",
    "pair_within_label",
]
