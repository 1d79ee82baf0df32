"""One process of test_since.py: answers the name of a figure with its value, line by line.

It imports the `pa_select` of whichever tree comes first in PYTHONPATH.
"""

import sys
import warnings
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np
import torch

sys.path.insert(1, str(Path(__file__).parents[1]))  # for the package `helpers`

from helpers.scorer_share import MODELS, SCORERS, scorer_share

import pa_select
from pa_select import posterior_agreement

# The earlier tree has it under its earlier name.
bootstrap_agreement = getattr(pa_select, "bootstrap_agreement", None) or pa_select.bootstrap

FOLDS = {"prior": "marginal", "certify": False}


def problem(n, k, seed=0, noise=0.7):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, k))
    scores[np.arange(n), rng.integers(0, k, n)] += 3
    return tuple(scores + noise * rng.normal(size=(n, k)) for _ in range(2))


def cpu_time(work, times=1):
    """Return the median CPU time of several runs, in seconds."""
    taken = []
    for _ in range(times):
        start = process_time()
        work()
        taken.append(process_time() - start)
    return median(taken)


def of_uneven_lengths(n_problems, n):
    """Return how many times as long problems take if each has up to two pairs more."""
    extra = np.random.default_rng(0).integers(0, 3, n_problems).tolist()
    uneven = list(zip(*(problem(n + more, 10, i) for i, more in enumerate(extra)), strict=True))
    even = [[x[:n] for x in side] for side in uneven]
    times = [cpu_time(lambda s=s: posterior_agreement(*s, **FOLDS), 3) for s in (uneven, even)]
    return times[0] / times[1]


def of_solves(n, k, prior, times=1):
    """Return the CPU time of five problems: how many evaluations one takes is a matter of luck."""
    problems = [problem(n, k, seed, noise) for seed, noise in enumerate((0.2, 0.4, 0.7, 1, 1.5))]
    return sum(
        cpu_time(lambda sides=sides: posterior_agreement(*sides, prior=prior), times)
        for sides in problems
    )


def of_a_bootstrap(prior):
    result = posterior_agreement(*problem(1000, 10), prior=prior)
    return cpu_time(lambda: bootstrap_agreement(result, 1000, random_state=0))


def in_passes(n_problems, n, k):
    """Return the time of many problems, in passes of exponentials over all their scores."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=(n_problems, n, k))
    b = a + 0.5 * rng.normal(size=a.shape)
    block = torch.rand(1 << 16, dtype=torch.float64).neg_()
    out = torch.empty_like(block)
    of_a_block = cpu_time(lambda: torch.exp(block, out=out), 50)
    return cpu_time(lambda: posterior_agreement(a, b)) / (2 * a.size / len(block) * of_a_block)


def on_two_threads(n):
    """Return how many times as fast two threads are as one, by the clock."""
    a, b = problem(n, 10)
    times = []
    for n_threads in (1, 2):
        torch.set_num_threads(n_threads)
        start = perf_counter()
        posterior_agreement(a, b)
        times.append(perf_counter() - start)
    torch.set_num_threads(1)
    return times[0] / times[1]


FIGURES = {
    "uneven": partial(of_uneven_lengths, 60, 1000),
    **{
        f"scorer {model}, {pairing}": lambda how=(model, pairing): scorer_share(*how, 900)[0]
        for model in MODELS
        for pairing in SCORERS
    },
    "few uniform": partial(of_solves, 100, 10, "uniform", 9),
    "few marginal": partial(of_solves, 100, 10, "marginal", 9),
    "bootstrap uniform": partial(of_a_bootstrap, "uniform"),
    "bootstrap marginal": partial(of_a_bootstrap, "marginal"),
    "classes uniform": partial(of_solves, 2000, 1000, "uniform"),
    "classes marginal": partial(of_solves, 2000, 1000, "marginal"),
    "many": partial(in_passes, 10_000, 200, 10),
    "threads": partial(on_two_threads, 1_000_000),
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print(pa_select.__file__, flush=True)
    for name in map(str.strip, sys.stdin):
        print(FIGURES[name](), flush=True)
