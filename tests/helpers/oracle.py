"""Brute force in numpy and scipy, sharing no code with the package."""

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax


def log_posterior(scores, beta):
    """Log posteriors of all rows at one or many betas, shape (..., n, k)."""
    scores = np.asarray(scores, dtype=np.float64)
    centred = scores - scores.max(axis=1, keepdims=True)
    beta = np.asarray(beta, dtype=np.float64)[..., None, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        tempered = np.where(np.isposinf(beta), np.where(centred == 0, 0, -np.inf), beta * centred)
    return log_softmax(np.where(beta == 0, 0.0, tempered), axis=-1)


def kernel(a, b, beta, prior="uniform", weight=None):
    """Normalised kernel at one or many betas, straight from its definition."""
    log_a, log_b = log_posterior(a, beta), log_posterior(b, beta)
    n, k = log_a.shape[-2:]
    weight = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
    weight = weight / weight.sum()
    if isinstance(prior, str) and prior == "uniform":
        log_prior = np.full(k, -np.log(k))
    elif isinstance(prior, str):
        with np.errstate(divide="ignore"):
            both = (
                np.concatenate([log_a, log_b], axis=-2) + np.log(np.tile(weight / 2, 2))[:, None]
            )
        log_prior = logsumexp(both, axis=-2, keepdims=True)
        log_prior = np.where(np.isneginf(log_prior), 0.0, log_prior)
    else:
        log_prior = np.log(prior)
    with np.errstate(divide="ignore"):
        terms = logsumexp(log_a + log_b - log_prior, axis=-1)
    return terms[..., weight > 0] @ weight[weight > 0]


def maximum(a, b, prior="uniform", weight=None, n_points=1500, n_refined=6):
    """Best of beta = 0, beta = inf, a dense scan on the log scale and its refinement."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)

    def value(log_beta):
        return kernel(a, b, np.exp(log_beta), prior, weight)

    found = [(float(kernel(a, b, beta, prior, weight)), beta) for beta in (0.0, np.inf)]
    distances = np.concatenate([x.max(axis=1, keepdims=True) - x for x in (a, b)]).ravel()
    distances = distances[np.isfinite(distances) & (distances > 0)]
    if len(distances):
        grid = np.linspace(np.log(1e-3 / distances.max()), np.log(1e3 / distances.min()), n_points)
        values = value(grid)
        # The best peaks of the scan are searched at once, each between its neighbours, on ever
        # finer grids: this takes a few calls instead of hundreds.
        beside = np.concatenate([[-np.inf], values, [-np.inf]])
        peaks = np.flatnonzero((values >= beside[:-2]) & (values >= beside[2:]))
        peaks = peaks[np.argsort(-values[peaks])][:n_refined]
        found += [(values[i], np.exp(grid[i])) for i in peaks]
        low, high = grid[np.maximum(peaks - 1, 0)], grid[np.minimum(peaks + 1, n_points - 1)]
        rows = np.arange(len(peaks))
        while len(peaks) and (high - low).max() > 1e-6:
            points = np.linspace(low, high, 9, axis=1)
            values = value(points.ravel()).reshape(points.shape)
            top = values.argmax(axis=1)
            found += list(zip(values[rows, top], np.exp(points[rows, top]), strict=True))
            low, high = points[rows, np.maximum(top - 1, 0)], points[rows, np.minimum(top + 1, 8)]
    # Of equal values the infinite beta, since finite ones only saturate there.
    top = max(v for v, _ in found)
    return max((b, v) for v, b in found if v >= top - 1e-13)[::-1]


def pooled_kernel(a, b, model_a, model_b, beta):
    """Mean kernel of pairs scored by several models, each with its own mean posterior."""
    p, q = softmax(beta * a, axis=1), softmax(beta * b, axis=1)
    models = np.union1d(model_a, model_b)
    means = {m: np.concatenate([p[model_a == m], q[model_b == m]]).mean(0) for m in models}
    prior = np.array([means[m] + means[n] for m, n in zip(model_a, model_b, strict=True)]) / 2
    return np.log((p * q / prior).sum(1)).mean()


def pooled_maximum(a, b, model_a, model_b):
    """Largest value of `pooled_kernel` on a dense grid."""
    grid = np.geomspace(1e-3, 1e3, 400)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = [pooled_kernel(a, b, model_a, model_b, beta) for beta in grid]
    return max(0.0, np.nanmax(values))  # a class that underflows in all rows gives 0 / 0
