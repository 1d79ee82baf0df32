"""Scores that tie but for rounding, and classifiers that are constant but for little."""

import numpy as np
import pytest
import torch
from helpers import oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from pa_select import posterior_agreement
from pa_select.agreement import agreement_of_chunks
from pa_select.agreement.inputs.problem import check_problem
from pa_select.agreement.kernels.kernel_sums import limits
from pa_select.agreement.kernels.marginal_prior import MarginalPrior
from pa_select.agreement.kernels.marginal_sums import ModelRuns
from pa_select.agreement.pairs.block import centred_with_ties, tolerance
from pa_select.agreement.pairs.paired_scores import concatenate
from pa_select.agreement.solved_problems import PooledPairs, pooled_agreement
from pa_select.scores import log_probabilities

X, Y = load_digits(return_X_y=True)
# Few votes tie often, and 0.1 + 0.2 + 0.3 depends on the order.
WEIGHTS = np.array([0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 0.2])
TREES = RandomForestClassifier(10, max_leaf_nodes=6, random_state=0).fit(X[:300], Y[:300])


def votes(rows, order):
    total = np.zeros((len(rows), 10))
    for i in order:
        total += WEIGHTS[i] * np.eye(10)[TREES.estimators_[i].predict(rows).astype(int)]
    return total / 2


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["uniform", "marginal"])
@pytest.mark.parametrize("n", [10, 100, 1000])
def test_votes_agree_alike_in_whatever_order_they_are_added(n, prior):
    rows, rng = X[500 : 500 + n], np.random.default_rng(0)
    orders = [np.arange(10), rng.permutation(10), np.arange(10)[::-1]]
    exact = np.rint(20 * votes(rows, orders[0])) / 20
    wanted = posterior_agreement(*2 * [log_probabilities(exact)], prior=prior)
    added = [log_probabilities(votes(rows, order)) for order in orders]
    assert not all(np.array_equal(added[0], other) for other in added)  # rounding differs
    for a, b in zip(added, reversed(added), strict=True):
        found = posterior_agreement(a, b, prior=prior)
        assert found.score == pytest.approx(wanted.score, abs=2e-5)
        assert found.beta == wanted.beta or found.beta == pytest.approx(wanted.beta, rel=0.01)
        assert found.n_evaluations <= 2 * wanted.n_evaluations + 20
    if n == 10:
        assert agreement_of_chunks([(a, b)], prior=prior).score == pytest.approx(found.score)


@pytest.mark.parametrize("n", [10, 100, 1000])
@pytest.mark.parametrize("certify", [True, False])
def test_a_constant_classifier_scores_zero_whatever_its_rounding(n, certify):
    rng = np.random.default_rng(0)
    for constant in ([0.0, 0.0, -1.0], [0.3, 0.1, -1.0], [-700.0, -700.0, 0.5], [7.0, 7.0, 7.0]):
        a, b = constant + 1e-16 * rng.normal(size=(2, n, 3)) * np.abs(constant)
        prior = "uniform" if constant[2] == 7.0 else "marginal"  # a collapsed net
        found = posterior_agreement(a, b, prior=prior, certify=certify)
        assert found.score == pytest.approx(0, abs=1e-12)
        assert found.n_evaluations <= 3


@pytest.mark.parametrize(("prior", "certify"), [("marginal", None), ("uniform", True)])
def test_agreement_that_is_pooled_over_models_does_not_see_rounding(prior, certify):
    rng, rows = np.random.default_rng(0), np.arange(30)
    votes = rng.choice([0.1, 0.3, 0.5], size=(60, 3))
    pairs = PooledPairs(rows, rows + 30, rows % 2, 1 - rows % 2, rows, rows, np.ones(30))
    noisy = [votes * (1 + 2.0**-52 * rng.integers(-1, 2, votes.shape)) for _ in range(3)]
    found = pooled_agreement([votes, *noisy], pairs, [prior], certify=certify)
    scores = [result.score for [result] in found]
    assert scores == pytest.approx(scores[:1] * 4, abs=2e-5)


@settings(max_examples=50)
@given(st.integers(0, 10_000), st.sampled_from([torch.float32, torch.float64]))
def test_the_kernel_changes_by_no_more_than_is_documented(seed, dtype):
    rng = np.random.default_rng(seed)
    n, k = rng.integers(1, 6), rng.integers(2, 5)
    unit = 2.0**-21 if dtype == torch.float32 else 2.0**-47
    sides = []
    for _ in range(2):
        scores = rng.integers(-3, 4, size=(n, k)).astype(np.float64) * rng.choice([1, 1e-3, 50])
        noisy = scores + unit * rng.normal(size=(n, k)) * np.abs(scores).max(1, keepdims=True)
        sides.append(torch.tensor(noisy).to(dtype))
    exact = [tied(side) for side in sides]
    tolerances = [tolerance(*tops_and_lowest(side), dtype) for side in sides]
    largest = max(float(x.max()) for x in tolerances)
    for given_, equal, allowed in zip(sides, exact, tolerances, strict=True):
        assert ((equal - given_).abs() <= allowed[:, None] * 1.01).all()
        assert torch.equal(tied(equal), equal)
    as_read, as_tied = ([x.double().numpy() for x in both] for both in (sides, exact))
    for beta in np.geomspace(1e-2, 0.1 / largest, 8) if largest else ():
        for prior in ("uniform", "marginal"):
            change = oracle.kernel(*as_read, beta, prior) - oracle.kernel(*as_tied, beta, prior)
            allowed = (2 if prior == "uniform" else 4) * beta * largest
            assert abs(change) <= allowed + 1e-11


def test_what_is_not_rounding_stays():
    untouched = [
        torch.tensor([[0.0, -1e-5, -1e9], [0.0, -1e-8, -torch.inf], [1.0, 1.001, -3.4e38]]),
        torch.tensor([[3.0, 3.0 + 1e-12], [0.0, 1e-300]], dtype=torch.float64),
        torch.tensor([[1.0, 1.0009765625], [10.0, 10.0078125]], dtype=torch.float16),
        torch.tensor([[200, 201]], dtype=torch.int32),
    ]
    for scores in untouched:
        assert torch.equal(tied(scores), scores.double())
    votes = torch.tensor([[0.3, 0.1 + 0.2, 0.1]], dtype=torch.float64)
    assert votes[0, 0] != votes[0, 1]
    assert tied(votes)[0, 0] == votes[0, 1]


def tops_and_lowest(scores):
    top = scores.amax(1)
    return top, (scores.amin(1) - top).clamp_min(-100)


def tied(scores):
    """The scores of each row, after those that tie but for rounding were made equal."""
    top = scores.double().amax(1, keepdim=True)
    centred = centred_with_ties(scores.double().T, scores.dtype)[0].T
    return torch.where(centred == 0, top, scores.double())


@settings(max_examples=80)
@given(st.integers(0, 10_000), st.integers(1, 3), st.floats(-8, 0), st.booleans())
def test_nearly_constant_models_have_a_low_ceiling_that_holds(seed, n_models, log_noise, same):
    rng = np.random.default_rng(seed)
    n, k = 2 * rng.integers(1, 4), rng.integers(2, 5)
    constant = np.sort(3 * rng.normal(size=(n_models, 1, k)))[..., ::-1]
    noise = 10**log_noise * rng.normal(size=(2, n_models, n, k))
    if same:  # the sides agree, and half of the rows has another score of the last class
        noise[0] = 0.0
        noise[0, :, ::2, -1] = 10**log_noise
        noise[1] = noise[0]
    a, b = constant + noise
    weight = np.ones((n_models, n)) if same else rng.random((n_models, n)) + 0.1
    problems = [check_problem(*model, "marginal") for model in zip(a, b, weight, strict=True)]
    # One problem, of which each model scored some pairs.
    by_model = concatenate(problems, totals=np.full(n_models, weight.sum()))
    models = np.arange(n_models)
    kernel = MarginalPrior(ModelRuns(by_model, np.array([n_models]), models, models))
    found = kernel.limits(limits(concatenate([_joined(problems)]), np.zeros(k))).ceiling[0]
    beta = np.geomspace(1e-3, 1e12, 300)
    kernels = [
        oracle.kernel(x, y, beta, "marginal", w) for x, y, w in zip(a, b, weight, strict=True)
    ]
    assert (weight.sum(1) @ kernels).max() / weight.sum() <= found + 1e-12
    if 10**log_noise < 1e-4 * (constant[..., 0] - constant[..., 1]).min():
        assert found < 1e-4


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.floats(-4, -0.5), st.floats(-4, 0))
def test_the_ceiling_holds_for_pairs_of_two_models(seed, log_noise, log_apart):
    rng = np.random.default_rng(seed)
    k = rng.integers(2, 5)
    constant = np.sort(3 * rng.normal(size=k))[::-1] + np.r_[1.0, np.zeros(k - 1)]
    other = constant + 10**log_apart * np.r_[0.0, rng.normal(size=k - 1)]
    noise = 10**log_noise * rng.choice([-1, 1], size=(2, 6, k))
    a, b = constant + noise[0], other + noise[rng.integers(2)]
    pairs = concatenate([check_problem(a, b, None, "marginal")])
    runs = ModelRuns(pairs, np.array([1]), np.array([0]), np.array([1]))
    found = MarginalPrior(runs).limits(limits(pairs, np.zeros(k))).ceiling[0]
    model_a, model_b = np.zeros(6, dtype=int), np.ones(6, dtype=int)
    assert oracle.pooled_maximum(a, b, model_a, model_b) <= found + 1e-12


def _joined(problems):
    a, b, weight = (torch.cat([torch.as_tensor(p[i]) for p in problems]) for i in range(3))
    return problems[0]._replace(a=a, b=b, weight=weight.numpy())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_ties_do_not_depend_on_what_is_solved_together(dtype):
    near = torch.tensor([[1.0, 1.0, 0.0]]).to(dtype).repeat(20, 1)
    near[:, 1] = torch.nextafter(near[:, 0], torch.tensor(2.0, dtype=dtype))
    other = torch.eye(3, dtype=torch.float64).repeat(7, 1)[:20]
    alone = posterior_agreement(near, near, prior="uniform").score
    assert alone == pytest.approx(np.log(1.5) if dtype == torch.float32 else np.log(3), abs=1e-6)
    together = posterior_agreement([near, other], [near, other])
    assert together[0].score == pytest.approx(alone, abs=1e-9)
