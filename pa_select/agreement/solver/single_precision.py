"""When an evaluation may be coarse, that is in single precision, and its largest error.

Far from the maximum the exponentials may be in single precision, which costs less than half,
because the bounds allow for the errors. Sums over pairs are always in double precision, and
so is every evaluation that is reported. docs/certificate.rst derives the error.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from pa_select.agreement.solver.kernel_sums import Limits
from pa_select.utils.typing import Floats

#: Part of the certificate: the cubes of numbers up to these do not overflow; exp(-x) is 0 long
#: before x reaches them.
LARGEST_CUBED = {torch.float64: 1e100, torch.float32: 1e6}
#: Part of the certificate: in single precision exponentials of less are slow (subnormal numbers),
#: and negligible even if they are multiplied by the cube of `LARGEST_CUBED`.
LOWEST_EXPONENT = -80.0
#: Part of the certificate: factor of the bounds of derivatives in coarse evaluations.
MARGIN = 1.0001

# Part of the certificate: error of the mean of a log posterior, in units of its squared largest
# size.
_ERROR = 4e-7
# Speed only: for fewer scores another copy of them, in single precision, does not pay.
_FEWEST_SCORES = 1 << 15
# Part of the certificate: ranges of log priors, typical and largest ranges of scores, and inverse
# temperatures whose cubes float32 can multiply.
_LARGEST_PRIOR_RANGE = 30.0
_RANGES = 1e-3, 1e3
_LARGEST_IN_TYPICAL = 1e6
_BETAS_IN_TYPICAL = 1e-3, 1e3


def coarse_error(log_size: Floats, n_classes: int, prior_range: float = 0.0) -> Floats:
    """Bound the rounding errors of a kernel whose sums over pairs are about `log_size`.

    The bound also holds for the first two derivatives in units of beta: under a tempered
    posterior the mean of beta X is at most log(n_classes), and X, beta and the exponentials
    have relative rounding errors.
    """
    error: Floats = _ERROR * ((1 + np.log(n_classes) + prior_range) ** 2 + np.abs(log_size))
    return error


def may_be_coarse(limits: Limits, n_scores: int, prior_range: float = 0.0) -> NDArray[np.bool_]:
    """Return which problems single precision can hold, if it pays, (n_problems,)."""
    typical, largest = limits.typical_range, limits.largest_range
    fits: NDArray[np.bool_] = (typical > _RANGES[0]) & (typical < _RANGES[1])
    fits &= largest < _LARGEST_IN_TYPICAL * typical
    return fits & (n_scores >= _FEWEST_SCORES) & (prior_range < _LARGEST_PRIOR_RANGE)


def coarse_betas(beta: Floats, typical_range: Floats) -> NDArray[np.bool_]:
    """Return which inverse temperatures are in the range of single precision."""
    with np.errstate(over="ignore"):  # infinity is out of range, too
        scaled = beta * typical_range
    return np.asarray((scaled > _BETAS_IN_TYPICAL[0]) & (scaled < _BETAS_IN_TYPICAL[1]))
