"""Several inverse temperatures in each round of a small problem, and one in each round."""

from statistics import median
from time import process_time
from unittest import mock

import numpy as np
import pytest

from pa_select import posterior_agreement
from pa_select.agreement.solver import find_maxima

SIZES = [(20, 2), (100, 10), (300, 10), (1000, 10), (100, 100)]
N_SOLVES = 20


def solve_time(a, b, prior):
    start = process_time()
    posterior_agreement(a, b, prior=prior)
    return process_time() - start


@pytest.mark.parametrize("prior", ["uniform", "marginal"])
@pytest.mark.parametrize(("n", "k"), SIZES)
def test_few_pairs(benchmark, figures, one_thread, n, k, prior):
    rng = np.random.default_rng(0)
    a = 2 * rng.normal(size=(n, k))
    how = a, a + rng.normal(size=a.shape), prior
    benchmark.pedantic(posterior_agreement, how[:2], {"prior": prior}, rounds=2)
    if not benchmark.enabled:
        return
    ratios = []
    for _ in range(N_SOLVES):
        with mock.patch.object(find_maxima, "points_at_once", return_value=1):
            alone = solve_time(*how)
        ratios.append(solve_time(*how) / alone)
    row = {"pairs": n, "classes": k, "prior": prior, "share of the time": f"{median(ratios):.2f}"}
    figures("few_pairs", row)
    print(row)
