r"""The marginal prior: the mean posterior of each class, which changes with beta.

If several fitted models scored the pairs of one problem, each model has its own mean
posterior :math:`\pi_m` over all rows that it scored. The prior of a pair is the mean of the
:math:`\pi_m` of its two models. Constant models that differ then still score at most 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pa_select.agreement.pairs.paired_scores import PairedScores
from pa_select.agreement.solver.kernel_sums import log_masses, mean_terms, pair_terms
from pa_select.utils.typing import Floats, Ints

Masses = Callable[[PairedScores, Floats, Ints], tuple[Floats, Floats]]

# Speed only: this many mean posteriors are held at once.
_PRIORS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class ModelRuns:
    """The pairs of each problem, cut into runs.

    A run is a sequence of pairs whose first sides were scored by one fitted model, and
    whose second sides by one fitted model.

    Parameters
    ----------
    pairs : PairedScores
        The pairs of all problems in their order. Each run is a problem of it, and pairs
        keep the weights that they have in their problem.
    n_runs : ndarray of shape (n_problems,)
        Number of runs of each problem.
    model_a, model_b : ndarray of shape (n_runs.sum(),)
        The models of the two sides of each run, numbered from 0 within its problem.
    """

    pairs: PairedScores
    n_runs: Ints
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

    Parameters
    ----------
    runs : ModelRuns
    problems : ndarray of int
        Problems, with repetitions.
    index, owner : ndarray of shape (n,)
        Their runs, from ``runs.of(problems)``.
    log_mass : ndarray of shape (2, n, n_classes)
        Logs of the summed weighted posteriors of the two sides of each run.

    Attributes
    ----------
    log_prior : ndarray of shape (n, n_classes)
        Logs of the mean of the two models' mean posteriors, for each run.
    """

    def __init__(
        self, runs: ModelRuns, problems: Ints, index: Ints, owner: Ints, log_mass: Floats
    ) -> None:
        n = len(index)
        model = np.concatenate([runs.model_a[index], runs.model_b[index]])
        group = np.tile(owner, 2) * runs.n_models + model
        self._order = np.argsort(group, kind="stable")
        present, self._starts = np.unique(group[self._order], return_index=True)
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
        here = slice(begin, begin + at_once)
        log_prior, index, owner = log_marginal_priors(runs, beta[here], problems[here])
        sums = mean_terms(runs.pairs, beta[here][owner], index, log_prior)
        values[here] = np.bincount(owner, sums)
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
