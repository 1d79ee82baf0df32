"""Scores of objects, with what each object contributes to the error of the score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pa_select.unlabelled.accuracy_interval import check_several, widening
from pa_select.utils.typing import Floats, Ints

# The standard error of a metric without a formula leaves out so many parts, one at a time.
_PARTS = 20
# Numbers that are sorted are rounded to so many digits: equal rows may be predicted in different
# batches, and their predictions then differ by rounding.
_DIGITS = 9


class Expectation(NamedTuple):
    """An expected value, and its standard error over the objects."""

    score: float
    standard_error: float


class Scored(NamedTuple):
    """A score of independent units, and the contribution of each unit to its error.

    Attributes
    ----------
    score : float
    contributions : ndarray of shape (n_units,)
        To first order, by how much the score changes if the weight of a unit doubles. The units
        are objects, or parts of them that were left out in turn.
    """

    score: float
    contributions: Floats

    @classmethod
    def mean_of(cls, found: Sequence[Scored]) -> Scored:
        """Return the mean of scores of the same units."""
        scores, contributions = zip(*found, strict=True)
        return cls(float(np.mean(scores)), np.mean(contributions, axis=0))

    @classmethod
    def of_mean(cls, terms: Floats) -> Scored:
        """Return the mean of one term of each unit."""
        mean = float(terms.mean())
        return cls(mean, (terms - mean) / len(terms))

    @classmethod
    def by_leaving_out(cls, score_of: Callable[[Ints], float], part: Ints) -> Scored:
        """Leave out the parts of the rows in turn (jackknife); ``score_of`` takes row numbers."""
        score, n_parts = score_of(np.arange(len(part))), int(part.max()) + 1
        if n_parts < 2:
            return cls(score, np.zeros(1))
        without = np.array([score_of(np.flatnonzero(part != p)) for p in range(n_parts)])
        return cls(score, (without.mean() - without) * (n_parts - 1) / n_parts)

    def times(self, factor: float) -> Scored:
        """Return a multiple of the score."""
        return Scored(factor * self.score, factor * self.contributions)

    def minus(self, other: Scored) -> Scored:
        """Return the difference of two scores of the same units."""
        return Scored(self.score - other.score, self.contributions - other.contributions)

    def expectation(self) -> Expectation:
        """Return the score and its standard error."""
        return Expectation(self.score, self.standard_error())

    def standard_error(self, groups: NDArray[Any] | None = None) -> float:
        """Return the standard error (delta method); units of one group count as one.

        With few groups it is multiplied so that plus and minus 1.96 of it are the interval of
        Student's t. nan for a single unit.
        """
        units, factor = self.contributions, 1.0
        if groups is not None:
            codes = np.unique(groups, return_inverse=True)[1]
            units = np.bincount(codes, units).astype(np.float64)
            check_several(len(units))
            factor = widening(len(units), len(codes))
        n = len(units)
        return factor * float(np.sqrt(n / (n - 1) * (units @ units))) if n > 1 else float("nan")


def parts_of(*content: Floats, n_parts: int = _PARTS, seed: int = 0) -> Ints:
    """Assign objects to parts of equal size at random, whatever their order.

    Parameters
    ----------
    *content : ndarray of shape (n,) or (n, n_columns)
        What is known of the objects; objects with the same content are interchangeable.
    n_parts, seed : int
        There are as many parts as objects at most.

    Returns
    -------
    ndarray of shape (n,)
        The number of each object's part.
    """
    columns = np.nan_to_num(np.column_stack(content), posinf=0.0, neginf=0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (_DIGITS - np.floor(np.log10(np.abs(columns).max(axis=0))))
    rounded = np.round(columns * np.where(np.isfinite(scale), scale, 1.0))
    order, n = np.lexsort(rounded.T), len(columns)
    part = np.empty(n, dtype=np.intp)
    part[order] = np.random.default_rng(seed).permutation(n) % min(n, n_parts)
    return part


def parts_of_groups(groups: NDArray[Any]) -> Ints:
    """Return the numbers of parts of whole groups."""
    codes: Ints = np.unique(groups, return_inverse=True)[1]
    check_several(int(codes.max()) + 1)
    return codes % _PARTS
