"""What evaluations would cost on a GPU, predicted from counts on a pretended device.

The numbers of launches and of synchronisations depend on the number of pairs only through the
blocks, and bytes grow with it.  So a sample of the pairs is counted, with blocks that are smaller
in the same proportion.  Run it with ``make bench``, which writes the table of docs/performance.
"""

from contextlib import ExitStack
from unittest import mock

import numpy as np
import pytest
import torch
from helpers.pretend_device import PretendDevice

from pa_select import posterior_agreement
from pa_select.agreement.inputs.problem import check_problem
from pa_select.agreement.kernels import kernel_sums
from pa_select.agreement.kernels.fixed_prior import FixedPrior
from pa_select.agreement.kernels.marginal_prior import MarginalPrior
from pa_select.agreement.kernels.marginal_sums import ModelRuns
from pa_select.agreement.pairs import paired_scores
from pa_select.agreement.pairs.paired_scores import concatenate
from pa_select.utils import arrays

# An H200: microseconds of a launch and of a synchronisation, and bytes in a microsecond.
LAUNCH, SYNCHRONISATION, BANDWIDTH = 4, 15, 4.3e6
MEMORY = 139 << 30
SIZES = [(100, 10), (10_000, 10), (1_000_000, 10), (10_000_000, 10), (1_000_000, 1000)]
# The largest number of scores that is counted.
COUNTED = 100_000
LIMITS = [
    (paired_scores, "_ACCELERATOR_BLOCK_BYTES"),
    (kernel_sums, "_FEWEST_SCORES"),
    (arrays, "_CHECKED_ON_DEVICE"),
]


@pytest.mark.parametrize("prior", ["uniform", "marginal"])
def test_predicted_on_a_device(benchmark, figures, prior):
    sizes = SIZES if benchmark.enabled else SIZES[:1]
    counted = benchmark.pedantic(lambda: [counts(prior, n, k) for n, k in sizes])
    for (n, k), (rounds, one, whole) in zip(sizes, counted, strict=True):
        add_row(figures, prior, n, k, rounds, one, whole)
        # One copy and one wait for each pass over a block, and one more for each block.
        blocks = -(-n * k * 8 // paired_scores._ACCELERATOR_BLOCK_BYTES)
        assert one.synchronisations <= 4 + 2 * blocks


def add_row(figures, prior, n, k, rounds, one, whole):
    share = share_of(n, k)
    row = {
        "pairs": n,
        "classes": k,
        "prior": prior,
        "launches": one.launches,
        "synchronisations": one.synchronisations,
        "readings": f"{one.bytes / share / (16 * n * k):.0f}",
        "ms": f"{milliseconds(one, share):.2f}",
        "evaluations": rounds,
        "synchronisations of the solve": whole.synchronisations,
        "ms of the solve": f"{milliseconds(whole, share):.3g}",
    }
    figures("device_predicted", row)
    print(row)


def share_of(n, k):
    """The share of the pairs that is counted."""
    return min(COUNTED / (n * k), 1.0)


def milliseconds(counts, share):
    """Launches overlap with the work of the device, synchronisations with nothing."""
    work = max(counts.launches * LAUNCH, counts.bytes / share / BANDWIDTH)
    return (work + counts.synchronisations * SYNCHRONISATION) / 1000


def counts(prior, n, k):
    """The evaluations of a solve, and the counts of one in float64 and of the whole solve."""
    rng, share = np.random.default_rng(0), share_of(n, k)
    n = round(n * share)
    scores = rng.normal(size=(n, k))
    scores[np.arange(n), rng.integers(0, k, n)] += 3
    sides = [scores + 0.7 * rng.normal(size=(n, k)) for _ in range(2)]
    with PretendDevice() as device, mock.patch.multiple(torch.cuda, mem_get_info=memory(share)):
        a, b = map(device.put, sides)
        with ExitStack() as stack:
            for home, name in LIMITS:
                patch = mock.patch.object(home, name, scaled(home, name, share))
                stack.enter_context(patch)
            start = device.counts.copy()
            result = posterior_agreement(a, b, prior=prior)
            whole = device.counts - start
            one = of_one_evaluation(device, concatenate([check_problem(a, b, None, prior)]), prior)
    return result.n_evaluations, one, whole


def of_one_evaluation(device, pairs, prior):
    """The counts of a later evaluation, which finds the centred scores of the first one."""
    ones, zero = np.ones(1), np.zeros(1, dtype=int)
    kernel = FixedPrior(pairs, np.zeros(pairs.n_classes), None)
    if prior == "marginal":
        kernel = MarginalPrior(ModelRuns.one_model_each(pairs))
    for _ in range(2):
        start = device.counts.copy()
        kernel.evaluate(ones, ones, zero)
    return device.counts - start


def memory(share):
    return lambda *_: (int(MEMORY * share), int(MEMORY * share))


def scaled(home, name, share):
    return max(int(getattr(home, name) * share), 1)
