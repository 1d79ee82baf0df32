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
from pa_select.agreement.kernels import (
    find_maxima,
    kernel_sums,
    marginal_prior,
)
from pa_select.solver import bounds, branch_and_bound


def no_bound(left, right):
    nothing = np.full(left.value.shape, np.nan)
    return nothing, nothing


def no_cubics(value, *derivatives):
    return np.full((2, value.shape[1]), np.nan)


def no_maximum(table, last, row):
    return np.full(len(row), np.nan)


MOST = 200
# What is taken away, and by what it is replaced.
PARTS = {
    "all parts": [],
    # With the marginal prior many would need thousands, so that the search is ended early.
    f"without the two cubics (at most {MOST})": [
        (bounds, "two_cubics", no_cubics),
        (marginal_prior, "two_cubics", no_cubics),
        (branch_and_bound, "MAX_EVALUATIONS", MOST),
    ],
    "without chord and tangents": [(bounds, "_chord_minus_tangents", no_bound)],
    "without the expected maximum": [(branch_and_bound, "_expected_maximum", no_maximum)],
    "without many points at once": [(find_maxima, "_NUMBERS_AT_ONCE", 0)],
    "without single precision": [(kernel_sums, "_FEWEST_SCORES", np.inf)],
    "without a certificate": [],
}
# These have to save evaluations; the other parts save time.
SAVING = {
    "uniform": list(PARTS)[1:4],
    "marginal": [list(PARTS)[1], list(PARTS)[3]],
}


@pytest.mark.parametrize("prior", SAVING)
@pytest.mark.filterwarnings("ignore:scores_a and scores_b:UserWarning")
def test_evaluations(benchmark, figures, prior):
    if not benchmark.enabled:
        pytest.skip("for the table only")
    counts = benchmark.pedantic(lambda: {name: evaluations(prior, name) for name in parts(prior)})
    for name, values in counts.items():
        row = {
            "search": name,
            "prior": prior,
            "median": f"{np.median(values):g}",
            "worst": max(values),
            "total": sum(values),
        }
        figures("evaluations", row)
        print(row)
    total = sum(counts["all parts"])
    assert all(sum(counts[name]) > total for name in SAVING[prior])
    assert sum(counts["without a certificate"]) < total


def parts(prior):
    """The parts that a search with this prior has."""
    return [name for name in PARTS if prior == "uniform" or name != "without chord and tangents"]


def evaluations(prior, without):
    """Evaluations of each problem."""
    certify = without != "without a certificate"
    with ExitStack() as stack:
        for home, name, value in PARTS[without]:
            stack.enter_context(mock.patch.object(home, name, value))
        return [evaluations_of(a, b, prior, certify) for _, a, b in varied_suite()]


def evaluations_of(a, b, prior, certify):
    try:
        return posterior_agreement(a, b, prior=prior, certify=certify).n_evaluations
    except RuntimeError:
        return MOST
