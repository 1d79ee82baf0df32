"""How often intervals of few pairs hold the truth, and how often true nulls are rejected."""

import math
import warnings

import numpy as np

from pa_select import compare_agreement, confidence_interval
from pa_select.agreement.posterior_agreement import agreements

# Size of the signal, of the noise, and the share of pairs that contradict each other.
KINDS = {
    "weak": (1.5, 1.5, 0.0),
    "middling": (2.0, 0.6, 0.0),
    "nearly perfect, near ties": (3.0, 0.1, 0.0),
    "nearly perfect, contradictions": (3.0, 0.1, 0.03),
}


def draw(rng, n, k, kind, shared=None):
    """Pairs of scores; half of them of the first class. `shared`: (y, noise) of other models."""
    signal, noise, contrary = KINDS[kind]
    y, base = objects(rng, n, k) if shared is None else shared
    scores = signal * np.eye(k)[y] + (base + rng.normal(size=(n, k))) / math.sqrt(2)
    a, b = (scores + noise * rng.normal(size=(n, k)) for _ in range(2))
    against = rng.random(n) < contrary
    b[against] = np.roll(b[against], 1, axis=1)
    return a, b


def objects(rng, n, k):
    others = np.full(k - 1, 0.5 / (k - 1))
    return rng.choice(k, n, p=np.r_[0.5, others]), rng.normal(size=(n, k))


def truth(k, kind, prior, n=200_000):
    pairs = draw(np.random.default_rng(99), n, k, kind)
    return agreements(*pairs, prior=prior, certify=False)


def coverage(exact, n, k, kind, prior, repetitions):
    """Share of samples whose 95 % interval holds the truth, now and with 1.96 errors."""
    rng = np.random.default_rng([n, k, list(KINDS).index(kind)])
    samples = [draw(rng, n, k, kind) for _ in range(repetitions)]
    results = agreements(*map(list, zip(*samples, strict=True)), prior=prior, certify=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few pairs that disagree
        limits = [confidence_interval(result) for result in results]
    held = np.mean([low - 1e-9 <= exact <= high + 1e-9 for low, high in limits])
    plain = np.mean([abs(r.score - exact) <= 1.96 * r.standard_error + 1e-9 for r in results])
    return float(held), float(plain)


def size_of_test(n, k, kind, prior, repetitions):
    """Share of true nulls that are rejected at the level 0.05, now and by 1.96 errors."""
    rng = np.random.default_rng([n, k, list(KINDS).index(kind), 1])
    first, second = [], []
    for _ in range(repetitions):
        shared = objects(rng, n, k)
        first.append(draw(rng, n, k, kind, shared))
        second.append(draw(rng, n, k, kind, shared))
    sides = (map(list, zip(*samples, strict=True)) for samples in (first, second))
    results = [agreements(*both, prior=prior, certify=False) for both in sides]
    compared = [compare_agreement(*both) for both in zip(*results, strict=True)]
    rejected = np.mean([c.p_value < 0.05 for c in compared])
    plain = np.mean([abs(c.difference) > 1.96 * c.standard_error + 1e-12 for c in compared])
    return float(rejected), float(plain)
