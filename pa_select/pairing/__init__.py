"""Which observation is compared with which."""

from pa_select.pairing.features import LayerFeatures
from pa_select.pairing.label import pair_environments, pair_within_label
from pa_select.pairing.pairs import Pairs
from pa_select.pairing.samples import (
    AssignmentPairing,
    CanonicalPairing,
    IdentityPairing,
    IdPairing,
    LabelPairing,
    NearestPairing,
)

__all__ = [
    "AssignmentPairing",
    "CanonicalPairing",
    "IdPairing",
    "IdentityPairing",
    "LabelPairing",
    "LayerFeatures",
    "NearestPairing",
    "Pairs",
    "pair_environments",
    "pair_within_label",
]
