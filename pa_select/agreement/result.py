"""The result of `posterior_agreement`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch

from pa_select.agreement.inputs.problem import Problem
from pa_select.agreement.inputs.validation import CheckedPrior, check_beta
from pa_select.utils.typing import Floats


@dataclass(frozen=True, eq=False)
class SolverPath:
    """The points that the search for a maximum evaluated, in their order.

    `posterior_agreement` returns it with ``return_path=True``, as ``path`` of the result.

    Attributes
    ----------
    beta : ndarray of shape (n_points,)
        The inverse temperatures. 0 stands for the limit from above.
    kernel : ndarray of shape (n_points,)
        The normalised kernel at `beta`, in nats per pair.
    error : ndarray of shape (n_points,)
        By how much a value of `kernel` may be wrong: 0, but for points that were evaluated in
        single precision, as large problems are far from their maximum.

    Notes
    -----
    The limits at 0 and infinity are known before. If nothing can exceed them, for example because
    all pairs agree, there are no points. ``pandas.DataFrame(vars(path))`` has a
    row for each point.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select import posterior_agreement
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(500, 4))
    >>> noisy = logits + rng.normal(size=(500, 4))
    >>> path = posterior_agreement(logits, noisy, return_path=True).path
    >>> best = path.kernel.argmax()
    >>> print(f"{path.kernel[best]:.3f} nats at beta = {path.beta[best]:.2f}")
    1.005 nats at beta = 2.28
    """

    beta: Floats
    kernel: Floats
    error: Floats

    def __repr__(self) -> str:
        return f"SolverPath({len(self.beta)} points)"


@dataclass(frozen=True, eq=False)
class PosteriorAgreement:
    """Posterior agreement of one set of pairs, as `posterior_agreement` returns it.

    Attributes
    ----------
    score : float
        The normalised kernel at its maximum over the inverse temperature, in nats per
        pair; with the uniform prior in [0, log(n_classes)].
    beta : float
        The inverse temperature of the maximum, in [0, inf]. 0: the posteriors agree best if
        all are uniform. inf: the score is the limit of certain posteriors.
    log_kernel : float
        Weighted sum over pairs of the log of the posteriors' overlap at `beta`, the kernel
        as the thesis reports it. In nats, at most 0, and with the uniform prior at least
        ``-sum(weights) * log(n_classes)``.
    upper_bound : float
        Upper bound of the kernel at every inverse temperature.
    gap : float
        ``upper_bound - score``, at most `tol`. With ``certify=False`` at most the larger of
        `tol` and 0.001, unless a ConvergenceWarning was given.
    n_pairs : int
        Number of pairs of positive weight.
    n_classes : int
        Number of classes.
    agreement_rate : float
        Weighted share of pairs whose predicted classes agree. A tie counts as a random
        choice among its classes.
    standard_error : float
        Standard error of `score` in nats, to first order at the maximum; nan for one pair.
        One-sided if `beta` is 0 or inf, and too small if few pairs disagree: see
        `confidence_interval`.
    terms : ndarray of shape (n_pairs,)
        The normalised kernel of every pair at `beta`, in nats, in the order of the rows
        (pairs of weight 0 included). `score` is the weighted mean of the terms.
    n_evaluations : int
        Number of inverse temperatures at which all pairs were evaluated.
    source : Problem or None
        The scores, weights and prior that were given (not copied), for `posteriors`,
        `confidence_interval` and `compare_agreement`.
    failure : str or None
        Why there is no agreement; then all numbers but `n_classes` are nan or 0. None
        everywhere else. See `error_score` of `posterior_agreement`.
    path : SolverPath or None
        The points that were evaluated, with `return_path` of `posterior_agreement`.
    """

    score: float
    beta: float
    log_kernel: float
    upper_bound: float
    gap: float
    n_pairs: int
    n_classes: int
    agreement_rate: float
    standard_error: float
    terms: Floats = field(repr=False)
    n_evaluations: int
    source: Problem | None = field(default=None, repr=False)
    failure: str | None = None
    path: SolverPath | None = field(default=None, repr=False)

    @classmethod
    def failed(
        cls, reason: str, n_classes: int = 0, n_pairs: int = 0, n_evaluations: int = 0
    ) -> PosteriorAgreement:
        """Make the result of a problem that has no agreement, for this reason."""
        unknown = math.nan
        return cls(
            score=unknown,
            beta=unknown,
            log_kernel=unknown,
            upper_bound=unknown,
            gap=unknown,
            n_pairs=0,
            n_classes=n_classes,
            agreement_rate=unknown,
            standard_error=unknown,
            terms=np.full(n_pairs, unknown),
            n_evaluations=n_evaluations,
            failure=reason,
        )

    def __repr__(self) -> str:
        if self.failure is not None:
            return f"PosteriorAgreement(score=nan, failure={self.failure!r})"
        prior = CheckedPrior() if self.source is None else self.source.prior
        most = prior.largest_score(self.n_classes)
        return (
            f"PosteriorAgreement(score={self.score:.6g} nats per pair (certified to "
            f"{self.gap:.1g}; largest possible {most:.6g}), beta={self.beta:.6g}, "
            f"standard_error={self.standard_error:.2g}, "
            f"agreement_rate={self.agreement_rate:.4g}, n_pairs={self.n_pairs}, "
            f"n_classes={self.n_classes}, n_evaluations={self.n_evaluations})"
        )

    def posteriors(self, beta: float | None = None) -> tuple[Floats, Floats]:
        """Return the posteriors of both samples at an inverse temperature.

        Parameters
        ----------
        beta : float, default=None
            The inverse temperature, in [0, inf]. None: `self.beta`, where the maximum is. At 1
            the posteriors are as trained; at inf the classes with the largest score share 1.

        Returns
        -------
        first, second : ndarray of shape (n_pairs, n_classes)
            In the order of the rows.

        Raises
        ------
        ValueError
            If `beta` is negative or nan, or `source` is None.

        Examples
        --------
        How certain is a classifier, as trained and where the samples agree best?

        >>> import numpy as np
        >>> from pa_select import posterior_agreement
        >>> rng = np.random.default_rng(0)
        >>> logits = 5 * rng.normal(size=(200, 3))
        >>> result = posterior_agreement(logits, logits + 2 * rng.normal(size=(200, 3)))
        >>> for beta in (1.0, None):
        ...     first, second = result.posteriors(beta)
        ...     print(f"{first.max(axis=1).mean():.2f} {second.max(axis=1).mean():.2f}")
        0.90 0.89
        0.93 0.91
        """
        source = source_of(self)
        at = self.beta if beta is None else float(check_beta(beta))
        first, second = (posteriors_at(x, at).cpu().numpy() for x in (source.a, source.b))
        return first, second


def posteriors_at(scores: torch.Tensor, beta: float) -> torch.Tensor:
    """Return posteriors at an inverse temperature; at inf the top classes share 1."""
    below = scores.double() - scores.double().amax(1, keepdim=True)
    if beta == np.inf:
        tied = (below == 0).double()
        return tied / tied.sum(1, keepdim=True)
    # A score of -inf has probability 0 at every positive inverse temperature.
    tempered = torch.zeros_like(below) if beta == 0 else beta * below
    return torch.softmax(tempered, 1)


def source_of(result: PosteriorAgreement, name: str = "result") -> Problem:
    """Return the source of a result, or raise an error that names the argument."""
    if not hasattr(result, "failure"):
        raise TypeError(
            f"{name}: expected a result of posterior_agreement, got {type(result).__name__}."
        )
    if result.failure is not None:
        raise ValueError(f"{name}: expected an agreement, got a failure: {result.failure}")
    if result.source is None:
        raise ValueError(
            f"{name}: expected a result of posterior_agreement, which keeps its scores, got one "
            "without scores (from a search, a matrix or a callback)."
        )
    return result.source


class NotAllSolvedError(RuntimeError):
    """Some of many problems could not be solved.

    Attributes
    ----------
    results : list of PosteriorAgreement
        The results of all problems; those that were not solved have a ``failure``.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select import posterior_agreement
    >>> from pa_select.agreement import NotAllSolvedError
    >>> clear = np.eye(4)
    >>> rows, columns = [[0, 0, -1, -1]], [[0, -1, 0, -1]]  # the same at every temperature
    >>> try:
    ...     posterior_agreement([clear, rows], [clear, columns], tol=1e-12)
    ... except NotAllSolvedError as error:
    ...     results = error.results
    >>> [result.failure is None for result in results]
    [True, False]
    """

    def __init__(self, message: str, results: list[PosteriorAgreement]) -> None:
        super().__init__(message, results)
        self.results = results

    def __str__(self) -> str:
        return str(self.args[0])
