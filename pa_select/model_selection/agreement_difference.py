"""Differences of the agreements of two candidates on the same pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pa_select.utils.typing import Floats

if TYPE_CHECKING:
    from pa_select.agreement.pooled_agreement import PooledPairs


#: Two agreements are told apart if the p-value of no difference is below this level.
LEVEL_TOLD_APART = 0.05


class AgreementDifference(NamedTuple):
    """Difference of the agreements of two candidates, as `PASearchCV.compare` returns it.

    Attributes
    ----------
    difference : float
        Agreement of the first candidate minus that of the second, in nats per pair.
    standard_error : float
        Standard error of `difference` in nats; pairs that share a row are not taken as
        independent.
    p_value : float
        Two-sided p-value of no difference, in [0, 1]: Student's t with a continuity
        correction, as in `compare_agreement`. It is valid for two candidates that were named
        beforehand. The best of many candidates looks better than it is.

    References
    ----------
    .. [1] P. Aronow, C. Samii, V. Assenova, "Cluster-robust variance estimation for dyadic
       data", Political Analysis 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from pa_select import PASearchCV
    >>> search = PASearchCV(GaussianNB(), {"var_smoothing": [1e-9, 1e-2]})
    >>> search.fit(*load_iris(return_X_y=True)).compare(1, 1)
    AgreementDifference(difference=0.0, standard_error=0.0, p_value=1.0)
    """

    difference: float
    standard_error: float
    p_value: float


def agreement_difference(
    terms: Floats, others: Floats, pairs: PooledPairs, *, warn: bool = False
) -> AgreementDifference:
    """Compare the mean terms of two candidates, each of shape (n_pairs,); warn of few objects."""
    from pa_select.agreement.standard_errors import mean_difference, warn_of_few_pairs

    weight = pairs.weight / pairs.weight.sum()
    found = mean_difference(terms, others, weight, (pairs.object_a, pairs.object_b))
    if warn:
        warn_of_few_pairs("pairs", found.n_units)
    return AgreementDifference(found.difference, found.standard_error, found.p_value)


def not_told_apart(terms: Floats, pairs: PooledPairs, best: int, eligible: Any) -> Any:
    """Find the eligible candidates whose agreement differs little from the chosen one's.

    Parameters
    ----------
    terms : ndarray of shape (n_candidates, n_pairs)
    pairs : PooledPairs
    best : int
        The chosen candidate.
    eligible : ndarray of shape (n_candidates,) of bool

    Returns
    -------
    ndarray of shape (n_candidates,) of bool
        True if the p-value of no difference is at least 0.05; False for the chosen candidate,
        and if there is no p-value.
    """
    alike = np.zeros(len(terms), dtype=bool)
    for i in np.flatnonzero(eligible):
        if i != best:
            found = agreement_difference(terms[best], terms[i], pairs)
            alike[i] = found.p_value >= LEVEL_TOLD_APART
    return alike


def agree_as_well(n: int) -> str:
    """Return the reason to add if n other candidates differ little from the chosen one."""
    others = "another eligible candidate" if n == 1 else f"{n} other eligible candidates"
    return (
        f"chosen, but its agreement cannot be told from that of {others} (the p-value of no "
        f"difference is at least {LEVEL_TOLD_APART})"
    )
