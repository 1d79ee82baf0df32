"""Agreement of chunks: the same as of all rows at once, however they are cut and read."""

import re
from importlib import import_module

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset, TensorDataset

from pa_select import agreement_of_chunks, posterior_agreement

# The package has the function under this name.
module = import_module("pa_select.agreement.agreement_of_chunks")


N, K = 300, 4
# Both are solved by the same steps, to whatever tolerance.
SOON = {"tol": 1e-3}
PRIORS = ["uniform", "marginal", [0.1, 0.2, 0.3, 0.4]]


def scores(n=N, seed=0):
    rng = np.random.default_rng(seed)
    a = 3 * rng.normal(size=(n, K))
    return a, a + rng.normal(size=(n, K)), rng.uniform(0, 2, n) * (rng.random(n) < 0.9)


def cut(arrays, ends):
    return list(zip(*(np.split(x, ends) for x in arrays), strict=True))


def same(result, expected):
    for name in ("score", "log_kernel", "upper_bound", "agreement_rate", "standard_error"):
        one, other = getattr(result, name), getattr(expected, name)
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9, nan_ok=True), name
    for name in ("n_pairs", "n_classes", "n_evaluations"):
        assert getattr(result, name) == getattr(expected, name), name
    assert result.beta == pytest.approx(expected.beta, rel=1e-7)
    np.testing.assert_allclose(result.terms, expected.terms, rtol=1e-7, atol=1e-9)


class Counted:
    """Chunks that count how often they are read."""

    def __init__(self, chunks):
        self.chunks, self.n_reads = chunks, 0

    def __iter__(self):
        self.n_reads += 1
        return iter(self.chunks)


@pytest.mark.parametrize("prior", PRIORS, ids=["uniform", "marginal", "vector"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "ends",
    [[], range(1, 60), [1, 2, 120], range(50, N, 50)],
    ids=["all", "rows", "uneven", "even"],
)
def test_chunks_agree_as_all_rows_do(prior, weighted, ends):
    a, b, weight = scores()
    arrays = (a, b, weight) if weighted else (a, b)
    weight = weight if weighted else None
    expected = posterior_agreement(a, b, prior=prior, sample_weight=weight, **SOON)
    same(agreement_of_chunks(cut(arrays, list(ends)), prior=prior, **SOON), expected)


@pytest.mark.slow
@settings(max_examples=15)
@given(
    ends=st.lists(st.integers(1, 99), unique=True).map(sorted),
    room=st.integers(1, 130),
    prior=st.sampled_from(["uniform", "marginal"]),
    zeros=st.booleans(),
)
def test_rows_gathered_in_any_room(ends, room, prior, zeros):
    a, b, weight = scores(100)
    if zeros:
        a[::7, 0] = b[::5, 0] = -np.inf
    expected = posterior_agreement(a, b, sample_weight=weight, prior=prior, **SOON)
    chunks = cut((a, b, weight), ends)
    with pytest.MonkeyPatch.context() as patch:
        # One room after the other: blocks of one pass must keep their numbers apart.
        patch.setattr(module, "_ROOM_PER_THREAD", room * K)
        same(agreement_of_chunks(chunks, prior=prior, **SOON), expected)


def test_the_cut_changes_no_bit():
    a, b, weight = scores()
    one, other = (
        agreement_of_chunks(cut((a, b, weight), ends), prior="marginal")
        for ends in ([150], range(3, N, 3))
    )
    assert (one.score, one.beta, one.upper_bound) == (other.score, other.beta, other.upper_bound)
    np.testing.assert_array_equal(one.terms, other.terms)


@pytest.mark.parametrize("prior", ["uniform", "marginal"])
def test_zero_posteriors(prior):
    a, b, _ = scores()
    a[:, 0] = b[::3, 0] = -np.inf
    same(
        agreement_of_chunks(cut((a, b), [7, 290]), prior=prior),
        posterior_agreement(a, b, prior=prior),
    )
    a[5], b[5] = [0, *[-np.inf] * 3], [-np.inf, 0, 0, 0]  # disjoint in one chunk only
    disjoint = agreement_of_chunks(cut((a, b), [7, 290]), prior=prior)
    same(disjoint, posterior_agreement(a, b, prior=prior))
    assert disjoint.beta == 0


def test_perfect_agreement_and_a_single_pair():
    a, _, _ = scores()
    assert agreement_of_chunks(cut((a, a), [10])).score == pytest.approx(np.log(K))
    assert agreement_of_chunks([(a[:1], a[:1])], prior="marginal").score == 0


def test_chunks_of_any_type():
    a, b, weight = (np.round(x).astype(np.int8) for x in scores())
    weight += 1
    chunks = [
        (a[:50].tolist(), b[:50].astype(np.float16), weight[:50]),
        [torch.tensor(a[50:90]), torch.tensor(b[50:90], dtype=torch.bfloat16), weight[50:90]],
        (a[90:].astype(np.float32), b[90:].astype(">f8"), weight[90:].tolist()),
    ]
    expected = posterior_agreement(a, b, sample_weight=weight)
    same(agreement_of_chunks(chunks, device="cpu"), expected)
    single = [(x.astype(np.float32), y.astype(np.float32)) for x, y in cut((a, b), [9])]
    same(agreement_of_chunks(single, device=torch.device("cpu")), posterior_agreement(a, b))


def test_what_can_be_read_again():
    a, b, _ = scores()
    expected = posterior_agreement(a, b)
    chunks = cut((a, b), [100, 200])

    class Indexed(Dataset):
        def __len__(self):
            return len(chunks)

        def __getitem__(self, i):
            return chunks[i % len(chunks)]  # never says that it ends

    rows = TensorDataset(torch.tensor(a), torch.tensor(b))
    for readable in (
        tuple(chunks),
        Counted(chunks),
        lambda: iter(chunks),
        lambda: (chunk for chunk in chunks),
        Indexed(),
        DataLoader(rows, batch_size=64),
        DataLoader(Indexed(), batch_size=None),
    ):
        same(agreement_of_chunks(readable), expected)


def test_memory_that_is_used_again():
    a, b, _ = scores()

    def chunks():
        room = np.empty((2, 60, K))
        for begin in range(0, N, 60):
            room[:] = a[begin : begin + 60], b[begin : begin + 60]
            yield room[0], room[1]

    same(agreement_of_chunks(chunks), posterior_agreement(a, b))


@pytest.mark.parametrize("prior", ["uniform", "marginal"])
@pytest.mark.parametrize("outside", [False, True])
def test_scored_in_inference_mode(prior, outside, monkeypatch):
    a, b, _ = scores()

    def chunks():
        with torch.inference_mode():
            for begin in range(0, N, 60):
                yield tuple(1.0 * torch.tensor(x[begin : begin + 60]) for x in (a, b))

    monkeypatch.setattr(module, "_ROOM_PER_THREAD", 70 * K)
    with torch.inference_mode(outside):
        result = agreement_of_chunks(chunks, prior=prior)
    same(result, posterior_agreement(a, b, prior=prior))
    assert not torch.is_inference_mode_enabled()


def test_nothing_is_changed():
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    a, b, weight = scores()
    chunks = cut((a, b, weight), [100])
    kept = [[x.copy() for x in chunk] for chunk in chunks]
    agreement_of_chunks(chunks)
    for chunk, old in zip(chunks, kept, strict=True):
        for x, y in zip(chunk, old, strict=True):
            np.testing.assert_array_equal(x, y)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("prior", ["uniform", "marginal", [0.1, 0.2, 0.3, 0.4]])
def test_each_pass_reads_once(capsys, prior):
    a, b, _ = scores()
    chunks = Counted(cut((a, b), [100, 200]))
    result = agreement_of_chunks(chunks, prior=prior, verbose=1)
    shown = capsys.readouterr().err
    assert int(re.findall(r"pass (\d+)", shown)[-1]) == chunks.n_reads
    # Two passes that evaluate nothing, and several temperatures in the first one.
    assert 4 <= chunks.n_reads <= 2 * result.n_evaluations + 5
    assert f"score={result.score:.6g}" in shown
    assert re.findall(r"gap=([\d.e+-]+)", shown)
    quiet = Counted(chunks.chunks)
    agreement_of_chunks(quiet, prior=prior)
    assert quiet.n_reads == chunks.n_reads
    assert not capsys.readouterr().err


def test_without_a_certificate():
    a, b, _ = scores()
    result = agreement_of_chunks(cut((a, b), [100]), certify=False)
    same(result, posterior_agreement(a, b, certify=False))
    assert 0 <= result.gap <= 1e-3


def test_no_source():
    a, b, _ = scores()
    result = agreement_of_chunks([(a, b)])
    assert result.source is None
    with pytest.raises(ValueError, match="result: expected a result of posterior_agreement,"):
        result.decompose()


A, B, W = scores(20)


def bad(x, row, column, value):
    x = x.copy()
    x[row, column] = value
    return x


@pytest.mark.parametrize(
    ("chunks", "error", "message"),
    [
        (((A, B) for _ in range(3)), TypeError, "again for each pass, got a generator, which"),
        (map(tuple, [(A, B)]), TypeError, "got a map, which can be read only once"),
        (3, TypeError, r"expected an iterable of tuples \(scores_a, scores_b\), or a function"),
        ([], ValueError, "chunks: expected at least one, got none"),
        (lambda: iter([]), ValueError, "chunks: expected at least one, got none"),
        ([(A, B), A], TypeError, "sample_weight.*, got a ndarray as chunk 1"),
        ([(A,)], TypeError, "got a tuple of 1 as chunk 0"),
        (
            [(A, B), (A, bad(B, 3, 1, np.nan))],
            ValueError,
            "scores_b of chunk 1: .*nan in row 3, c",
        ),
        ([(A, B), (bad(A, 3, 1, np.inf), B)], ValueError, "scores_a of chunk 1: .* inf in row 3"),
        ([(A, B), (A[:5], B)], ValueError, r"scores_b of chunk 1: expected the shape of scores_a"),
        ([(A, B), (A[:0], B[:0])], ValueError, "scores_a of chunk 1: expected at least one row"),
        ([(A, B), (A[:, :3], B[:, :3])], ValueError, "chunk 1: expected 4 classes, like chunk 0,"),
        ([(A, B, W), (A, B)], ValueError, "of chunk 1: expected weights, like chunk 0, got none"),
        ([(A, B), (A, B, W)], ValueError, "of chunk 1: expected no weights, like .*, got some"),
        (
            [(A, B, W), (A, B, W[1:])],
            ValueError,
            r"sample_weight of chunk 1: expected shape \(20,",
        ),
        ([(A, B, W), (A, B, -W - 1)], ValueError, "sample_weight of chunk 1: .* in row 0"),
        ([(A, B, 0 * W)] * 2, ValueError, "sample_weight of all chunks: expected a positive"),
    ],
)
def test_what_does_not_fit(chunks, error, message):
    with pytest.raises(error, match=message):
        agreement_of_chunks(chunks)


def test_weights_of_a_chunk_may_all_be_zero():
    same(agreement_of_chunks([(A, B), (B, A)][:1]), posterior_agreement(A, B))
    chunks = [(B, A, 0 * W), (A, B, W)]
    same_score = posterior_agreement(A, B, sample_weight=W).score
    assert agreement_of_chunks(chunks).score == pytest.approx(same_score, abs=1e-9)


class Changing:
    """Chunks that are others from the second pass on."""

    def __init__(self, *passes):
        self.passes, self.n_reads = passes, 0

    def __call__(self):
        self.n_reads += 1
        return iter(self.passes[min(self.n_reads, len(self.passes)) - 1])


@pytest.mark.parametrize(
    ("later", "message"),
    [
        ([(A, B)], "the 2 chunks of the first pass, got only 1 in pass 2"),
        ([], "the 2 chunks of the first pass, got only 0 in pass 2"),
        ([(A, B)] * 3, "the 2 chunks of the first pass, got more in pass 2"),
        ([(A, B), (A[1:], B[1:])], "scores_a of chunk 1: expected the 20 rows of the .*got 19"),
        ([(A[::-1], B[::-1]), (A, B)], "the same order, got another first pair in pass 2"),
        ([(A, bad(B, 0, 0, -np.inf)), (A, B)], "another first pair in pass 2; shuffle nothing"),
        ([(A[:, :3], B[:, :3]), (A, B)], "scores_a of chunk 0: expected 4 classes"),
    ],
)
def test_chunks_that_change(later, message):
    chunks = Changing([(A, B)] * 2, later)
    with pytest.raises(ValueError, match=message):
        agreement_of_chunks(chunks)
    assert chunks.n_reads == 2


def test_a_function_that_returns_the_same_iterator():
    one = iter([(A, B)])
    with pytest.raises(ValueError, match="must read all of them again|got only 0 in pass 2"):
        agreement_of_chunks(lambda: one)


def test_rounding_of_half_precision_is_no_change():
    noise = 1 + 1e-3 * np.random.default_rng(0).normal(size=A.shape)
    agreement_of_chunks(Changing([(A, B)], [(A * noise, B)]))


@pytest.mark.parametrize("prior", ["nonsense", [0.5, 0.5]])
def test_a_wrong_prior_costs_one_chunk(prior):
    read = []

    def chunks():
        for i in range(5):
            read.append(i)
            yield A, B

    with pytest.raises(ValueError, match="prior: "):
        agreement_of_chunks(chunks, prior=prior)
    assert read == [0]


@pytest.mark.slow
def test_many_blocks_and_threads():
    """So many rows that the room is filled several times, each time for several threads."""
    rng = np.random.default_rng(0)
    a = 2 * rng.normal(size=(250_000, 20)).astype(np.float32)
    b = a + rng.normal(size=a.shape).astype(np.float32)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        result = agreement_of_chunks(cut((a, b), range(70_001, len(a), 70_001)), certify=False)
        expected = posterior_agreement(a, b, certify=False)
    finally:
        torch.set_num_threads(threads)
    same(result, expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("prior", ["uniform", "marginal"])
def test_on_a_gpu(prior):
    a, b, weight = scores()
    expected = posterior_agreement(a, b, sample_weight=weight, prior=prior)
    chunks = cut((a, b, weight), [50, 51])
    same(agreement_of_chunks(chunks, prior=prior, device="cuda"), expected)
    there = [[torch.tensor(x, device="cuda") for x in chunk] for chunk in chunks]
    same(agreement_of_chunks(there, prior=prior), expected)
