"""Attacks: exact answers where there are some, foolbox where there are none, contracts."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from helpers.nets import Module
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC
from skorch import NeuralNetBinaryClassifier, NeuralNetClassifier
from torch import nn

from pa_select.shifts import FGSM, PGD
from pa_select.shifts.attacks.models import differentiable
from papers.shifts import FMN

DIGITS, LABELS = load_digits(return_X_y=True)
DIGITS = (DIGITS / 16).astype(np.float32)
WINE, CULTIVAR = load_wine(return_X_y=True)
BINARY = CULTIVAR < 2
SCALED = StandardScaler().fit_transform(WINE)
NAMES = np.array(["barbera", "grignolino", "barolo"])[CULTIVAR]
# Rows that no net below has seen.
X, Y = DIGITS[1200:1400], LABELS[1200:1400]
ATTACKS = [FGSM(0.1), PGD(0.1, steps=8), PGD(0.8, norm=2, steps=8), FMN(2, steps=25)]
ATTACKS += [FMN(np.inf, steps=25)]
each_attack = pytest.mark.parametrize("attack", ATTACKS, ids=lambda a: f"{a}"[:12])


def trained(net, rows, epochs):
    optimizer = torch.optim.Adam(net.parameters(), 5e-3)
    rows, labels = torch.tensor(rows[:1200]), torch.tensor(LABELS[:1200])
    shuffle = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        for batch in torch.randperm(1200, generator=shuffle).split(100):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(rows[batch]), labels[batch]).backward()
            optimizer.step()
    optimizer.zero_grad()
    return net.eval()


@pytest.fixture(scope="module")
def nets():
    images = DIGITS.reshape(-1, 1, 8, 8)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        perceptron = nn.Sequential(
            nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10)
        )
        convolutions = nn.Sequential(
            *(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)),
        )
        return {
            "perceptron": (trained(perceptron, DIGITS, 20), X),
            "convolutions": (trained(convolutions, images, 8), images[1200:1400]),
        }


@pytest.fixture(scope="module")
def net(nets):
    return nets["perceptron"][0]


# Twins


@pytest.mark.parametrize("binary", [False, True], ids=["three", "two"])
@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(),
        LogisticRegression(fit_intercept=False),
        LinearSVC(),
        SGDClassifier(random_state=0),
        RidgeClassifier(),
        Perceptron(random_state=0),
        LinearDiscriminantAnalysis(),
        SVC(kernel="linear"),
        make_pipeline(MinMaxScaler((-1, 2)), PCA(5, whiten=True), LogisticRegression()),
        make_pipeline(StandardScaler(with_std=False), "passthrough", LogisticRegression()),
        make_pipeline(StandardScaler(with_mean=False), TruncatedSVD(4), LinearSVC()),
        make_pipeline(RobustScaler(), SelectKBest(k=6), LogisticRegression()),
        make_pipeline(MaxAbsScaler(), PCA(3), make_pipeline(StandardScaler(), LinearSVC())),
        GridSearchCV(make_pipeline(StandardScaler(), LinearSVC()), {"linearsvc__C": [1, 2]}, cv=2),
    ],
    ids=lambda m: str(m).split("\n")[0][:60],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_linear_twins(model, binary):
    rows = BINARY if binary else np.full(len(WINE), True)
    model = clone(model).fit(SCALED[rows], NAMES[rows])
    if isinstance(model, SVC) and not binary:
        # Its decisions are votes of pairs of classes, which are not linear.
        with pytest.raises(TypeError, match="differentiable scikit-learn classifier .* got SVC"):
            differentiable(model)
        return
    logits, classes, *_ = differentiable(FrozenEstimator(model))
    twin = logits(torch.tensor(SCALED)).numpy()
    expected = model.decision_function(SCALED)
    assert_allclose(twin[:, 1] - twin[:, 0] if binary else twin, expected, rtol=0, atol=1e-10)
    assert_array_equal(classes[twin.argmax(1)], model.predict(SCALED))


@pytest.mark.parametrize("binary", [False, True], ids=["three", "two"])
@pytest.mark.parametrize("activation", ["identity", "logistic", "tanh", "relu"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_perceptron_twins(activation, binary):
    rows = BINARY if binary else np.full(len(WINE), True)
    model = make_pipeline(
        StandardScaler(), MLPClassifier((7, 5), activation, max_iter=40, random_state=0)
    ).fit(WINE[rows], NAMES[rows])
    logits, classes, *_ = differentiable(model)
    twin = logits(torch.tensor(WINE))
    assert_allclose(twin.log_softmax(1), model.predict_log_proba(WINE), rtol=0, atol=1e-10)
    assert_array_equal(classes[twin.argmax(1)], model.predict(WINE))


# Exact answers

LINEAR = LogisticRegression().fit(SCALED[BINARY], NAMES[BINARY])


@pytest.mark.parametrize("norm", [2, np.inf])
@pytest.mark.parametrize("factor", [1e-4, 1, 1e4])
def test_least_norms_of_a_linear_classifier(norm, factor):
    X, y = factor * SCALED[BINARY], NAMES[BINARY]
    model = LogisticRegression()
    model.coef_, model.intercept_ = LINEAR.coef_ / factor, LINEAR.intercept_
    model.classes_ = LINEAR.classes_
    right = model.predict(X) == y
    dual = 2 if norm == 2 else 1
    exact = np.abs(model.decision_function(X)) / np.linalg.norm(model.coef_, dual, axis=1)
    shifted = FMN(norm)(X, y, estimator=model)
    assert shifted.success.all()
    assert_array_equal(model.predict(shifted.X) != y, shifted.success)
    ratio = shifted.norm[right] / exact[right]
    assert ratio.min() > 1 - 1e-9
    assert np.median(ratio) < 1.005
    assert ratio.max() < 1.05
    assert_array_equal(shifted.norm[~right], 0)


# foolbox


class Detour(nn.Module):
    """Predicts the label 0 wrongly at 0.5, and rightly with a larger loss at 1."""

    def forward(self, x):
        second = torch.minimum(-0.1 + 0.6 * x, 0.41 - 0.42 * x)
        return torch.cat([0 * x, second, torch.clamp(1.98 * x - 1.99, min=-1.0)], dim=1)


def test_a_wrong_prediction_is_stronger_than_a_larger_loss():
    attack = PGD(1.0, steps=2, step_size=0.5, random_start=False)
    found = attack(np.zeros((1, 1)), np.zeros(1, dtype=int), estimator=Detour())
    assert found.success[0]
    assert_allclose(found.X, 0.5)
    points = torch.tensor([[1.0], [0.5]])
    end, point = nn.functional.cross_entropy(
        Detour()(points), torch.tensor([0, 0]), reduction="none"
    )
    assert end > point


def foolbox_attack(attack, net, rows, labels, power=None):
    foolbox = pytest.importorskip("foolbox")
    model = foolbox.PyTorchModel(net, bounds=(0, 1))
    made = getattr(foolbox.attacks, attack[0])(**attack[1])
    torch.manual_seed(0)
    _, attacked, success = made(model, torch.tensor(rows), torch.tensor(labels), epsilons=power)
    return attacked.numpy(), success.numpy()


@pytest.mark.parametrize("name", ["perceptron", "convolutions"])
@pytest.mark.parametrize(
    ("attack", "oracle"),
    [
        (FGSM(0.08, bounds=(0, 1)), ("LinfFastGradientAttack", {})),
        (PGD(0.08, bounds=(0, 1)), ("LinfProjectedGradientDescentAttack", {})),
        (PGD(0.4, norm=2, bounds=(0, 1)), ("L2ProjectedGradientDescentAttack", {})),
    ],
    ids=["FGSM", "PGD", "PGD2"],
)
def test_success_rates_against_foolbox(nets, name, attack, oracle):
    net, rows = nets[name]
    if isinstance(attack, PGD):
        oracle = (oracle[0], {"steps": 40, "rel_stepsize": 2.5 / 40})
    attacked, success = foolbox_attack(oracle, net, rows, Y, attack.eps)
    shifted = attack(rows, Y, estimator=net)
    assert 0.1 < success.mean() < 0.9
    if isinstance(attack, FGSM):
        assert_allclose(shifted.X, attacked, atol=1e-6)
        assert_array_equal(shifted.success, success)
    # The strongest point of the way is at least as strong as the last one.
    assert success.mean() - 0.01 <= shifted.success.mean() <= success.mean() + 0.04


# Contracts


@each_attack
def test_rows_norms_and_successes_are_of_what_is_returned(attack, nets):
    for net, rows in nets.values():
        attack = clone(attack).set_params(bounds=(0, 1))
        before = rows.copy()
        shifted = attack(rows, Y, estimator=net)
        assert_array_equal(rows, before)
        assert shifted.X.dtype == np.float32
        assert shifted.X.shape == rows.shape
        assert 0 <= shifted.X.min() <= shifted.X.max() <= 1
        change = (shifted.X.astype(float) - rows).reshape(len(rows), -1)
        assert_allclose(shifted.norm, np.linalg.norm(change, attack.norm, axis=1), atol=1e-12)
        with torch.no_grad():
            decisions = net(torch.tensor(shifted.X)).argmax(1).numpy()
        assert (shifted.success == (decisions != Y)).mean() > 0.995
        assert 0.3 < shifted.success.mean() <= 1
        if hasattr(attack, "eps"):
            assert shifted.norm.max() <= attack.eps * (1 + 1e-6)
            assert shifted.norm.min() > 0.05  # rows that are wrong already are moved, too


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([2, np.inf]))
def test_the_features_units_do_not_matter(seed, norm):
    rng = np.random.default_rng(seed)
    weights = [torch.tensor(rng.normal(size=shape)) for shape in ((3, 8), (8, 3))]
    X = rng.normal(size=(6, 3))

    class Net(nn.Module):
        def __init__(self, unit):
            super().__init__()
            self.unit = nn.Parameter(torch.tensor(float(unit), dtype=torch.float64))

        def forward(self, x):
            return torch.tanh(x / self.unit @ weights[0]) @ weights[1]

    # A power of 2, so that nothing is rounded otherwise.
    one, other = (FMN(norm, steps=20)(u * X, estimator=Net(u)) for u in (1.0, 1024.0))
    assert_array_equal(other.success, one.success)
    assert_allclose(other.norm, 1024 * one.norm, rtol=1e-6)


def test_rows_that_are_wrong_already(net):
    wrong = net(torch.tensor(X)).argmax(1).numpy() != Y
    least = FMN(steps=25)(X, Y, estimator=net)
    assert least.success[wrong].all()
    assert_array_equal(least.X[wrong], X[wrong])
    attacked = PGD(0.1)(X, Y, estimator=net)
    assert attacked.success[wrong].all()
    assert (attacked.norm[wrong] > 0.05).all()


@each_attack
def test_without_labels_the_models_own_decisions_are_attacked(attack, net):
    decisions = net(torch.tensor(X)).argmax(1).numpy()
    given, own = attack(X, decisions, estimator=net), attack(X, estimator=net)
    assert_allclose(own.X, given.X, atol=1e-6)
    assert_array_equal(own.success, given.success)


@each_attack
def test_no_power_changes_nothing(attack, net):
    shifted = attack(X, Y, estimator=net, power=0)
    assert_array_equal(shifted.X, X)
    assert_array_equal(shifted.norm, 0)
    wrong = net(torch.tensor(X)).argmax(1).numpy() != Y
    assert 0 < wrong.sum() < 50
    assert_array_equal(shifted.success, wrong)
    assert not attack(X, estimator=net, power=0).success.any()


def test_rows_beyond_the_greatest_norm_stay(net):
    every = FMN(steps=25)(X, Y, estimator=net)
    limit = float(np.median(every.norm))
    near = every.norm <= limit
    for attack, power in ((FMN(steps=25, max_norm=limit), None), (FMN(steps=25), limit)):
        some = attack(X, Y, estimator=net, power=power)
        assert_array_equal(some.success, near)
        assert_allclose(some.X[near], every.X[near], atol=1e-6)
        assert_array_equal(some.X[~near], X[~near])
        assert_array_equal(some.norm[~near], 0)


@each_attack
def test_batches_seeds_and_copies(attack, net):
    net = nn.Sequential(net).double()
    rows, Y = X[:50].astype(np.float64), LABELS[1200:1250]
    state = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    shifted = attack(rows, Y, estimator=net)
    again = pickle.loads(pickle.dumps(clone(attack)))(rows, Y, estimator=net)
    assert_array_equal(again.X, shifted.X)
    small = clone(attack).set_params(batch_size=7)(rows, Y, estimator=net)
    assert_allclose(small.X, shifted.X, atol=1e-9)
    assert_array_equal(small.success, shifted.success)
    assert_array_equal(np.random.get_state()[1], state[0])  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), state[1])
    net.float()
    if isinstance(attack, PGD):
        other = clone(attack).set_params(random_state=1)(X[:50], Y, estimator=net)
        assert np.abs(other.X - shifted.X).max() > 0.01


def test_types_of_rows():
    model = LogisticRegression().fit(SCALED, NAMES)
    reference = PGD(0.5)(SCALED, NAMES, estimator=model)
    assert reference.success.any()
    with torch.inference_mode():
        tensor = PGD(0.5)(torch.tensor(SCALED), NAMES, estimator=model)
    assert tensor.X.dtype == torch.float64
    assert_allclose(tensor.X.numpy(), reference.X, atol=1e-9)
    frame = pd.DataFrame(SCALED, index=[f"r{i}" for i in range(178)]).add_prefix("f")
    labels = pd.Series(NAMES, index=frame.index)
    named = LogisticRegression().fit(frame, labels)
    shifted = PGD(0.5)(frame, labels, estimator=named)
    assert_allclose(shifted.X, reference.X, atol=1e-9)
    assert all(map(pd.Index.equals, shifted.X.axes, frame.axes))
    half = PGD(0.5)(SCALED.astype(np.float16), NAMES, estimator=model)
    assert half.X.dtype == np.float16
    assert_array_equal(model.predict(half.X.astype(float)) != NAMES, half.success)
    low, high = SCALED.min(0), SCALED.max(0)
    boxed = PGD(0.5, bounds=(low, high))(SCALED, NAMES, estimator=model)
    assert ((low <= boxed.X) & (boxed.X <= high)).all()
    fixed = SCALED.copy()
    fixed.flags.writeable = False
    for rows in (fixed, SCALED[::-1], (10 * SCALED).astype(int)):  # as torch does not take them
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert PGD(0.5)(rows, estimator=model).X.dtype == np.float64


@each_attack
def test_modules_stay_as_they_were(attack):
    net = Module()
    net.layers[1].eval()
    net.layers[0].weight.requires_grad_(False)
    net.layers[4].bias.grad = torch.ones(10)
    before = pickle.dumps(net)
    modes = [part.training for part in net.modules()]
    attack(X[:20], Y[:20], estimator=net)
    assert [part.training for part in net.modules()] == modes
    assert [p.requires_grad for p in net.parameters()] == [False, True, True, True, True, True]
    assert torch.equal(net.layers[4].bias.grad, torch.ones(10))
    assert all(p.grad is None for p in list(net.parameters())[:-1])
    assert_array_equal(attack(X[:20], estimator=net).X, attack(X[:20], estimator=net).X)
    for name, value in pickle.loads(before).state_dict().items():
        assert torch.equal(value, net.state_dict()[name])


class Probabilities(Module):
    def forward(self, x):
        return super().forward(x).softmax(1)


@pytest.mark.parametrize(
    ("kind", "options", "y"),
    [
        (NeuralNetClassifier, {"criterion": nn.CrossEntropyLoss}, LABELS),
        (NeuralNetClassifier, {"module": Probabilities}, LABELS),
        (NeuralNetClassifier, {"module__extra": True, "criterion": nn.CrossEntropyLoss}, LABELS),
        (NeuralNetBinaryClassifier, {"module__n_out": 1}, (LABELS < 5).astype(np.float32)),
    ],
    ids=["logits", "probabilities", "several", "binary"],
)
def test_skorch_nets(kind, options, y):
    torch.manual_seed(0)

    class Net(kind):
        # The criterion sees the scores alone.
        def get_loss(self, y_pred, *args, **kwargs):
            y_pred = y_pred[0] if isinstance(y_pred, tuple) else y_pred
            return super().get_loss(y_pred, *args, **kwargs)

    usual = {"module": Module, "lr": 0.01, "optimizer": torch.optim.Adam, "train_split": None}
    net = Net(max_epochs=8, verbose=0, **usual | options).fit(DIGITS[:1200], y[:1200])
    labels = y[1200:1400]
    clean = net.predict(X) == labels
    assert clean.mean() > 0.8
    for attack in (PGD(0.2, bounds=(0, 1)), FMN(bounds=(0, 1), steps=40)):
        shifted = attack(X, labels, estimator=net)
        assert shifted.success.mean() > 0.8
        # Outputs of a net in evaluation mode, as predict has them.
        agree = shifted.success == (net.predict(shifted.X) != labels)
        assert agree.mean() > 0.97
    piped = make_pipeline(StandardScaler().fit(DIGITS), net)
    scaled = StandardScaler().fit(DIGITS).transform(X)
    both = ((piped, X), (net, scaled))
    logits = [differentiable(x).logits(torch.tensor(rows)).detach() for x, rows in both]
    assert_allclose(*logits, atol=1e-3)


def test_passes(net):
    counts = {"forward": 0, "backward": 0}

    class Counted(nn.Module):
        def forward(self, x):
            counts["forward"] += len(x) > 1  # how many classes there are, one row tells
            if x.requires_grad:
                x.register_hook(lambda g: counts.update(backward=counts["backward"] + 1))
            return net(x)

    for attack, y, expected in (
        (FGSM(), Y, (2, 1)),
        (FGSM(), None, (2, 1)),
        (PGD(steps=5), Y, (6, 5)),
        (PGD(steps=5, random_start=False), None, (6, 5)),
        (PGD(steps=5), None, (7, 5)),
        (FMN(steps=5), Y, (5, 5)),
        (FMN(steps=5), None, (5, 5)),
    ):
        counts.update(forward=0, backward=0)
        attack(X, y, estimator=Counted())
        assert tuple(counts.values()) == expected


def test_a_gradient_too_small_to_be_squared():
    # 100 nats sure: the cross-entropy's gradient is about 1e-38.
    sure = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        sure.weight.copy_(torch.tensor([[43.0, 0.0], [-43.0, 0.0]]))
    shifted = PGD(1.1, norm=2, random_start=False)(np.float32([[1, 0]]), estimator=sure)
    assert shifted.success.all()
    # None at all, or outputs that are no numbers far out: no success, and finite rows.
    still = nn.Sequential(nn.ReLU(), nn.Linear(2, 2))
    for attack in (FMN(), PGD(0.5), FGSM(0.5), FMN(np.inf)):
        shifted = attack(np.float32([[-1, -1], [-2, -3]]), estimator=still)
        assert not shifted.success.any()
        assert np.isfinite(shifted.X).all()


@pytest.mark.parametrize(
    ("attack", "y", "message"),
    [
        (FGSM(), CULTIVAR, r"y: expected classes of the estimator, \['barbera', .*\], got 0 in"),
        (PGD(norm=1), NAMES, "norm: expected 2 or np.inf, got 1"),
        (PGD(bounds=(0, 1)), NAMES, r"X: expected numbers within bounds, got 1\.5.* in row 0"),
    ],
)
def test_what_does_not_fit(attack, y, message):
    with pytest.raises(ValueError, match=message):
        attack(SCALED, y, estimator=LogisticRegression().fit(SCALED, NAMES))


def test_a_classifier_without_gradients_is_refused():
    with pytest.raises(TypeError, match="expected a torch module, .* differentiable scikit-learn"):
        FGSM()(SCALED, estimator=RandomForestClassifier(2).fit(SCALED, NAMES))


def test_the_second_best_class_need_not_be_the_nearest():
    _, y = load_wine(return_X_y=True)
    model = LogisticRegression().fit(SCALED, y)
    rows = model.predict(SCALED) == y
    label = y[rows]
    scores = model.decision_function(SCALED[rows])
    ahead = scores[np.arange(len(label)), label][:, None] - scores
    slopes = np.linalg.norm(model.coef_[label][:, None] - model.coef_[None], axis=2)
    with np.errstate(invalid="ignore"):
        exact = np.nanmin(ahead / slopes, axis=1)
    ratio = FMN(2)(SCALED[rows], label, estimator=model).norm / exact
    assert ratio.min() > 1 - 1e-9
    # As the documentation tells: a tenth by more than 5 %, a quarter at most.
    assert 0.07 < (ratio > 1.05).mean() < 0.13
    assert 1.2 < ratio.max() < 1.3
