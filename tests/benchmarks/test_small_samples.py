"""The tables of docs/comparing: coverage of intervals and size of the test with few pairs.

Run them with ``make bench``.
"""

import pytest
from helpers.small_samples import KINDS, coverage, size_of_test, truth

REPETITIONS = 400


@pytest.mark.parametrize("k", [2, 10])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prior", ["uniform", "marginal"])
def test_small_samples(benchmark, figures, kind, k, prior):
    if not benchmark.enabled:
        pytest.skip("for the table only")

    def measure():
        exact = truth(k, kind, prior)
        held = {
            n: coverage(exact.score, n, k, kind, prior, REPETITIONS) for n in (20, 30, 50, 100)
        }
        rejected = {n: size_of_test(n, k, kind, prior, REPETITIONS) for n in (20, 50, 100)}
        return exact.agreement_rate, held, rejected

    rate, held, rejected = benchmark.pedantic(measure)
    cell = {"agreement": kind, "rate": f"{rate:.3f}", "classes": k, "prior": prior}
    for name, found in (("coverage", held), ("size_of_test", rejected)):
        row = cell | {
            f"{n} pairs": f"{now:.3f} ({plain:.3f})" for n, (now, plain) in found.items()
        }
        figures(name, row)
        print(row)
    assert all(now > 0.91 for now, _ in held.values())
    assert all(now < 0.09 for now, _ in rejected.values())
