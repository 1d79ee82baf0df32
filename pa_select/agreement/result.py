"""The result of `posterior_agreement`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from pa_select.agreement.inputs.problem import Problem
from pa_select.agreement.inputs.validation import CheckedPrior, check_beta
from pa_select.agreement.posteriors import (
    Confidence,
    EntropyChange,
    Generalization,
    Part,
    confidence,
    decompose,
    entropy_change,
    generalization,
)
from pa_select.utils.typing import Floats, Labels


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
        The scores, weights and prior that were given (not copied), for the bootstrap and
        the decomposition.
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

    def decompose(self, y: Labels | None = None) -> dict[str, Part]:
        """Split the agreement into the contributions of agreeing and of disagreeing pairs.

        Parameters
        ----------
        y : array-like of shape (n_pairs,), default=None
            The columns of the true classes. With `y`, agreeing pairs are split into those
            that are right and those that are wrong.

        Returns
        -------
        dict of str to Part
            "agree_right", "agree_wrong" and "disagree"; without `y` "agree" and
            "disagree". The totals add up exactly to the weighted sum of `terms`.

        Raises
        ------
        TypeError, ValueError
            If `y` does not fit, or `source` is None.

        References
        ----------
        .. [1] Master's thesis on posterior agreement, section 4.2 and appendix B (the
           approximated contributions, there zeta).

        Examples
        --------
        >>> import numpy as np
        >>> from pa_select import posterior_agreement
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 3, 200)
        >>> logits = 2 * np.eye(3)[y] + rng.normal(size=(200, 3))
        >>> result = posterior_agreement(logits, logits + rng.normal(size=(200, 3)))
        >>> parts = result.decompose(y)
        >>> {name: (part.n_pairs, round(part.total, 1)) for name, part in parts.items()}
        {'agree_right': (143, 133.6), 'agree_wrong': (9, 4.9), 'disagree': (48, -10.8)}
        """
        return decompose(source_of(self), self.terms, self.beta, y)

    def confidence(
        self, y: Labels | None = None, *, beta: float | None = None, misled: bool = False
    ) -> dict[str, Confidence]:
        """Average the posteriors of agreeing and of disagreeing pairs.

        Parameters
        ----------
        y : array-like of shape (n_pairs,), default=None
            The columns of the true classes, as in `decompose`.
        beta : float, default=None
            The inverse temperature, in [0, inf]. None: `self.beta`, where the maximum is. At 1
            the posteriors are as trained; the thesis reports the difference of the entropies at
            the maximum and at 1.
        misled : bool, default=False
            Whether to use the thesis's groups, which need `y`: rows that the first sample gets
            right, rows that it gets wrong, and right rows whose prediction changes in the second
            sample. So "misled" is a part of "right".

        Returns
        -------
        dict of str to Confidence
            The groups of `decompose`, or with `misled` "right", "wrong" and "misled".

        Raises
        ------
        TypeError, ValueError
            If an argument does not fit, or `source` is None.

        References
        ----------
        .. [1] Master's thesis on posterior agreement, Table 4.2 and Figures 4.8 and 4.11.

        Examples
        --------
        >>> import numpy as np
        >>> from pa_select import posterior_agreement
        >>> rng = np.random.default_rng(0)
        >>> logits = 5 * rng.normal(size=(200, 3))
        >>> result = posterior_agreement(logits, logits + 2 * rng.normal(size=(200, 3)))
        >>> trained, best = result.confidence(beta=1.0), result.confidence()
        >>> f"{best['agree'].entropy - trained['agree'].entropy:+.2f} nats"
        '-0.06 nats'
        """
        at = self.beta if beta is None else float(check_beta(beta))
        return confidence(source_of(self), at, y, misled)

    def entropy_change(self, y: Labels | None = None) -> EntropyChange:
        r"""Compare the entropy of posteriors at `beta` with their entropy as trained, at 1.

        Parameters
        ----------
        y : array-like of shape (n_pairs,), default=None
            The columns of the true classes. With `y` only the rows of the first sample that
            are classified correctly count, as in the thesis; without, all rows.

        Returns
        -------
        EntropyChange

        Raises
        ------
        TypeError, ValueError
            If `y` does not fit, or `source` is None.

        Notes
        -----
        The thesis reports :math:`\Delta H = H(\beta^*) - H(1)` "with the average posterior
        over correctly classified observations" [1]_, without the order of the classes in which
        it averages. In the order of the columns (`of_average`) the average over balanced classes
        stays close to uniform: its entropy says how balanced the predictions are, more than how
        certain, and may rise while every row becomes more certain. The thesis's values, down to
        -3.05 with 10 balanced classes, are beyond what this average can change in nats.

        References
        ----------
        .. [1] Master's thesis on posterior agreement, Table 4.2 and appendix B.1.2.

        Examples
        --------
        >>> import numpy as np
        >>> from pa_select import posterior_agreement
        >>> rng = np.random.default_rng(0)
        >>> logits = 5 * rng.normal(size=(200, 3))
        >>> result = posterior_agreement(logits, logits + 2 * rng.normal(size=(200, 3)))
        >>> change = result.entropy_change()
        >>> print(f"{change.of_rows:+.2f} nats in the mean over {change.n_rows} rows")
        -0.07 nats in the mean over 200 rows
        """
        return entropy_change(source_of(self), self.beta, y)

    def generalization(self) -> Generalization:
        r"""Compute the generalisation error of the theory and the divergence from the prior.

        Returns
        -------
        Generalization
            ``error`` and ``divergence`` at `beta`, in nats per pair.

        Raises
        ------
        ValueError
            If `source` is None.

        Notes
        -----
        With the posteriors :math:`p'` and :math:`p''` of a pair and the prior :math:`\pi` the
        generalisation error is the mean over pairs of
        :math:`\sum_j p'(j) \log(\pi_j / p''(j))`. By Jensen's inequality it is at least minus
        the agreement at every inverse temperature [1]_. The theory maximises the agreement under
        the condition that the divergence stays small; without it constant predictions are best.
        The marginal prior needs no such condition.

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
        >>> same_class = np.tile([5.0, 0, 0, 0], (10, 1))
        >>> constant = posterior_agreement(same_class, same_class)
        >>> error, divergence = constant.generalization()
        >>> print(f"{constant.score:.2f} {error:.2f} {divergence:.2f}")
        1.39 -1.39 1.39
        """
        return generalization(source_of(self), self.beta)


def source_of(result: object, name: str = "result") -> Problem:
    """Return the source of a result, or raise an error that names the argument."""
    if not isinstance(result, PosteriorAgreement):
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
