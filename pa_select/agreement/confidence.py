"""Confidence of a classifier on pairs that agree and on pairs that disagree."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from pa_select.agreement.decomposition import groups_of, right_rows
from pa_select.agreement.inputs.problem import Problem
from pa_select.agreement.standard_errors import error_of_mean
from pa_select.utils.typing import Floats


class Confidence(NamedTuple):
    """Mean confidence in one group of pairs at an inverse temperature.

    Attributes
    ----------
    n_pairs : int
        Number of pairs of positive weight.
    first, second : float
        Mean posterior of the predicted class, in the first and in the second sample. Without
        pairs these and all values below are nan.
    kept : float
        Mean posterior, in the second sample, of the class predicted in the first.
    entropy : float
        Mean entropy of the posteriors of the first sample, in nats.
    standard_errors : tuple of float
        Standard errors of `first`, `second` and `kept`; nan for fewer than two pairs.
    """

    n_pairs: int
    first: float
    second: float
    kept: float
    entropy: float
    standard_errors: tuple[float, float, float]


class EntropyChange(NamedTuple):
    """Change of entropies from inverse temperature 1 to that of the maximum, in nats.

    Attributes
    ----------
    n_rows : int
        Number of rows; without rows the changes are nan.
    of_rows : float
        Change of the mean entropy of the rows' posteriors. It is at most 0 if the inverse
        temperature of the maximum is above 1, and at least 0 if it is below.
    of_average : float
        Change of the entropy of the average posterior, the mean over rows of each class's
        posterior.
    of_ranked_average : float
        The same after each row's posteriors were sorted, the predicted class first.
    """

    n_rows: int
    of_rows: float
    of_average: float
    of_ranked_average: float


def entropy_change(source: Problem, beta: float, y: Any = None) -> EntropyChange:
    """Compare the entropies at an inverse temperature with those at 1, for correct rows."""
    used = source.weight > 0
    if y is not None:
        used[used] = right_rows(source, y)
    if not used.any():
        return EntropyChange(0, np.nan, np.nan, np.nan)
    weight = torch.from_numpy(source.weight[used] / source.weight[used].sum())
    rows = source.a[torch.from_numpy(used).to(source.a.device)]
    before, after = (_entropies(posteriors(rows, b).cpu(), weight) for b in (1.0, beta))
    return EntropyChange(len(rows), *(x - y for x, y in zip(after, before, strict=True)))


def _entropies(p: torch.Tensor, weight: torch.Tensor) -> tuple[float, float, float]:
    """Return the mean entropy, and the entropy of the mean, without and with sorting."""
    ranked = p.sort(1, descending=True).values
    means = weight @ torch.special.entr(p), weight @ p, weight @ ranked
    of_means = (torch.special.entr(mean) for mean in means[1:])
    return (float(means[0].sum()), *(float(entropy.sum()) for entropy in of_means))  # type: ignore[return-value]


def confidence(source: Problem, beta: float, y: Any = None) -> dict[str, Confidence]:
    """Average posteriors of each group of `decompose`, at an inverse temperature."""
    used = source.weight > 0
    weight = source.weight[used]
    tops = [x.argmax(1, keepdim=True) for x in (source.a, source.b)]
    p, q = (posteriors(x, beta) for x in (source.a, source.b))
    columns = [p.gather(1, tops[0]), q.gather(1, tops[1]), q.gather(1, tops[0])]
    values = torch.cat([*columns, torch.special.entr(p).sum(1, keepdim=True)], 1)
    measured = values.cpu().numpy()[used]
    found = {}
    for name, here in groups_of(source, y).items():
        mean, error = _mean_and_error(measured[here], weight[here])
        first, second, kept, entropy = mean.tolist()
        errors = error.tolist()
        found[name] = Confidence(
            int(here.sum()), first, second, kept, entropy, (errors[0], errors[1], errors[2])
        )
    return found


def _mean_and_error(values: Floats, weight: Floats) -> tuple[Floats, Floats]:
    n = len(values)
    if not n:
        return np.full((2, values.shape[1]), np.nan)[0], np.full(values.shape[1], np.nan)
    share = weight / weight.sum()
    mean: Floats = share @ values
    squares = ((share[:, None] * (values - mean)) ** 2).sum(0)
    return mean, np.array([error_of_mean(x, n) for x in squares.tolist()])


def posteriors(scores: torch.Tensor, beta: float) -> torch.Tensor:
    """Return posteriors at an inverse temperature; at inf the top classes share 1."""
    below = scores.double() - scores.double().amax(1, keepdim=True)
    if beta == np.inf:
        tied = (below == 0).double()
        return tied / tied.sum(1, keepdim=True)
    # A score of -inf has probability 0 at every positive inverse temperature.
    tempered = torch.zeros_like(below) if beta == 0 else beta * below
    return torch.softmax(tempered, 1)
