"""The two passes over the pairs that compute `MarginalSums`.

The first pass sums over the rows of each side, which gives the priors.  The second one sums
over the overlaps of the pairs, for which the priors must be known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from pa_select.agreement.pairs.block import Block
from pa_select.agreement.pairs.paired_scores import PairedScores
from pa_select.agreement.solver.single_precision import LARGEST_CUBED, LOWEST_EXPONENT
from pa_select.utils.typing import Floats, Ints

# Part of the certificate: a smaller overlap of a pair is computed again from logarithms. The
# threshold is far above what clamping the log prior at its limit may lose, at most
# 4 exp(limit) / weight^2.
_UNDERFLOW = {torch.float64: 1e-80, torch.float32: 1e-15}
_LOWEST_LOG_PRIOR = {torch.float64: -300.0, torch.float32: -80.0}
# Speed only: up to this many scores of a side, posteriors are kept between the passes.
_KEPT_ELEMENTS = 1 << 20


class _Side(NamedTuple):
    """One side of a block at one inverse temperature."""

    #: (n_classes, n_rows) unnormalised posteriors, and distances X in the unit of beta.
    e: torch.Tensor
    x: torch.Tensor
    #: (n_rows,) normalisers, and their logs Lambda.
    z: torch.Tensor
    log_z: torch.Tensor


class MarginalPasses:
    """The two passes over the pairs of some runs, each run at one inverse temperature.

    Parameters
    ----------
    pairs : PairedScores
        Each problem of it is a run.
    nearest : ndarray of shape (2, n_classes, n_runs) or None
        The smallest distance X of each class; None if all are 0.
    beta, unit : ndarray of shape (n,)
        Inverse temperatures and units of derivatives, as in `Kernel.evaluate`.
    index : ndarray of shape (n,)
        The runs.
    dtype : torch.dtype
        The precision of exponentials.
    """

    def __init__(
        self,
        pairs: PairedScores,
        nearest: Floats | None,
        beta: Floats,
        unit: Floats,
        index: Ints,
        dtype: torch.dtype,
    ) -> None:
        self._pairs, self._index, self._dtype = pairs, index, dtype
        small = [beta, unit] if nearest is None else [beta, unit, nearest[:, :, index]]
        self._beta, self._unit, *nearest_of_runs = pairs.tensors(*small, dtype=dtype)
        self._nearest = nearest_of_runs[0] if nearest_of_runs else None
        #: (2, n, n_classes) how much is missing in the logs of masses, if anything.
        self._shift: Floats | float = 0.0
        if nearest is not None:
            kind = np.float32 if dtype == torch.float32 else np.float64
            with np.errstate(over="ignore", invalid="ignore"):
                shift = np.swapaxes(beta.astype(kind) * small[2].astype(kind), 1, 2)
            self._shift = shift.astype(np.float64)
        self._largest_unit = float(unit.max())
        self._kept: dict[int, list[_Side]] = {}
        elements = int(pairs.counts[index].sum()) * pairs.n_classes
        self._keep = elements <= _KEPT_ELEMENTS

    def sides(self) -> tuple[Floats, Floats, Floats]:
        """Run the first pass: sums over the rows of each side.

        Returns
        -------
        log_mass : ndarray of shape (2, n, n_classes)
            Logs of the summed weighted posteriors.
        classes : ndarray of shape (2, n, n_classes, 7)
            Means over rows, weighted by the posteriors of each class: the derivative of the
            log posterior, its square, the variance V, bounds of how fast V grows and
            declines, the entropy, and X.
        totals : ndarray of shape (2, n, 5)
            Weighted sums over rows of the log normaliser, of its first and second
            derivative, and of the bounds of how fast the second one grows and declines.
        """
        n_classes = self._pairs.n_classes

        def part(block: Block) -> torch.Tensor:
            both = [self._side(block, side) for side in (0, 1)]
            if self._keep:
                self._kept[block.number] = both
            return torch.stack([self._sums(block, i, side) for i, side in enumerate(both)])

        sums_np = self._over_pairs(part).mT.cpu().numpy()
        totals = sums_np[:, :, -5:]
        mass, *means = np.moveaxis(sums_np[:, :, :-5].reshape(2, -1, 10, n_classes), 2, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_mass = np.log(mass) - self._shift
            m, m2, variance, growth, decline, entropy, x, xm, x2 = np.nan_to_num(means / mass)
        classes = np.stack(
            [m - x, m2 - 2 * xm + x2, variance, growth, decline, entropy, x], axis=-1
        )
        return log_mass, classes, totals

    def _over_pairs(self, part: Callable[[Block], torch.Tensor]) -> torch.Tensor:
        """Sum what a function returns for each block over the pairs of each run."""
        (sums,) = self._pairs.reduce_blocks(
            lambda block: [part(block)], self._index, "sum", dtype=self._dtype
        )
        return sums

    def _side(self, block: Block, side: int) -> _Side:
        unit, ratio = self._unit_and_ratio(block)
        x = block.b if side else block.a
        allowed = None
        if self._pairs.has_zero_posteriors:
            allowed = torch.isfinite(x)
            x = torch.where(allowed, x, 0.0)
        key = "largest distance", side
        if key not in block.derived:  # the CPU waits for it
            block.derived[key] = -float(x.amin())
        largest: float = block.derived[key]
        x = x * -unit
        if largest * self._largest_unit > LARGEST_CUBED[x.dtype]:
            # These distances have exp(-x) = 0, so that x^3 need only be finite.
            x = torch.where(ratio > 0, x.clamp_max(LARGEST_CUBED[x.dtype]), x)
        e = torch.mul(x, -ratio)
        if x.dtype == torch.float32:
            e.clamp_min_(LOWEST_EXPONENT)
        e.exp_()
        if allowed is not None:
            e *= allowed
        z = e.sum(0)
        return _Side(e, x, z, z.log())

    def _sums(self, block: Block, side: int, at: _Side) -> torch.Tensor:
        """Return what `sides` sums over the rows of one side."""
        unit, ratio = self._unit_and_ratio(block)
        e, x, z, log_z = at
        ex = e * x
        exx = ex * x
        mean, second, third = ex.sum(0) / z, exx.sum(0) / z, (exx * x).sum(0) / z
        variance = (second - mean * mean).clamp_min(0)
        growth = third / 8
        # On [beta / 2, beta] unnormalised posteriors are at most their roots at beta.
        decline = e.sqrt().mul_(x).mul_(x).mul_(x).sum(0) / z
        entropy = log_z + ratio * mean
        weight = block.weight.to(x.dtype) / z
        rows = torch.stack(
            [torch.ones_like(mean), mean, mean * mean, variance, growth, decline, entropy]
        )
        if self._nearest is not None:
            # In units of the largest posterior of each class no mass underflows.
            nearest = block.spread(self._nearest[side]) * unit
            scale = torch.exp((nearest - x).clamp_max(0) * ratio)
            if self._pairs.has_zero_posteriors:
                scale = scale * torch.isfinite(block.b if side else block.a)
            classes = [scale, scale * x, scale * x * x]
        else:
            classes = [e, ex, exx]
        sums = torch.cat(
            [
                block.class_sums(classes[0], rows * weight),
                block.class_sums(classes[1], rows[:2] * weight),
                block.class_sums(classes[2], weight[None]),
            ]
        )
        totals = block.weighted_sum(torch.stack([log_z, -mean, variance, growth, decline]))
        return torch.cat([sums.flatten(0, 1), totals])

    def _unit_and_ratio(self, block: Block) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the units of the block's pairs, and beta / unit: 1, or 0 at beta = 0."""
        unit = block.spread(self._unit)
        return unit, block.spread(self._beta) / unit

    def overlaps(self, log_prior: Floats, d_log_prior: Floats) -> tuple[Floats, Floats]:
        """Run the second pass: sums over the overlaps of the pairs.

        Parameters
        ----------
        log_prior, d_log_prior : ndarray of shape (n, n_classes)
            The log prior of each run, and its derivative.

        Returns
        -------
        sums : ndarray of shape (n, 3)
            Weighted sums over pairs of the kernel, and of the mean and the variance, under
            the classes' shares of the overlap, of the derivative of log(p' p'' / pi) without
            the normalisers.
        overlap : ndarray of shape (n, n_classes)
            Weighted sums of the classes' shares of the overlaps.
        """
        pairs = self._pairs
        # By numpy: outside of `map_blocks` an exponential of torch would start its threads.
        inverse = np.exp(-np.maximum(log_prior, _LOWEST_LOG_PRIOR[self._dtype]))
        factor, y, d = pairs.tensors(inverse.T, log_prior.T, d_log_prior.T, dtype=self._dtype)

        def part(block: Block) -> list[torch.Tensor]:
            kept = self._kept.pop(block.number, None)
            a, b = kept or [self._side(block, side) for side in (0, 1)]
            overlap = (a.e * block.spread(factor)).mul_(b.e)
            z = overlap.sum(0)
            log_z = z.log()
            tiny = (z < _UNDERFLOW[self._dtype]) & (block.weight > 0)
            if bool(tiny.any()):
                joint = (block.a + block.b)[:, tiny]
                beta = block.spread(self._beta)
                joint = torch.where(
                    torch.isneginf(joint), joint, (beta[tiny] if len(beta) > 1 else beta) * joint
                )
                prior = block.spread(y)
                joint = joint - (prior[:, tiny] if prior.shape[1] > 1 else prior)
                top = joint.amax(0)
                exact = torch.exp(joint - top)
                overlap[:, tiny], z[tiny] = exact, exact.sum(0)
                log_z[tiny] = top + z[tiny].log()
            z = torch.where(block.weight > 0, z, 1.0)
            log_z = torch.where(block.weight > 0, log_z - a.log_z - b.log_z, 0.0)
            shares = block.class_sums(overlap, (block.weight.to(z.dtype) / z)[None])[0]
            fall = (a.x + b.x).add_(block.spread(d))
            weighted = overlap.mul_(fall)
            mean = weighted.sum(0) / z
            variance = (weighted.mul_(fall).sum(0) / z - mean * mean).clamp_min(0)
            sums = block.weighted_sum(torch.stack([log_z, -mean, variance]))
            return [torch.cat([sums, shares])]

        (sums,) = pairs.reduce_blocks(part, self._index, "sum", dtype=self._dtype)
        result = sums.T.cpu().numpy()
        return result[:, :3], result[:, 3:]
