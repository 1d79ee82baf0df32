"""The ratio of the agreements on a target and on labelled rows, and what it says."""

from __future__ import annotations

from typing import Any

import numpy as np

from pa_select.calibration.inverse_temperatures import HalvesAgreement
from pa_select.utils.frames import check_columns
from pa_select.utils.sklearn_private import _num_samples
from pa_select.utils.warn_caller import warn_caller

# Fewer rows of a target are refused, and fewer than these give a warning.
_LEAST_ROWS, _FEW_ROWS = 20, 100
# Without a shift the ratio of the two agreements lies here, nearly always.
_NO_SHIFT = 0.8, 1.2


def check_target(target: Any, X: Any, name: str) -> None:
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
            f"{name}: expected rows on which the models predict each other less well than on "
            f"labelled ones, got a ratio of {ratio:.2f}. Ratios from {low} to {high} are also "
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
    here: HalvesAgreement, there: HalvesAgreement | None, ratio: float, source_beta: float
) -> str:
    """Say in words what was found on labelled rows and, if there is one, on the target."""
    text = (
        "Two models of different rows predict the same class for "
        f"{here.agreement_rate:.1%} of {here.n_rows} labelled rows that neither has seen"
    )
    if there is None:
        return (
            f"{text}. No target was given: the probabilities are calibrated for rows like the "
            f"labelled ones (inverse temperature {source_beta:.3g})."
        )
    return (
        f"{text}, and for {there.agreement_rate:.1%} of {there.n_rows} rows of the target. On "
        f"the target the inverse temperature at which they predict each other best is "
        f"{ratio:.3g} times that on labelled rows. So the inverse temperature of the "
        f"probabilities is {source_beta * factor_of(ratio):.3g} instead of {source_beta:.3g}, "
        f"that of temperature scaling: {_in_words(ratio)}."
    )


def _in_words(ratio: float) -> str:
    if ratio < _NO_SHIFT[0]:
        return "probabilities are less sure there"
    if ratio > 1:
        return "a ratio above 1 does not make probabilities surer"
    return "so small a change is found without a shift, too"
