"""Posterior agreement of paired scores, and its kernel."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from pa_select.agreement.inputs.problem import (
    check_one_problem,
    check_problem,
    check_problems,
    is_batch,
    warn_of_probabilities,
)
from pa_select.agreement.inputs.validation import check_beta, check_groups, is_raise
from pa_select.agreement.kernels import kernel_sums as _kernel
from pa_select.agreement.kernels.marginal_sums import ModelRuns, marginal_kernel
from pa_select.agreement.pairs.paired_scores import concatenate
from pa_select.agreement.result import NotAllSolvedError, PosteriorAgreement
from pa_select.agreement.solved_problems import solve_problems
from pa_select.utils.arrays import check_tol
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import (
    Device,
    ErrorScore,
    Groups,
    Matrix,
    Prior,
    Scores,
    Vector,
    Weights,
)

if TYPE_CHECKING:
    from pa_select.agreement.pairs.sharded_scores import Processes


def posterior_agreement(
    scores_a: Scores,
    scores_b: Scores,
    *,
    prior: Prior = "uniform",
    sample_weight: Weights | None = None,
    groups: Groups = None,
    tol: float = 1e-6,
    certify: bool = True,
    device: Device = None,
    process_group: object = None,
    error_score: ErrorScore = "raise",
    return_path: bool = False,
) -> Any:
    r"""Maximise the posterior agreement of paired scores over the inverse temperature.

    Each row of scores :math:`F` is read as the Gibbs posterior
    :math:`p(j) = \mathrm{softmax}(\beta F)_j`. The agreement of the two samples is the
    mean over pairs of :math:`\log \sum_j p'(j)\, p''(j) / \pi_j`, maximised over
    :math:`\beta \in [0, \infty]`.

    The kernel is not concave and may have several maxima. The maximum is global and
    certified: `upper_bound` bounds the kernel at every inverse temperature and is at most
    `tol` above `score`.

    Parameters
    ----------
    scores_a, scores_b : array-like of shape (n_pairs, n_classes), or many of them
        Logits or log-probabilities (not probabilities) of the first and the second
        sample, row by row; numpy arrays, tensors, DataFrames or lists of any real type.
        An array of shape (n_problems, n_pairs, n_classes), or a list of matrices of
        different lengths, holds many problems, which are solved together. A score of -inf
        means probability 0 at every positive inverse temperature. If the posteriors of one
        pair are then disjoint, the maximum is at beta = 0.
    prior : {"uniform", "marginal"} or array-like of shape (n_classes,), default="uniform"
        The class prior :math:`\pi`. "uniform" is the papers' metric. A vector must be
        positive and sum to 1. "marginal" is the mean posterior of each class over both
        samples, at each inverse temperature: constant posteriors then score 0.
    sample_weight : array-like of shape (n_pairs,), default=None
        Non-negative weights of the pairs; for many problems one such array for all, or a
        list with one array for each.
    groups : array-like of shape (n_pairs,), default=None
        The group of each pair, for example its patient or its site; for many problems one
        such array for all. The standard error does not assume that pairs of one group are
        independent; nothing else changes.
    tol : float, default=1e-6
        Largest certified gap, in nats per pair; at least 1e-12.
    certify : bool, default=True
        False: the maximum is polished as usual, but the bounds only exclude another
        maximum that is higher by more than 0.001 nats: `gap` is at most that. This saves a tenth
        of the work, and much more if the kernel is flat.
    device : {None, "auto", "cpu", "cuda"} or torch.device, default=None
        Where to compute. None: where the scores are; "auto": on a GPU if there is one.
    process_group : torch.distributed.ProcessGroup or "world", default=None
        Processes that all call this function, each with a shard of the rows of each
        problem; "world" stands for all processes. A shard may be empty, of shape
        (0, n_classes). The processes exchange a few numbers for each evaluation and never
        the scores. All get the same result for all rows, except that `terms` and `source`
        have the rank's own rows only, which `posteriors`, `confidence_interval`
        and `compare_agreement` then use. None: no communication.
    error_score : "raise" or nan, default="raise"
        How to treat a problem whose scores are wrong, or whose agreement cannot be
        certified. "raise": an error. nan: a warning, and for this problem a result whose
        numbers are nan and whose ``failure`` has the reason; other problems are unaffected.
        Wrong weights, priors and other arguments always raise an error.
    return_path : bool, default=False
        Whether to keep the points that were evaluated, in ``path`` of the result: the inverse
        temperatures in their order, and the kernel.

    Returns
    -------
    PosteriorAgreement or list of PosteriorAgreement
        A list, in the order given, for many problems.

    Raises
    ------
    TypeError
        If scores, weights or a prior are not real numbers.
    ValueError
        If they have a wrong shape or value; the message names the argument, what was
        expected, what was found and the first wrong row. If one rank of a process group
        fails for any reason, all ranks raise an error that names it.
    RuntimeError
        If the gap is larger than `tol` after 1500 evaluations, which may happen with a
        kernel that is flat over many decades and a small `tol`. The message has the gap
        reached. Not raised with ``certify=False``. The other problems of a list are solved
        first, and the error's attribute ``results`` has all results, as with
        ``error_score=nan``.

    Warns
    -----
    UserWarning
        Once for all problems, if the scores of a problem look like probabilities (rows of
        non-negative numbers that sum to 1, not all of them zeros and ones): they are read as
        logits. With ``error_score=nan``, if a problem has no agreement.

    See Also
    --------
    log_probabilities : Converts probabilities to scores.
    pa_kernel : The kernel at given inverse temperatures.

    Notes
    -----
    Sums over pairs are in float64 for scores of any type. The standard error is the standard
    error of a mean (for weights :math:`\sqrt{\sum w_i^2 (l_i - \bar l)^2} / \sum w_i` with
    the factor :math:`\sqrt{n / (n-1)}`), since the derivative with respect to the inverse
    temperature vanishes at the maximum.

    Scores tie if they differ from the largest of their row by no more than about 1e-14 of
    its size in float64, or 1e-6 in float32, so that rounding alone does not decide between
    classes. docs/certificate.rst has the rule, and bounds its effect.

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
    output = agreements(
        scores_a,
        scores_b,
        prior=prior,
        sample_weight=sample_weight,
        groups=groups,
        tol=tol,
        certify=certify,
        device=device,
        process_group=process_group,
        error_score=error_score,
        return_path=return_path,
    )
    everything = output if isinstance(output, list) else [output]
    results = [result for result in everything if result.failure is None]
    failed = [(i, r.failure) for i, r in enumerate(everything) if r.failure is not None]
    if failed:
        warn_caller(
            f"{len(failed)} of {len(everything)} problems have no agreement, and their results "
            f"are nan. The first, problem {failed[0][0]}: {failed[0][1]}"
        )
    warn_of_probabilities([result.source for result in results])
    return output


def agreements(
    scores_a: Scores,
    scores_b: Scores,
    *,
    prior: Prior = "uniform",
    sample_weight: Weights | None = None,
    groups: Groups = None,
    tol: float = 1e-6,
    certify: bool = True,
    device: Device = None,
    process_group: object = None,
    error_score: ErrorScore = "raise",
    return_path: bool = False,
) -> Any:
    """Compute what `posterior_agreement` does, without its warnings about the scores."""
    isolate, shared = not is_raise(error_score), process_group is not None
    if shared and isolate:
        raise ValueError("error_score: expected 'raise' with a process_group, got nan.")
    with _joined(process_group) if shared else nullcontext() as processes:
        if shared and groups is not None:
            raise ValueError(
                "groups: expected None with a process_group, since groups may cross shards."
            )
        tol = check_tol(tol)
        many = is_batch(scores_a) or is_batch(scores_b)
        failures: dict[int, str] | None = {} if isolate else None
        check = check_problems if many else check_one_problem
        known = check(scores_a, scores_b, sample_weight, prior, shard=shared, failures=failures)
        problems = list(known.values())
        codes = [
            None if groups is None else check_groups(groups, len(problem.weight), problem)
            for problem in problems
        ]
        shard = None
        if processes is not None:
            from pa_select.agreement.pairs.sharded_scores import share

            shard = share(processes, problems, prior=prior, tol=tol, certify=certify)
        solved = solve_problems(
            problems,
            tol,
            certify=certify,
            device=device,
            groups=codes,
            shard=shard,
            names=list(known),
            isolate=isolate or (many and not shared),
            return_path=return_path,
        )
        results = dict(zip(known, solved, strict=True))
        results |= {i: PosteriorAgreement.failed(e) for i, e in (failures or {}).items()}
        ordered = [results[i] for i in sorted(results)]
        reasons = [result.failure for result in ordered if result.failure is not None]
        if reasons and not isolate:
            raise NotAllSolvedError(reasons[0], ordered)
        return ordered if many else ordered[0]


def _joined(process_group: object) -> AbstractContextManager[Processes]:
    from pa_select.agreement.pairs.sharded_scores import joined

    return joined(process_group)


def pa_kernel(
    scores_a: Matrix,
    scores_b: Matrix,
    beta: float | Vector,
    *,
    prior: Prior = "uniform",
    sample_weight: Weights | None = None,
) -> Any:
    r"""Evaluate the normalised posterior agreement kernel at given inverse temperatures.

    Parameters
    ----------
    scores_a, scores_b : array-like of shape (n_pairs, n_classes)
        Logits or log-probabilities of the two samples, as in `posterior_agreement`.
    beta : float or array-like
        Inverse temperatures in [0, inf]. At 0 all posteriors are uniform; inf means the
        limit.
    prior : {"uniform", "marginal"} or array-like of shape (n_classes,), default="uniform"
        The class prior, as in `posterior_agreement`.
    sample_weight : array-like of shape (n_pairs,), default=None
        Non-negative weights of the pairs.

    Returns
    -------
    float or ndarray of the shape of `beta`
        Weighted mean over pairs of :math:`\log \sum_j p'(j)\, p''(j) / \pi_j`, in nats per
        pair; -inf if the posteriors of some pair do not overlap.

    Raises
    ------
    TypeError, ValueError
        As `posterior_agreement`; also if a beta is negative or nan.

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
    problem = check_problem(scores_a, scores_b, sample_weight, prior)
    warn_of_probabilities([problem])
    betas = check_beta(beta)
    pairs = concatenate([problem])
    flat = betas.ravel()
    same_problem = np.zeros(len(flat), dtype=np.int64)
    if not len(flat):
        values = flat
    elif problem.prior.is_marginal:
        values = marginal_kernel(ModelRuns.one_model_each(pairs), flat, same_problem)
    else:
        k, fixed = pairs.n_classes, problem.prior
        log_prior = np.broadcast_to(-fixed.log_weights(k) - fixed.constant(k), (len(flat), k))
        values = _kernel.mean_terms(pairs, flat, same_problem, log_prior)
    return float(values[0]) if betas.ndim == 0 else values.reshape(betas.shape)
