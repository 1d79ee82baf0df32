"""Attacks of foolbox as shifts."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from papers.foolbox_attack import FoolboxAttack
from papers.shifts import FMN

attacks = pytest.importorskip("foolbox").attacks
X, Y = (part[:100] for part in load_iris(return_X_y=True))
BOUNDS = (0, 10)
SMALLEST = {
    "DeepFool": attacks.L2DeepFoolAttack(),
    "Carlini-Wagner": attacks.L2CarliniWagnerAttack(binary_search_steps=5, steps=150),
    "DeepFool, largest change": attacks.LinfDeepFoolAttack(),
    "FMN, sum of changes": attacks.L1FMNAttack(steps=100),
}


@pytest.fixture(scope="module")
def model():
    return LogisticRegression(max_iter=500).fit(X, Y)


def distances(model, norm):
    """The exact distances to the boundary, by the dual norm of the coefficients."""
    dual = np.linalg.norm(model.coef_[0], {1: np.inf, 2: 2, np.inf: 1}[norm])
    return np.abs(model.decision_function(X)) / dual


@pytest.mark.parametrize("name", SMALLEST)
def test_smallest_changes_of_a_linear_classifier(model, name):
    attack = FoolboxAttack(SMALLEST[name], BOUNDS)
    shifted = attack(X, Y, estimator=model)
    assert shifted.success.all()
    assert_array_equal(model.predict(shifted.X), 1 - Y)
    ratio = shifted.norm / distances(model, attack.norm)
    assert ratio.min() > 1
    assert np.median(ratio) < 1.05
    assert_allclose(shifted.norm, np.linalg.norm(shifted.X - X, attack.norm, axis=1), rtol=1e-9)
    assert shifted.X.min() >= 0


@pytest.mark.parametrize("name", ["DeepFool", "DeepFool, largest change"])
def test_rows_that_are_farther_than_the_largest_norm_stay(model, name):
    attack = FoolboxAttack(SMALLEST[name], BOUNDS)
    all_norms = attack(X, Y, estimator=model).norm
    limit = np.median(all_norms)
    shifted = attack(X, Y, estimator=model, power=limit)
    assert_array_equal(shifted.success, shifted.norm > 0)
    assert 40 < shifted.success.sum() < 60
    assert shifted.norm.max() <= limit * (1 + 1e-9)
    assert_array_equal(shifted.X[~shifted.success], X[~shifted.success])
    nothing = attack(X, Y, estimator=model, power=0)
    assert_array_equal(nothing.X, X)


def test_an_attack_within_a_ball_keeps_rows_that_failed(model):
    attack = FoolboxAttack(attacks.LinfPGD(steps=5), BOUNDS, max_norm=1.5)
    assert attack.norm == np.inf
    state = torch.get_rng_state()
    shifted, again = (attack(X, Y, estimator=model) for _ in range(2))
    assert_array_equal(shifted.X, again.X)  # the same draws
    assert_array_equal(torch.get_rng_state(), state)
    other = clone(attack).set_params(random_state=1)(X, Y, estimator=model)
    assert not np.array_equal(shifted.X, other.X)
    assert 0 < shifted.success.sum() < len(X)
    assert shifted.norm.min() > 0
    assert shifted.norm.max() <= 1.5 + 1e-9


def test_a_classifier_without_gradients_by_its_decisions():
    # The exact distance from the boundary of a tree with one split is that from its threshold.
    frame = pd.DataFrame(X[:20], columns=list("abcd"))
    labels = (X[:20, 0] > 5).astype(int)
    stump = DecisionTreeClassifier(max_depth=1).fit(frame, labels)
    exact = np.abs(X[:20, stump.tree_.feature[0]] - stump.tree_.threshold[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        boundary = FoolboxAttack(attacks.BoundaryAttack(steps=300), BOUNDS)
        shifted = boundary(frame, labels, estimator=stump)
    assert shifted.success.all()
    assert_array_equal(stump.predict(shifted.X), 1 - labels)
    assert (shifted.norm >= exact).all()
    assert np.median(shifted.norm / exact) < 1.5


def test_a_net_on_images_without_labels():
    images = torch.tensor(load_digits().images[:30] / 16, dtype=torch.float32)[:, None]
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(144, 10)
    )
    deepfool = FoolboxAttack(SMALLEST["DeepFool"], (0, 1))
    shifted = deepfool(images, estimator=net)
    assert shifted.X.shape == images.shape
    assert shifted.X.dtype == torch.float32
    with torch.no_grad():
        changed = net(shifted.X).argmax(1) != net(images).argmax(1)
    assert_array_equal(shifted.success, changed)
    assert shifted.success.all()
    assert all(parameter.grad is None for parameter in net.parameters())
    nearest = FMN(bounds=(0, 1))(images, estimator=net).norm
    assert 0.8 < np.median(shifted.norm / nearest) < 1.25
