"""Other rules that choose one of several models by a few labels of a new site, in numpy.

`said` are the predicted classes as columns 0, 1, ..., (n_models, n_rows); each rule returns its
choices after some numbers of labels, as the models among which it cannot decide.
"""

import numpy as np
from scipy.integrate import trapezoid
from scipy.special import betaln, entr


def best_of(values):
    """The places of the largest values; those that differ by rounding are equal."""
    return np.flatnonzero(values >= values.max() - 1e-9 * max(abs(values.max()), 1e-300))


def model_selector(said, y, sizes, epsilon, rng):
    """Model Selector (Okanovic et al., 2025): labels where the entropy over models falls most.

    A model is wrong with the same probability `epsilon` in each row; classes are equally likely.
    Rows that all models predict alike say nothing and are not labelled.
    """
    n_models, n_classes = len(said), said.max() + 1
    odds, weights = (1 - epsilon) / epsilon, np.full(len(said), 1 / n_models)
    left, found = np.flatnonzero((said != said[0]).any(axis=0)), {}
    for n in range(1, max(sizes) + 1):
        if len(left):
            expected = np.zeros(len(left))
            for label in range(n_classes):
                after = weights[:, None] * np.where(said[:, left] == label, odds, 1.0)
                expected += entr(after / after.sum(axis=0)).sum(axis=0)
            row = left[rng.choice(best_of(-expected))]
            weights = weights * np.where(said[:, row] == y[row], odds, 1.0)
            weights, left = weights / weights.sum(), left[left != row]
        if n in sizes:
            found[n] = best_of(weights)
    return found


GRID = np.linspace(1e-6, 1 - 1e-6, 256)


def coda(said, posteriors, y, sizes, rng):
    """CODA (Kay et al., 2025): labels that tell most about which model is best.

    The rows of each model's confusion matrix have Dirichlet priors, by the consensus of all
    models. This repeats the rule of the published code with its defaults (prior strength 0.1,
    learning rate 0.01, multiplier 2), not the code itself. `posteriors` are those of the models,
    (n_models, n_rows, n_classes).
    """
    n_models, n_rows, n_classes = posteriors.shape
    consensus = np.eye(n_classes)[posteriors.mean(axis=0).argmax(axis=1)]
    confusion = np.einsum("nc,hnj->hcj", consensus, posteriors)
    confusion /= np.maximum(confusion.sum(axis=2, keepdims=True), 1e-6)
    prior = np.full((n_classes, n_classes), 1 / max(n_classes - 1, 1))
    np.fill_diagonal(prior, 1)
    counts = 2 * (prior + 0.1 * confusion)
    free, found = (said != said[0]).any(axis=0), {}
    for n in range(1, max(sizes) + 1):
        of_row = np.einsum("hcs,hns->nc", counts, posteriors, optimize=True)
        of_row /= of_row.sum(axis=1, keepdims=True)
        of_class = of_row.mean(axis=0)
        if free.any():
            rows = np.flatnonzero(free)
            gain = _gain(said[:, rows], of_row[rows], of_class, counts)
            row = rows[rng.choice(best_of(gain))]
            counts[np.arange(n_models), y[row], said[:, row]] += 0.01
            free[row] = False
        if n in sizes:
            found[n] = best_of(of_class @ np.array([_best(counts, c) for c in range(n_classes)]))
    return found


def _beta(right, wrong):
    """Densities and log distribution functions on the grid, (n_models, n_grid)."""
    log = (right - 1)[:, None] * np.log(GRID) + (wrong - 1)[:, None] * np.log1p(-GRID)
    density = np.exp(log - betaln(right, wrong)[:, None])
    steps = np.cumsum((density[:, 1:] + density[:, :-1]) / 2, axis=1) * (GRID[1] - GRID[0])
    return density, np.log(np.maximum(np.pad(steps, ((0, 0), (1, 0))), 1e-30))


def _right_and_wrong(counts, c):
    return counts[:, c, c], counts[:, c].sum(axis=1) - counts[:, c, c]


def _best(counts, c):
    """The probability of each model to be the best one in class c."""
    density, log = _beta(*_right_and_wrong(counts, c))
    best = trapezoid(density * np.exp(np.clip(log.sum(axis=0) - log, -80, 80)), GRID, axis=1)
    return best / max(best.sum(), 1e-30)


def _gain(said, of_row, of_class, counts):
    """The expected information of the label of each row about which model is best."""
    before = np.array([_best(counts, c) for c in range(len(of_class))])
    now = of_class @ before
    step = np.full(len(GRID), GRID[1] - GRID[0])
    step[[0, -1]] /= 2
    after = np.zeros(of_row.shape)
    for c in range(len(of_class)):
        right, wrong = _right_and_wrong(counts, c)
        (hit, log_hit), (miss, log_miss) = _beta(right + 1, wrong), _beta(right, wrong + 1)
        hits = (said == c).T
        total = hits.astype(float) @ (log_hit - log_miss) + log_miss.sum(axis=0)
        common = np.exp(total - total.max(axis=1, keepdims=True)) * step
        best = np.where(
            hits, common @ (hit * np.exp(-log_hit)).T, common @ (miss * np.exp(-log_miss)).T
        )
        best /= np.maximum(best.sum(axis=1, keepdims=True), 1e-300)
        after[:, c] = entr(np.maximum(now + of_class[c] * (best - before[c]), 1e-12)).sum(axis=1)
    return entr(np.maximum(now, 1e-12)).sum() - (of_row * after).sum(axis=1)
