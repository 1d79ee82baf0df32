"""Temperatures and biases at which class scores fit the labels of rows best."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize

from pa_select.scores.class_scores import calibrated
from pa_select.utils.arrays import check_matrix
from pa_select.utils.sklearn_private import _threadpool_controller_decorator
from pa_select.utils.typing import Floats, Index, Mask

# So many of the labelled rows are expected to have a label that says nothing of the scores. More
# helps where labels or scores have tails, and costs a little with few rows of a good model.
_LAPSES = 0.1
# Sums that differ by no more than this, relative to them, are equal.
_ROUNDING = 1e-12
# So many times farther below the highest score than scores usually are is far.
_FAR = 10.0
# The standard deviation of the offset along the classes' mean scores.
_SPREAD_OF_OFFSETS = 10.0
# That of the slope, for scores that vary by 1: it matters only where large ones are as good.
_SPREAD_OF_SLOPES = 1000.0
# Scores that rank classes the wrong way have a slope below 0. This one, for scores of size 1, is
# that of scores which are wrong for every row, where the likelihood has no maximum.
_LEAST_SLOPE = -30.0
# At this share of a usual inverse temperature all classes are about equally probable.
_LOWEST = 1e-9
# More rows than this say where to begin if every second, third or so is taken. A gradient up to
# this is that of a minimum.
_MANY, _LARGEST_GRADIENT = 20_000, 1e-4
# A Newton step that is so much shorter than where it leads to is the last one.
_LAST_STEP = 1e-6
# Biases of fewer rows cost more than they gain.
_FEWEST_FOR_BIASES = 40
# Inverse temperatures between which maxima are looked for, for scores of size 1.
_BETAS = np.append(1e-12, np.logspace(-3, 3, 11))


def calibrating_beta(scores: Floats, columns: Index, weight: Floats | None = None) -> float:
    r"""Return the inverse temperature at which labelled rows have the highest likelihood.

    This is temperature scaling: posterior agreement with labels on one side. A label may be a
    lapse, drawn at random with a small probability :math:`\epsilon`, so its likelihood is
    :math:`(1 - \epsilon) p + \epsilon / K`. Otherwise a single label of probability 0 would turn
    the inverse temperature to 0. `columns` has the column of each row's label, and `weight` the
    weights of the rows.
    """
    check_matrix(scores, "class scores")
    rows, n_classes = np.arange(len(columns)), scores.shape[1]
    weight = np.ones(len(rows)) if weight is None else weight / np.mean(weight)
    # Classes first, so that sums over a few classes are sums of long rows.
    below = np.asarray(scores.T - scores.max(axis=1), dtype=np.float64, order="C")
    sizes = -np.where(np.isneginf(below), 0.0, below).mean(axis=0)
    if not (sizes > 0).any():
        sizes = np.isneginf(below).any(axis=0) * 1.0
    if not (sizes > 0).any():
        return 0.0  # all classes of each row have equal scores
    scale = float(np.median(sizes[sizes > 0]))
    with np.errstate(over="ignore"):
        below /= scale
    of_label = below[columns, rows]
    if (of_label[weight > 0] == 0).all():
        return np.inf
    finite = np.where(np.isneginf(below), 0.0, below)  # its probability is 0
    lapse = _LAPSES / np.count_nonzero(weight)

    def likelihood(beta: float) -> tuple[float, float]:
        """Return the logarithm of the likelihood, and its derivative."""
        odds = beta * below
        np.exp(odds, out=odds)
        total = odds.sum(axis=0)
        p = (1 - lapse) * odds[columns, rows] / total
        odds *= finite
        pull = finite[columns, rows] - odds.sum(axis=0) / total
        both = p + lapse / n_classes
        return float((weight * np.log(both)).sum()), float((weight * p / both * pull).sum())

    # Without lapses the function is concave. With them it may have several maxima. At 0 classes of
    # score -inf are as probable as all others, and beside it they have no probability.
    betas = _BETAS.tolist()
    found = [likelihood(beta) for beta in betas]
    best, value = 0.0, -float(weight.sum()) * np.log(n_classes)
    if np.isneginf(below).any() and found[0][0] > value:
        # Where only -inf tells classes apart, all temperatures are alike.
        best, value = (betas[0] if found[0][1] else 1.0), found[0][0]
    while found[-1][1] > 0:
        betas.append(4 * betas[-1])
        found.append(likelihood(betas[-1]))
    for i in range(len(betas) - 1):
        if found[i][1] > 0 >= found[i + 1][1]:
            root = brentq(lambda x: likelihood(x)[1], *betas[i : i + 2], xtol=1e-15, rtol=1e-9)
            if (at_root := likelihood(root)[0]) > value:
                best, value = float(root), at_root
    return best / scale


def without_score(scores: Floats, columns: Index) -> Mask:
    """Return which rows have a label of score -inf."""
    return np.isneginf(scores[np.arange(len(columns)), columns])


# Other threads of a BLAS would wait, not work.
@_threadpool_controller_decorator(limits=1, user_api="blas")  # type: ignore[untyped-decorator]
def beta_and_bias(
    scores: Floats, columns: Index, weight: Floats | None = None
) -> tuple[float, Floats]:
    r"""Return the inverse temperature and the bias of each class that suit labelled rows best.

    Both are fitted together, as in bias-corrected temperature scaling (Alexandari, Kundaje,
    Shrikumar 2020). A temperature alone has to keep the offset that the shares of the classes put
    into the scores, so that it makes flat scores of a rare class too flat.

    The logits of row i are :math:`\beta (F_i - m) + \gamma m + d`, with m the mean scores of the
    classes. At the maximum the posteriors believe in each class as often as labelled rows have
    it, but for the prior: d is normal with standard deviation 1, so that a rare class is hardly
    moved away from what the scores say of it. The offset :math:`\gamma m` is nearly free: with
    two classes all offsets are. The inverse temperature is below 0 if scores rank the classes the
    wrong way, as those of a net may after an epoch. `columns` has the column of each row's label,
    and `weight` the weights of the rows. Labels may be lapses, see `calibrating_beta`.
    """
    # Where rows are many, some of them say where to begin.
    thin, n_classes = slice(None, None, 1 + len(columns) // _MANY), scores.shape[1]
    beta = calibrating_beta(scores[thin], columns[thin], None if weight is None else weight[thin])
    if not 0 < beta < np.inf and thin.step > 1:
        beta = calibrating_beta(scores, columns, weight)
    # Rows of weight 0 count as left out: they do not make the others outweigh the prior.
    weight = np.ones(len(columns)) if weight is None else weight / np.mean(weight[weight > 0])
    if beta == np.inf:
        scores = _log_posterior(scores, beta)
    elif beta == 0 and not np.isfinite(scores).all():
        scores = np.zeros_like(scores)
    counted = np.isfinite(scores[np.arange(len(columns)), columns]) & (weight > 0)
    scores, columns, weight = scores[counted], columns[counted], weight[counted]
    bias = np.zeros(n_classes)
    if not len(columns):
        return beta, bias
    # Classes first, so that sums over a few classes are sums of long rows.
    below = np.asarray(scores.T - scores.max(axis=1), dtype=np.float64, order="C")
    finite = np.isfinite(below)
    known = np.where(finite, below, 0.0)
    sizes = -known.mean(axis=0)
    unit = float(np.median(sizes[sizes > 0])) if (sizes > 0).any() else 1.0
    known /= unit
    # Single scores may be far below the others; the mean is to say where most rows are.
    total, near = (finite * weight).sum(axis=1), np.maximum(known, -_FAR)
    mean = (near * weight).sum(axis=1)
    mean = np.divide(mean, total, out=np.zeros(n_classes), where=total > 0)
    away = np.where(finite, known - mean[:, None], 0.0)
    length = np.sqrt(np.mean(np.square(mean - mean.mean()))) or 1.0
    mean = (mean - mean.mean()) / length
    impossible = None if finite.all() else np.where(finite, 0.0, -np.inf)
    lapse = _LAPSES / len(columns)
    of_slope = np.mean(np.square(np.maximum(away, -_FAR))) / _SPREAD_OF_SLOPES**2
    of_offset = mean @ mean / _SPREAD_OF_OFFSETS**2
    prior = np.array([of_slope, of_offset, *np.ones(n_classes)])

    def loss(x: Floats, some: slice = slice(None), second: bool = False) -> tuple[Any, ...]:
        """Return minus the logarithm of the posterior probability, and its gradient.

        The second derivatives follow, None if they are not asked for.
        """
        moved, label, w = away[:, some], columns[some], weight[some] * (some.step or 1)
        rows = np.arange(len(label))
        p = x[0] * moved
        p += (x[1] * mean + x[2:])[:, None]
        if impossible is not None:
            p += impossible[:, some]
        p -= p.max(axis=0)
        np.exp(p, out=p)
        p /= p.sum(axis=0)
        of_label = (1 - lapse) * p[label, rows]
        either = of_label + lapse / n_classes
        pull = w * of_label / either
        shown = pull * p
        n_rows, along = shown.sum(axis=1), shown * moved
        of_class = n_rows - np.bincount(label, pull, n_classes)
        slope = float(along.sum() - (pull * moved[label, rows]).sum())
        gradient = np.array([slope, of_class @ mean, *of_class]) + prior * x
        value = float((prior @ np.square(x)) / 2 - (w * np.log(either)).sum())
        if not second:
            return value, gradient, None
        first = along.sum(axis=1)
        squares = float((along * moved).sum()), first @ mean, n_rows @ np.square(mean)
        cross = np.array([first, n_rows * mean])
        total = np.block(
            [
                [np.array([squares[:2], squares[1:]]), cross],
                [cross.T, np.diag(n_rows)],
            ]
        )
        sums = np.vstack([(moved * p).sum(axis=0), mean @ p, p])
        total -= (sums * pull) @ sums.T
        sums[0] -= moved[label, rows]
        sums[1] -= mean[label]
        sums[2 + label, rows] -= 1
        total -= (sums * (pull * lapse / n_classes / either)) @ sums.T
        return value, gradient, total + np.diag(prior)

    # Without lapses the loss is convex. With them it may have several minima.
    shares = np.log1p(np.bincount(columns, weight, minlength=n_classes))
    # Where rows do not differ, any slope is as good; 0 says that the scores say nothing.
    free = [float(away.any()), 0, *shares - shares.mean()]
    starts = [free] if beta == np.inf else [[beta * unit, beta * unit * length, *bias], free]
    x = min(map(np.array, starts), key=lambda x: loss(x, thin)[0])
    bounds = [(_LEAST_SLOPE, None)] + [(None, None)] * (n_classes + 1)
    options: dict[str, Any] = {"jac": True, "method": "L-BFGS-B", "bounds": bounds}
    options["options"] = {"maxiter": 1000, "ftol": 1e-10, "gtol": _LARGEST_GRADIENT}
    for rows in (thin, slice(None)):
        x = minimize(lambda x: loss(x, rows)[:2], x, **options).x  # noqa: B023 - used at once
        if x[0] > _LEAST_SLOPE:
            x = _at_minimum(loss, x)
        if thin.step == 1 or np.abs(loss(x)[1]).max() <= _LARGEST_GRADIENT:
            break
    if beta == np.inf:
        return beta, x[2:]
    return float(x[0] / unit), (x[1] - x[0] * length) * mean + x[2:]


def _at_minimum(loss: Callable[..., tuple[Any, ...]], x: Floats) -> Floats:
    """Take Newton steps while the gradient gets smaller: rows in any order have one minimum."""
    value, gradient, second = loss(x, second=True)
    is_last = False
    while not is_last:
        nearer = x - np.linalg.lstsq(second, gradient, rcond=None)[0]
        # Each step doubles the number of right digits.
        is_last = bool(np.abs(nearer - x).max() <= _LAST_STEP * np.abs(x).max())
        lower, smaller, second = loss(nearer, second=not is_last)
        is_lower = lower <= value + _ROUNDING * abs(value)
        if not (is_lower and np.abs(smaller).max() < np.abs(gradient).max()):
            break
        x, value, gradient = nearer, lower, smaller
    return x


def doubting_calibration(
    scores: Floats, columns: Index, weight: Floats | None = None, alone: bool = False
) -> tuple[float, Floats]:
    """Return an inverse temperature and biases that are no more certain than the rows can show.

    With one more row whose label says nothing, the mean probability of the best class is at most
    1 - (1 - 1 / n_classes) / (n + 1) after n rows without an error. Otherwise the posteriors of a
    model without an error would be 0 or 1. A member of a committee that is `alone` has no biases,
    so that it predicts what it predicts without a committee; nor have those with fewer than forty
    rows, or whose scores rank the classes the wrong way. `columns` and `weight` are as in
    `beta_and_bias`.
    """
    scores = np.asarray(scores, dtype=np.float64)
    n, n_classes = len(scores) if weight is None else np.count_nonzero(weight), scores.shape[1]
    beta = -1.0
    if n >= _FEWEST_FOR_BIASES and not alone:
        beta, bias = beta_and_bias(scores, columns, weight)
    if beta < 0 or beta == np.inf:
        beta, bias = calibrating_beta(scores, columns, weight), np.zeros(n_classes)
    if beta == 0:
        return beta, bias
    unit = beta
    if beta == np.inf:
        known = scores[np.isfinite(scores).all(axis=1)]
        unit = 1 / (float(np.ptp(known)) if known.size and np.ptp(known) else 1.0)
    logits = unit * (scores - scores.max(axis=1, keepdims=True)) + bias
    logits -= logits.max(axis=1, keepdims=True)
    # Rows whose best classes tie are in doubt at any temperature.
    tied = 1 / (logits == 0).sum(axis=1)
    doubt = (1 - 1 / n_classes) / (1 + n)

    def too_sure(share: float) -> float:
        best = calibrated(logits, share).max(axis=1)
        return doubt - float(np.average(tied - best, weights=weight))

    least, most = _LOWEST / max(1.0, -float(logits[np.isfinite(logits)].min())), 1.0
    # Scores of -inf leave no doubt at any temperature.
    if (beta < np.inf and too_sure(1.0) <= 0) or too_sure(least) >= 0:
        return beta, bias
    while too_sure(most) < 0:
        most *= 2
    share = float(brentq(too_sure, least, most, xtol=1e-300, rtol=1e-14))
    return share * unit, share * bias


def _log_posterior(scores: Floats, beta: float) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(calibrated(scores, beta))
