"""Every path of the agreement on a device that only pretends to be one."""

import numpy as np
import pytest
import torch
from helpers.pretend_device import PretendDevice, PretendTensor
from numpy.testing import assert_allclose

from pa_select import compare_agreement, confidence_interval, pa_kernel, posterior_agreement
from pa_select.agreement import agreement_of_chunks
from pa_select.agreement.inputs.problem import check_problem
from pa_select.agreement.kernels.fixed_prior import FixedPrior
from pa_select.agreement.kernels.marginal_prior import MarginalPrior
from pa_select.agreement.kernels.marginal_sums import ModelRuns
from pa_select.agreement.pairs import paired_scores
from pa_select.agreement.pairs.paired_scores import concatenate
from pa_select.utils.arrays import check_values, resolve_device

PRIORS = ["uniform", "marginal", [0.4, 0.3, 0.2, 0.1]]
FIELDS = "score", "beta", "upper_bound", "log_kernel", "agreement_rate", "standard_error", "terms"
# Sums of uneven problems round otherwise on a device, and the search may then take another step.
CLOSE = {"rtol": 1e-4, "atol": 2e-5}


@pytest.fixture
def device():
    with PretendDevice() as there:
        yield there


def problem(seed=0, n=60, k=4):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, k))
    scores[np.arange(n), rng.integers(0, k, n)] += 3
    return [scores + 0.7 * rng.normal(size=(n, k)) for _ in range(2)]


def with_zeros(a, b):
    """Some classes of probability 0, and one pair whose first side is a decision."""
    a, b = a.copy(), b.copy()
    a[3, 1] = a[5, 2:] = b[9, 0] = -np.inf
    a[0, 1:] = -np.inf
    return a, b


def decisions(a, b):
    """Labels on one side, as a calibration has them."""
    return a, np.where(np.eye(a.shape[1])[b.argmax(1)] > 0, 0.0, -np.inf)


def same(here, there):
    for name in FIELDS:
        assert_allclose(getattr(there, name), getattr(here, name), err_msg=name, **CLOSE)


A, B = problem()
WEIGHT = np.random.default_rng(1).random(len(A)) * (np.arange(len(A)) % 7 > 0)
# Problems of one length and of two, some of them with equal scores.
EVEN = [problem(seed) for seed in range(3)]
UNEVEN = [problem(seed, n=60 + seed % 2) for seed in range(3)]


class TestThePretendedDevice:
    """It refuses what a GPU refuses, and counts what takes long there."""

    def test_it_says_cuda(self, device):
        x = device.put(A)
        assert (x.device, x.is_cpu, x.is_cuda) == (torch.device("cuda:0"), False, True)
        assert resolve_device("auto").type == "cuda"
        made = torch.empty(2, device="cuda"), torch.ones(2).to("cuda"), torch.zeros(2).cuda()
        for y in (x + 1, x.T, x[:3], x.double(), torch.zeros_like(x), x.new_empty(2), *made):
            assert isinstance(y, PretendTensor)
        assert not isinstance(x.cpu(), PretendTensor)
        assert_allclose(x.cpu().numpy(), A)
        assert x[:1].tolist() == A[:1].tolist()

    @pytest.mark.parametrize(
        "mixed",
        [
            lambda x, y: x + y,
            lambda x, y: torch.cat([x, y]),
            lambda x, y: torch.where(x > 0, x, y),
            lambda x, y: x.index_select(0, torch.arange(2)),
            lambda x, y: x.add_(y),
        ],
    )
    def test_it_refuses_tensors_of_the_cpu(self, device, mixed):
        with pytest.raises(RuntimeError, match="on the same device"):
            mixed(device.put(A), torch.tensor(A))

    def test_it_refuses_numpy(self, device):
        for convert in (lambda x: x.numpy(), np.asarray):
            with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor"):
                convert(device.put(A))

    @pytest.mark.parametrize(
        ("work", "launches", "waits", "copies"),
        [
            (lambda x: x + 1, 1, 0, 0),
            (lambda x: x.sum().item(), 1, 1, 0),
            (lambda x: bool((x > 0).any()), 2, 1, 0),
            (lambda x: x.cpu(), 0, 1, 0),
            (lambda x: (x > 0).nonzero(), 2, 1, 0),
            (lambda x: x[x > 0], 2, 1, 0),
            (lambda x: x[torch.arange(2)], 1, 0, 1),
            (lambda x: x.copy_(torch.tensor(A)), 0, 0, 1),
            (lambda x: x.repeat_interleave(torch.ones(4).long().to("cuda"), 1), 2, 1, 1),
            (lambda x: torch.logsumexp(x, 0), 9, 0, 0),
        ],
    )
    def test_it_counts(self, device, work, launches, waits, copies):
        x = device.put(A)
        before = device.counts.copy()
        work(x)
        found = device.counts - before
        assert (found.launches, found.waits, found.copies) == (launches, waits, copies)

    def test_it_counts_bytes(self, device):
        x = device.put(A)
        before = device.counts.copy()
        _ = x[:50] + x[:1, :1].expand(50, 4)
        found = device.counts - before
        assert (found.read, found.written) == (50 * 4 * 8 + 8, 50 * 4 * 8)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("change", [lambda a, b: (a, b), with_zeros, decisions])
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_one_problem(device, prior, change, weight):
    a, b = change(A, B)
    here = posterior_agreement(a, b, prior=prior, sample_weight=weight)
    there = posterior_agreement(device.put(a), device.put(b), prior=prior, sample_weight=weight)
    same(here, there)


@pytest.mark.parametrize("name", ["auto", "cuda", torch.device("cuda:0")])
@pytest.mark.parametrize("dtype", [np.float64, torch.float16, torch.bfloat16, torch.int16])
def test_scores_are_moved_to_the_device(device, name, dtype):
    a, b = (x if dtype is np.float64 else torch.tensor(x).to(dtype) for x in (A, B))
    here = posterior_agreement(a, b)
    assert not device.counts.launches
    same(here, posterior_agreement(a, b, device=name))
    assert device.counts.launches


def test_groups_and_weights_that_lie_on_the_device(device):
    groups = np.arange(len(A)) // 3
    here = posterior_agreement(A, B, sample_weight=WEIGHT, groups=groups)
    weight, groups = device.put(WEIGHT), device.put(groups)
    a, b, prior = map(device.put, (A, B, PRIORS[2]))
    same(here, posterior_agreement(a, b, sample_weight=weight, groups=groups))
    same(posterior_agreement(A, B, prior=PRIORS[2]), posterior_agreement(a, b, prior=prior))


@pytest.mark.parametrize("prior", PRIORS[:2])
@pytest.mark.parametrize("problems", [EVEN, UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize("change", [lambda a, b: (a, b), with_zeros])
def test_batches(device, prior, problems, change):
    changed = [change(a, b) for a, b in problems]
    here = posterior_agreement(*map(list, zip(*changed, strict=True)), prior=prior)
    there = [[device.put(x) for x in side] for side in zip(*changed, strict=True)]
    for one, other in zip(here, posterior_agreement(*there, prior=prior), strict=True):
        same(one, other)


@pytest.mark.parametrize("prior", PRIORS)
def test_several_blocks_in_single_precision(device, prior, monkeypatch):
    a, b = problem(2, 9000)
    here = posterior_agreement(a, b, prior=prior)
    # Other blocks have other rounding errors.
    monkeypatch.setattr(paired_scores, "_ACCELERATOR_BLOCK_BYTES", 1 << 18)
    there = posterior_agreement(device.put(a), device.put(b), prior=prior)
    assert there.score == pytest.approx(here.score, abs=1e-6)
    assert there.gap <= 1e-5
    assert_allclose(there.terms, here.terms, atol=1e-3)


@pytest.mark.parametrize("prior", PRIORS)
def test_chunks(device, prior):
    a, b = with_zeros(A, B)
    cuts = [slice(0, 25), slice(25, 31), slice(31, None)]
    chunks = [(a[c], b[c], WEIGHT[c]) for c in cuts]
    here = agreement_of_chunks(chunks, prior=prior)
    if prior == "uniform":
        same(here, agreement_of_chunks(chunks, prior=prior, device="cuda"))
    there = [tuple(device.put(x) for x in chunk) for chunk in chunks]
    same(here, agreement_of_chunks(there, prior=prior))


@pytest.mark.parametrize("prior", PRIORS)
def test_kernel(device, prior):
    betas = [0, 0.3, 2, np.inf]
    a, b = with_zeros(A, B)
    assert_allclose(
        pa_kernel(device.put(a), device.put(b), betas, prior=prior, sample_weight=WEIGHT),
        pa_kernel(a, b, betas, prior=prior, sample_weight=WEIGHT),
        **CLOSE,
    )


@pytest.mark.parametrize(
    ("prior", "groups"), [("uniform", None), ("marginal", np.arange(60) // 2)]
)
def test_comparisons_and_posteriors(device, prior, groups):
    def solved(put, b):
        return posterior_agreement(put(A), put(b), prior=prior, sample_weight=WEIGHT)

    (here, steady), (there, shaky) = (
        (solved(put, B), solved(put, A + 0.1 * B)) for put in (np.asarray, device.put)
    )
    pairs = (steady, here), (shaky, there)
    compared = [compare_agreement(*both, groups=groups) for both in pairs]
    for name in ("difference", "standard_error", "p_value"):
        assert_allclose(*(getattr(x, name) for x in compared), **CLOSE)
    for beta in (None, 1.0):
        assert_allclose(there.posteriors(beta), here.posteriors(beta), **CLOSE)


@pytest.mark.parametrize("prior", PRIORS[:2])
def test_intervals(device, prior):
    here = posterior_agreement(A, B, prior=prior)
    there = posterior_agreement(device.put(A), device.put(B), prior=prior)
    assert_allclose(confidence_interval(there), confidence_interval(here), **CLOSE)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e200])
def test_bad_scores_name_their_row(device, wrong):
    a = A.copy()
    a[7, 2] = wrong
    with pytest.raises(ValueError, match="row 7, column 2"):
        posterior_agreement(device.put(a), device.put(B))


def held(device, problems, prior="uniform"):
    """The pairs of problems on the device, with an inverse temperature and a unit for each."""
    checked = [check_problem(device.put(a), device.put(b), None, prior) for a, b in problems]
    pairs, ones = concatenate(checked), np.ones(len(problems))
    return pairs, (ones, ones, np.arange(len(problems)))


def counted(device, evaluate):
    """Waits and copies of the second of two equal evaluations."""
    evaluate()
    before = device.counts.copy()
    evaluate()
    found = device.counts - before
    return found.waits, found.copies


@pytest.mark.parametrize("log_weights", [np.zeros(4), np.arange(4.0)])
def test_an_evaluation_copies_once_and_waits_once(device, log_weights):
    pairs, where = held(device, [(A, B)])
    kernel = FixedPrior(pairs, log_weights, None)
    for coarse in (False, True):
        found = counted(device, lambda c=coarse: kernel.evaluate(*where, coarse=c))
        assert found == (1, 1)


def test_blocks_of_uneven_problems_wait_for_their_lowest_scores_only(device):
    pairs, where = held(device, UNEVEN)
    # The result and the lowest scores; beta and unit, and the lengths of the block.
    kernel = FixedPrior(pairs, np.zeros(4), None)
    assert counted(device, lambda: kernel.evaluate(*where)) == (2, 2)


def test_the_two_passes_of_the_marginal_prior(device):
    pairs, where = held(device, [(A, B)], "marginal")
    kernel = MarginalPrior(ModelRuns.one_model_each(pairs))
    # The result of each pass; what the passes need, and the priors.
    assert counted(device, lambda: kernel.evaluate(*where)) == (2, 2)


def test_weights_come_back_once(device):
    pairs, _ = held(device, [(A, B)])
    before = device.counts.copy()
    for _ in range(2):
        assert_allclose(pairs.total_weights, 1)
        assert_allclose(pairs.n_used, len(A))
    assert (device.counts - before).waits == 1


def test_what_is_kept_is_a_share_of_the_free_memory(device, monkeypatch):
    pairs, _ = held(device, [(A, B)])
    assert pairs.keeps(torch.float64)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda *_: (16 * 8 * A.size - 1, 1 << 30))
    pairs, _ = held(device, [(A, B)])
    assert not pairs.keeps(torch.float64)
    assert pairs.keeps(torch.float32)


def test_many_scores_are_checked_at_once(device):
    scores = device.put(np.zeros((300_000, 10)))
    before = device.counts.copy()
    check_values(scores, "scores")
    assert (device.counts - before).waits == 2
