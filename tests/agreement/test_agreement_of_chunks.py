"""Agreement of chunks: the same as of all rows at once, however they are cut and read."""

import pickle
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from pa_select import compare_agreement, confidence_interval, pa_kernel, posterior_agreement
from pa_select.agreement import agreement_of_chunks

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


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("ends", "prior"),
    [([], PRIORS[0]), (range(1, 60), PRIORS[1]), ([1, 2, 120], PRIORS[2])],
    ids=["all", "rows", "uneven"],
)
def test_chunks_agree_as_all_rows_do(weighted, ends, prior):
    a, b, weight = scores()
    arrays = (a, b, weight) if weighted else (a, b)
    weight = weight if weighted else None
    expected = posterior_agreement(a, b, prior=prior, sample_weight=weight, **SOON)
    same(agreement_of_chunks(cut(arrays, list(ends)), prior=prior, **SOON), expected)


class Endless(Dataset):
    """Chunks that could be made for ever, as of random rows, if it had no length."""

    def __init__(self, chunks):
        self.chunks = chunks

    def __len__(self):
        return len(self.chunks)

    def __getitem__(self, i):
        if i > 10:
            raise AssertionError("read beyond its length")
        return self.chunks[i % len(self.chunks)]


def test_what_can_be_read():
    a, b, _ = scores()
    expected = posterior_agreement(a, b)
    rows = TensorDataset(torch.tensor(a), torch.tensor(b))
    chunks = cut((a, b), [100, 200])
    loader = DataLoader(rows, batch_size=64)
    for readable in (tuple(chunks), iter(chunks), loader, Endless(chunks)):
        same(agreement_of_chunks(readable), expected)


def test_a_net_scores_each_row_once():
    a, _, _ = scores()
    net = torch.nn.Linear(K, K)
    scored = []
    net.register_forward_hook(lambda _, rows, __: scored.append(rows[0]))
    rows = torch.tensor(a, dtype=torch.float32)
    with torch.inference_mode():
        agreement_of_chunks((net(3 * x), net(3 * x + 1)) for x in torch.split(rows, 70))
    assert torch.equal(torch.cat(scored[::2]), 3 * rows)
    assert torch.equal(torch.cat(scored[1::2]), 3 * rows + 1)


TYPES = [torch.int8, torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("room", [1, 1 << 20])
def test_a_type_that_changes(dtype, room, monkeypatch):
    """Rows are kept exactly, and scores that tie in the type of their chunk still do."""
    monkeypatch.setattr(module, "_SCORES_AT_ONCE", room)
    a, b = (3 * torch.tensor(x[:200]) for x in scores()[:2])
    a[:, 2:] -= 9
    first, last = [x[:120].to(dtype) for x in (a, b)], [x[120:].float() for x in (a, b)]
    # The next number in single precision ties with this one, but not in double precision.
    last[0][:, 1] = torch.nextafter(last[0][:, 0], last[0].new_tensor(torch.inf))
    parts = [posterior_agreement(*pair) for pair in (first, last)]
    for chunks in ([first, last], [last, first], [first, last, first]):
        result = agreement_of_chunks(chunks)
        known = [parts[0] if chunk is first else parts[1] for chunk in chunks]
        n = sum(part.n_pairs for part in known)
        rate = sum(part.n_pairs * part.agreement_rate for part in known) / n
        assert result.agreement_rate == pytest.approx(rate, abs=1e-12)
        kernel = sum(len(pair[0]) * pa_kernel(*pair, result.beta) for pair in chunks) / n
        assert result.score == pytest.approx(kernel, abs=1e-9)
        stored = torch.float32 if dtype == torch.float32 else torch.float64
        assert (result.source.a.dtype, result.source.b.dtype) == (stored, stored)
        assert torch.equal(result.source.b, torch.cat([pair[1].to(stored) for pair in chunks]))


@pytest.mark.parametrize("outside", [False, True])
def test_scored_in_inference_mode(outside):
    a, b, _ = scores()

    def chunks():
        with torch.inference_mode():
            for begin in range(0, N, 60):
                yield tuple(1.0 * torch.tensor(x[begin : begin + 60]) for x in (a, b))

    with torch.inference_mode(outside):
        result = agreement_of_chunks(chunks())
    same(result, posterior_agreement(a, b))
    assert not torch.is_inference_mode_enabled()


def test_the_source_is_kept():
    a, b, weight = scores()
    result = agreement_of_chunks(cut((a, b, weight), [100]))
    expected = posterior_agreement(a, b, sample_weight=weight)
    np.testing.assert_allclose(result.posteriors(1.0), expected.posteriors(1.0), atol=1e-12)
    intervals = [confidence_interval(x) for x in (result, expected)]
    np.testing.assert_allclose(*intervals, atol=1e-7)
    assert compare_agreement(result, expected).difference == pytest.approx(0, abs=1e-9)


def mapped(folder):
    """How many files of this folder are mapped by this process, or open in it."""
    maps = [line for line in Path("/proc/self/maps").read_text().splitlines() if folder in line]
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return len(maps), sum(str(link.readlink()).startswith(folder) for link in links)


linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@linux
def test_the_file_vanishes_with_the_result(tmp_path):
    a, b, _ = scores()
    chunks = [(a[:100], b[:100]), (np.float32(a[100:]), b[100:])]  # one file is converted
    result = agreement_of_chunks(chunks, folder=tmp_path)
    assert not list(tmp_path.iterdir())  # even if the process is killed now
    # A mapping has a handle of its own.
    assert mapped(str(tmp_path)) == (2, 2)
    terms = result.terms
    saved = pickle.dumps(result)
    del result
    assert mapped(str(tmp_path)) == (0, 0)
    assert len(terms) == N
    # The numbers are saved, not the file.
    loaded = pickle.loads(saved)
    np.testing.assert_array_equal(loaded.posteriors(), agreement_of_chunks(chunks).posteriors())


@linux
@pytest.mark.parametrize("where", ["reading", "writing", "solving"])
def test_an_interrupted_call_leaves_nothing(where, monkeypatch, tmp_path):
    a, b, _ = scores()

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    def chunks():
        yield a, b
        if where == "reading":
            interrupt()

    if where == "writing":
        monkeypatch.setattr(module, "converted", interrupt)
    if where == "solving":
        monkeypatch.setattr(module, "posterior_agreement", interrupt)
    with pytest.raises(KeyboardInterrupt) as caught:
        agreement_of_chunks(chunks(), folder=tmp_path)
    assert not list(tmp_path.iterdir())
    if where != "solving":  # while the traceback is kept, so are the scores in it
        assert mapped(str(tmp_path)) == (0, 0)
    del caught
    assert mapped(str(tmp_path)) == (0, 0)


A, B, W = scores(20)


def bad(x, row):
    x = x.copy()
    x[row, 1] = np.nan
    return x


@pytest.mark.parametrize(
    ("chunks", "error", "message"),
    [
        ([], ValueError, "chunks: expected at least one, got none"),
        ([(A, B), (A, bad(B, 3))], ValueError, "scores_b of chunk 1: .*nan in row 3, column 1"),
        ([(A, B), (A[:5], B)], ValueError, r"scores_b of chunk 1: expected the shape of scores_a"),
        ([(A, B), (A[:, :3], B[:, :3])], ValueError, "chunk 1: expected 4 classes, like chunk 0,"),
        ([(A, B, W), (A, B)], ValueError, "of chunk 1: expected weights, like chunk 0, got none"),
        ([(A, B), (A, B, W)], ValueError, "of chunk 1: expected no weights, like .*, got some"),
        ([(A, B, W), (A, B, -W - 1)], ValueError, "sample_weight of chunk 1: .* in row 0"),
        ([(A, B, 0 * W)] * 2, ValueError, "sample_weight: expected a positive"),
    ],
)
def test_what_does_not_fit(chunks, error, message):
    with pytest.raises(error, match=message):
        agreement_of_chunks(chunks)


def test_weights_of_a_chunk_may_all_be_zero():
    expected = posterior_agreement(A, B, sample_weight=W).score
    found = agreement_of_chunks([(B, A, 0 * W), (A, B, W)]).score
    assert found == pytest.approx(expected, abs=1e-9)
