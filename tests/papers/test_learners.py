"""Robust learners: what they learn, whom they mix, and how they see environments."""

import pickle

import numpy as np
import pytest
import torch
from helpers.nets import Linear
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from skorch.dataset import Dataset
from skorch.helper import SliceDict

from pa_select.shifts import FGSM, PGD
from pa_select.training import AgreementNet
from papers.learners import AdversarialNet, ERMNet, IRMNet, LISANet
from papers.learners.erm import EnvironmentSampler, InEnvironment
from papers.learners.lisa import cutmix, partners

X, Y = load_digits(return_X_y=True)
X, Y = (X[:300] / 16).astype("float32"), Y[:300]
PLACES = np.array(["north", "south", "west"])[np.arange(300) % 3]
LEARNERS = [ERMNet, IRMNet, LISANet]


class Plain(torch.nn.Linear):
    def __init__(self):
        super().__init__(2, 2, bias=False)


def net(learner, **params):
    torch.manual_seed(0)
    return learner(**{"module": Linear, "max_epochs": 2, "lr": 0.1, "verbose": 0} | params)


def weights(fitted):
    return [p.detach().numpy().copy() for p in fitted.module_.parameters()]


def two_bits(spurious=(0.9, 0.7), n=40):
    """Exact frequencies: one bit tells the label the same everywhere, the other does not."""
    rows = []
    for place, p in enumerate(spurious):
        for label in (0, 1):
            for bit, q in ((label, 0.75), (1 - label, 0.25)):
                rows += [(bit, label, label, place)] * round(n * q * p)
                rows += [(bit, 1 - label, label, place)] * round(n * q * (1 - p))
    rows = np.array(rows)
    return (2 * rows[:, :2] - 1).astype("float32"), rows[:, 2], rows[:, 3]


# What they learn


def coefficients(learner, **params):
    bits, label, place = two_bits()
    whole = {"batch_size": -1, "train_split": None, "optimizer": torch.optim.Adam}
    fitted = net(learner, module=Plain, max_epochs=150, **whole, **params).set_params(lr=0.3)
    fitted.fit(bits, label, environments=place)
    return np.diff(weights(fitted)[0], axis=0)[0], fitted


def test_irm_leaves_the_spurious_feature_and_erm_uses_it():
    # Each bit's coefficient is its log odds; over both places the second is right in 80 %.
    erm, _ = coefficients(ERMNet)
    assert_allclose(erm, np.log([3, 4]), atol=0.01)
    irm, fitted = coefficients(IRMNet, penalty_weight=1e4)
    assert_allclose(irm, [np.log(3), 0], atol=0.01)
    assert fitted.history[-1, "train_penalty"] < 1e-6


def test_the_penalty_is_the_squared_slope_in_the_dummy():
    bits, label, place = two_bits()
    fitted = net(IRMNet, module=Plain, penalty_weight=3.0, lr=0.0, max_epochs=1, train_split=None)
    fitted.set_params(batch_size=-1).fit(bits, label, environments=place)
    logits = bits @ weights(fitted)[0].T

    def risk(w, where):
        scaled = w * logits[place == where]
        right = scaled[np.arange(len(scaled)), label[place == where]]
        return np.mean(np.log(np.exp(scaled).sum(1)) - right)

    risks = [risk(1, where) for where in (0, 1)]
    slopes = [(risk(1.01, where) - risk(0.99, where)) / 0.02 for where in (0, 1)]
    expected = np.mean(risks), np.mean(np.square(slopes))
    found = fitted.history[-1, ("train_risk", "train_penalty")]
    assert_allclose(found, expected, rtol=1e-3)
    assert fitted.history[-1, "train_loss"] == pytest.approx((found[0] + 3 * found[1]) / 3)


def test_annealing():
    fitted = net(IRMNet, penalty_weight=1e3, penalty_anneal_epochs=2, max_epochs=3)
    history = fitted.fit(X, Y, environments=PLACES).history
    risk, penalty, loss = np.array(history[:, ("train_risk", "train_penalty", "train_loss")]).T
    assert_allclose(loss[:2], (risk + penalty)[:2], rtol=1e-5)
    assert loss[2] == pytest.approx((risk + 1e3 * penalty)[2] / 1e3)


def test_environments_count_equally():
    fitted = net(ERMNet).initialize()
    logits = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    label = torch.tensor([0, 1, 0])
    rows = InEnvironment(None, torch.tensor([0, 0, 1]))
    each = torch.nn.functional.cross_entropy(logits, label, reduction="none")
    expected = (each[:2].mean() + each[2]) / 2
    assert_allclose(fitted.get_loss(logits, label, X=rows, training=True), expected)
    assert_allclose(fitted.get_loss(logits, label), each.mean())


# Whom they mix


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=40),
    st.integers(0, 99),
)
def test_partners_share_one_thing_and_differ_in_the_other(rows, seed):
    same, other = np.array(rows).T
    partner = partners(same, other, np.random.RandomState(seed))
    for i, j in enumerate(partner):
        if i == j:
            assert not ((same == same[i]) & (other != other[i])).any()
        else:
            assert same[i] == same[j]
            assert other[i] != other[j]


def test_all_partners_are_as_likely():
    same, other = np.zeros(5, int), np.array([0, 1, 1, 2, 2])
    rng = np.random.RandomState(0)
    drawn = [partners(same, other, rng)[0] for _ in range(2000)]
    assert_allclose(np.bincount(drawn, minlength=5) / 2000, [0, 0.25, 0.25, 0.25, 0.25], atol=0.03)


@pytest.mark.parametrize("p_select", [0, 1])
def test_the_strategies_have_the_names_of_the_thesis(p_select):
    learner = net(LISANet, p_select=p_select).initialize()
    place = torch.tensor([0, 1, 0, 1] * 8)
    label = torch.tensor([0, 0, 1, 1] * 8)
    # The first feature tells the place, the second the label.
    rows = InEnvironment(torch.stack([place, label], dim=1).float(), place)
    mixed = learner._mixed(rows, label)
    other = 1 - mixed.weight
    assert 0 < other < 1
    within, across = (mixed.X[:, k] - rows.X[:, k] for k in (0, 1))
    differs = mixed.y_partner != label
    if p_select:  # LISA-L: the same environment, another label
        assert differs.all()
        assert not within.any()
        assert_allclose(across.abs(), other, rtol=1e-5)
    else:  # LISA-D: the same label, another environment
        assert not differs.any()
        assert not across.any()
        assert_allclose(within.abs(), other, rtol=1e-5)


def test_how_often_and_how_much():
    learner = net(LISANet, p_select=0.3, alpha=2.0).initialize()
    rows = InEnvironment(torch.randn(4, 3), torch.tensor([0, 1, 0, 1]))
    label = torch.tensor([0, 0, 1, 1])
    drawn = [learner._mixed(rows, label) for _ in range(2000)]
    share = np.mean([bool((m.y_partner != label).all()) for m in drawn])
    assert share == pytest.approx(0.3, abs=0.04)
    weight = np.array([m.weight for m in drawn])
    assert weight.mean() == pytest.approx(0.5, abs=0.02)
    assert weight.var() == pytest.approx(1 / 20, abs=0.006)  # of Beta(2, 2)


def test_the_loss_is_the_cross_entropy_with_the_mixed_label():
    learner = net(LISANet, p_select=1).initialize()
    rows, label = torch.tensor(X[:60]), torch.tensor(Y[:60])
    mixed = learner._mixed(InEnvironment(rows, torch.arange(60) % 2), label)
    logits = learner.infer(mixed)
    one_hot = torch.nn.functional.one_hot
    soft = mixed.weight * one_hot(label, 10) + (1 - mixed.weight) * one_hot(mixed.y_partner, 10)
    expected = torch.nn.functional.cross_entropy(logits, soft)
    found = learner.get_loss(logits, label, X=mixed, training=True)
    assert_allclose(found.item(), expected.item(), rtol=1e-5)


# How they see environments


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 4), st.integers(1, 12), st.integers(1, 3), st.integers(0, 99))
def test_every_batch_holds_its_share_of_every_environment(k, rows, per_batch, seed):
    numbers = np.random.default_rng(seed).permutation(np.repeat(np.arange(k), rows))
    order = list(EnvironmentSampler(numbers, np.random.RandomState(seed), True))
    assert sorted(order) == list(range(k * rows))
    size = k * per_batch
    for start in range(0, len(order) - size + 1, size):
        counts = np.bincount(numbers[order[start : start + size]], minlength=k)
        assert_array_equal(counts, per_batch)


def test_small_environments_are_spread():
    numbers = np.repeat([0, 1], [90, 10])
    order = np.array(list(EnvironmentSampler(numbers, np.random.RandomState(0), True)))
    counts = numbers[order].reshape(5, 20).sum(1)
    assert counts.min() >= 1
    assert counts.max() <= 3
    in_order = np.array(list(EnvironmentSampler(numbers, np.random.RandomState(0), False)))
    for number in (0, 1):
        rows = in_order[numbers[in_order] == number]
        assert_array_equal(rows, np.sort(rows))


@pytest.mark.filterwarnings("ignore:pairs. expected the classes:UserWarning")  # hardly trained
@pytest.mark.parametrize(
    ("learner", "own"),
    [
        (ERMNet, {}),
        (IRMNet, {"penalty_weight": 2.0, "penalty_anneal_epochs": 1}),
        (LISANet, {"p_select": 0.2, "alpha": 0.7}),
        (AgreementNet, {"weight": 2.0, "pair_batch_size": 32, "beta": 1.5}),
    ],
)
def test_parameters_clones_pickles_and_seeds(learner, own):
    fit_params = {"environments": PLACES}
    one = net(learner, **own, random_state=3)
    if learner is AgreementNet:
        fit_params = {}
        one.set_params(pairs=(X, X / 2))
    other = clone(one)
    assert own.items() <= other.get_params().items()
    assert other.get_params().keys() == one.get_params().keys()
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    one.fit(X, Y, **fit_params)
    assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    assert_array_equal(pickle.loads(pickle.dumps(one)).predict(X), one.predict(X))
    for seed, same in ((3, True), (4, False)):
        torch.manual_seed(0)
        other.set_params(random_state=seed).fit(X, Y, **fit_params)
        assert bool((weights(one)[0] == weights(other)[0]).all()) == same


@pytest.mark.parametrize("learner", LEARNERS)
def test_training_draws_nothing_from_torchs_global_generator(learner):
    fitted = net(learner, train_split=None, module=Linear()).initialize()
    before = torch.get_rng_state()
    fitted.partial_fit(X, Y, environments=PLACES)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_names_of_environments_do_not_matter(learner):
    one = net(learner).fit(X, Y, environments=PLACES)
    for rows, how in (
        (X, {"environments": torch.arange(300) % 3 + 5}),
        (SliceDict(input=X, environments=PLACES), {}),
        (Dataset(X, Y), {"environments": PLACES}),
    ):
        other = net(learner).fit(rows, Y, **how)
        assert_allclose(weights(other)[0], weights(one)[0], atol=1e-5)


# Under attack, and with boxes of images


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_adversarial_training_takes_the_gradient_at_attacked_rows(weight):
    """One step of a linear net, by hand: the signs of the gradient are those of W's columns."""
    learner = net(AdversarialNet, attack=FGSM(0.1), clean_weight=weight)
    learner.set_params(batch_size=-1, max_epochs=1, train_split=None).initialize()
    W, b = (w.astype(float) for w in weights(learner))
    learner.partial_fit(X, Y)

    def slope(rows):
        logits = rows @ W.T + b
        p = np.exp(logits - logits.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True) - np.eye(10)[Y]

    attacked = X + 0.1 * np.sign(slope(X) @ W)
    gradient = weight * slope(X).T @ X + (1 - weight) * slope(attacked).T @ attacked
    assert_allclose(weights(learner)[0], W - 0.1 * gradient / len(X), atol=1e-6)


def test_adversarial_nets_withstand_the_attack():
    attack = PGD(0.1, steps=3, bounds=(0, 1))
    plain, robust = (
        net(AdversarialNet, attack=attack, clean_weight=w, max_epochs=20).fit(X, Y) for w in (1, 0)
    )
    under_attack = [one.score(attack(X, Y, estimator=one).X, Y) for one in (plain, robust)]
    assert under_attack[1] > under_attack[0] + 0.05
    assert clone(robust).attack is not attack


@settings(deadline=None, max_examples=60)
@given(st.floats(0, 1), st.integers(1, 9), st.integers(1, 9), st.integers(0, 99))
def test_cutmix_weighs_labels_by_pixels(weight, height, width, seed):
    images = torch.zeros(2, 3, height, width)
    images[1] = 1
    given_ = images.clone()
    mixed, own = cutmix(images, torch.tensor([1, 0]), weight, np.random.RandomState(seed))
    assert_allclose(own, 1 - mixed[0].mean(), atol=1e-6)
    assert_allclose(own, mixed[1].mean(), atol=1e-6)
    assert own >= weight - 1e-6  # a box that is cut at the border is smaller
    assert torch.equal(images, given_)
