"""What to expect at a site that has not been seen, from the scores at the sites that have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pa_select.utils.arrays import as_numbers, check_level
from pa_select.utils.frames import look_up, shares_index
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Floats, Vector

#: Two sites have one difference between them, whose size says nothing of a third site.
FEWEST_SITES = 3
# The weights of the sites are those of the variance that they yield, after so many rounds.
_ROUNDS = 10


class Scale(NamedTuple):
    """The scale on which scores of sites vary alike: it has no end where the scores have one."""

    low: float
    high: float

    def to_line(self, scores: Floats) -> Floats:
        """Map scores between the bounds to real numbers: logits, logs, or what they are."""
        if self.is_rate:
            return np.log(scores - self.low) - np.log(self.high - scores)
        if math.isfinite(self.low):
            return np.log(scores - self.low)
        return -np.log(self.high - scores) if math.isfinite(self.high) else scores

    def to_scores(self, values: Floats) -> Floats:
        """Map the real numbers back to scores."""
        if self.is_rate:
            # Imported here: scipy would slow the command line.
            from scipy.special import expit

            share: Floats = expit(values)
            return self.low + (self.high - self.low) * share
        with np.errstate(over="ignore"):  # few sites that differ much say nothing of one end
            if math.isfinite(self.low):
                return self.low + np.exp(values)
            return self.high - np.exp(-values) if math.isfinite(self.high) else values

    @property
    def is_rate(self) -> bool:
        """Whether scores have both ends, as shares of rows have."""
        return math.isfinite(self.low) and math.isfinite(self.high)


def new_site_interval(
    scores: Vector | Sequence[Any],
    sizes: Vector | None = None,
    *,
    bounds: tuple[float, float] = (0, 1),
    confidence_level: float = 0.95,
) -> tuple[float, float]:
    r"""Compute an interval for the score at a new site from the scores at several others.

    The sites may be hospitals, instruments, years or persons, and the scores those of a model that
    has not seen the site, as ``cross_validate`` with ``LeaveOneGroupOut`` returns them.

    Parameters
    ----------
    scores : array-like of shape (n_sites,), or list of ExpectedScore
        The score at each of at least three sites, or what `expected_score` returned for one model
        at each of them. Their numbers of pairs are then the `sizes` of rates, unless you give
        others.
    sizes : array-like of shape (n_sites,), default=None
        The number of rows that each score was measured on. A site of few rows then counts less.
        They need two finite `bounds`. A Series is looked up by the index of a Series of `scores`.
    bounds : tuple of two floats, default=(0, 1)
        The lowest and the highest score that are possible. The default fits accuracies, areas
        under curves and other shares; ``(0, inf)`` fits errors, ``(-inf, 0)`` their negatives,
        ``(-inf, 1)`` the R2, and ``(-inf, inf)`` scores without bounds.
    confidence_level : float, default=0.95
        Level of the interval, in (0, 1).

    Returns
    -------
    low, high : float
        Where the score at a new site is expected, within the bounds.

    Raises
    ------
    TypeError, ValueError
        If an argument does not fit, or there are fewer than three sites.

    Warns
    -----
    UserWarning
        If all scores are equal and no sizes are given: the interval then has no width.

    See Also
    --------
    PASearchCV : Has this interval for each candidate, if its splits hold out whole sites.
    confidence_interval : The interval of an agreement, over pairs.

    Notes
    -----
    If the sites are drawn from a population whose scores are normal after a transformation, the
    score at the next one is in

    .. math:: m \pm t_{k-1}\, s\, \sqrt{1 + 1/k}

    with the mean m and the standard deviation s of k sites, and the quantile t of Student's
    distribution [1]_. Unlike the standard error of the mean it does not fall to zero with more
    sites. The transformation is the logit between two bounds, and the logarithm of the distance
    to a single one.

    With `sizes` half a row is added to each side of a rate, which keeps logits finite, and each
    site has the weight w = 1 / (s^2 + v), where s^2 is the weighted variance over the sites and v
    the binomial variance of the site's logit at the mean rate of all rows. k is then the
    effective number of sites, (sum w)^2 / sum w^2. The binomial variance is not subtracted from
    s^2: such intervals held too few of the new sites. The interval is at least as wide as that of
    the rate of all rows, and it reaches a bound if a site does with at least half of the largest
    weight.

    Without `sizes` the logit of a score at a bound is unknown. The interval of such scores is not
    transformed, but cut at the bounds. :doc:`/environments` has what these intervals held.

    The sites must be like the next one. If they drift, as years do, the next one may be outside;
    and if the model is the best of many at these sites, it may be lower.

    References
    ----------
    .. [1] J. P. T. Higgins, S. G. Thompson, D. J. Spiegelhalter, "A re-evaluation of
       random-effects meta-analysis", Journal of the Royal Statistical Society A 2009.

    Examples
    --------
    >>> from pa_select import new_site_interval
    >>> low, high = new_site_interval([0.85, 0.91, 0.78, 0.88], sizes=[120, 45, 200, 80])
    >>> print(f"at a new site {low:.2f} to {high:.2f}")
    at a new site 0.56 to 0.96

    Nobody has labelled rows of three other sites, but thirty objects were measured at each:

    >>> import numpy as np
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.utils import shuffle
    >>> from pa_select import expected_score
    >>> X, y = shuffle(*load_wine(return_X_y=True), random_state=0)
    >>> model, pairs = GaussianNB().fit(X[:70], y[:70]), X[148:]
    >>> sites = [pairs * np.linspace(1, gain, 13) for gain in (1.03, 1.06, 1.1)]
    >>> found = [expected_score(model, pairs, site, X[70:148], y[70:148]) for site in sites]
    >>> low, high = new_site_interval(found)
    >>> low < min(one.score for one in found) < high
    True
    """
    check_level(confidence_level)
    scale = _check_bounds(bounds)
    # Results are known by an attribute that no other result has, such as an agreement: their
    # class is in a room above this one.
    if isinstance(scores, (list, tuple)) and all(
        hasattr(one, "validation_score") for one in scores
    ):
        if sizes is None and scale.is_rate:
            sizes = [one.n_pairs for one in scores]
        scores = [one.score for one in scores]
    given = _check_numbers(scores, "scores")
    if len(given) < FEWEST_SITES:
        raise ValueError(
            f"scores: expected those of at least {FEWEST_SITES} sites, got {len(given)}: two do "
            "not tell how much sites differ, so three are needed."
        )
    outside = (given < scale.low) | (given > scale.high)
    if outside.any():
        errors = "(-numpy.inf, 0)" if (given <= 0).all() else "(0, numpy.inf)"
        raise ValueError(
            f"scores: expected scores between the bounds {scale.low:g} and {scale.high:g}, got "
            f"{given[outside][0]:g}; give the bounds of this metric, such as "
            f"bounds={errors} for errors, and for these no sizes."
        )
    if shares_index(sizes, scores):
        sizes = look_up(sizes, scores, "sizes", "scores")
    rows = None if sizes is None else _check_sizes(sizes, len(given), scale)
    low, high = interval_of_new_site(given[None], rows, scale, confidence_level)
    if rows is None and (given == given[0]).all():
        advice = " Give the sizes of the sites." if scale.is_rate else ""
        warn_caller(
            f"scores: expected scores that differ, got {given[0]:g} at all {len(given)} sites: "
            f"the interval has no width.{advice}"
        )
    return float(low[0]), float(high[0])


def interval_of_new_site(
    scores: Floats, sizes: Floats | None, scale: Scale, level: float = 0.95
) -> tuple[Floats, Floats]:
    """Return the ends of the interval for each row of scores (n, n_sites); nan stays nan.

    Sizes are of shape (n_sites,); those that are not known, or have no meaning, are None.
    """
    tail = (1 + level) / 2
    if sizes is None:
        return _of_scores(scores, scale, tail)
    return _of_rates(scores, sizes, scale, tail)


def interval_of_sites(
    scores: Floats, sizes: Floats, of_regressors: bool
) -> tuple[Floats, Floats] | None:
    """Return the ends of the interval of each candidate from scores, (n_sites, n_candidates).

    Sites without a score of any candidate are left out, such as those that lack a class.
    Candidates that lack a score at one of the others have nan. None if fewer than three sites are
    left.
    """
    known = np.isfinite(scores).any(axis=1)
    if known.sum() < FEWEST_SITES:
        return None
    scores = scores[known]
    # The numbers of rows give the error of a rate, and of no other score.
    scale = _scale_of(scores[np.isfinite(scores)], of_regressors)
    return interval_of_new_site(scores.T, sizes[known] if scale.is_rate else None, scale)


def _scale_of(scores: Floats, of_regressors: bool) -> Scale:
    """Guess the bounds of a metric from the scores of all candidates at all sites."""
    lowest, highest = scores.min(), scores.max()
    if highest <= 0 and lowest < 0:  # losses and errors have a minus sign
        return Scale(-math.inf, 0.0)
    if of_regressors:
        return Scale(-math.inf, 1.0 if highest <= 1 else math.inf)
    if lowest >= -1 and highest <= 1:
        return Scale(0.0 if lowest >= 0 else -1.0, 1.0)
    return Scale(-math.inf, math.inf)


def _of_scores(scores: Floats, scale: Scale, tail: float) -> tuple[Floats, Floats]:
    """Return the interval if nothing is known of the sites' rows."""
    # Imported here: scipy would slow the command line.
    from scipy.special import stdtrit

    k = scores.shape[1]
    with np.errstate(divide="ignore"):
        values = scale.to_line(scores)
    unknown = np.asarray(np.isinf(values).any(axis=1))
    values = np.where(unknown[:, None], scores, values)
    mean, spread = values.mean(axis=1), values.std(axis=1, ddof=1)
    width = stdtrit(k - 1, tail) * spread * math.sqrt(1 + 1 / k)
    low, high = (
        np.where(unknown, np.clip(end, scale.low, scale.high), scale.to_scores(end))
        for end in (mean - width, mean + width)
    )
    return low, high


def _of_rates(scores: Floats, sizes: Floats, scale: Scale, tail: float) -> tuple[Floats, Floats]:
    """Return the interval of rates of so many rows."""
    from scipy.special import ndtri, stdtrit

    share = (scores - scale.low) / (scale.high - scale.low)
    share = (share * sizes + 0.5) / (sizes + 1)
    logits = np.log(share) - np.log1p(-share)
    rate = (share @ sizes / sizes.sum())[:, None]
    binomial = 1 / (sizes * rate * (1 - rate))
    variance = logits.var(axis=1, ddof=1, keepdims=True)
    for _ in range(_ROUNDS):
        weight = 1 / (variance + binomial)
        weight /= weight.sum(axis=1, keepdims=True)
        k = 1 / (weight**2).sum(axis=1, keepdims=True)
        mean = (weight * logits).sum(axis=1, keepdims=True)
        variance = (weight * (logits - mean) ** 2).sum(axis=1, keepdims=True) * k / (k - 1)
    of_sites = stdtrit(k - 1, tail) * np.sqrt(variance * (1 + 1 / k))
    of_rows = ndtri(tail) / np.sqrt((1 / binomial).sum(axis=1, keepdims=True))
    width = np.maximum(of_sites, of_rows)
    low, high = (scale.to_scores(end)[:, 0] for end in (mean - width, mean + width))
    counts = weight >= weight.max(axis=1, keepdims=True) / 2
    low[(counts & (scores == scale.low)).any(axis=1)] = scale.low
    high[(counts & (scores == scale.high)).any(axis=1)] = scale.high
    return low, high


def _check_numbers(values: Vector, name: str) -> Floats:
    """Check a vector of finite numbers, one for each site."""
    numbers = as_numbers(values, name)
    if numbers.ndim != 1 or numbers.dtype.kind == "c":
        raise ValueError(f"{name}: expected shape (n_sites,), got shape {numbers.shape}.")
    numbers = numbers.astype(np.float64)
    wrong = ~np.isfinite(numbers)
    if wrong.any():
        raise ValueError(
            f"{name}: expected finite numbers, got {numbers[wrong][0]} at site "
            f"{int(wrong.argmax())}; leave sites without a score out."
        )
    return numbers


def _check_bounds(bounds: tuple[float, float]) -> Scale:
    """Check the lowest and the highest possible score."""
    low, high = map(float, bounds)
    if not low < high:
        raise ValueError(
            f"bounds: expected the lowest and the highest possible score, got {bounds!r}."
        )
    return Scale(low, high)


def _check_sizes(sizes: Vector, n: int, scale: Scale) -> Floats:
    """Check the numbers of rows of n sites."""
    rows = _check_numbers(sizes, "sizes")
    if len(rows) != n:
        raise ValueError(
            f"sizes: expected a number of rows for each of {n} sites, got {len(rows)}."
        )
    if not (rows >= 1).all():
        raise ValueError(f"sizes: expected at least one row at each site, got {rows.min():g}.")
    if not scale.is_rate:
        raise ValueError(
            "sizes: expected None for scores without two finite bounds, whose error is not "
            "binomial, got sizes."
        )
    return rows
