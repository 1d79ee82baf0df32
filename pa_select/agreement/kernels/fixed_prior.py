r"""The kernel with a fixed prior: its sums over pairs.  solver/bounds.py bounds it on intervals.

The kernel :math:`k = L_1 - L_2` is a difference of two convex functions of the inverse
temperature.  Its bound on an interval is the smaller of *chord minus tangents*, whose error is of
second order in the width, and *two cubics*, whose error is of third order.  The latter need bounds
of the third derivative, which come from moments of the distances :math:`X \ge 0` of a row's scores
from their top, for the first side A, the second side B and their sum A + B.  For the sum each
class has a factor, the largest prior divided by its own.  docs/certificate.rst has the proofs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from pa_select.agreement.kernels.kernel_sums import (
    LARGEST_CUBED,
    LOWEST_EXPONENT,
    MARGIN,
    coarse_errors,
)
from pa_select.agreement.pairs.block import Block
from pa_select.agreement.pairs.paired_scores import PairedScores
from pa_select.solver.bounds import Limits, Sums, bound_between
from pa_select.utils.typing import Floats, Ints

# Part of the certificate: the cube of a unit of the inverse temperature in this range is finite
# and positive.
_UNITS = 1e-90, 1e90


@dataclass(frozen=True)
class FixedPrior:
    """The kernels of a batch of problems with one prior, for `maximize`."""

    pairs: PairedScores
    log_weights: Floats
    limits: Limits

    def evaluate(
        self, beta: Floats, unit: Floats, problems: Ints, *, coarse: bool = False
    ) -> Sums:
        """Evaluate `Sums` in one pass; the problems must have no disjoint posteriors."""
        pairs, log_weights = self.pairs, self.log_weights
        dtype = torch.float32 if coarse else torch.float64
        small = [beta, unit, np.exp(log_weights)[:, None]] if log_weights.any() else [beta, unit]
        betas, units, *factors = pairs.tensors(*small, dtype=dtype)
        factor = factors[0] if factors else None
        host_unit = unit.astype(np.float32) if coarse else unit
        key = log_weights.tobytes()

        def part(block: Block) -> list[torch.Tensor]:
            if key not in block.derived:
                block.derived[key] = _Distances(block, pairs.has_zero_posteriors, factor)
            distances: _Distances = block.derived[key]
            of_block = host_unit[block.first : block.last]
            ends = float(of_block.min()), float(of_block.max())
            rows = distances.summands(block.spread(betas), block.spread(units), ends)
            return [block.weighted_sum(rows)]

        (means,) = pairs.reduce_blocks(part, problems, "sum", dtype=dtype)
        sums = Sums._make([*means.cpu().numpy(), np.zeros(len(beta))])
        if not coarse:
            return sums
        error, of_cubes = coarse_errors(sums.l1, pairs.n_classes, float(log_weights.max()))
        return sums._replace(
            error=error,
            rise=sums.rise * MARGIN + of_cubes,
            fall=sums.fall * MARGIN + of_cubes,
        )

    bound = staticmethod(bound_between)

    def beyond(self, last: Sums, beta: Floats, problems: Ints) -> Floats:
        """Bound the kernel beyond the last points; see `Kernel`."""
        return last.l1 + last.error - self.limits.l2_floor[problems]


class _Moments(NamedTuple):
    """log Z and the moments of X for A, B and A + B, each of shape (3, n_rows).

    The n-th moment is multiplied by the n-th power of the unit of the inverse temperature.
    """

    log_z: torch.Tensor
    mean: torch.Tensor
    second: torch.Tensor
    third: torch.Tensor


class _Distances:
    """The distances X of a block's rows, stored with the sign of the scores: -X.

    `factor` has the factors of the classes in A + B, at least 1, (n_classes, 1).
    """

    def __init__(
        self, block: Block, may_be_infinite: bool, factor: torch.Tensor | None = None
    ) -> None:
        joint = block.a + block.b
        #: (n_rows,) the top of A + B.
        self.peak = joint.amax(0)
        if may_be_infinite:
            # A pair with disjoint posteriors has weight 0 here.
            self.peak = torch.where(torch.isneginf(self.peak), 0.0, self.peak)
        self._x = [block.a, block.b, joint.sub_(self.peak)]
        self._factors = [None, None, factor]
        if may_be_infinite:
            finite = [torch.isfinite(x) for x in self._x]
            # A disjoint pair gets distances of 0, which keep log Z finite.
            allowed = [(x | ~x.any(0)).to(joint.dtype) for x in finite]
            self._x = [torch.where(f, x, 0.0) for f, x in zip(finite, self._x, strict=True)]
            self._factors = [*allowed[:2], allowed[2] if factor is None else allowed[2] * factor]
        # Read at once, since the CPU waits for a device.
        lowest: list[float] = torch.stack([x.amin() for x in self._x]).tolist()
        #: A side of decisions, such as labels, has no distances but 0 and infinite ones.
        self._flat = [may_be_infinite and low == 0 for low in lowest]
        self._largest = -min(lowest)

    def summands(
        self, beta: torch.Tensor, unit: torch.Tensor, units: tuple[float, float]
    ) -> torch.Tensor:
        """Compute the first seven fields of `Sums` for each pair, (7, n_rows).

        Both tensors are (n_rows,) or (1,). `units` are the smallest and the largest unit, which
        the CPU knows.
        """
        at = self.moments(beta, unit, units)
        variance = (at.second - at.mean * at.mean).clamp_min_(0)
        peak = torch.stack([beta * self.peak, unit * self.peak])
        # A pair with a smaller term rules out this beta on its own; the sums stay finite.
        log_peak, peak = peak.clamp_min_(lowest_peak(self.peak.dtype))
        rows = [
            at.log_z[2] + log_peak,
            at.log_z[0] + at.log_z[1],
            peak - at.mean[2],
            -(at.mean[0] + at.mean[1]),
            variance[2] - variance[0] - variance[1],
            *third_derivatives(at),
        ]
        return torch.stack(rows)

    def moments(
        self, beta: torch.Tensor, unit: torch.Tensor, units: tuple[float, float]
    ) -> _Moments:
        """Compute the moments at inverse temperatures; the arguments are those of `summands`."""
        scores, dtype = self._x, self.peak.dtype
        low, high = units
        if high * self._largest > LARGEST_CUBED[dtype]:
            # These distances have exp(-x) = 0, so that x^3 need only be finite.
            most = LARGEST_CUBED[dtype] / unit
            scores = [torch.where(beta > 0, torch.maximum(x, -most), x) for x in scores]
        if low < _UNITS[0] or high > _UNITS[1]:
            scores, unit = [x * unit for x in scores], torch.ones_like(unit)
        sums = self.peak.new_empty((4, 3, len(self.peak)))
        for i, (raw, x, factor) in enumerate(zip(self._x, scores, self._factors, strict=True)):
            if self._flat[i] and factor is not None:
                sums[:, i] = 0.0
                torch.sum(factor, 0, out=sums[0, i])
                continue
            e = raw * beta
            if dtype == torch.float32:
                e.clamp_min_(LOWEST_EXPONENT)
            e.exp_()
            if factor is not None:
                e *= factor
            torch.sum(e, 0, out=sums[0, i])
            for power in (1, 2, 3):
                torch.sum(e.mul_(x), 0, out=sums[power, i])
        z = sums[0]
        signs = torch.stack([-unit, unit * unit, -unit * unit * unit])
        return _Moments(z.log(), *sums[1:].div_(z).mul_(signs[:, None]))


def third_derivatives(at: _Moments) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the bounds M and m of the third derivative of each pair's kernel; see `Sums`."""
    sides, joint = at.third[0] + at.third[1], at.third[2]
    return sides + joint / 8, joint + sides / 8


def lowest_peak(dtype: torch.dtype) -> float:
    """Return what a pair's term is cut off at, so that sums over pairs stay finite."""
    return torch.finfo(dtype).min / 1e8
