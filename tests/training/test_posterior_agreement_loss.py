"""The loss against the kernel, finite differences, and the claims of its documentation."""

import math
import pickle
from copy import deepcopy

import numpy as np
import pytest
import torch

from pa_select import pa_kernel, posterior_agreement
from pa_select.training import PosteriorAgreementLoss

PRIORS = ["marginal", "uniform"]


def two_views(seed=0, n=40, k=3, dtype=torch.float64):
    draws = torch.Generator().manual_seed(seed)
    truth = 2 * torch.randn(n, k, generator=draws, dtype=torch.float64)
    views = [truth + torch.randn(n, k, generator=draws, dtype=torch.float64) for _ in range(2)]
    return [view.to(dtype).requires_grad_() for view in views]


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("beta", [0.3, 1.0, 4.0])
def test_it_is_minus_the_kernel(prior, beta):
    a, b = two_views()
    kernel = float(pa_kernel(a.detach(), b.detach(), beta, prior=prior))
    assert PosteriorAgreementLoss(prior, beta)(a, b).item() == pytest.approx(-kernel)


@pytest.mark.parametrize("prior", PRIORS)
def test_gradients_are_those_of_finite_differences(prior):
    a, b = two_views(n=6)
    loss = PosteriorAgreementLoss(prior).double()
    loss.log_beta.data.fill_(0.4)
    assert torch.autograd.gradcheck(loss, (a, b))
    loss(a, b).backward()
    high, low = (
        PosteriorAgreementLoss(prior, math.exp(0.4 + step))(a, b).item() for step in (1e-5, -1e-5)
    )
    slope = (high - low) / 2e-5
    assert loss.log_beta.grad.item() == pytest.approx(slope, rel=1e-4, abs=1e-8)


@pytest.mark.parametrize("prior", PRIORS)
def test_learning_beta_finds_the_certified_maximum(prior):
    a, b = (view.detach() for view in two_views(1, n=200))
    loss = PosteriorAgreementLoss(prior)
    optimiser = torch.optim.Adam([loss.parameter_group(0.05)])
    for _ in range(400):
        optimiser.zero_grad()
        loss(a, b).backward()
        optimiser.step()
    best = posterior_agreement(a, b, prior=prior)
    assert -loss(a, b).item() == pytest.approx(best.score, abs=1e-4)
    assert loss.beta == pytest.approx(best.beta, rel=0.02)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_and_autocast(dtype):
    a, b = (view.detach() for view in two_views(dtype=dtype))
    expected = PosteriorAgreementLoss(beta=2.0)(a.double(), b.double()).item()
    assert PosteriorAgreementLoss(beta=2.0)(a, b).item() == pytest.approx(expected, abs=1e-5)
    layer = torch.nn.Linear(3, 3)
    loss = PosteriorAgreementLoss()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(layer(a.float()), layer(b.float()))
    assert value.dtype == torch.float32
    value.backward()
    assert torch.isfinite(layer.weight.grad).all()
    assert torch.isfinite(loss.log_beta.grad)


@pytest.mark.parametrize("prior", PRIORS)
def test_masked_classes_have_the_kernel_and_the_gradients_of_finite_differences(prior):
    a, b = (view.detach() for view in two_views(n=8))
    a[0, 1] = b[3, 2] = a[5, 0] = b[5, 0] = -math.inf
    log_beta = 0.3
    loss = PosteriorAgreementLoss(prior).double()
    loss.log_beta.data.fill_(log_beta)
    views = [view.clone().requires_grad_() for view in (a, b)]
    value = loss(*views)
    value.backward()
    kernel = pa_kernel(a, b, math.exp(log_beta), prior=prior)
    assert value.item() == pytest.approx(-kernel)

    def at(shift, side=0, row=0, column=0, log_beta=log_beta):
        moved = [a.clone(), b.clone()]
        moved[side][row, column] += shift
        return PosteriorAgreementLoss(prior, math.exp(log_beta))(*moved).item()

    slope = (at(0, log_beta=log_beta + 1e-5) - at(0, log_beta=log_beta - 1e-5)) / 2e-5
    assert loss.log_beta.grad.item() == pytest.approx(slope, rel=1e-4, abs=1e-8)
    for side, view in enumerate(views):
        for row, column in np.ndindex(8, 3):
            slope = (at(1e-5, side, row, column) - at(-1e-5, side, row, column)) / 2e-5
            assert view.grad[row, column].item() == pytest.approx(slope, rel=1e-4, abs=1e-8)


@pytest.mark.parametrize("prior", PRIORS)
def test_a_class_that_all_rows_mask_leaves_the_loss_of_the_others(prior):
    a, b = (view.detach() for view in two_views())
    a[:, 2] = b[:, 2] = -math.inf
    views = [view.requires_grad_() for view in (a, b)]
    others = [view.detach()[:, :2].requires_grad_() for view in (a, b)]
    # The uniform prior keeps the share of the masked class.
    kept = 1.0 if prior == "marginal" else 2 / 3
    loss, reference = PosteriorAgreementLoss(prior), PosteriorAgreementLoss(prior)
    value, expected = loss(*views), reference(*others)
    value.backward()
    expected.backward()
    assert value.item() == pytest.approx(expected.item() + math.log(kept))
    assert loss.log_beta.grad.item() == pytest.approx(reference.log_beta.grad.item())
    for view, other in zip(views, others, strict=True):
        torch.testing.assert_close(view.grad[:, :2], other.grad)
        assert not view.grad[:, 2].any()
    best = posterior_agreement(a, b, prior=prior)
    loss = PosteriorAgreementLoss(prior, best.beta)
    assert loss(a, b).item() == pytest.approx(-best.score, abs=1e-6)


def test_a_pair_without_a_common_class_is_infinitely_bad_and_moves_nothing():
    a, b = (view.detach() for view in two_views())
    a[4, 0] = -math.inf
    b[4, 1:] = -math.inf
    loss = PosteriorAgreementLoss()
    views = [view.clone().requires_grad_() for view in (a, b)]
    value = loss(*views)
    value.backward()
    assert value.item() == math.inf == -pa_kernel(a, b, 1.0, prior="marginal")
    assert posterior_agreement(a, b, prior="marginal").beta == 0
    assert math.isfinite(loss.log_beta.grad.item())
    assert all(bool(view.grad.isfinite().all()) for view in views)


def test_scores_of_any_size_at_any_beta_have_finite_gradients():
    a, b = (1e10 * view.detach().float() for view in two_views())
    views = [view.requires_grad_() for view in (a, b)]
    PosteriorAgreementLoss("uniform", 1e25)(*views).backward()
    assert all(bool(view.grad.isfinite().all()) for view in views)


def test_beta_stays_in_its_range_and_can_return():
    loss = PosteriorAgreementLoss()
    a, b = (view.detach() for view in two_views())
    loss.log_beta.data.fill_(50.0)
    loss(a, b).backward()
    assert loss.beta == pytest.approx(20)
    assert loss.log_beta.grad.item() > 0  # towards smaller ones
    loss.log_beta.data.fill_(-50.0)
    loss(a, b)
    assert loss.beta == pytest.approx(0.05)


def test_copies_pickles_states_and_groups():
    loss = PosteriorAgreementLoss()
    loss.log_beta.data.fill_(0.7)
    a, b = two_views()
    for other in (deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        assert other(a, b).item() == loss(a, b).item()
    again = PosteriorAgreementLoss()
    again.load_state_dict(loss.state_dict())
    assert again.beta == loss.beta
    assert loss.parameter_group() == {"params": [loss.log_beta], "lr": 0.03, "weight_decay": 0.0}
    assert list(PosteriorAgreementLoss(beta=1.0).parameters()) == []


def test_it_works_under_transforms_of_torch():
    a, b = (torch.stack([view, 2 * view]) for view in two_views())
    loss = PosteriorAgreementLoss()
    together = torch.func.vmap(loss)(a, b)
    assert together.tolist() == pytest.approx([loss(a[k], b[k]).item() for k in (0, 1)], abs=1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_device():
    a, b = (view.detach() for view in two_views())
    loss = PosteriorAgreementLoss()
    assert loss.cuda()(a.cuda(), b.cuda()).item() == pytest.approx(loss.cpu()(a, b).item())
