"""What fold models say of labelled rows that were held out, and of a target beside them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pa_select.calibration.fold_models import FoldScores
from pa_select.calibration.inverse_temperatures import (
    HalvesAgreement,
    halves_agreement,
    labels_beta,
    n_used,
)
from pa_select.calibration.ratio import ratio_of
from pa_select.utils.typing import Floats


class OnTarget(NamedTuple):
    """What the fold models say of the rows of a target.

    Attributes
    ----------
    scores : FoldScores
        Scores of these rows.
    agreement, source_agreement : HalvesAgreement
        On these rows, and on labelled rows that were held out.
    ratio : float
        The ratio of their inverse temperatures.
    """

    scores: FoldScores
    agreement: HalvesAgreement
    source_agreement: HalvesAgreement
    ratio: float


class HeldOut(NamedTuple):
    """What the fold models say of the labelled rows that they were not fitted to.

    Attributes
    ----------
    scores : FoldScores
        Scores of these rows.
    columns : ndarray of shape (m,)
        The column of the label of each of them.
    weight : ndarray of shape (n,)
        Weights of all labelled rows.
    partner : {"hard", "soft"}
        How the models of halves are compared.
    """

    scores: FoldScores
    columns: NDArray[np.intp]
    weight: Floats
    partner: str

    def labels_beta(self) -> float:
        """Return the inverse temperature of temperature scaling."""
        return labels_beta(self.scores.of_models, self.columns, self.scores.rows, self.weight)

    def agreement(self, share_of_error: float | None = None) -> HalvesAgreement:
        """Compare the models of halves on these rows."""
        return self._agreement_on(self.scores, self.weight, share_of_error)

    def beside(self, target: FoldScores, n: int, name: str) -> OnTarget:
        """Compare the models of halves on n rows of a target, and on these rows alike.

        `name` is that of the argument that holds the target.
        """
        # The same for both: it decides where models hardly ever disagree.
        share_of_error = 1 / min(n, n_used(self.scores.rows, self.weight))
        there = self._agreement_on(target, np.ones(n), share_of_error)
        here = self.agreement(share_of_error)
        return OnTarget(target, there, here, ratio_of(there, here, name))

    def _agreement_on(
        self, scores: FoldScores, weight: Floats, share_of_error: float | None
    ) -> HalvesAgreement:
        return halves_agreement(
            *scores.of_halves, scores.rows, weight, self.partner, share_of_error
        )
