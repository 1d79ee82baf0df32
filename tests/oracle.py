"""Brute force in numpy and scipy, sharing no code with the package."""

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp


def log_posterior(scores, beta):
    scores = np.asarray(scores, dtype=np.float64)
    centred = scores - scores.max(axis=1, keepdims=True)
    if np.isposinf(beta):
        top = centred == 0
        with np.errstate(divide="ignore"):
            return np.log(top / top.sum(axis=1, keepdims=True))
    if beta == 0:
        return np.full_like(centred, -np.log(centred.shape[1]))
    return log_softmax(beta * centred, axis=1)


def kernel(a, b, beta, prior="uniform", weight=None):
    """Normalised kernel, straight from its definition."""
    log_a, log_b = log_posterior(a, beta), log_posterior(b, beta)
    n, k = log_a.shape
    weight = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
    weight = weight / weight.sum()
    if isinstance(prior, str) and prior == "uniform":
        log_prior = np.full(k, -np.log(k))
    elif isinstance(prior, str):
        with np.errstate(divide="ignore"):
            both = np.concatenate([log_a, log_b]) + np.log(np.tile(weight / 2, 2))[:, None]
        log_prior = logsumexp(both, axis=0)
        log_prior = np.where(np.isneginf(log_prior), 0.0, log_prior)
    else:
        log_prior = np.log(prior)
    with np.errstate(divide="ignore"):
        terms = logsumexp(log_a + log_b - log_prior, axis=1)
    return float(weight[weight > 0] @ terms[weight > 0])


def maximum(a, b, prior="uniform", weight=None, n_points=1500, n_refined=6):
    """Best of beta = 0, beta = inf, a dense scan on the log scale and its refinement."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)

    def value(log_beta):
        return kernel(a, b, np.exp(log_beta), prior, weight)

    found = [
        (kernel(a, b, 0.0, prior, weight), 0.0),
        (kernel(a, b, np.inf, prior, weight), np.inf),
    ]
    distances = np.concatenate([x.max(axis=1, keepdims=True) - x for x in (a, b)]).ravel()
    distances = distances[np.isfinite(distances) & (distances > 0)]
    if len(distances):
        grid = np.linspace(np.log(1e-3 / distances.max()), np.log(1e3 / distances.min()), n_points)
        values = np.array([value(x) for x in grid])
        for i in np.argsort(-values)[:n_refined]:
            low, high = grid[max(i - 1, 0)], grid[min(i + 1, n_points - 1)]
            best = minimize_scalar(
                lambda x: -value(x), bounds=(low, high), method="bounded", options={"xatol": 1e-10}
            )
            found += [(values[i], np.exp(grid[i])), (-best.fun, np.exp(best.x))]
    # Of equal values the infinite beta, since finite ones only saturate there.
    top = max(v for v, _ in found)
    return max((b, v) for v, b in found if v >= top - 1e-13)[::-1]
