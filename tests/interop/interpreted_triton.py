"""The kernel of Triton against plain torch, in Triton's interpreter on the CPU.

The interpreter has to be asked for before Triton is imported, so `test_triton.py` runs these tests
in a process of their own. ``TRITON_INTERPRET=1 pytest tests/interop/interpreted_triton.py`` runs
them by hand.
"""

import numpy as np
import pytest
import torch

from pa_select import posterior_agreement
from pa_select.agreement.inputs.problem import Problem
from pa_select.agreement.pairs.paired_scores import concatenate
from pa_select.agreement.solver import single_precision
from pa_select.agreement.solver.fixed_prior import evaluate
from pa_select.agreement.solver.kernel_sums import log_prior_weights
from pa_select.agreement.solver.moments import Distances, distances_of
from pa_select.interop import triton as interop

# Inverse temperatures times the range of the scores: the limit at 0, tiny, usual and huge.
BETAS = np.array([0.0, 1e-9, 0.3, 5.0, 1e4, 1e9])


def problem(n, k, seed=0, scale=3.0):
    """Scores with ties, a row that ties throughout, and pairs of weight 0."""
    rng = np.random.default_rng(seed)
    a, b = np.round(scale * rng.normal(size=(2, n, k)), 1)
    a[-1] = 0.0
    weight = rng.random(n) + 0.1
    weight[: n // 3] = 0.0
    return a, b, weight


def with_zeros(a, b, weight):
    """Posteriors of zero, a decision, and a disjoint pair, which has weight 0."""
    a, b = a.copy(), b.copy()
    a[1, 1:] = -np.inf
    b[-1, -1] = -np.inf
    a[0, 0] = b[0, 1:] = -np.inf
    return a, b, weight


def pairs_of(*problems):
    return concatenate([Problem(torch.tensor(a), torch.tensor(b), w) for a, b, w in problems])


def both(pairs, beta, unit, problems, log_weights, coarse=False):
    """The sums by plain torch and by the kernel."""
    found = []
    for make in (Distances, interop.FusedDistances):
        token = distances_of.set(make)
        found.append(evaluate(pairs, beta, unit, problems, log_weights, coarse=coarse))
        distances_of.reset(token)
    return found


def compare(pairs, log_weights=None, betas=BETAS):
    """In float64 but for the last digits; in float32 within the error that is allowed for."""
    log_weights = np.zeros(pairs.n_classes) if log_weights is None else log_weights
    n = pairs.n_problems
    problems = np.repeat(np.arange(n), len(betas))
    beta = np.tile(betas, n)
    unit = np.where(beta > 0, beta, 1.0)
    plain, fused = both(pairs, beta, unit, problems, log_weights)
    for name, x, y in zip(plain._fields, plain, fused, strict=True):
        size = 1 + np.abs(x)
        np.testing.assert_array_less(np.abs(x - y), 1e-11 * size, err_msg=name)
    usual = (beta > 1e-2) & (beta < 1e2)
    where = beta[usual], unit[usual], problems[usual], log_weights
    (coarse,) = both(pairs, *where, coarse=True)[1:]
    for name in ("l1", "l2", "dl1", "dl2", "curvature"):
        difference = np.abs(getattr(coarse, name) - getattr(plain, name)[usual])
        assert (difference <= coarse.error).all(), name
    for name in ("rise", "fall"):
        assert (getattr(coarse, name) >= getattr(plain, name)[usual] * (1 - 1e-9)).all(), name


@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("k", [2, 3, 10, 130, 1000])
def test_the_sums_are_those_of_plain_torch(k, zeros, prior):
    drawn = np.random.default_rng(1).dirichlet(np.ones(k)) + 1e-3
    log_weights, _ = log_prior_weights(drawn / drawn.sum() if prior else None, k)
    betas = BETAS if k < 1000 else BETAS[2:4]
    one = problem(5, k)
    compare(pairs_of(with_zeros(*one) if zeros else one), log_weights, betas)


@pytest.mark.parametrize("scale", [1e-40, 1e40])
def test_scores_of_any_size(scale):
    a, b, weight = problem(5, 3)
    pairs, same = pairs_of((a * scale, b * scale, weight)), np.zeros(3, dtype=int)
    for beta in (np.array([0.1, 2, 50]) / scale, np.array([0.1, 2, 50])):
        plain, fused = both(pairs, beta, beta, same, np.zeros(3))
        for name, x, y in zip(plain._fields, plain, fused, strict=True):
            np.testing.assert_allclose(y, x, rtol=1e-11, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("k", [3, 70])
@pytest.mark.parametrize("lengths", [[4, 4, 4], [5, 2, 7]])
def test_many_problems(k, lengths):
    compare(pairs_of(*(problem(n, k, seed) for seed, n in enumerate(lengths))), betas=BETAS[2:4])


def test_long_rows_are_read_in_parts(monkeypatch):
    monkeypatch.setattr(interop, "_TILE", 16)
    compare(pairs_of(with_zeros(*problem(3, 37))), np.linspace(0, 2, 37), BETAS[2:4])


def test_exponentials_as_rough_as_those_of_a_device(monkeypatch):
    from triton.runtime.interpreter import InterpreterBuilder

    seen = []

    def rough(x):
        """A device computes 2 to the power of x log2(e) in float32, to a relative 2^-22."""
        seen.append(x.dtype)
        if x.dtype != np.float32:
            return np.exp(x)
        wrong = np.where(x < -0.7, 1 + 2.0**-22, 1 - 2.0**-22).astype(np.float32)
        return np.exp2(x * np.float32(np.log2(np.e))) * wrong

    monkeypatch.setattr(InterpreterBuilder, "create_exp", lambda self, x: self.unary_op(x, rough))
    for k in (2, 10, 300):
        compare(pairs_of(problem(6, k)), betas=BETAS[2:4])
    assert {np.dtype(np.float32), np.dtype(np.float64)} == set(seen)


@pytest.mark.parametrize("prior", ["uniform", [0.5, 0.2, 0.2, 0.1]])
def test_whole_solves(monkeypatch, prior):
    monkeypatch.setattr(single_precision, "_FEWEST_SCORES", 0)
    calls = []

    def on_any_device(block, *args):
        calls.append(block.a.dtype)
        return interop.FusedDistances(block, *args)

    monkeypatch.setattr(interop, "_distances", on_any_device)
    a, b, weight = problem(40, 4)
    plain = posterior_agreement(a, b, prior=prior, sample_weight=weight)
    with interop.fused_sums():
        fused = posterior_agreement(a, b, prior=prior, sample_weight=weight)
    assert {torch.float32, torch.float64} == set(calls)
    assert fused.gap <= 1e-6
    assert fused.score == pytest.approx(plain.score, abs=1e-10)
    assert fused.upper_bound >= plain.score - 1e-12
    # The maximum is flat, so that its place is known to half as many digits.
    assert fused.beta == pytest.approx(plain.beta, rel=1e-4)


def test_only_what_was_asked_for_is_fused():
    block = next(b for _, b in pairs_of(problem(3, 3)).map_blocks(lambda b: b, np.array([0])))
    on_device = block._replace(a=OnDevice(block.a))
    assert distances_of.get() is Distances
    with interop.fused_sums():
        assert isinstance(distances_of.get()(block, False, None), Distances)  # on the CPU
        assert isinstance(distances_of.get()(on_device, False, None), interop.FusedDistances)
    assert distances_of.get() is Distances
    with pytest.raises(ZeroDivisionError), interop.fused_sums():
        _ = 1 / 0
    assert distances_of.get() is Distances


class OnDevice:
    """A tensor that says it is on a CUDA device."""

    is_cuda = True

    def __init__(self, tensor):
        self._tensor = tensor

    def __add__(self, other):
        return self._tensor + other
