"""Where single precision is enough on the way to a maximum, and what it may get wrong.

Far from the maximum a kernel need not be known to the last digit: its sums may come from
exponentials in single precision, which cost less than half, as long as the bounds
make room for their errors. Sums over pairs are in double precision, and so is all that is
evaluated where the result depends on it.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from pa_select.agreement.solver.kernel_sums import Limits
from pa_select.utils.typing import Floats

#: Powers of numbers up to these are far from overflow; exp(-x) is zero long before.
LARGEST_CUBED = {torch.float64: 1e100, torch.float32: 1e6}
#: Of single precision: exp of less is so small that it is slow, and counts for nothing even
#: if it is multiplied by the cube of `LARGEST_CUBED`.
LOWEST_EXPONENT = -80.0
#: By which a bound of a derivative is larger where it is coarse.
MARGIN = 1.0001

# Of a log posterior's mean in single precision, in units of its squared largest size.
_ERROR = 4e-7
# Less work than this is not worth another copy of the scores.
_FEWEST_SCORES = 1 << 15
_LARGEST_PRIOR_RANGE = 30.0
# Numbers whose cubes float32 can still multiply.
_RANGES = 1e-3, 1e3
_LARGEST_IN_TYPICAL = 1e6
_BETAS_IN_TYPICAL = 1e-3, 1e3


def coarse_error(log_size: Floats, n_classes: int, prior_range: float = 0.0) -> Floats:
    """Bound what rounding may change in a kernel with sums over pairs of about this size.

    It holds for the first two derivatives, too, in units of the inverse temperature: under
    a tempered posterior no scaled distance X has a mean above log(n_classes), and the
    rounding of X, beta and exp is relative.
    """
    error: Floats = _ERROR * ((1 + np.log(n_classes) + prior_range) ** 2 + np.abs(log_size))
    return error


def may_be_coarse(limits: Limits, n_scores: int, prior_range: float = 0.0) -> NDArray[np.bool_]:
    """Which problems single precision can represent, where that pays, (n_problems,)."""
    typical, largest = limits.typical_range, limits.largest_range
    fits: NDArray[np.bool_] = (typical > _RANGES[0]) & (typical < _RANGES[1])
    fits &= largest < _LARGEST_IN_TYPICAL * typical
    return fits & (n_scores >= _FEWEST_SCORES) & (prior_range < _LARGEST_PRIOR_RANGE)


def coarse_betas(beta: Floats, typical_range: Floats) -> NDArray[np.bool_]:
    """Which inverse temperatures single precision can be multiplied by."""
    scaled = beta * typical_range
    return np.asarray((scaled > _BETAS_IN_TYPICAL[0]) & (scaled < _BETAS_IN_TYPICAL[1]))
