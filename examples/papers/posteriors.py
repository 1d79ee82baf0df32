"""What the thesis reads from posteriors: contributions, confidence, entropies and lengths.

The functions take a result of `pa_select.posterior_agreement`, whose ``posteriors`` they average.
Labels are the columns of the true classes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import entr, xlogy

from pa_select.agreement import PosteriorAgreement
from pa_select.utils.typing import Floats, Labels, Mask


class Part(NamedTuple):
    """Contribution of one group of pairs to an agreement, as `decompose` returns it.

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


def decompose(result: PosteriorAgreement, y: Labels | None = None) -> dict[str, Part]:
    """Split an agreement into the contributions of agreeing and of disagreeing pairs.

    Parameters
    ----------
    result : PosteriorAgreement
        A result of `pa_select.posterior_agreement`.
    y : array-like of shape (n_pairs,), default=None
        With labels, agreeing pairs are split into those that are right and those that are wrong.

    Returns
    -------
    dict of str to Part
        "agree_right", "agree_wrong" and "disagree"; without `y` "agree" and "disagree". The
        totals add up exactly to the weighted sum of the terms.

    References
    ----------
    .. [1] Master's thesis on posterior agreement, section 4.2 and appendix B (the approximated
       contributions, there zeta).

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select import posterior_agreement
    >>> from papers.posteriors import decompose
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 200)
    >>> logits = 2 * np.eye(3)[y] + rng.normal(size=(200, 3))
    >>> result = posterior_agreement(logits, logits + rng.normal(size=(200, 3)))
    >>> parts = decompose(result, y)
    >>> {name: (part.n_pairs, round(part.total, 1)) for name, part in parts.items()}
    {'agree_right': (143, 133.6), 'agree_wrong': (9, 4.9), 'disagree': (48, -10.8)}
    """
    doubt = [1 - p.max(1) for p in result.posteriors()]
    source: Any = result.source
    used = source.weight > 0
    weight = source.weight[used]
    groups = groups_of(result, y)
    by_formula = dict.fromkeys(groups, (math.nan, math.nan, math.nan))
    if y is not None:
        # The formula is that of the uniform prior; with others it has no value.
        n_classes = result.n_classes if source.prior.is_uniform else math.nan
        accuracy = float(np.average(right_rows(result, y), weights=weight))
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
            averages = [np.average(d[used][group], weights=weight[group]) for d in doubts]
            mean = float(np.mean(averages))
            overlap = mean if name == "disagree" else 1 - 2 * mean
            log_overlap = math.log(overlap) if overlap > 0 else math.nan
            approximate = n_by_rates * (log_overlap + math.log(n_classes))
            by_formula[name] = approximate, n_by_rates, mean
    weighted = weight * result.terms[used]
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
    result: PosteriorAgreement,
    y: Labels | None = None,
    *,
    beta: float | None = None,
    misled: bool = False,
) -> dict[str, Confidence]:
    """Average the posteriors of agreeing and of disagreeing pairs.

    Parameters
    ----------
    result, y
        As in `decompose`.
    beta : float, default=None
        The inverse temperature, in [0, inf]. None: that of the maximum. At 1 the posteriors are
        as trained.
    misled : bool, default=False
        Whether to use the thesis's groups, which need `y`: rows that the first sample gets
        right, rows that it gets wrong, and right rows whose prediction changes in the second
        sample. So "misled" is a part of "right".

    Returns
    -------
    dict of str to Confidence
        The groups of `decompose`, or with `misled` "right", "wrong" and "misled".

    References
    ----------
    .. [1] Master's thesis on posterior agreement, Table 4.2 and Figures 4.8 and 4.11.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select import posterior_agreement
    >>> from papers.posteriors import confidence
    >>> rng = np.random.default_rng(0)
    >>> logits = 5 * rng.normal(size=(200, 3))
    >>> result = posterior_agreement(logits, logits + 2 * rng.normal(size=(200, 3)))
    >>> trained, best = confidence(result, beta=1.0), confidence(result)
    >>> f"{best['agree'].entropy - trained['agree'].entropy:+.2f} nats"
    '-0.06 nats'
    """
    p, q = result.posteriors(beta)
    source: Any = result.source
    used = source.weight > 0
    tops, rows = predictions(result), np.arange(len(p))
    columns = p[rows, tops[0]], q[rows, tops[1]], q[rows, tops[0]], entr(p).sum(1)
    measured, weight = np.column_stack(columns)[used], source.weight[used]
    groups = groups_of(result, y)
    if misled:
        if y is None:
            raise ValueError("y: expected labels for the groups of misled=True, got None.")
        right = right_rows(result, y)
        groups = {"right": right, "wrong": ~right, "misled": right & groups["disagree"]}
    by_name = {}
    for name, group in groups.items():
        mean, error = _mean_and_error(measured[group], weight[group])
        first, second, kept, entropy = mean.tolist()
        errors = error.tolist()
        by_name[name] = Confidence(
            int(group.sum()), first, second, kept, entropy, (errors[0], errors[1], errors[2])
        )
    return by_name


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


def entropy_change(result: PosteriorAgreement, y: Labels | None = None) -> EntropyChange:
    r"""Compare the entropy of posteriors at the maximum with their entropy as trained, at 1.

    Parameters
    ----------
    result, y
        As in `decompose`. With `y` only the rows of the first sample that are classified
        correctly count, as in the thesis; without, all rows.

    Returns
    -------
    EntropyChange

    Notes
    -----
    The thesis reports :math:`\Delta H = H(\beta^*) - H(1)` "with the average posterior over
    correctly classified observations" [1]_, without the order of the classes in which it averages.
    In the order of the columns (`of_average`) the average over balanced classes stays close to
    uniform: its entropy says how balanced the predictions are, more than how certain, and may rise
    while every row becomes more certain. The thesis's values, down to -3.05 with 10 balanced
    classes, are beyond what this average can change in nats.

    References
    ----------
    .. [1] Master's thesis on posterior agreement, Table 4.2 and appendix B.1.2.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select import posterior_agreement
    >>> from papers.posteriors import entropy_change
    >>> rng = np.random.default_rng(0)
    >>> logits = 5 * rng.normal(size=(200, 3))
    >>> result = posterior_agreement(logits, logits + 2 * rng.normal(size=(200, 3)))
    >>> change = entropy_change(result)
    >>> print(f"{change.of_rows:+.2f} nats in the mean over {change.n_rows} rows")
    -0.07 nats in the mean over 200 rows
    """
    (before, _), (after, _) = result.posteriors(1.0), result.posteriors()
    source: Any = result.source
    used = source.weight > 0
    if y is not None:
        used[used] = right_rows(result, y)
    if not used.any():
        return EntropyChange(0, np.nan, np.nan)
    weight = source.weight[used] / source.weight[used].sum()
    (rows, average), (rows_before, average_before) = (
        (float(weight @ entr(p[used]).sum(1)), float(entr(weight @ p[used]).sum()))
        for p in (after, before)
    )
    return EntropyChange(int(used.sum()), rows - rows_before, average - average_before)


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


def generalization(result: PosteriorAgreement) -> Generalization:
    r"""Compute the generalisation error of the theory and the divergence from the prior.

    Parameters
    ----------
    result : PosteriorAgreement
        A result of `pa_select.posterior_agreement`. The marginal prior is the mean posterior, so
        that the divergence is that from uniform.

    Returns
    -------
    Generalization

    Notes
    -----
    With the posteriors :math:`p'` and :math:`p''` of a pair and the prior :math:`\pi` the
    generalisation error is the mean over pairs of :math:`\sum_j p'(j) \log(\pi_j / p''(j))`. By
    Jensen's inequality it is at least minus the agreement at every inverse temperature [1]_. The
    theory maximises the agreement under the condition that the divergence stays small; without it
    constant predictions are best. The marginal prior needs no such condition.

    References
    ----------
    .. [1] Master's thesis on posterior agreement, sections 2.3.2 and 2.3.3. Its Lemma 2.3.1,
       that the error is not negative, assumes independent samples. Pairs are not independent:
       if they have the same certain posteriors of K balanced classes, the error is -log(K).

    Examples
    --------
    A constant classifier agrees perfectly with itself, and the divergence shows it:

    >>> import numpy as np
    >>> from pa_select import posterior_agreement
    >>> from papers.posteriors import generalization
    >>> same_class = np.tile([5.0, 0, 0, 0], (10, 1))
    >>> constant = posterior_agreement(same_class, same_class)
    >>> error, divergence = generalization(constant)
    >>> print(f"{constant.score:.2f} {error:.2f} {divergence:.2f}")
    1.39 -1.39 1.39
    """
    p, q = result.posteriors()
    source: Any = result.source
    used = source.weight > 0
    p, q = p[used], q[used]
    weight = source.weight[used] / source.weight[used].sum()
    mean = weight @ (p + q) / 2
    uniform = np.full(len(mean), 1 / len(mean))
    fixed = uniform if source.prior.given is None else source.prior.given
    prior = mean if source.prior.is_marginal else fixed
    # A class without posterior in the first sample counts nothing, whatever the second says.
    with np.errstate(divide="ignore", invalid="ignore"):
        lengths = np.where(p > 0, p * (np.log(prior) - np.log(q)), 0.0)
    return Generalization(
        error=float(weight @ lengths.sum(1)),
        divergence=max(float(xlogy(mean, mean / fixed).sum()), 0.0),
    )


def predictions(result: PosteriorAgreement) -> list[Any]:
    """Return the predicted columns of the first and of the second sample, for all pairs."""
    source: Any = result.source
    return [x.argmax(1).cpu().numpy() for x in (source.a, source.b)]


def groups_of(result: PosteriorAgreement, y: Labels | None = None) -> dict[str, Mask]:
    """Return masks of the pairs of positive weight that agree, disagree, and are right.

    With labels, agreeing pairs are split by whether the first sample is right.
    """
    source: Any = result.source
    first, second = predictions(result)
    agree = (first == second)[source.weight > 0]
    if y is None:
        return {"agree": agree, "disagree": ~agree}
    right = right_rows(result, y)
    return {"agree_right": agree & right, "agree_wrong": agree & ~right, "disagree": ~agree}


def right_rows(result: PosteriorAgreement, y: Labels) -> Mask:
    """Return a mask of the pairs of positive weight whose first sample is right."""
    source: Any = result.source
    first, labels = predictions(result)[0], np.asarray(y)
    if labels.shape != first.shape or labels.dtype.kind not in "iu":
        raise ValueError(
            f"y: expected one column number for each of {len(first)} pairs, got shape "
            f"{labels.shape} and dtype {labels.dtype}."
        )
    right: Mask = (first == labels)[source.weight > 0]
    return right


def _mean_and_error(values: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Return weighted means of the columns and their standard errors."""
    n = len(values)
    if not n:
        return np.full(values.shape[1], np.nan), np.full(values.shape[1], np.nan)
    share = weight / weight.sum()
    mean: Floats = share @ values
    squares = ((share[:, None] * (values - mean)) ** 2).sum(0)
    return mean, np.sqrt(n / (n - 1) * squares) if n > 1 else np.full(len(mean), np.nan)
