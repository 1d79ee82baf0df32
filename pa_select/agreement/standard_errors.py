"""Standard errors of mean agreements."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pa_select.utils.p_values import p_value
from pa_select.utils.typing import Floats, Ints

# The deviations of this many pairs are held at once: it bounds the memory, not the result.
_PAIRS_AT_ONCE = 1 << 20
# Differences of terms below this share of the largest term, or of 1 nat, are rounding.
_ROUNDING = 1e-12


class MeanDifference(NamedTuple):
    """Difference of two mean agreements, its standard error and its p-value."""

    difference: float
    standard_error: float
    p_value: float
    n_units: int


def mean_difference(
    terms: Floats, others: Floats, weight: Floats, objects: tuple[Ints, Ints] | None = None
) -> MeanDifference:
    """Compare the weighted means of the terms of two classifiers on the same pairs.

    The weights sum to one, and terms are infinite only where they are 0. `objects` are as in
    `standard_error`.
    """
    used = weight > 0
    terms, others, weight = terms[used], others[used], weight[used]
    if objects is not None:
        objects = objects[0][used], objects[1][used]
    differences = terms - others
    mean = _sum_of_products(weight, differences)
    error = standard_error(differences, weight, objects)
    shares = weight * differences if objects is None else _shares(weight * differences, objects)
    n = len(shares)
    if not n or np.isnan(differences).any():
        return MeanDifference(mean, error, math.nan, n)
    scale = max(1.0, float(np.abs(terms).max()), float(np.abs(others).max()))
    largest = n * float(np.abs(shares).max())
    return MeanDifference(mean, error, p_value(mean, error, n, largest, _ROUNDING * scale), n)


def standard_error(
    terms: Floats, weight: Floats, objects: tuple[Ints, Ints] | None = None
) -> float:
    """Return the standard error of the weighted mean of the terms of pairs.

    The weights sum to one. `objects` are integers from 0 that name the two objects of each pair,
    which may be the same one. Pairs that share an object are not taken as independent (dyadic
    cluster-robust variance). None: no two pairs share an object. The error is nan if fewer than
    two pairs, or objects, have positive weight.
    """
    if objects is None:
        return _of_independent_pairs(terms, weight)
    used = weight > 0
    terms, weight = terms[used], weight[used]
    if len(terms) < 2:
        return math.nan
    deviations = weight * (terms - _sum_of_products(weight, terms))
    a, b = objects[0][used], objects[1][used]
    differ = a != b
    # The sum of the covariances of all pairs that share an object. It counts a pair of two
    # different objects with itself twice, once for each object.
    sums = np.bincount(a, deviations, minlength=int(b.max()) + 1)
    np.add.at(sums, b[differ], deviations[differ])
    of_pairs = float(np.square(deviations[differ]).sum())
    variance = float(np.square(sums).sum()) - of_pairs
    # In small samples the sum may be below that of independent pairs, or even negative.
    variance = max(variance, of_pairs)
    seen = np.zeros(len(sums), dtype=bool)
    seen[a] = seen[b] = True
    return error_of_mean(variance, int(seen.sum()))


def _shares(contributions: Floats, objects: tuple[Ints, Ints]) -> Floats:
    """Share the contribution of each pair between its two objects; the sum stays the same."""
    units, codes = np.unique(np.concatenate(objects), return_inverse=True)
    shared = np.bincount(codes, np.tile(contributions / 2, 2), minlength=len(units))
    return shared.astype(np.float64)


def error_of_mean(squares: float, n: int) -> float:
    """Return the standard error of a weighted mean, from the sum of squared deviations.

    A deviation is a term's distance from the mean times its normalised weight; `n` is the
    number of independent terms. The error is nan for n < 2.
    """
    return math.sqrt(n / (n - 1) * squares) if n > 1 else math.nan


def sum_of_squared_deviations(terms: Floats, weight: Floats, mean: float) -> float:
    """Return the sum of the squared deviations of the terms; see `error_of_mean`."""
    return sum(float(np.square(w * (t - mean)).sum()) for t, w in _used_parts(terms, weight))


def _of_independent_pairs(terms: Floats, weight: Floats) -> float:
    mean = sum(_sum_of_products(w, t) for t, w in _used_parts(terms, weight))
    squares = sum_of_squared_deviations(terms, weight, mean)
    return error_of_mean(squares, int(np.count_nonzero(weight)))


def _sum_of_products(a: Floats, b: Floats) -> float:
    """Return the sum; the threads of a BLAS would wait longer than it takes."""
    return float((a * b).sum())


def _used_parts(terms: Floats, weight: Floats) -> Iterator[tuple[Floats, Floats]]:
    """Yield the terms of positive weight and their weights, in parts."""
    for begin in range(0, len(terms), _PAIRS_AT_ONCE):
        rows = slice(begin, begin + _PAIRS_AT_ONCE)
        used = weight[rows] > 0
        yield terms[rows][used], weight[rows][used]
