r"""Inverse temperatures from labels, and from what models of other rows decide.

Both are maxima of a posterior agreement. With labels on one side it is the likelihood, and its
maximisation is temperature scaling. With the decisions of another model in their place, it is
temperature scaling on these decisions.

Each maximum has one more row, which stands for an error that was not seen: a row like the others,
whose label is not the class of its largest score. It adds the mean over the rows of
:math:`\log(1 - \max_j p_j)`. Without it, rows without an error would send the inverse
temperature to infinity. For the agreement this row is made of pairs of all rows with "any class
but the largest", which have together the weight of one row. Two maxima that are compared need the
same weight of it relative to all rows: it decides where errors are rare.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pa_select.agreement.posterior_agreement import agreements
from pa_select.utils.columns import shares_of
from pa_select.utils.typing import Floats, Ints

# The row of error is an average, for which so many rows suffice.
_ROWS_OF_ERROR = 2000
# An inverse temperature that is certified to this, in nats, is known well enough.
_TOL = 1e-5


class HalvesAgreement(NamedTuple):
    """How well models of disjoint halves of the training rows predict each other.

    Attributes
    ----------
    beta : float
        The inverse temperature at which the posteriors of one half's model best predict what
        the other half's model decides, in [0, inf). Low: the models are surer than their
        agreement allows.
    score : float
        The agreement at `beta`, in nats per row: of the posteriors of one with the decisions of
        the other, or, for ``partner="soft"``, with its posteriors. At most log(n_classes).
    agreement_rate : float
        Share of rows for which both models predict the same class, in [0, 1].
    n_rows : int
        Number of rows.
    """

    beta: float
    score: float
    agreement_rate: float
    n_rows: int


def labels_beta(scores: Floats, columns: NDArray[np.intp], rows: Ints, weight: Floats) -> float:
    """Return the inverse temperature at which labelled rows are most likely.

    Parameters
    ----------
    scores : ndarray of shape (m, n_classes)
        Scores by models that were not fitted to these rows; a row may be there several times.
    columns : ndarray of shape (m,)
        The column of each row's label.
    rows : ndarray of shape (m,)
        The row that the scores are of, in [0, n).
    weight : ndarray of shape (n,)
        Non-negative weights of the rows.

    Returns
    -------
    float
        1 if all scores of each row are equal, so that no temperature is better than another.
    """
    shares = shares_of(rows, weight)
    beta, _ = _maximum(scores, _only(scores, columns), shares, 1 / n_used(rows, weight))
    return beta if np.isfinite(beta) else 1.0


def halves_agreement(
    first: Floats,
    second: Floats,
    rows: Ints,
    weight: Floats,
    partner: str,
    share_of_error: float | None = None,
) -> HalvesAgreement:
    """Compare the models of two halves; a row may be there for several pairs of models.

    Parameters
    ----------
    first, second : ndarray of shape (m, n_classes)
        Scores of the two models.
    rows : ndarray of shape (m,)
        The row that the scores are of, in [0, n).
    weight : ndarray of shape (n,)
        Non-negative weights of the rows.
    partner : {"hard", "soft"}
        Whether a model predicts the other's decisions, or is compared with its posteriors.
    share_of_error : float, default=None
        Weight of the row of error, relative to all rows. None: that of one of these rows.
        Agreements that are compared need the same one, since it decides where models hardly
        ever disagree.
    """
    decided = first.argmax(1), second.argmax(1)
    share, n = shares_of(rows, weight), n_used(rows, weight)
    rate = np.average(decided[0] == decided[1], weights=share)
    others = second, first
    if partner == "hard":
        others = _only(first, decided[1]), _only(second, decided[0])
    both = np.concatenate([first, second]), np.concatenate(others)
    beta, score = _maximum(*both, np.tile(share, 2), share_of_error or 1 / n)
    return HalvesAgreement(beta, score, float(rate), n)


def n_used(rows: Ints, weight: Floats) -> int:
    """Return the number of different rows of positive weight."""
    return int((np.bincount(rows, minlength=len(weight))[weight > 0] > 0).sum())


def _maximum(a: Floats, b: Floats, shares: Floats, share_of_error: float) -> tuple[float, float]:
    """Return where the agreement with a row of error is largest, and its value without it."""
    some = np.linspace(0, len(a) - 1, min(len(a), _ROWS_OF_ERROR)).astype(np.intp)
    errors = np.zeros((len(some), a.shape[1]))
    errors[np.arange(len(some)), a[some].argmax(1)] = -np.inf
    # All weights of these few may be 0.
    of_errors = shares[some] if shares[some].any() else np.ones(len(some))
    of_errors = of_errors * (share_of_error * shares.sum() / of_errors.sum())
    found = agreements(
        np.concatenate([a, a[some]]),
        np.concatenate([b, errors]),
        sample_weight=np.concatenate([shares, of_errors]),
        tol=_TOL,
    )
    used = shares > 0
    return float(found.beta), float(np.average(found.terms[: len(a)][used], weights=shares[used]))


def _only(scores: Floats, columns: NDArray[np.intp]) -> Floats:
    """Return scores of decisions: 0 for the class of each row, -inf for all others."""
    decisions = np.full(scores.shape, -np.inf)
    decisions[np.arange(len(scores)), columns] = 0.0
    return decisions
