"""Posteriors at an inverse temperature: contributions, confidence, description lengths."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch

from pa_select.agreement.inputs.problem import Problem
from pa_select.agreement.inputs.validation import as_labels
from pa_select.agreement.standard_errors import error_of_mean
from pa_select.utils.typing import Floats, Ints, Labels, Mask


def posteriors(scores: torch.Tensor, beta: float) -> torch.Tensor:
    """Return posteriors at an inverse temperature; at inf the top classes share 1."""
    below = scores.double() - scores.double().amax(1, keepdim=True)
    if beta == np.inf:
        tied = (below == 0).double()
        return tied / tied.sum(1, keepdim=True)
    # A score of -inf has probability 0 at every positive inverse temperature.
    tempered = torch.zeros_like(below) if beta == 0 else beta * below
    return torch.softmax(tempered, 1)


class Part(NamedTuple):
    """Contribution of one group of pairs to an agreement.

    Attributes
    ----------
    n_pairs : int
        Number of pairs of positive weight.
    total : float
        Weighted sum of the terms of these pairs, in nats.
    share : float
        ``total`` divided by the total of all pairs; nan if that is 0.
    approximate : float
        The thesis's approximation of ``total``. It replaces posteriors by their means in the
        group, and the number of pairs by a product of rates; ``log(n_classes)`` is added for
        each pair, as in ``total``. nan without labels, with a prior that is not uniform, or
        if the formula has no value.
    n_by_rates : float
        The number of pairs in that formula, which the thesis rounds down; nan without labels.
    doubt : float
        The delta in that formula: the mean posterior outside of the predicted class, over both
        samples if they agree, else in the second one. nan without labels or pairs.
    """

    n_pairs: int
    total: float
    share: float
    approximate: float
    n_by_rates: float
    doubt: float


def decompose(
    source: Problem, terms: Floats, beta: float, y: Labels | None = None
) -> dict[str, Part]:
    """Split the sum of the terms by whether pairs agree and, with labels, are right."""
    used = source.weight > 0
    weight = source.weight[used]
    weighted = weight * terms[used]
    groups = groups_of(source, y)
    by_formula = dict.fromkeys(groups, (math.nan, math.nan, math.nan))
    if y is not None:
        # Probability that is not on the predicted class, in each sample.
        doubt = [1 - posteriors(x, beta).amax(1).cpu().numpy()[used] for x in (source.a, source.b)]
        # The formula is that of the uniform prior; with others it has no value.
        n_classes = source.a.shape[1] if source.prior.is_uniform else math.nan
        accuracy = float(np.average(right_rows(source, y), weights=weight))
        agreement = float(np.average(~groups["disagree"], weights=weight))
        for name, rate, doubts in (
            ("agree_right", accuracy * agreement, doubt),
            ("agree_wrong", (1 - accuracy) * agreement, doubt),
            ("disagree", accuracy * (1 - agreement), doubt[1:]),
        ):
            group, n_by_rates = groups[name], float(weight.sum()) * rate
            if not group.any():
                by_formula[name] = 0.0 * n_classes, n_by_rates, math.nan
                continue
            mean = float(np.mean([np.average(d[group], weights=weight[group]) for d in doubts]))
            overlap = mean if name == "disagree" else 1 - 2 * mean
            log_overlap = math.log(overlap) if overlap > 0 else math.nan
            approximate = n_by_rates * (log_overlap + math.log(n_classes))
            by_formula[name] = approximate, n_by_rates, mean
    total = float(weighted.sum())
    return {
        name: Part(
            int(group.sum()),
            part := float(weighted[group].sum()),
            part / total if total else math.nan,
            *by_formula[name],
        )
        for name, group in groups.items()
    }


def groups_of(source: Problem, y: Labels | None = None) -> dict[str, Mask]:
    """Return masks of the pairs of positive weight that agree, disagree, and are right.

    With labels, agreeing pairs are split by whether the first sample is right.
    """
    used = source.weight > 0
    tops = [x.argmax(1).cpu().numpy()[used] for x in (source.a, source.b)]
    agree = tops[0] == tops[1]
    if y is None:
        return {"agree": agree, "disagree": ~agree}
    right = right_rows(source, y)
    return {"agree_right": agree & right, "agree_wrong": agree & ~right, "disagree": ~agree}


def right_rows(source: Problem, y: Labels) -> Mask:
    """Return a mask of the pairs of positive weight whose first sample is right."""
    right: Mask = source.a.argmax(1).cpu().numpy() == _columns_of(y, source)
    return right[source.weight > 0]


def _columns_of(y: Labels, source: Problem) -> Ints:
    labels = as_labels(y, "y", source)
    n, n_classes = source.a.shape
    if labels.shape != (n,):
        raise ValueError(f"y: expected one label for each of {n} pairs, got shape {labels.shape}.")
    expected = f"y: expected the columns of the true classes, 0 to {n_classes - 1}, got"
    if labels.dtype.kind not in "iu":
        raise ValueError(f"{expected} {labels.tolist()[0]!r} of type {labels.dtype}.")
    if labels.min() < 0 or labels.max() >= n_classes:
        raise ValueError(f"{expected} {labels.min()} to {labels.max()}.")
    return labels.astype(np.int64)


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


def confidence(
    source: Problem, beta: float, y: Labels | None = None, misled: bool = False
) -> dict[str, Confidence]:
    """Average posteriors of the groups of `decompose`, or of the thesis, which may overlap."""
    used = source.weight > 0
    weight = source.weight[used]
    tops = [x.argmax(1, keepdim=True) for x in (source.a, source.b)]
    p, q = (posteriors(x, beta) for x in (source.a, source.b))
    columns = [p.gather(1, tops[0]), q.gather(1, tops[1]), q.gather(1, tops[0])]
    values = torch.cat([*columns, torch.special.entr(p).sum(1, keepdim=True)], 1)
    measured = values.cpu().numpy()[used]
    by_name = {}
    groups = groups_of(source, y)
    if misled:
        if y is None:
            raise ValueError("y: expected labels for the groups of misled=True, got None.")
        right = right_rows(source, y)
        groups = {"right": right, "wrong": ~right, "misled": right & groups["disagree"]}
    for name, group in groups.items():
        mean, error = _mean_and_error(measured[group], weight[group])
        first, second, kept, entropy = mean.tolist()
        errors = error.tolist()
        by_name[name] = Confidence(
            int(group.sum()), first, second, kept, entropy, (errors[0], errors[1], errors[2])
        )
    return by_name


def _mean_and_error(values: Floats, weight: Floats) -> tuple[Floats, Floats]:
    n = len(values)
    if not n:
        return np.full((2, values.shape[1]), np.nan)[0], np.full(values.shape[1], np.nan)
    share = weight / weight.sum()
    mean: Floats = share @ values
    squares = ((share[:, None] * (values - mean)) ** 2).sum(0)
    return mean, np.array([error_of_mean(x, n) for x in squares.tolist()])


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
    """

    n_rows: int
    of_rows: float
    of_average: float


def entropy_change(source: Problem, beta: float, y: Labels | None = None) -> EntropyChange:
    """Compare the entropies at an inverse temperature with those at 1, for correct rows."""
    used = source.weight > 0
    if y is not None:
        used[used] = right_rows(source, y)
    if not used.any():
        return EntropyChange(0, np.nan, np.nan)
    weight = torch.from_numpy(source.weight[used] / source.weight[used].sum())
    rows = source.a[torch.from_numpy(used).to(source.a.device)]
    before, after = (_entropies(posteriors(rows, b).cpu(), weight) for b in (1.0, beta))
    return EntropyChange(len(rows), *(x - y for x, y in zip(after, before, strict=True)))


def _entropies(p: torch.Tensor, weight: torch.Tensor) -> tuple[float, float]:
    """Return the mean entropy, and the entropy of the mean."""
    mean_entropy, of_mean = weight @ torch.special.entr(p), torch.special.entr(weight @ p)
    return float(mean_entropy.sum()), float(of_mean.sum())


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
