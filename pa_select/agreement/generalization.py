"""The generalisation error of the theory, and how far the mean posterior is from the prior."""

from __future__ import annotations

from typing import NamedTuple

import torch

from pa_select.agreement.confidence import posteriors
from pa_select.agreement.inputs.problem import Problem


class Generalization(NamedTuple):
    """Description lengths at the inverse temperature of the maximum, in nats per pair.

    Attributes
    ----------
    error : float
        The generalisation error: how many nats more than the prior the posteriors of the second
        sample need, on average, to describe classes that are drawn from the posteriors of the
        first. Negative values are good. It is at least minus the agreement, and inf if a class
        that the first sample holds possible is impossible for the second.
    divergence : float
        The Kullback-Leibler divergence of the mean posterior from the prior, in
        [0, -log(smallest prior)]. It is 0 if the predictions are spread as the prior is, and
        log(n_classes) for a classifier that is certain of one class everywhere, with the uniform
        prior. The theory asks for a small one (richness condition).
    """

    error: float
    divergence: float


def generalization(source: Problem, beta: float) -> Generalization:
    """Compute description lengths at an inverse temperature, with the prior of the problem.

    The marginal prior is the mean posterior, so that the divergence is that from uniform.
    """
    used = source.weight > 0
    rows = torch.from_numpy(used)
    p, q = (posteriors(x[rows.to(x.device)], beta).cpu() for x in (source.a, source.b))
    weight = torch.from_numpy(source.weight[used] / source.weight[used].sum())
    mean = weight @ (p + q) / 2
    uniform = torch.full_like(mean, 1 / len(mean))
    fixed = uniform if source.prior.given is None else torch.tensor(source.prior.given)
    prior = mean if source.prior.is_marginal else fixed
    # A class without posterior in the first sample counts nothing, whatever the second says.
    lengths = torch.where(p > 0, p * (prior.log() - q.log()), 0.0)
    return Generalization(
        error=float(weight @ lengths.sum(1)),
        divergence=max(float(torch.xlogy(mean, mean / fixed).sum()), 0.0),
    )
