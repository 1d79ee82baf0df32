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

import numpy as np
import torch

from pa_select.agreement.kernels.kernel_sums import (
    LARGEST_CUBED,
    LOWEST_EXPONENT,
    log_masses,
    mean_terms,
    pair_terms,
)
from pa_select.agreement.pairs.block import Block
from pa_select.agreement.pairs.paired_scores import PairedScores
from pa_select.utils.typing import Floats, Ints

Masses = Callable[[PairedScores, Floats, Ints], tuple[Floats, Floats]]

# Speed only: this many mean posteriors are held at once.
_PRIORS_AT_ONCE = 1 << 22
# Part of the certificate: the cubes of distances up to these do not overflow.
_FARTHEST = {torch.float64: 1e100, torch.float32: 1e12}


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
    #: The runs whose sides are the rows that each model scored, if they are not these: a row with
    #: many partners then counts once, with the weight of all.
    of_rows: ModelRuns | None = None

    @property
    def sides(self) -> ModelRuns:
        """The runs of which the first pass sums the sides."""
        return self if self.of_rows is None else self.of_rows

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

    def models(self, problems: Ints, n_models: int) -> Ints:
        """Return the models of the first sides, then of the second sides, of the problems' runs.

        Those of the problem at i in `problems` are numbered from ``i * n_models`` on.
        """
        index, owner = self.of(problems)
        return np.concatenate([owner, owner]) * n_models + np.concatenate(
            [self.model_a[index], self.model_b[index]]
        )

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

    `log_mass` has the logs of the summed weighted posteriors of the sides of ``runs.sides``,
    (2, n_sides, n_classes), and `log_prior` the logs of the mean of the two models' mean
    posteriors of each run, (n, n_classes).
    """

    def __init__(self, runs: ModelRuns, problems: Ints, log_mass: Floats) -> None:
        of_sides = runs.sides.models(problems, runs.n_models)
        self._order = np.argsort(of_sides, kind="stable")
        ordered = of_sides[self._order]
        self._starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        present = ordered[self._starts]
        model_of_side = np.searchsorted(present, of_sides)
        #: The models of the sides of the runs, as positions among those that are present.
        self._model = model_of_side
        if runs.of_rows is not None:
            self._model = np.searchsorted(present, runs.models(problems, runs.n_models))
        log_weight = runs.log_weights[problems].ravel()[present]
        flat = log_mass.reshape(len(of_sides), -1)
        total = np.logaddexp.reduceat(flat[self._order], self._starts, axis=0)
        with np.errstate(invalid="ignore"):
            mean = np.where(np.isneginf(total), -np.inf, total - log_weight[:, None])
            share = flat - total[model_of_side]
        mean = mean[self._model].reshape(2, -1, flat.shape[1])
        self.log_prior = np.logaddexp(*mean) - np.log(2)
        # A class without mass has shares of 0, not nan.
        self._share = np.exp(np.where(np.isneginf(flat), -np.inf, share))
        with np.errstate(invalid="ignore"):
            log_share = mean - np.log(2) - self.log_prior
        self._model_share = np.exp(np.where(np.isneginf(mean), -np.inf, log_share))

    def by_posterior(self, values: Floats) -> Floats:
        """Average means of sides, (2, n_sides, n_classes, q), weighted by the posteriors."""
        flat = values.reshape(-1, *values.shape[2:]) * self._share[..., None]
        of_models = np.add.reduceat(flat[self._order], self._starts, axis=0)[self._model]
        both = of_models.reshape(2, -1, *values.shape[2:]) * self._model_share[..., None]
        return both.sum(0)


def log_marginal_priors(
    runs: ModelRuns, beta: Floats, problems: Ints, masses: Masses = log_masses
) -> tuple[Floats, Ints, Ints]:
    """Return the log prior of each run of the problems, and `index` and `owner` of the runs."""
    index, owner = runs.sides.of(problems)
    log_mass = np.stack(masses(runs.sides.pairs, beta[owner], index))
    return ModelMeans(runs, problems, log_mass).log_prior, *runs.of(problems)


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


class MarginalPasses:
    """The two passes over the pairs of some runs, each run at one inverse temperature.

    `nearest` has the smallest distance X of each class, (2, n_classes, n_runs); None if all are 0.
    `farthest` is the largest distance. The runs are `index`, and `dtype` is the precision of
    exponentials.
    """

    def __init__(
        self,
        pairs: PairedScores,
        nearest: Floats | None,
        farthest: float,
        beta: Floats,
        unit: Floats,
        index: Ints,
        dtype: torch.dtype,
    ) -> None:
        self._pairs, self._index, self._dtype = pairs, index, dtype
        self._host_betas = np.array([beta, unit])
        small = [self._host_betas] + ([] if nearest is None else [nearest[:, :, index]])
        #: (2, n) the inverse temperatures and their units.
        self._betas, *nearest_of_runs = pairs.tensors(*small, dtype=dtype)
        self._nearest = nearest_of_runs[0] if nearest_of_runs else None
        #: The classes of each side that are the top of no row in some run.
        self._never_top: list[torch.Tensor] = []
        #: (2, n, n_classes) how much is missing in the logs of masses, if anything.
        self._shift: Floats | float = 0.0
        if nearest is not None:
            never = [torch.from_numpy(np.flatnonzero(x.any(1))) for x in small[1]]
            self._never_top = [x.to(pairs.device) for x in never]
            kind = np.float32 if dtype == torch.float32 else np.float64
            with np.errstate(over="ignore", invalid="ignore"):
                shift = np.swapaxes(beta.astype(kind) * small[1].astype(kind), 1, 2)
            self._shift = shift.astype(np.float64)
        with np.errstate(over="ignore"):
            #: Whether the cube of some distance may overflow, in the unit of beta.
            self._is_far = farthest * float(unit.max()) > LARGEST_CUBED[dtype]

    def sides(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Run the first pass: sums over the rows of each side.

        Returns the logs of the summed weighted posteriors, (2, n, n_classes); means over rows,
        weighted by the posteriors of each class, (2, n, n_classes, 8): of the variance V, E X,
        E X^3, the entropy, the derivative g of the log posterior, g V, g^2 and g^3; weighted sums
        over rows, (2, n, 4): of the log normaliser, its first and second derivative, and E X^3;
        and the largest E X, V and E X^3 of a row of either side, (n, 3).
        """
        n_classes = self._pairs.n_classes

        def part(block: Block) -> tuple[torch.Tensor, torch.Tensor]:
            sums_a, largest_a = self._sums(block, 0)
            sums_b, largest_b = self._sums(block, 1)
            return torch.cat([sums_a, sums_b]), torch.maximum(largest_a, largest_b)

        every = self._over_pairs(part).T
        sums = np.stack(np.split(every[:, :-3], 2, axis=1))
        # The first derivative is minus E X, which comes after V.
        totals, largest = sums[:, :, [-4, -2, -3, -1]] * [1, -1, 1, 1], every[:, [-2, -3, -1]]
        mass, *others = np.moveaxis(sums[:, :, :-4].reshape(2, -1, 9, n_classes), 2, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_mass = np.log(mass) - self._shift
            classes = np.moveaxis(np.where(mass > 0, np.array(others) / mass, 0.0), 0, -1)
        return log_mass, classes, totals, largest

    def _over_pairs(self, part: Callable[[Block], tuple[torch.Tensor, torch.Tensor]]) -> Floats:
        """Return the sums and the maxima over pairs of what a function returns for each block."""
        reduced = self._pairs.reduce_blocks(part, self._index, "sum", "max", dtype=self._dtype)
        every: Floats = torch.cat(reduced).cpu().numpy()
        return every

    def _betas_of(self, block: Block) -> torch.Tensor:
        """Return beta and its unit for each pair of a block, or one for all."""
        here = self._host_betas[:, block.first : block.last]
        if (here == here[:, :1]).all():
            return self._betas[:, block.first : block.first + 1]
        return block.spread(self._betas)

    def _distances(
        self, scores: torch.Tensor, unit: torch.Tensor, beta: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the distances of scores from 0, in the unit of beta, and beta times the scores.

        A score of -inf has the distance 0.
        """
        allowed = torch.isfinite(scores) if self._pairs.has_zero_posteriors else None
        if allowed is not None:
            scores = torch.where(allowed, scores, 0.0)
        x, exponent = scores * -unit, scores * beta
        if self._is_far:
            x = torch.where(beta > 0, x.clamp_max(_FARTHEST[x.dtype]), x)
        if allowed is not None:
            exponent = torch.where(allowed, exponent, -torch.inf)
        return x, exponent

    def _exp(self, exponent: torch.Tensor) -> torch.Tensor:
        """Compute exponentials of at most 1, in place."""
        if exponent.dtype != torch.float32:
            return exponent.exp_()
        is_zero = torch.isneginf(exponent) if self._pairs.has_zero_posteriors else None
        exponent.clamp_min_(LOWEST_EXPONENT).exp_()
        return exponent if is_zero is None else exponent.masked_fill_(is_zero, 0.0)

    def _sums(self, block: Block, side: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what `sides` sums over the rows of one side, and the maxima, V before E X."""
        beta, unit = self._betas_of(block)
        scores = block.b if side else block.a
        x_of_all, exponent = self._distances(scores, unit, beta)
        e = self._exp(exponent)
        x = x_of_all
        if self._is_far:
            # These distances have exp(-x) = 0, so that x^3 need only be finite.
            x = torch.where(beta > 0, x.clamp_max(LARGEST_CUBED[x.dtype]), x)
        z = e.sum(0)
        log_z = z.log()
        mean = (e * x).sum(0) / z
        weight = block.weight.to(x.dtype) / z
        g = mean - x
        eg = e * g
        egg = eg * g
        eggg = egg * g
        variance = egg.sum(0) / z
        third = (mean**3 + 3 * mean * variance - eggg.sum(0) / z).clamp_min(0)
        of_rows = torch.stack([log_z, variance, mean, third])
        rows = of_rows.new_empty(5, len(z))
        rows[0] = weight
        torch.mul(of_rows[1:], weight, out=rows[1:4])
        torch.mul(log_z + beta / unit * mean, weight, out=rows[4])  # the entropy
        one, two = rows[:1], rows[:2]
        sums = block.class_sums((e, rows), (eg, two), (egg, one), (eggg, one))
        if self._nearest is not None and len(self._never_top[side]):
            # In units of the largest posterior of its class no mass underflows.
            some = self._never_top[side]
            x, nearest = x_of_all[some], block.spread(self._nearest[side][some]) * unit
            scale = torch.exp((nearest - x).clamp_max(0) * (beta / unit))
            if self._pairs.has_zero_posteriors:
                scale = scale * torch.isfinite(scores[some])
            g = mean - x
            eg, egg, eggg = scale * g, scale * g * g, scale * g * g * g
            sums[:, some] = block.class_sums((scale, rows), (eg, two), (egg, one), (eggg, one))
        totals = block.weighted_sum(of_rows)
        largest = block.reduce(block.of_counted(of_rows[1:]), "max").double()
        return torch.cat([sums.flatten(0, 1), totals]), largest

    def overlaps(self, log_prior: Floats, d_log_prior: Floats) -> tuple[Floats, Floats, Floats]:
        """Run the second pass: sums over the overlaps of the pairs, with the runs' log priors.

        With U for X' + X'' + y', which is minus the derivative of log(p' p'' / pi) without the
        normalisers, and means under the classes' shares of the overlap, returns weighted sums
        over pairs, (n, 4): of the log of the overlap without the normalisers, of the mean of -U,
        and of the variance and the mean cube of U less its smallest value; the largest mean of
        the latter of a pair, (n,); and weighted sums of the shares, (n, n_classes).
        """
        at_prior = np.array([log_prior.T, d_log_prior.T])
        (priors,) = self._pairs.tensors(at_prior, dtype=self._dtype)

        def part(block: Block) -> tuple[torch.Tensor, torch.Tensor]:
            beta, unit = self._betas_of(block)
            u, exponent = self._distances(block.a + block.b, unit, beta)
            y, d = block.spread(priors)
            exponent -= y
            top = exponent.amax(0)
            u += d
            if self._pairs.has_zero_posteriors:
                # A class that one side rules out has no share, and no part in the smallest U.
                is_zero = torch.isneginf(exponent)
                top = torch.where(torch.isneginf(top), 0.0, top)
                u = torch.where(is_zero, torch.inf, u)
                least = u.amin(0)
                least = torch.where(torch.isfinite(least), least, 0.0)
                u = torch.where(is_zero, least, u)
            else:
                least = u.amin(0)
            u -= least
            overlap = self._exp(exponent.sub_(top))
            z = block.of_counted(overlap.sum(0), 1.0)
            shares = block.class_sums((overlap, (block.weight.to(z.dtype) / z)[None]))[0]
            mean = overlap.mul_(u).sum(0) / z
            variance = (overlap.mul_(u).sum(0) / z - mean * mean).clamp_min(0)
            cube = overlap.mul_(u).sum(0) / z
            sums = block.weighted_sum(torch.stack([top + z.log(), -least - mean, variance, cube]))
            steepest = block.of_counted(mean)[None]
            return torch.cat([sums, shares]), block.reduce(steepest, "max").double()

        every = self._over_pairs(part).T
        return every[:, :4], every[:, -1], every[:, 4:-1]
