"""Posterior agreement of paired scores: the public functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pa_select._arrays import n_axes
from pa_select._probabilities import look_like_probabilities
from pa_select.agreement import kernel as _kernel
from pa_select.agreement import notices as _notices
from pa_select.agreement import validation as _validation
from pa_select.agreement.arrays import as_labels, as_tensor, check_order, indexed
from pa_select.agreement.decomposition import Source
from pa_select.agreement.distributed import (
    Ranks,
    ShardedScores,
    joined,
    share,
    with_standard_errors,
)
from pa_select.agreement.inference import check_groups, standard_error
from pa_select.agreement.kernel import Floats
from pa_select.agreement.marginal import (
    ModelRuns,
    marginal_kernel,
)
from pa_select.agreement.result import PosteriorAgreement
from pa_select.agreement.solve import solve

# Scores of either sample that are solved at once: bounds the memory, not the result.
_SCORES_AT_ONCE = 1 << 21


def posterior_agreement(
    scores_a: Any,
    scores_b: Any,
    *,
    prior: Any = "uniform",
    sample_weight: Any = None,
    groups: Any = None,
    tol: float | None = None,
    certify: bool = True,
    device: Any = None,
    process_group: Any = None,
) -> Any:
    r"""Maximise the posterior agreement of paired scores over the inverse temperature.

    Each row of scores :math:`F` is read as the Gibbs posterior
    :math:`p(j) = \mathrm{softmax}(\beta F)_j`. The agreement of the two samples is the
    mean over pairs of :math:`\log \sum_j p'(j)\, p''(j) / \pi_j`, maximised over
    :math:`\beta \in [0, \infty]`.

    The kernel is not concave and may have several maxima. The maximum is global and
    certified: `upper_bound` bounds the kernel at every inverse temperature and lies at
    most `tol` above `score`.

    Parameters
    ----------
    scores_a, scores_b : array-like of shape (n_pairs, n_classes), or many of them
        Logits or log-probabilities (not probabilities) of the first and the second
        sample, row by row; numpy arrays, tensors, DataFrames or lists of any real type.
        An array of shape (n_problems, n_pairs, n_classes), or a list of matrices of
        different lengths, holds many problems, solved together. A score of -inf means
        probability 0 at every positive inverse temperature: one pair of disjoint
        posteriors then leaves only beta = 0.
    prior : {"uniform", "marginal"} or array-like of shape (n_classes,), default="uniform"
        The class prior :math:`\pi`. "uniform" is the papers' metric; a vector must be
        positive and sum to 1; "marginal" is the classes' mean posterior over both
        samples at each inverse temperature: constant posteriors then score 0.
    sample_weight : array-like of shape (n_pairs,), default=None
        Non-negative weights of the pairs; for many problems one such array for all, or a
        list of one for each.
    groups : array-like of shape (n_pairs,), default=None
        Which pairs share an object, a patient or a site for example; for many problems one
        such array for all. The standard error then allows for their dependence; nothing
        else changes.
    tol : float, default=None
        Largest certified gap, in nats per pair; at least 1e-12. None: 1e-6, with the
        marginal prior, whose bounds are of lower order, 1e-5.
    certify : bool, default=True
        False where only the value matters: a maximum is polished as usual, but bounds
        need only exclude that another one is higher by more than 0.001 nats. It saves
        a third of the work, and much more of a flat kernel's; `gap` is then nan.
    device : {None, "auto", "cpu", "cuda"} or torch.device, default=None
        Where to compute. None: where the scores are; "auto": on a GPU if there is one.
    process_group : torch.distributed.ProcessGroup or "world", default=None
        Processes that hold a shard of the rows of each problem each, and all call this
        function; "world" are all of them. A shard may be empty, of shape (0, n_classes).
        They exchange a few numbers for each evaluation and never the scores, and all get
        the same result, that of all rows; but `terms` and `source`, and with them
        `decompose`, `bootstrap` and `compare_agreement`, are of the rank's own rows.
        None: no communication.

    Returns
    -------
    PosteriorAgreement or list of PosteriorAgreement
        A list, in the order given, for many problems.

    Raises
    ------
    TypeError
        If scores, weights or a prior are no real numbers.
    ValueError
        If they have a wrong shape or value; the message names the argument, what was
        expected, what came and the first offending row. Where one rank of a process group
        fails, in whatever way, all raise an error that names it.
    RuntimeError
        If the bounds do not meet within `tol` after 1500 evaluations: a kernel that is flat
        over many decades, and a small `tol`. The message tells what was reached. Not with
        ``certify=False``.

    Warns
    -----
    UserWarning
        Once for all problems, if both samples of one have only rows of non-negative numbers
        that sum to 1, and not only zeros and ones: these look like probabilities, but are
        read as logits. And with the uniform prior if at least 95 % of the predictions of at
        least 20 pairs are of one class, since a constant classifier then has the highest
        possible score (not with a process group, whose ranks have a part of the pairs each).

    See Also
    --------
    log_probabilities : Scores of probabilities.
    pa_kernel : The kernel at given inverse temperatures.
    agreement_matrix : All pairs of several samples.

    Notes
    -----
    The sums are in float64 whatever the type of the scores. The standard error is that of
    a mean (for weights :math:`\sqrt{\sum w_i^2 (l_i - \bar l)^2} / \sum w_i` with the
    factor :math:`\sqrt{n / (n-1)}`), since the derivative in the inverse temperature
    vanishes at the maximum.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       section 3 (the metric). Its Theorem 3(3) claims that the kernel is concave; one
       pair with scores (1, 0) in both samples is a counterexample.
    .. [2] J. M. Buhmann, "Information theoretic model validation for clustering",
       ISIT 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select import posterior_agreement
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(500, 4))
    >>> result = posterior_agreement(logits, logits + rng.normal(size=(500, 4)))
    >>> print(f"{result.score:.3f} of {np.log(4):.3f} nats at beta = {result.beta:.2f}")
    1.005 of 1.386 nats at beta = 2.28
    >>> result.gap <= 1e-6
    True
    """
    found = agreements(
        scores_a,
        scores_b,
        prior=prior,
        sample_weight=sample_weight,
        groups=groups,
        tol=tol,
        certify=certify,
        device=device,
        process_group=process_group,
    )
    results = found if isinstance(found, list) else [found]
    _notices.warn_of_probabilities(
        [look_like_probabilities(*result.source[:2]) for result in results]
    )
    if isinstance(prior, str) and prior == "uniform" and process_group is None:
        _notices.warn_of_one_class(results)
    return found


def agreements(
    scores_a: Any,
    scores_b: Any,
    *,
    prior: Any = "uniform",
    sample_weight: Any = None,
    groups: Any = None,
    tol: float | None = None,
    certify: bool = True,
    device: Any = None,
    process_group: Any = None,
) -> Any:
    """Compute what `posterior_agreement` does, without its warnings about the scores."""
    with joined(process_group) as ranks:
        shard = ranks is not None
        if shard and groups is not None:
            raise ValueError(
                "groups: expected None with a process_group, since groups may cross shards."
            )
        tol = _validation.check_tol(tol, prior)
        many = _validation.is_batch(scores_a) or _validation.is_batch(scores_b)
        if many:
            problems = _validation.check_batch(scores_a, scores_b, shard=shard)
            # Only a list can hold what has an index.
            rows = [None] * len(problems)
            if isinstance(scores_a, (list, tuple)) or isinstance(scores_b, (list, tuple)):
                rows = list(map(indexed, scores_a, scores_b))
            weights = _batch_weights(sample_weight, [len(a) for a, _ in problems], rows, shard)
        else:
            problems = [_validation.check_pair(scores_a, scores_b, shard=shard)]
            rows = [indexed(scores_a, scores_b)]
            n = len(problems[0][0])
            weights = [_validation.check_weight(sample_weight, n, rows=rows[0], shard=shard)]
        results = _solve_by_classes(
            problems, weights, rows, groups, prior, tol, certify, device, ranks
        )
        return results if many else results[0]


def _batch_weights(
    sample_weight: Any, counts: list[int], rows: list[Any], shard: bool
) -> list[Floats]:
    if sample_weight is None:
        return [_validation.check_weight(None, n) for n in counts]
    if isinstance(sample_weight, (list, tuple)):
        one_for_each = any(w is None or n_axes(w) for w in sample_weight)
    else:
        one_for_each = n_axes(sample_weight) == 2
    if not one_for_each:
        if len(set(counts)) > 1:
            raise ValueError(
                "sample_weight: expected one array for each problem, since they have "
                "different numbers of pairs, got a single one."
            )
        for row in rows:
            check_order(sample_weight, row, "sample_weight")
        weight = _validation.check_weight(sample_weight, counts[0], shard=shard)
        return [weight] * len(counts)
    if not isinstance(sample_weight, (list, tuple)):
        sample_weight = as_tensor(sample_weight, "sample_weight")
    if len(sample_weight) != len(counts):
        raise ValueError(
            f"sample_weight: expected one array for each of {len(counts)} problems, got "
            f"{len(sample_weight)}."
        )
    return [
        _validation.check_weight(w, n, f"sample_weight[{i}]", rows=row, shard=shard)
        for i, (w, n, row) in enumerate(zip(sample_weight, counts, rows, strict=True))
    ]


def _solve_by_classes(
    problems: Sequence[Any],
    weights: Sequence[Floats],
    rows: Sequence[Any],
    groups: Any,
    prior: Any,
    tol: float,
    certify: bool,
    device: Any,
    ranks: Ranks | None = None,
) -> list[PosteriorAgreement]:
    """Solve together the problems that have the same number of classes."""
    results: list[Any] = [None] * len(problems)
    sources = list(zip(problems, weights, strict=True))
    totals = np.array([w.sum() for w in weights])
    used = np.array([np.count_nonzero(w) for w in weights])
    if ranks is not None:
        shard = share(ranks, problems, weights, prior=prior, tol=tol, certify=certify)
        problems, weights, totals, used, zeros = shard
    codes = [
        None if groups is None else check_groups(as_labels(groups, "groups", row), len(w))
        for row, w in zip(rows, weights, strict=True)
    ]
    n_classes = np.array([pair[0].shape[1] for pair in problems])
    same = {int(k): np.flatnonzero(n_classes == k).tolist() for k in np.unique(n_classes)}
    priors = {k: _validation.check_prior(prior, k) for k in same}
    # A batch is as large as centred scores are kept, or all that ranks have of it.
    largest = _SCORES_AT_ONCE if ranks is None else np.inf
    batches = [
        (k, batch)
        for k, group in same.items()
        for batch in _batches(group, [len(weights[i]) * k for i in group], largest)
    ]
    for k, group in batches:
        mine = [weights[i] for i in group]
        pairs = _validation.concatenate(
            [problems[i] for i in group], mine, device, totals[group].tolist()
        )
        if ranks is not None:
            pairs = ShardedScores.of(pairs, ranks, used[group], zeros)
        solved = solve(pairs, priors[k], tol, totals[group], used[group], group, certify=certify)
        for i, result in zip(group, solved, strict=True):
            (a, b), weight = sources[i]
            terms = result.terms[: len(weight)]
            error, objects = result.standard_error, codes[i]
            if objects is not None:
                error = standard_error(terms, weight / totals[i], (objects, objects))
            source = Source(a, b, weight, priors[k], getattr(rows[i], "index", None))
            results[i] = replace(result, terms=terms, source=source, standard_error=error)
    if ranks is not None:
        results = with_standard_errors(results, totals, used, ranks)
    return results


def _batches(group: list[int], sizes: list[int], largest: float) -> Iterator[list[int]]:
    """Cut a list into parts, each of one entry or of sizes that sum to at most the largest."""
    part: list[int] = []
    total = 0
    for i, size in zip(group, sizes, strict=True):
        if part and total + size > largest:
            yield part
            part, total = [], 0
        part.append(i)
        total += size
    yield part


def pa_kernel(
    scores_a: Any,
    scores_b: Any,
    beta: Any,
    *,
    prior: Any = "uniform",
    sample_weight: Any = None,
) -> Any:
    r"""Evaluate the normalised posterior agreement kernel at given inverse temperatures.

    Parameters
    ----------
    scores_a, scores_b : array-like of shape (n_pairs, n_classes)
        Logits or log-probabilities of the two samples, as in `posterior_agreement`.
    beta : float or array-like
        Inverse temperatures in [0, inf]. At 0 all posteriors are uniform; inf stands for
        the limit.
    prior : {"uniform", "marginal"} or array-like of shape (n_classes,), default="uniform"
        The class prior, as in `posterior_agreement`.
    sample_weight : array-like of shape (n_pairs,), default=None
        Non-negative weights of the pairs.

    Returns
    -------
    float or ndarray of the shape of `beta`
        Weighted mean over pairs of :math:`\log \sum_j p'(j)\, p''(j) / \pi_j`, in nats per
        pair; -inf where some pair's posteriors do not overlap.

    Raises
    ------
    TypeError, ValueError
        As `posterior_agreement`, and for a beta that is negative or nan.

    Warns
    -----
    UserWarning
        If the scores look like probabilities, as `posterior_agreement`.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       section 3 (the kernel, there without the normalisation by the prior).

    Examples
    --------
    The kernel of a single agreeing pair is convex at 0, not concave:

    >>> from pa_select import pa_kernel
    >>> pa_kernel([[1, 0]], [[1, 0]], [0, 1, 2]).round(4)
    array([0.    , 0.1936, 0.4574])
    """
    a, b = _validation.check_pair(scores_a, scores_b)
    _notices.warn_of_probabilities([look_like_probabilities(a, b)])
    rows = indexed(scores_a, scores_b)
    weight = _validation.check_weight(sample_weight, len(a), rows=rows)
    betas = _validation.check_beta(beta)
    checked = _validation.check_prior(prior, a.shape[1])
    pairs = _validation.concatenate([(a, b)], [weight], None)
    flat = betas.ravel()
    same_problem = np.zeros(len(flat), dtype=np.int64)
    if not len(flat):
        values = flat
    elif isinstance(checked, str):
        values = marginal_kernel(ModelRuns.one_model_each(pairs), flat, same_problem)
    else:
        log_weights, constant = _kernel.log_prior_weights(checked, pairs.n_classes)
        log_prior = np.broadcast_to(-log_weights - constant, (len(flat), pairs.n_classes))
        values = _kernel.mean_terms(pairs, flat, same_problem, log_prior)
    return float(values[0]) if betas.ndim == 0 else values.reshape(betas.shape)
