r"""The marginal prior: the mean posterior of each class, which changes with beta.

If several fitted models scored the pairs of one problem, each model has its own mean
posterior :math:`\pi_m` over all rows that it scored. The prior of a pair is the mean of the
:math:`\pi_m` of its two models. Constant models that differ then still score at most 0.

Two passes over the pairs compute what bounds these kernels on intervals.  The first pass sums
over the rows of each side, which gives the priors.  The second one sums over the overlaps of the
pairs, for which the priors must be known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch

from pa_select.agreement.pairs.block import Block
from pa_select.agreement.pairs.paired_scores import PairedScores
from pa_select.agreement.solver.kernel_sums import (
    LARGEST_CUBED,
    LOWEST_EXPONENT,
    log_masses,
    mean_terms,
    pair_terms,
)
from pa_select.utils.typing import Floats, Ints

Masses = Callable[[PairedScores, Floats, Ints], tuple[Floats, Floats]]

# Speed only: this many mean posteriors are held at once.
_PRIORS_AT_ONCE = 1 << 22
# Part of the certificate: a smaller overlap of a pair is computed again from logarithms. The
# threshold is far above what clamping the log prior at its limit may lose, at most
# 4 exp(limit) / weight^2.
_UNDERFLOW = {torch.float64: 1e-80, torch.float32: 1e-15}
_LOWEST_LOG_PRIOR = {torch.float64: -300.0, torch.float32: -80.0}
# Speed only: up to this many scores of a side, posteriors are kept between the passes.
_KEPT_ELEMENTS = 1 << 20


@dataclass(frozen=True)
class ModelRuns:
    """The pairs of each problem, cut into runs.

    The first sides of a run were scored by one fitted model, and so were its second sides.
    """

    #: Each run is a problem of it, and pairs keep the weights that they have in their problem.
    pairs: PairedScores
    #: (n_problems,) number of runs of each problem, which follow one another.
    n_runs: Ints
    #: (n_runs.sum(),) the models of the two sides of each run, from 0 within its problem.
    model_a: Ints
    model_b: Ints

    @classmethod
    def one_model_each(cls, pairs: PairedScores) -> ModelRuns:
        """Make each problem one run, scored by one model."""
        zeros = np.zeros(pairs.n_problems, dtype=np.int64)
        return cls(pairs, zeros + 1, zeros, zeros)

    @property
    def n_models(self) -> int:
        """The largest number of models of a problem."""
        return int(max(self.model_a.max(), self.model_b.max())) + 1

    def of(self, problems: Ints) -> tuple[Ints, Ints]:
        """Return the runs of the given problems, and the index in `problems` of each run."""
        counts = self.n_runs[problems]
        ends = np.cumsum(counts)
        owner = np.repeat(np.arange(len(problems)), counts)
        first = (np.cumsum(self.n_runs) - self.n_runs)[problems]
        return np.arange(ends[-1]) + np.repeat(first - ends + counts, counts), owner

    @cached_property
    def log_weights(self) -> Floats:
        """Logs of the total weight of each model's rows, (n_problems, n_models).

        Both sides of a pair have its weight.
        """
        problem = np.repeat(np.arange(len(self.n_runs)), self.n_runs)
        totals = self.pairs.total_weights
        sums = np.zeros((len(self.n_runs), self.n_models))
        np.add.at(sums, (problem, self.model_a), totals)
        np.add.at(sums, (problem, self.model_b), totals)
        with np.errstate(divide="ignore"):
            return np.log(sums)


class ModelMeans:
    """Means over the rows that each fitted model scored, and over the two models of a run.

    `index` and `owner` are those of ``runs.of(problems)``. `log_mass` has the logs of the summed
    weighted posteriors of the two sides of each run, (2, n, n_classes), and `log_prior` the logs
    of the mean of the two models' mean posteriors, (n, n_classes).
    """

    def __init__(
        self, runs: ModelRuns, problems: Ints, index: Ints, owner: Ints, log_mass: Floats
    ) -> None:
        n = len(index)
        model = np.concatenate([runs.model_a[index], runs.model_b[index]])
        group = np.concatenate([owner, owner]) * runs.n_models + model
        self._order = np.argsort(group, kind="stable")
        ordered = group[self._order]
        self._starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        present = ordered[self._starts]
        self._model = np.searchsorted(present, group)
        self._log_weight = runs.log_weights[problems].ravel()[present]
        flat = log_mass.reshape(2 * n, -1)
        total = np.logaddexp.reduceat(flat[self._order], self._starts, axis=0)
        with np.errstate(invalid="ignore"):
            mean = total - self._log_weight[:, None]
            share = flat - total[self._model]
        mean = np.where(np.isneginf(total), -np.inf, mean)[self._model].reshape(2, n, -1)
        self.log_prior = np.logaddexp(*mean) - np.log(2)
        # A class without mass has shares of 0, not nan.
        self._share = np.exp(np.where(np.isneginf(flat), -np.inf, share))
        with np.errstate(invalid="ignore"):
            log_share = mean - np.log(2) - self.log_prior
        self._model_share = np.exp(np.where(np.isneginf(mean), -np.inf, log_share))

    def by_posterior(self, values: Floats) -> Floats:
        """Average means of sides, (2, n, n_classes, q), weighted by the posteriors."""
        flat = values.reshape(-1, *values.shape[2:]) * self._share[..., None]
        of_models = np.add.reduceat(flat[self._order], self._starts, axis=0)
        both = of_models[self._model].reshape(values.shape) * self._model_share[..., None]
        return both.sum(0)

    def by_weight(self, sums: Floats) -> Floats:
        """Average weighted sums of sides, (2, n, q), over the rows that each model scored."""
        of_models = np.add.reduceat(
            sums.reshape(-1, sums.shape[2])[self._order], self._starts, axis=0
        )
        weight = np.exp(self._log_weight)[:, None]
        of_models = np.divide(of_models, weight, out=np.zeros_like(of_models), where=weight > 0)
        return of_models[self._model].reshape(sums.shape).mean(0)


def log_marginal_priors(
    runs: ModelRuns, beta: Floats, problems: Ints, masses: Masses = log_masses
) -> tuple[Floats, Ints, Ints]:
    """Return the log prior of each run of the problems, and `index` and `owner` of the runs."""
    index, owner = runs.of(problems)
    log_mass = np.stack(masses(runs.pairs, beta[owner], index))
    return ModelMeans(runs, problems, index, owner, log_mass).log_prior, index, owner


def marginal_kernel(runs: ModelRuns, beta: Floats, problems: Ints) -> Floats:
    """Return the mean kernel with the marginal prior, one beta for each problem.

    ``problems`` may repeat a problem, for several betas.
    """
    values = np.empty(len(problems))
    at_once = max(_PRIORS_AT_ONCE // (runs.pairs.n_classes * int(runs.n_runs.max())), 1)
    for begin in range(0, len(problems), at_once):
        some = slice(begin, begin + at_once)
        log_prior, index, owner = log_marginal_priors(runs, beta[some], problems[some])
        sums = mean_terms(runs.pairs, beta[some][owner], index, log_prior)
        values[some] = np.bincount(owner, sums)
    return values


def marginal_terms(runs: ModelRuns, beta: Floats) -> list[Floats]:
    """Return the kernel of every pair with the marginal prior, by problem."""
    log_prior, index, owner = log_marginal_priors(runs, beta, np.arange(len(beta)))
    terms = pair_terms(runs.pairs, beta[owner], index, log_prior)
    ends = np.cumsum(runs.n_runs)
    return [
        terms[end - 1] if n == 1 else np.concatenate(terms[end - n : end])
        for end, n in zip(ends, runs.n_runs, strict=True)
    ]


class _Side(NamedTuple):
    """One side of a block at one inverse temperature."""

    #: (n_classes, n_rows) unnormalised posteriors, and distances X in the unit of beta.
    e: torch.Tensor
    x: torch.Tensor
    #: (n_rows,) normalisers, and their logs Lambda.
    z: torch.Tensor
    log_z: torch.Tensor
    #: The units of the rows, and beta / unit: 1, or 0 at beta = 0.
    unit: torch.Tensor
    ratio: torch.Tensor


class MarginalPasses:
    """The two passes over the pairs of some runs, each run at one inverse temperature.

    `nearest` has the smallest distance X of each class, (2, n_classes, n_runs); None if all are 0.
    The runs are `index`, and `dtype` is the precision of exponentials.
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
        #: The classes of each side that are the top of no row in some run.
        self._far = [] if nearest is None else [np.flatnonzero(x.any(1)) for x in small[2]]
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

        Returns the logs of the summed weighted posteriors, (2, n, n_classes); means over rows,
        weighted by the posteriors of each class, (2, n, n_classes, 7): the derivative of the log
        posterior, its square, the variance V, bounds of how fast V grows and declines, the
        entropy, and X; and weighted sums over rows, (2, n, 5): of the log normaliser, of its first
        and second derivative, and of the bounds of how fast the second one grows and declines.
        """
        n_classes = self._pairs.n_classes

        def part(block: Block) -> torch.Tensor:
            both = self._sides(block)
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

    def _sides(self, block: Block) -> list[_Side]:
        """Return both sides of a block, those of the first pass if they were kept."""
        kept = self._kept.pop(block.number, None)
        if kept is not None:
            return kept
        unit = block.spread(self._unit)
        ratio = block.spread(self._beta) / unit
        return [self._side(block, side, unit, ratio) for side in (0, 1)]

    def _side(self, block: Block, side: int, unit: torch.Tensor, ratio: torch.Tensor) -> _Side:
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
        return _Side(e, x, z, z.log(), unit, ratio)

    def _sums(self, block: Block, side: int, at: _Side) -> torch.Tensor:
        """Return what `sides` sums over the rows of one side."""
        e, x, z, log_z, unit, ratio = at
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

        def class_sums(e: torch.Tensor, *powers: torch.Tensor) -> torch.Tensor:
            each = zip([e, *powers], (rows, rows[:2], rows[:1]), strict=True)
            return torch.cat([block.class_sums(x, some * weight) for x, some in each])

        sums = class_sums(e, ex, exx)
        if self._nearest is not None and len(self._far[side]):
            # In units of the largest posterior of its class no mass underflows.
            far = torch.from_numpy(self._far[side]).to(x.device)
            x = x[far]
            nearest = block.spread(self._nearest[side][far]) * unit
            scale = torch.exp((nearest - x).clamp_max(0) * ratio)
            if self._pairs.has_zero_posteriors:
                scale = scale * torch.isfinite((block.b if side else block.a)[far])
            sums[:, far] = class_sums(scale, scale * x, scale * x * x)
        totals = block.weighted_sum(torch.stack([log_z, -mean, variance, growth, decline]))
        return torch.cat([sums.flatten(0, 1), totals])

    def overlaps(self, log_prior: Floats, d_log_prior: Floats) -> tuple[Floats, Floats]:
        """Run the second pass: sums over the overlaps of the pairs, with the runs' log priors.

        Returns weighted sums over pairs, (n, 3): of the kernel, and of the mean and the variance,
        under the classes' shares of the overlap, of the derivative of log(p' p'' / pi) without the
        normalisers; and weighted sums of these shares, (n, n_classes).
        """
        pairs = self._pairs
        # By numpy: outside of `map_blocks` an exponential of torch would start its threads.
        inverse = np.exp(-np.maximum(log_prior, _LOWEST_LOG_PRIOR[self._dtype]))
        factor, y, d = pairs.tensors(inverse.T, log_prior.T, d_log_prior.T, dtype=self._dtype)

        def part(block: Block) -> list[torch.Tensor]:
            a, b = self._sides(block)
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
