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

from pa_select.agreement.posterior_agreement import agreements
from pa_select.calibration.fold_models import FoldScores
from pa_select.utils.arrays import shares_of
from pa_select.utils.frames import check_columns
from pa_select.utils.messages import warn_caller
from pa_select.utils.sklearn_private import _num_samples
from pa_select.utils.typing import Floats, Index, Ints, Rows

# The row of error is an average, for which so many rows suffice.
_ROWS_OF_ERROR = 2000
# An inverse temperature that is certified to this, in nats, is known well enough.
_TOL = 1e-5
# Fewer rows of a target are refused, and fewer than these give a warning.
_LEAST_ROWS, _FEW_ROWS = 20, 100
# Without a shift the ratio of the two agreements lies here, nearly always.
_NO_SHIFT = 0.8, 1.3


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


class HeldOutScores(NamedTuple):
    """Out-of-fold scores of the labelled rows.

    Attributes
    ----------
    scores : FoldScores
        The scores.
    columns : ndarray of shape (m,)
        The column of the label of each of their rows.
    weight : ndarray of shape (n,)
        Weights of all labelled rows.
    partner : {"hard", "soft"}
        How the models of halves are compared.
    """

    scores: FoldScores
    columns: Index
    weight: Floats
    partner: str

    def labels_beta(self) -> float:
        """Return the inverse temperature of temperature scaling."""
        return labels_beta(self.scores.of_models, self.columns, self.scores.rows, self.weight)

    def agreement(self, share_of_error: float | None = None) -> HalvesAgreement:
        """Compare the models of halves on these rows."""
        halves, rows = self.scores.of_halves, self.scores.rows
        return halves_agreement(*halves, rows, self.weight, self.partner, share_of_error)

    def agreements_with(
        self, target: FoldScores, n: int
    ) -> tuple[HalvesAgreement, HalvesAgreement]:
        """Compare the models of halves on n rows of a target, and on these rows alike."""
        # The same for both: it decides where models hardly ever disagree.
        share_of_error = 1 / min(n, n_used(self.scores.rows, self.weight))
        of_target = halves_agreement(
            *target.of_halves, target.rows, np.ones(n), self.partner, share_of_error
        )
        return of_target, self.agreement(share_of_error)


def labels_beta(scores: Floats, columns: Index, rows: Ints, weight: Floats) -> float:
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
    result = agreements(
        np.concatenate([a, a[some]]),
        np.concatenate([b, errors]),
        sample_weight=np.concatenate([shares, of_errors]),
        tol=_TOL,
    )
    used = shares > 0
    return float(result.beta), float(
        np.average(result.terms[: len(a)][used], weights=shares[used])
    )


def _only(scores: Floats, columns: Index) -> Floats:
    """Return scores of decisions: 0 for the class of each row, -inf for all others."""
    decisions = np.full(scores.shape, -np.inf)
    decisions[np.arange(len(scores)), columns] = 0.0
    return decisions


def check_target(target: Rows, X: Rows, name: str) -> None:
    """Check that unlabelled rows of a target have the columns of X, and are not too few."""
    if isinstance(target, str):
        raise TypeError(f"{name}: expected rows like X, got the text {target!r}.")
    n = _num_samples(target)
    if n < _LEAST_ROWS:
        raise ValueError(f"{name}: expected at least {_LEAST_ROWS} rows, got {n}.")
    check_columns(target, X, name)
    if n < _FEW_ROWS:
        warn_caller(
            f"{name}: expected at least {_FEW_ROWS} rows, got {n}. The ratio of agreements is "
            "then mostly chance."
        )


def warn_of_ratio(ratio: float, name: str) -> None:
    """Warn of a ratio that is found without a shift, and of one that is not used."""
    low, high = _NO_SHIFT
    if low <= ratio <= high:
        warn_caller(
            f"{name}: expected rows on which the models predict each other clearly less well than "
            f"on labelled ones, got a ratio of {ratio:.2f}. Ratios from {low} to {high} are also "
            "found without a shift. A calibration without the target would do as well."
        )
    if ratio > high:
        warn_caller(
            f"{name}: expected rows on which the models predict each other less well than on "
            f"labelled ones, got a ratio of {ratio:.2f}. Such ratios are found if the scores "
            "shrink away from the labelled rows, as those of a kernel do, or features are lost. "
            "The probabilities are those of temperature scaling on the labelled rows."
        )


def ratio_of(target: HalvesAgreement, source: HalvesAgreement, name: str) -> float:
    """Return the ratio of two inverse temperatures; 1 if that of the source is 0.

    `name` is that of the target's argument.

    Warns
    -----
    UserWarning
        If an inverse temperature is 0: the models predict each other no better than chance.
    """
    if not 0 < source.beta < np.inf:
        warn_caller(
            "y: expected labelled rows on which models of different rows predict each other, got "
            f"an inverse temperature of {source.beta}. The probabilities are not corrected."
        )
        return 1.0
    if not 0 < target.beta < np.inf:
        warn_caller(
            f"{name}: expected rows on which models of different rows predict each other, got "
            f"an inverse temperature of {target.beta}. All classes are equally probable there."
        )
        return 0.0
    return target.beta / source.beta


def factor_of(ratio: float) -> float:
    """Return what the inverse temperature is multiplied by: probabilities are not made surer.

    Models that agree more surely on the target are seldom right more often there. Their scores
    shrink away from the labelled rows, or features that told them apart are lost.
    """
    return min(ratio, 1.0)


def summary_of(
    source: HalvesAgreement, target: HalvesAgreement | None, ratio: float, source_beta: float
) -> str:
    """Say in words what was found on labelled rows and, if there is one, on the target."""
    text = (
        "Two models of different rows predict the same class for "
        f"{source.agreement_rate:.1%} of {source.n_rows} labelled rows that neither has seen"
    )
    if target is None:
        return (
            f"{text}. No target was given: the probabilities are calibrated for rows like the "
            f"labelled ones (inverse temperature {source_beta:.3g})."
        )
    changed = f" instead of {source_beta:.3g}" if factor_of(ratio) < 1 else ""
    return (
        f"{text}, and for {target.agreement_rate:.1%} of {target.n_rows} rows of the target. On "
        f"the target the inverse temperature at which they predict each other best is "
        f"{ratio:.3g} times that on labelled rows. So the inverse temperature of the "
        f"probabilities is {source_beta * factor_of(ratio):.3g}{changed}, that of temperature "
        f"scaling: {_in_words(ratio)}."
    )


def _in_words(ratio: float) -> str:
    if ratio < _NO_SHIFT[0]:
        return "probabilities are less sure there"
    if ratio > 1:
        return "a ratio above 1 does not make probabilities surer"
    return "so small a change is found without a shift, too"
