"""Pairings: which rows are compared with which."""

from pa_select.pairing.one_sample import pair_environments, pair_within_label
from pa_select.pairing.row_pairs import Pairs
from pa_select.pairing.two_samples import (
    CanonicalPairing,
    IdentityPairing,
    IdPairing,
    LabelPairing,
    NearestPairing,
)

__all__ = [
    "CanonicalPairing",
    "IdPairing",
    "IdentityPairing",
    "LabelPairing",
    "NearestPairing",
    "Pairs",
    "pair_environments",
    "pair_within_label",
]
