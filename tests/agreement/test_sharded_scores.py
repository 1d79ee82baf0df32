"""Shards of pairs on several processes: the numbers of one process, and errors on all."""

import numpy as np
import pytest
from helpers import processes

from pa_select import posterior_agreement

CASES = processes.cases()


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """What three ranks found: (rank 0's, rank 1's, rank 2's) for each question."""
    answers = processes.ask(3, tmp_path_factory.mktemp("three"), processes.three)
    return tuple(zip(*answers, strict=True))


def assert_same(answers, alone):
    """Every rank has the others' bits, and the numbers of all rows in one process."""
    assert all(len(results) == len(alone) for results in answers)
    for p, expected in enumerate(alone):
        of_ranks = [results[p] for results in answers]
        for name in processes.NUMBERS:
            values = [result[name] for result in of_ranks]
            np.testing.assert_array_equal(values, values[0], err_msg=name)
            close = pytest.approx(expected[name], rel=1e-9, abs=1e-9, nan_ok=True)
            assert values[0] == close, name
        for result in of_ranks if expected["path"] else ():
            np.testing.assert_array_equal(result["path"], of_ranks[0]["path"])
            np.testing.assert_allclose(result["path"], expected["path"], rtol=1e-7, atol=1e-9)
        terms = np.concatenate([result["terms"] for result in of_ranks])
        np.testing.assert_allclose(terms, expected["terms"], rtol=1e-9, atol=1e-9)
        assert all(len(x["terms"]) == len(x["weight"]) == x["rows"] for x in of_ranks)


def alone(name):
    scores, arguments = CASES[name]
    return processes.numbers(posterior_agreement(*scores, **arguments))


@pytest.mark.filterwarnings("ignore:scores_a and scores_b:UserWarning")  # nearly one class
@pytest.mark.parametrize("name", CASES)
def test_three_ranks_find_what_one_does(three, name):
    found = three[0]
    expected = alone(name)
    for key in found[0]:
        if key[0] == name:
            assert_same([of_rank[key] for of_rank in found], expected)


def test_no_shape_and_two_of_three(three):
    a, b = processes.noisy(50)
    together, of_batch, with_prior, some = zip(*three[1], strict=True)
    expected = processes.numbers(posterior_agreement(a, b))
    assert_same(together, expected)
    assert_same(of_batch, processes.numbers(posterior_agreement(a, b, prior="marginal")))
    # A rank without pairs and classes has the others' prior.
    vector = np.arange(1.0, a.shape[1] + 1)
    alone = posterior_agreement(a, b, prior=vector / vector.sum())
    assert_same(with_prior, processes.numbers(alone))
    assert_same([some[0], some[2]], expected)
    kind, message = some[1]
    assert kind == "ValueError"
    assert message.startswith("process_group: expected None, 'world' or a ProcessGroup that this")


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("nan", "ValueError", "rank 2: scores_a: expected finite scores (or -inf for probability"),
        ("tol", "ValueError", "tol: expected the same on all ranks, got 1e-05 on rank 0 and 0.0"),
        ("certify", "ValueError", "certify: expected the same on all ranks, got True on rank 0"),
        ("prior", "ValueError", "prior: expected the same on all ranks, got [0.25, 0.25, 0.25"),
        ("wrong prior", "ValueError", "prior: expected one probability for each of 4 classes"),
        ("classes", "ValueError", "scores_a: expected the same number of classes on all ranks"),
        ("problems", "ValueError", "scores_a: expected the same number of problems on all ranks"),
        ("groups", "ValueError", "groups: expected None with a process_group, since groups may"),
        ("weights", "ValueError", "sample_weight: expected a positive and finite sum over all"),
        ("empty", "ValueError", "sample_weight: expected a positive and finite sum over all"),
        ("all", "ValueError", "tol: expected at least 1e-12 nats"),
        ("first pass", "RuntimeError", "rank 2: MemoryError: no memory"),
        ("later pass", "ValueError", "rank 2: a cosmic ray"),
        ("sums", "RuntimeError", "process_group: expected equally many numbers from each rank"),
        ("flat", "RuntimeError", "The agreement of problem 0 could not be certified to"),
    ],
)
def test_an_error_is_one_on_all_ranks(three, name, kind, message):
    for of_rank in three[2]:
        said, text = of_rank[name]
        assert said == kind
        assert text.startswith(message)


def test_the_group_outlives_errors(three):
    scores = {of_rank["still"] for of_rank in three[2]}
    a, b = processes.noisy(60)
    assert len(scores) == 1
    assert scores.pop() == pytest.approx(posterior_agreement(a, b).score, abs=1e-12)
