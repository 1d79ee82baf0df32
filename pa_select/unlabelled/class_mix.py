"""Whether paired objects seem to have other shares of the classes than labelled rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from pa_select.utils.typing import Floats

# Shares of the classes that differ by more than this matter, if chance makes such a difference
# less often than once in this many searches.
_LARGE_DIFFERENCE, _SELDOM = 0.1, 10_000


class OtherMix(NamedTuple):
    """The class whose shares differ most: its column, and its two shares."""

    column: int
    found: float
    expected: float

    def message(self, name: str, classes: NDArray[Any]) -> str:
        """Return a warning that names the rows of the pairs."""
        return (
            f"{name}: expected objects of the classes that y has, got objects that seem to be "
            f"{classes.tolist()[self.column]!r} in {self.found:.0%} of the cases, which "
            f"{self.expected:.0%} of the labels are. The score on the labelled rows, and so the "
            "expected score, may not hold for these objects."
        )


def other_mix(found: Floats, expected: Floats, variance: Floats) -> OtherMix | None:
    """Compare the shares of the classes among paired objects with those of labelled rows.

    Parameters
    ----------
    found : ndarray of shape (n_classes,)
        The mean posterior over the paired objects.
    expected : ndarray of shape (n_classes,)
        The shares among the labelled rows.
    variance : ndarray of shape (n_classes,)
        The variance of the difference of each share, if there are no other objects.

    Returns
    -------
    OtherMix or None
        None if no share differs clearly (normal distribution, Bonferroni).
    """
    away = np.abs(found - expected)
    if away.sum() / 2 < _LARGE_DIFFERENCE:
        return None
    errors = np.divide(away, np.sqrt(variance), out=np.zeros_like(away), where=variance > 0)
    if 2 * len(away) * float(norm.sf(errors.max())) * _SELDOM > 1:
        return None
    most = int(away.argmax())
    return OtherMix(most, float(found[most]), float(expected[most]))


def other_mix_of_posteriors(of_pairs: Floats, of_labelled: Floats) -> OtherMix | None:
    """Compare the mean posteriors of one classifier, whose bias is in both of them."""
    variance = of_pairs.var(axis=0) / len(of_pairs) + of_labelled.var(axis=0) / len(of_labelled)
    return other_mix(of_pairs.mean(axis=0), of_labelled.mean(axis=0), variance)
