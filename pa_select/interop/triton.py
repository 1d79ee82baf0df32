"""The sums of a fixed prior in one kernel of Triton, for a CUDA device.

Plain torch reads and writes the scores of a block in each of its operations. The kernel reads
them once for each inverse temperature and writes seven numbers for each pair, which plain torch
then sums. It takes the place of `pa_select.agreement.solver.moments.Distances`.

The certificate holds as with plain torch. Exact evaluations are in float64 throughout. In coarse
ones the exponentials have a relative error of 2^-22, four times that of a rounding. The tiles of a
row are added in float64, so that the error of a sum does not grow with the number of tiles. Both
stay within `coarse_error`, which has room for 4e-7 at least.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
# (Triton gives types to the arguments of kernels.)

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from pa_select.agreement.pairs.block import Block
from pa_select.agreement.solver.moments import Distances, Summands, distances_of
from pa_select.agreement.solver.single_precision import LARGEST_CUBED, LOWEST_EXPONENT
from pa_select.utils.optional_imports import optional_import

triton: Any = optional_import("triton", "triton")
tl: Any = optional_import("triton.language", "triton")

# A program of the kernel holds this many scores of each sample at once: those of many rows if
# there are few classes, or a part of one row.
_TILE = 1024
# The least exponent, and the largest distance in units of `unit`, for each precision.
_RANGES = {
    torch.float64: (-1e300, LARGEST_CUBED[torch.float64]),
    torch.float32: (LOWEST_EXPONENT, LARGEST_CUBED[torch.float32]),
}


@contextmanager
def fused_sums() -> Iterator[None]:
    """Compute the sums of fixed priors in one kernel of Triton, within this context.

    It concerns scores on a CUDA device, the uniform prior and given priors, in this thread.
    Everything else runs as without it. The certificate is the same: the kernel computes the same
    sums as plain torch, with errors of the same size.

    Nobody has run the kernel on a device yet. The tests run it in Triton's interpreter.

    Examples
    --------
    >>> from pa_select import posterior_agreement
    >>> from pa_select.interop.triton import fused_sums
    >>> scores = [[2.0, 0.0, 1.0], [0.0, 3.0, 1.0]]
    >>> with fused_sums():  # these scores are on the CPU, so it changes nothing
    ...     print(round(posterior_agreement(scores, scores).score, 3))
    1.099
    """
    token = distances_of.set(_distances)
    try:
        yield
    finally:
        distances_of.reset(token)


def _distances(block: Block, may_be_infinite: bool, factor: torch.Tensor | None) -> Summands:
    make = FusedDistances if block.a.is_cuda else Distances
    return make(block, may_be_infinite, factor)


class FusedDistances:
    """The distances of a block's rows; the parameters are those of `Distances`."""

    def __init__(
        self, block: Block, may_be_infinite: bool, factor: torch.Tensor | None = None
    ) -> None:
        self._a, self._b, self._factor = block.a, block.b, factor
        self._peak = (block.a + block.b).amax(0)
        if may_be_infinite:
            # A pair with disjoint posteriors has weight 0 here.
            self._peak.masked_fill_(torch.isneginf(self._peak), 0.0)

    def summands(
        self, beta: torch.Tensor, unit: torch.Tensor, units: tuple[float, float]
    ) -> torch.Tensor:
        """Compute what is summed over the pairs, in float64; see `Summands`."""
        a, b, factor = self._a, self._b, self._factor
        n_classes, n_rows = a.shape
        out = a.new_empty((7, n_rows), dtype=torch.float64)
        tile = min(triton.next_power_of_2(n_classes), _TILE)
        with torch.cuda.device_of(a):  # Triton would take the current one
            _summands[(triton.cdiv(n_rows, _TILE // tile),)](
                *(a, b, self._peak, beta, unit, a if factor is None else factor, out),
                *(n_rows, n_classes, *a.stride(), *b.stride()),
                *(len(beta) > 1, factor is not None, *_RANGES[a.dtype]),
                *(_TILE // tile, tile),
            )
        return out


@triton.jit
def _summands(
    a,
    b,
    peak,
    beta,
    unit,
    factor,
    out,
    n_rows,
    n_classes,
    a_class,
    a_row,
    b_class,
    b_row,
    PER_ROW: tl.constexpr,
    HAS_FACTOR: tl.constexpr,
    LOWEST: tl.constexpr,
    LARGEST: tl.constexpr,
    ROWS: tl.constexpr,
    CLASSES: tl.constexpr,
):
    """Write the seven summands of `ROWS` pairs, reading `CLASSES` of their scores at a time."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    known = rows < n_rows
    own = rows if PER_ROW else rows * 0
    beta = tl.load(beta + own, known, 0.0)
    unit = tl.load(unit + own, known, 0.0)
    peak = tl.load(peak + rows, known, 0.0)
    zero = tl.zeros((ROWS,), tl.float64)
    of_a = (zero, zero, zero, zero)
    of_b = (zero, zero, zero, zero)
    of_joint = (zero, zero, zero, zero)
    for start in range(0, n_classes, CLASSES):
        classes = (start + tl.arange(0, CLASSES)).to(tl.int64)
        # Scores beyond the last class are read as impossible ones.
        inside = known[:, None] & (classes < n_classes)[None, :]
        x = tl.load(a + rows[:, None] * a_row + classes * a_class, inside, float("-inf"))
        y = tl.load(b + rows[:, None] * b_row + classes * b_class, inside, float("-inf"))
        weight = tl.load(factor + classes, classes < n_classes, 0.0) if HAS_FACTOR else 1.0
        of_a = _added(of_a, x, 1.0, beta, unit, LOWEST, LARGEST)
        of_b = _added(of_b, y, 1.0, beta, unit, LOWEST, LARGEST)
        joint = x + y - peak[:, None]
        of_joint = _added(of_joint, joint, weight, beta, unit, LOWEST, LARGEST)
    log_a, mean_a, variance_a, third_a = _moments(of_a)
    log_b, mean_b, variance_b, third_b = _moments(of_b)
    log_joint, mean_joint, variance_joint, third_joint = _moments(of_joint)
    # A pair with a smaller term rules out this beta on its own; the sums stay finite.
    peak = peak.to(tl.float64)
    log_peak = tl.maximum(beta * peak, -1e300)
    peak = tl.maximum(unit * peak, -1e300)
    third = third_a + third_b
    out += rows
    tl.store(out, log_joint + log_peak, known)
    tl.store(out + n_rows, log_a + log_b, known)
    tl.store(out + 2 * n_rows, peak - mean_joint, known)
    tl.store(out + 3 * n_rows, -(mean_a + mean_b), known)
    tl.store(out + 4 * n_rows, variance_joint - variance_a - variance_b, known)
    tl.store(out + 5 * n_rows, third + third_joint / 8, known)
    tl.store(out + 6 * n_rows, third_joint + third / 8, known)


@triton.jit
def _added(sums, x, factor, beta, unit, LOWEST: tl.constexpr, LARGEST: tl.constexpr):
    """Add the sums over classes of exp(beta x) times the powers 0 to 3 of the distance."""
    possible = x > float("-inf")
    x = tl.where(possible, x, 0.0)
    e = tl.exp(tl.maximum(x * beta[:, None], LOWEST)) * factor
    e = tl.where(possible, e, 0.0)
    distance = -x * unit[:, None]
    # Longer distances have exp(beta x) = 0, so that their cubes need only be finite.
    distance = tl.where(beta[:, None] > 0, tl.minimum(distance, LARGEST), distance)
    first = e * distance
    second = first * distance
    third = second * distance
    # The tiles of a long row are added in float64.
    return (
        sums[0] + tl.sum(e, 1).to(tl.float64),
        sums[1] + tl.sum(first, 1).to(tl.float64),
        sums[2] + tl.sum(second, 1).to(tl.float64),
        sums[3] + tl.sum(third, 1).to(tl.float64),
    )


@triton.jit
def _moments(sums):
    """Return log Z, the mean, the variance and the third moment of the distance."""
    # Z is at least 1, but for a disjoint pair.
    z = tl.maximum(sums[0], 1.0)
    mean = sums[1] / z
    return tl.log(z), mean, tl.maximum(sums[2] / z - mean * mean, 0.0), sums[3] / z
