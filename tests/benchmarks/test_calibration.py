"""What the temperature of a target costs beside the predictions, in softmaxes of their scores."""

from time import process_time

import numpy as np
import pytest
from scipy.special import softmax

from pa_select.calibration.temperatures import halves_agreement

FOLDS = 5


def cheapest(function, rounds):
    """The least processor time of several rounds."""
    found = []
    for _ in range(rounds):
        start = process_time()
        function()
        found.append(process_time() - start)
    return min(found)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("partner", ["hard", "soft"])
def test_temperature_of_a_target(benchmark, partner):
    n, k = (10_000, 10) if benchmark.enabled else (200, 3)
    rng = np.random.default_rng(0)
    truth = np.tile(rng.normal(0, 2, (n, k)), (FOLDS, 1))
    first, second = (truth + rng.normal(size=truth.shape) for _ in range(2))
    given = first, second, np.tile(np.arange(n), FOLDS), np.ones(n), partner
    found = benchmark.pedantic(halves_agreement, given, rounds=3, warmup_rounds=1)
    assert 0 < found.beta < np.inf
    if not benchmark.enabled:
        return
    solve = cheapest(lambda: halves_agreement(*given), 3)
    passes = cheapest(lambda: (softmax(first, axis=1), softmax(second, axis=1)), 3)
    benchmark.extra_info |= {"seconds": round(solve, 3), "softmaxes": round(solve / passes, 1)}
    print({"partner": partner, "rows": n, "classes": k, **benchmark.extra_info})
