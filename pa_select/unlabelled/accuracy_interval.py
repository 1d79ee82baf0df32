"""The interval of an accuracy at another site that assumes nothing about the posteriors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, t

from pa_select.utils.typing import Floats

# Both tails of a 95 % interval.
_TAILS = np.array([0.025, 0.975])
# Sums of rates that differ by no more than this are equal.
_ROUNDING = 1e-12


def accuracy_interval(
    accuracy: Any, n_labelled: Any, disagreement: Any, n_pairs: Any
) -> tuple[Any, Any]:
    r"""Return the 95 % interval of the accuracy at the other site; arguments broadcast.

    The accuracies at the two sites differ by the rate of disagreement at most. Each of the two
    rates has an exact interval of its own (Clopper and Pearson), and the two samples are
    independent. With the limits :math:`(l_a, u_a)` of the accuracy a and the upper limit
    :math:`u_d` of the disagreement d, the interval is

    .. math:: a - d - \sqrt{(a - l_a)^2 + (u_d - d)^2} \quad\text{to}\quad
        a + d + \sqrt{(u_a - a)^2 + (u_d - d)^2},

    cut at 0 and 1. This is the method of variance estimates recovery: each limit of a sum has the
    variance of the limits of its terms, and not that at the estimates, which is 0 where no pair
    disagrees. Newcombe took score limits of the rates; these cover too little here if there are
    few pairs.

    Parameters
    ----------
    accuracy, disagreement : float or ndarray
        Rates in [0, 1].
    n_labelled, n_pairs : float or ndarray
        How many independent labelled rows and pairs they come from; need not be integers.

    Returns
    -------
    tuple of two floats or ndarrays

    References
    ----------
    .. [1] C. J. Clopper, E. S. Pearson, "The use of confidence or fiducial limits illustrated in
       the case of the binomial", Biometrika 1934.
    .. [2] R. G. Newcombe, "Interval estimation for the difference between independent
       proportions: comparison of eleven methods", Statistics in Medicine 1998.
    .. [3] G. Y. Zou, A. Donner, "Construction of confidence limits about effect measures: a
       general approach", Statistics in Medicine 2008.
    """
    least, most = _exact_limits(accuracy, n_labelled)
    more_disagreement = _exact_limits(disagreement, n_pairs)[1] - disagreement
    below = disagreement + np.hypot(accuracy - least, more_disagreement)
    above = disagreement + np.hypot(most - accuracy, more_disagreement)
    return np.maximum(accuracy - below, 0.0), np.minimum(accuracy + above, 1.0)


def _exact_limits(rate: Any, n: Any) -> tuple[Any, Any]:
    """Return the limits of Clopper and Pearson."""
    successes, failures = rate * np.asarray(n), (1 - rate) * np.asarray(n)
    none, all_of_them = successes <= _ROUNDING * n, failures <= _ROUNDING * n
    low = beta.ppf(_TAILS[0], np.where(none, 1.0, successes), failures + 1)
    high = beta.ppf(_TAILS[1], successes + 1, np.where(all_of_them, 1.0, failures))
    return np.where(none, 0.0, low), np.where(all_of_them, 1.0, high)


def effective_number(right: NDArray[np.bool_], groups: NDArray[Any], n: int) -> float:
    """Return how many independent rows say as much of the accuracy as rows in groups.

    So many rows have the variance of the accuracy of the rows in groups. With few groups that
    variance is itself uncertain, so the number is reduced by the squared quantiles of Student's
    t, as Korn and Graubard do for surveys.

    Parameters
    ----------
    right : ndarray of bool of shape (n_predictions,)
        Whether each prediction of a labelled row is right; a row may be predicted several times.
    groups : ndarray of shape (n_predictions,)
    n : int
        Number of rows, which is the most that is returned.

    References
    ----------
    .. [1] E. L. Korn, B. I. Graubard, "Confidence intervals for proportions with small expected
       number of positive counts estimated from survey data", Survey Methodology 1998.
    """
    codes = np.unique(groups, return_inverse=True)[1]
    rate, n_groups = float(right.mean()), int(codes.max()) + 1
    check_several(n_groups)
    deviations = np.bincount(codes, right - rate) / len(right)
    variance = float(deviations @ deviations) * n_groups / (n_groups - 1)
    # Where all groups have the same accuracy, how alike the rows of a group are is not known.
    if variance <= _ROUNDING**2:
        return n_groups
    return min(rate * (1 - rate) / variance, n) / widening(n_groups, n) ** 2


def widening(n_groups: int, n: int) -> float:
    """Return the quantile of Student's t for groups, relative to the one for n rows.

    Plus and minus 1.96 standard errors, multiplied by this, is the 95 % interval of a mean of few
    groups.
    """
    quantile: Floats = t.ppf(_TAILS[1], np.array([n_groups, max(n, n_groups)]) - 1)
    return float(quantile[0] / quantile[1])


def check_several(n_groups: int) -> None:
    """Check that groups say how rows vary between groups.

    Raises
    ------
    ValueError
        If there is one group only.
    """
    if n_groups < 2:
        raise ValueError(
            "groups: expected rows of at least two groups, got rows of one group, which do not "
            "show how much groups differ. Leave groups out if the rows are independent."
        )
