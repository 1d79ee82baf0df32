"""Scores of several candidates, shrunk towards what posteriors of unlabelled objects say."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pa_select.utils.typing import Floats

# Candidates within so many standard errors of the best score are the most accurate ones, and
# within so many they may be chosen: others may have any misfit.
N_SE_OF_NEAR, N_SE_OF_CHOICE = 2.0, 4.0


class Shrunk(NamedTuple):
    """Shrunk scores, and by how much posteriors are wrong about a candidate.

    Attributes
    ----------
    scores : ndarray of shape (n_candidates,)
    misfit : ndarray of shape (n_candidates,)
        Root of the mean squared deviation of the residuals from that of the most accurate
        candidates, over the candidates that may be chosen and the candidate itself; 0 for a
        single candidate.
    """

    scores: Floats
    misfit: Floats


def near_best(
    score: Floats, error: Floats, among: NDArray[np.bool_], n_se: float = N_SE_OF_NEAR
) -> NDArray[np.bool_]:
    """Return which candidates, among some, are not clearly worse than the best one."""
    if not among.any():
        return among
    best = score[among].max()
    error_of_best = np.nan_to_num(error[among & (score == best)]).max()
    near: NDArray[np.bool_] = among & (score >= best - n_se * error_of_best)
    return near


def shrunk_scores(score: Floats, error: Floats, level: Floats, level_error: Floats) -> Shrunk:
    r"""Shrink the scores of candidates towards what posteriors say of them (empirical Bayes).

    Labels say that candidate c scores :math:`s_c`; posteriors of unlabelled objects of the same
    site say :math:`l_c`. The residuals :math:`s_c - l_c` of the candidates differ for two
    reasons: both numbers have errors, and posteriors may be wrong for some candidates more than
    for others. Only the part of their variance that the errors do not explain is believed:

    .. math:: l_c + \bar r + \frac{\tau_c^2}{\tau_c^2 + \sigma_c^2} (s_c - l_c - \bar r), \qquad
        \tau_c^2 = \max(0, \operatorname{mean}_k[(s_k - l_k - \bar r)^2 - \sigma_k^2]),

    where :math:`\sigma_c^2` is the sum of both squared errors, and :math:`\bar r` is the mean
    residual of the most accurate candidates. The mean is over the candidates k that may be chosen,
    which are within four standard errors of the best score, and c itself: a bad candidate does not
    change the others. A single candidate keeps its score, and with many labels all do.

    Parameters
    ----------
    score, error : ndarray of shape (n_candidates,)
        The scores on labelled rows, and their standard errors; nan for a candidate that failed.
    level, level_error : ndarray of shape (n_candidates,)
        The scores that posteriors expect on unlabelled objects of the same site, and their
        standard errors.

    Returns
    -------
    Shrunk
        A score is kept where one of the other three numbers is nan. The candidates are scored on
        the same rows, so their errors are common to them and not in the misfit.

    References
    ----------
    .. [1] B. Efron, C. Morris, "Data analysis using Stein's estimator and its generalizations",
       JASA 1975.
    """
    residual, noise = score - level, np.square(error) + np.square(level_error)
    known = np.isfinite(residual) & np.isfinite(noise)
    if not known.any():
        return Shrunk(score.copy(), np.zeros_like(score))
    centre = residual[near_best(score, error, known)].mean()
    away = residual - centre
    may_be_chosen = near_best(score, np.hypot(error, level_error), known, N_SE_OF_CHOICE)

    def mean_with_itself(values: Floats) -> Floats:
        count = may_be_chosen.sum()
        with_own = (values[may_be_chosen].sum() + values) / (count + 1)
        return np.where(may_be_chosen, values[may_be_chosen].mean(), with_own)

    squares = np.square(away)
    spread = np.maximum(mean_with_itself(squares - noise), 0.0)
    believed = np.divide(spread, spread + noise, out=np.ones_like(noise), where=noise > 0)
    misfit = np.sqrt(mean_with_itself(squares))
    return Shrunk(
        np.where(known, level + centre + believed * away, score), np.where(known, misfit, 0.0)
    )
