"""Choosing inverse temperatures to draw that show a kernel's rise and fall."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pa_select.utils.typing import Floats

if TYPE_CHECKING:
    from pa_select.agreement import PosteriorAgreement


# A change of less than this share of the rise is not visible.
_INVISIBLE = 0.02
# How far below its value at 0 a kernel is drawn, as a share of the rise.
_FALL = 0.1
_N_POINTS = 120


def check_betas(betas: Any) -> Floats | None:
    """Return the inverse temperatures to draw as a sorted array; None stays None."""
    if betas is None:
        return None
    values = np.asarray(betas, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(f"betas: expected at least two in a row, got shape {values.shape}.")
    wrong = ~((values > 0) & (values < np.inf))
    if wrong.any():
        at = int(wrong.argmax())
        raise ValueError(
            "betas: expected positive, finite inverse temperatures, which a logarithmic axis "
            f"can show, got {values[at]:g} at position {at}."
        )
    return np.sort(values)


def curve_of(result: PosteriorAgreement, betas: Floats | None) -> tuple[Floats, Floats]:
    """Return betas, by default those that show rise and fall, and the result's kernel there."""
    from pa_select.agreement import pa_kernel

    source = result.known_source()

    def kernel(betas: Floats) -> Floats:
        values: Floats = pa_kernel(
            source.a, source.b, betas, prior=source.prior.argument, sample_weight=source.weight
        )
        return values

    if betas is not None:
        return betas, kernel(betas)
    scale = 1 / _typical_range(source.a, source.b)
    return sample_kernel(kernel, result.beta, result.score, scale, math.log(result.n_classes))


def _typical_range(a: Any, b: Any) -> float:
    """Return the geometric mean over rows of the range from lowest to highest score."""
    scores = np.concatenate([x.detach().cpu().double().numpy() for x in (a, b)])
    highest = scores.max(1)
    lowest = np.where(np.isfinite(scores), scores, np.inf).min(1)
    ranges = (highest - lowest)[highest > lowest]
    return float(np.exp(np.log(ranges).mean())) if len(ranges) else 1.0


def sample_kernel(
    kernel: Callable[[Floats], Floats], beta: float, score: float, scale: float, ceiling: float
) -> tuple[Floats, Floats]:
    """Return inverse temperatures that show the kernel's rise and fall, and the kernel there.

    Parameters
    ----------
    kernel : callable
        Computes the kernel at an array of inverse temperatures, in nats.
    beta, score : float
        Position and value of the maximum; the position may be 0 or inf.
    scale : float
        An inverse temperature that fits the scale of the scores, for a maximum at 0 or inf.
    ceiling : float
        The largest possible rise, in nats. It sets how much of a fall is shown if the kernel
        does not rise.

    Returns
    -------
    betas, values : ndarray
        Inverse temperatures, positive and increasing, and the kernel there. `beta` is among
        them if it is positive and finite.
    """
    interior = 0 < beta < np.inf
    grid = (beta if interior else scale) * 2.0 ** np.arange(-30, 31)
    values = kernel(np.concatenate([[0.0], grid, [np.inf]]))
    start, values, end = values[0], values[1:-1], values[-1]
    rise = score - start
    if rise > 1e-9:
        floor = start - _FALL * rise
    else:
        rise = ceiling / 2
        floor = start - rise
    with np.errstate(invalid="ignore"):  # -inf where posteriors are disjoint
        moved = np.isfinite(values) & (np.abs(values - start) > _INVISIBLE * rise)
        at_end = np.abs(values - end) <= _INVISIBLE * rise
    if not moved.any():  # a constant, or nothing to draw
        betas = scale * np.geomspace(0.01, 100, _N_POINTS)
        return betas, kernel(betas)
    # The kernel stays at its limit from here on, or has fallen.
    settled = np.logical_and.accumulate(at_end[::-1])[::-1]
    done = settled | ((grid > beta) & (values < floor))
    first = max(int(moved.argmax()) - 1, 0)
    last = max(int(done.argmax()), first + 1) if done.any() else -1
    low = 0.8 if 1 < grid[first] < 100 else grid[first]  # show 1, as trained
    betas = np.geomspace(low, grid[last], _N_POINTS)
    if interior:
        betas = np.union1d(betas, beta)
    values = kernel(betas)
    fallen = np.flatnonzero((betas > beta) & (values < floor))
    shown = slice(None, int(fallen[0]) + 1 if len(fallen) else None)
    return betas[shown], values[shown]
