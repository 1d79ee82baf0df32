"""Differences of the agreements of two candidates on the same pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pa_select.utils.p_values import p_value
from pa_select.utils.typing import Floats

if TYPE_CHECKING:
    from pa_select.agreement.pooled_agreement import PooledPairs


#: Standard errors by which two agreements must differ to be told apart.
N_SE_TOLD_APART = 2


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
        Two-sided p-value of no difference, from the normal distribution, in [0, 1]. It is
        valid for two candidates that were named beforehand. The best of many candidates
        looks better than it is.

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


def agreement_difference(terms: Floats, others: Floats, pairs: PooledPairs) -> AgreementDifference:
    """Compare the mean terms of two candidates, each of shape (n_pairs,)."""
    from pa_select.agreement.standard_errors import standard_error

    weight = pairs.weight / pairs.weight.sum()
    used = weight > 0
    difference = float(weight[used] @ (terms[used] - others[used]))
    error = standard_error(terms - others, weight, (pairs.object_a, pairs.object_b))
    return AgreementDifference(difference, error, p_value(difference, error))


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
        True if the difference is at most two of its standard errors; False for the chosen
        candidate, and if there is no agreement or no standard error.
    """
    alike = np.zeros(len(terms), dtype=bool)
    for i in np.flatnonzero(eligible):
        if i != best:
            found = agreement_difference(terms[best], terms[i], pairs)
            alike[i] = abs(found.difference) <= N_SE_TOLD_APART * found.standard_error
    return alike


def agree_as_well(n: int) -> str:
    """Return the reason to add if n other candidates differ little from the chosen one."""
    others = "another eligible candidate" if n == 1 else f"{n} other eligible candidates"
    return (
        f"chosen, but its agreement cannot be told from that of {others} (the difference is less "
        f"than {N_SE_TOLD_APART} of its standard errors)"
    )
