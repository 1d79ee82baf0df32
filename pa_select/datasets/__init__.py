"""Data with environments: images with set factors, WILDS subsets, shared environments."""

from pa_select.datasets.diagvib.co_occurrence import co_occurrence
from pa_select.datasets.diagvib.factor_images import factor_images
from pa_select.datasets.diagvib.levels import (
    FACTOR_LADDERS,
    FACTOR_LEVELS,
    SHORTCUT_LEVELS,
    factor_combinations,
)
from pa_select.datasets.shared_environment import SharedEnvironment
from pa_select.datasets.wilds import WILDSData

__all__ = [
    "FACTOR_LADDERS",
    "FACTOR_LEVELS",
    "SHORTCUT_LEVELS",
    "SharedEnvironment",
    "WILDSData",
    "co_occurrence",
    "factor_combinations",
    "factor_images",
]
