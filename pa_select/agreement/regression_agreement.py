"""Agreement of two predictions of a number, whose posteriors are normal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pa_select.agreement.inputs.validation import as_floats, check_weight
from pa_select.utils.typing import Floats, Vector

# Two normal posteriors are the same if their predictions differ by rounding alone.
_ROUNDING = 1e-12
# A pair of weight 0 may be far away from all others: its term is that of this distance at most.
_LARGEST = 1e100


@dataclass(frozen=True, eq=False)
class RegressionAgreement:
    """What `regression_agreement` returns.

    Attributes
    ----------
    score : float
        The agreement, in nats per pair, at least 0; inf if all predictions agree.
    beta : float
        The inverse temperature of the maximum: the inverse variance of the posteriors, in the
        inverse squared unit of the predictions; inf if all predictions agree. Outside of the
        range of floating-point numbers it is 0 or inf.
    correlation : float
        Fisher's intraclass correlation of the two predictions, in [-1, 1]. It decides the score.
    standard_error : float
        Standard error of `score` over the pairs (delta method); 0 at a score of 0, where it is
        one-sided; nan if all predictions agree.
    terms : ndarray of shape (n_pairs,)
        What each pair adds; their weighted mean is `score`.
    n_pairs : int
        Number of pairs of positive weight.
    """

    score: float
    beta: float
    correlation: float
    standard_error: float
    terms: Floats
    n_pairs: int


def regression_agreement(
    predictions_a: Vector, predictions_b: Vector, *, sample_weight: Vector | None = None
) -> RegressionAgreement:
    r"""Compute the posterior agreement of two predictions of a number.

    The posterior of a pair's number is normal, with a prediction as its mean and the variance
    :math:`1/\beta`. The marginal one is normal, with the mean of all predictions and their
    variance plus :math:`1/\beta`. The kernel has then a closed form, and so has its maximum.

    Parameters
    ----------
    predictions_a, predictions_b : array-like of shape (n_pairs,)
        Predictions for both rows of each pair, in any unit, which is the same for both.
    sample_weight : array-like of shape (n_pairs,), default=None
        Weights of the pairs, not negative. None: all are 1.

    Returns
    -------
    RegressionAgreement
        Score in nats per pair, inverse temperature, standard error and terms.

    Raises
    ------
    TypeError
        If predictions are not real numbers.
    ValueError
        If the predictions are not of one shape (n_pairs,), not finite or none at all, or a weight
        is negative, or all are 0.

    See Also
    --------
    posterior_agreement : The agreement of classifiers.
    expected_score : The error that is expected of a regressor at another site.

    Notes
    -----
    With the intraclass correlation :math:`r > 0` of the two predictions ([2]_) the maximum is

    .. math:: -\tfrac12 \log(1 - r^2) \quad\text{at}\quad \beta = \frac{r}{(1 - r)\, s^2},

    where :math:`s^2` is the variance of all predictions. For :math:`r \le 0` it is 0, at
    :math:`\beta = 0`. A constant regressor has 0, since it is no information that its
    predictions agree.

    For jointly normal predictions with equal means and variances this is the mutual information
    of the two. A common difference, such as an offset or another gain of an instrument, lowers
    the agreement, but not the mutual information. Predictions of few values can exceed theirs.

    The paper names this agreement as future work ([1]_). :doc:`/theory` derives it.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       section 5 (continuous hypotheses).
    .. [2] R. A. Fisher, "Statistical Methods for Research Workers", 1925 (intraclass
       correlation).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from pa_select import regression_agreement
    >>> X, y = load_diabetes(return_X_y=True)
    >>> again = X + np.random.default_rng(0).normal(scale=0.02, size=X.shape)
    >>> regressor = Ridge(0.1).fit(X[:200], y[:200])
    >>> found = regression_agreement(regressor.predict(X[200:]), regressor.predict(again[200:]))
    >>> print(f"{found.score:.1f} nats, correlation {found.correlation:.2f}")
    1.2 nats, correlation 0.95
    """
    a, b = _checked(predictions_a, "predictions_a"), _checked(predictions_b, "predictions_b")
    if a.shape != b.shape:
        raise ValueError(
            f"predictions_b: expected the shape of predictions_a, {a.shape}, got {b.shape}."
        )
    n, weight = len(a), check_weight(sample_weight, len(a))
    weight, counted = weight / weight.sum(), weight > 0
    n_counted = int(counted.sum())
    # In units of a power of two no square overflows or underflows, and nothing is rounded.
    size = max(float(np.abs(x[counted]).max()) for x in (a, b))
    exponent = int(np.frexp(size)[1])
    with np.errstate(over="ignore"):
        a, b = (np.clip(np.ldexp(x, -exponent), -_LARGEST, _LARGEST) for x in (a, b))
    size = float(np.ldexp(size, -exponent))
    centre = weight @ (a + b) / 2
    squares = (np.square(a - centre) + np.square(b - centre)) / 2
    variance, differences = float(weight @ squares), np.square(a - b)
    if variance <= (_ROUNDING * size) ** 2:  # a constant
        return RegressionAgreement(0.0, 0.0, 0.0, 0.0, np.zeros(n), n_counted)
    distance = float(weight @ differences) / (2 * variance)  # 1 - r
    correlation = 1 - distance
    if correlation <= 0:
        # The maximum is at beta = 0, where all terms are 0.
        return RegressionAgreement(0.0, 0.0, correlation, 0.0, np.zeros(n), n_counted)
    if differences[counted].max() <= (_ROUNDING * size) ** 2:
        return RegressionAgreement(np.inf, np.inf, 1.0, np.nan, np.full(n, np.inf), n_counted)
    score = -np.log(distance * (2 - distance)) / 2
    together = np.square(a + b - 2 * centre)
    terms = score + correlation / (4 * variance) * (
        together / (1 + correlation) - differences / distance
    )
    # The variance of all predictions is known from the same pairs.
    influence = (distance * squares - differences / 2) / variance
    influence *= correlation / (distance * (1 + correlation))
    error = float(np.sqrt(np.square(weight * influence).sum() * n_counted / (n_counted - 1)))
    with np.errstate(over="ignore", under="ignore"):
        beta = float(np.ldexp(correlation / (distance * variance), -2 * exponent))
    return RegressionAgreement(float(score), beta, correlation, error, terms, n_counted)


def _checked(predictions: Vector, name: str) -> Floats:
    values = as_floats(predictions, name)
    if values.ndim != 1 or not len(values):
        raise ValueError(
            f"{name}: expected predictions of shape (n_pairs,), at least one, got shape "
            f"{values.shape}."
        )
    wrong = ~np.isfinite(values)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"{name}: expected finite predictions, got {values[row]} in row {row}.")
    return values
