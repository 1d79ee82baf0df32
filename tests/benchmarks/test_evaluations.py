"""What each part of the search for the maximum saves, in evaluations of varied problems.

Run them with ``make bench``, which writes the table of docs/certificate. Evaluations are counted,
so that the table does not depend on the machine's speed.
"""

from contextlib import ExitStack
from unittest import mock

import numpy as np
import pytest
from helpers.problems import varied_suite

from pa_select import posterior_agreement
from pa_select.agreement.solver import fixed_prior, intervals, single_precision, splitting


def no_bound(left, right):
    nothing = np.full(left.value.shape, np.nan)
    return nothing, nothing


def no_maximum(left, right, a, c):
    return np.full_like(a, np.nan), np.full_like(a, np.inf)


# What is taken away, and by what it is replaced.
PARTS = {
    "all parts": [],
    "without the two cubics": [(fixed_prior, "_two_cubics", no_bound)],
    "without chord and tangents": [(fixed_prior, "_chord_minus_tangents", no_bound)],
    "without the expected maximum": [(splitting, "_expected_maximum", no_maximum)],
    "without many first points": [(intervals, "_MOST_FIRST", 0)],
    "without single precision": [(single_precision, "_FEWEST_SCORES", np.inf)],
}
# One kernel with the marginal prior and many classes takes a minute.
MOST_CLASSES = {"uniform": 1000, "marginal": 100}


@pytest.mark.parametrize("without", PARTS)
@pytest.mark.parametrize("prior", MOST_CLASSES)
@pytest.mark.filterwarnings("ignore:scores_a and scores_b:UserWarning")
def test_evaluations(benchmark, figures, without, prior):
    if not benchmark.enabled:
        pytest.skip("for the table only")
    if prior == "marginal" and any(home is fixed_prior for home, *_ in PARTS[without]):
        pytest.skip("a part of the fixed prior")
    with ExitStack() as stack:
        for home, name, value in PARTS[without]:
            stack.enter_context(mock.patch.object(home, name, value))
        counts = benchmark.pedantic(evaluations, (prior,), rounds=1)
    row = {
        "search": without,
        "prior": prior,
        "median": f"{np.median(counts):g}",
        "worst": max(counts),
        "total": sum(counts),
    }
    figures("evaluations", row)
    print(row)


def evaluations(prior):
    return [
        posterior_agreement(a, b, prior=prior).n_evaluations
        for _, a, b in varied_suite()
        if a.shape[1] <= MOST_CLASSES[prior]
    ]
