"""The two passes over the pairs that give the sums of the kernel with the marginal prior."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from pa_select.agreement.pairs.paired_scores import Block, PairedScores
from pa_select.agreement.solver.single_precision import LARGEST_CUBED, LOWEST_EXPONENT
from pa_select.utils.typing import Floats, Ints

# Below this the overlap of a pair is computed again, from logarithms: far above what is
# lost where the log prior is below its own limit, at most 4 exp(limit) / weight^2.
_UNDERFLOW = {torch.float64: 1e-80, torch.float32: 1e-15}
_LOWEST_LOG_PRIOR = {torch.float64: -300.0, torch.float32: -80.0}
# Posteriors kept between the two passes: bounds the memory.
_KEPT_ELEMENTS = 1 << 20


class _Side(NamedTuple):
    """One side of a block at one inverse temperature."""

    #: (n_classes, n_rows) unnormalised posteriors, and distances X.
    e: torch.Tensor
    x: torch.Tensor
    #: (n_rows,) log normaliser.
    log_z: torch.Tensor


class MarginalPasses:
    """The two passes over the pairs of some runs, each at one inverse temperature."""

    def __init__(
        self,
        pairs: PairedScores,
        nearest: torch.Tensor | None,
        beta: Floats,
        unit: Floats,
        index: Ints,
        dtype: torch.dtype,
    ) -> None:
        self._pairs, self._index, self._dtype = pairs, index, dtype
        self._beta, self._unit = (pairs.tensor(values).to(dtype) for values in (beta, unit))
        self._nearest = None if nearest is None else nearest[:, :, pairs.indices(index)].to(dtype)
        self._kept: dict[int, list[_Side]] = {}
        elements = int(pairs.counts[index].sum()) * pairs.n_classes
        self._keep = elements <= _KEPT_ELEMENTS

    def sides(self) -> tuple[Floats, Floats, Floats]:
        """First pass: log masses, means of the classes and weighted sums of both sides.

        Returns
        -------
        log_mass : ndarray of shape (2, n, n_classes)
        classes : ndarray of shape (2, n, n_classes, 7)
            Means with posteriors as weights: of the derivative D of the log posterior,
            of D^2, of the variance, of its largest growth and decline, of the entropy,
            and of X.
        totals : ndarray of shape (2, n, 5)
            Weighted sums of the log normaliser, of its first and second derivatives, and
            of the second one's largest growth and decline.
        """
        pairs, n = self._pairs, len(self._index)
        n_classes = pairs.n_classes

        def part(block: Block) -> list[torch.Tensor]:
            both = [self._side(block, side) for side in (0, 1)]
            if self._keep:
                self._kept[block.number] = [side for side, _ in both]
            return [torch.stack([added for _, added in both])]

        (sums,) = pairs.reduce_blocks(part, self._index, "sum", dtype=self._dtype)
        if self._nearest is None:
            shift = np.zeros((2, n, n_classes))
        else:
            shift = (self._beta * self._nearest).mT.double().cpu().numpy()
        sums_np = sums.mT.cpu().numpy()
        totals = sums_np[:, :, -5:]
        mass, *means = np.moveaxis(sums_np[:, :, :-5].reshape(2, n, 10, n_classes), 2, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_mass = np.log(mass) - shift
            m, m2, variance, growth, decline, entropy, x, xm, x2 = np.nan_to_num(means / mass)
        classes = np.stack(
            [m - x, m2 - 2 * xm + x2, variance, growth, decline, entropy, x], axis=-1
        )
        return log_mass, classes, totals

    def _side(self, block: Block, side: int) -> tuple[_Side, torch.Tensor]:
        beta, unit = block.spread(self._beta), block.spread(self._unit)
        x = block.b if side else block.a
        allowed = None
        if self._pairs.has_zero_posteriors:
            allowed = torch.isfinite(x)
            x = torch.where(allowed, x, 0.0)
        x = x * -unit
        ratio = beta / unit  # 1, or 0 at beta = 0
        if float(x.max()) > LARGEST_CUBED[x.dtype]:
            # Where exp(-x) is zero, x^3 need only be finite.
            x = torch.where(ratio > 0, x.clamp_max(LARGEST_CUBED[x.dtype]), x)
        root = torch.mul(x, ratio / -2)
        if x.dtype == torch.float32:
            root.clamp_min_(LOWEST_EXPONENT / 2)
        root.exp_()
        if allowed is not None:
            root *= allowed
        e = root * root
        z = e.sum(0)
        ex = e * x
        exx = ex * x
        mean, second, third = ex.sum(0) / z, exx.sum(0) / z, (exx * x).sum(0) / z
        variance = (second - mean * mean).clamp_min(0)
        growth = third / 8
        # Down to half of beta the unnormalised posteriors are at most their roots.
        decline = root.mul_(x).mul_(x).mul_(x).sum(0) / z
        log_z = z.log()
        entropy = log_z + ratio * mean
        weight = block.weight.to(x.dtype) / z
        rows = torch.stack(
            [torch.ones_like(mean), mean, mean * mean, variance, growth, decline, entropy]
        )
        if self._nearest is not None:
            # In units of each class's largest posterior, so that no mass underflows.
            nearest = block.spread(self._nearest[side]) * unit
            scale = torch.exp((nearest - x).clamp_max(0) * ratio)
            if allowed is not None:
                scale = scale * allowed
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
        return _Side(e, x, log_z), torch.cat([sums.flatten(0, 1), totals])

    def overlaps(self, log_prior: Floats, d_log_prior: Floats) -> tuple[Floats, Floats]:
        """Second pass, with the prior (n, n_classes) of each run and its derivative.

        Returns
        -------
        sums : ndarray of shape (n, 3)
            The kernel, and the mean and variance under the overlap's shares of the
            derivative of its log, but for what does not depend on the class.
        overlap : ndarray of shape (n, n_classes)
            Weighted sums of the classes' shares of the overlaps.
        """
        pairs = self._pairs
        y, d = (pairs.tensor(x.T).to(self._dtype) for x in (log_prior, d_log_prior))
        factor = torch.exp(-y.clamp_min(_LOWEST_LOG_PRIOR[self._dtype]))

        def part(block: Block) -> list[torch.Tensor]:
            kept = self._kept.pop(block.number, None)
            a, b = kept or [self._side(block, side)[0] for side in (0, 1)]
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
