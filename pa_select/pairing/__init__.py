"""Which observation is compared with which."""

from pa_select.pairing.label import Pairs, pair_environments, pair_within_label

__all__ = ["Pairs", "pair_environments", "pair_within_label"]
