"""Scores of every kind of classifier, and the clear refusal of what is none."""

from collections import namedtuple
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier, StackingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from skorch import NeuralNetBinaryClassifier, NeuralNetClassifier
from torch import nn

from pa_select import class_scores, posterior_agreement, robustness_curve
from pa_select.scores import align_classes
from pa_select.shifts import FGSM, PGD, GaussianNoise
from papers.measures.sharpness import _outputs
from papers.shifts import FMN

X, Y = load_iris(return_X_y=True)
X32 = X.astype(np.float32)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]

CLASSIFIERS = [
    LogisticRegression(max_iter=500),
    SVC(),
    LinearSVC(),
    RidgeClassifier(),
    GaussianNB(),
    DecisionTreeClassifier(max_depth=3),
    RandomForestClassifier(20, random_state=0),
    KNeighborsClassifier(7),
    DummyClassifier(strategy="prior"),
    make_pipeline(StandardScaler(), SVC()),
    CalibratedClassifierCV(LinearSVC(), cv=2),
    GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [3, 9]}, cv=2),
    OneVsRestClassifier(LinearSVC()),
    OneVsOneClassifier(LinearSVC()),
    VotingClassifier([("a", GaussianNB()), ("b", LogisticRegression())], voting="soft"),
    StackingClassifier([("a", GaussianNB()), ("b", DecisionTreeClassifier())], cv=2),
]


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda e: str(e).split("(")[0])
@pytest.mark.parametrize("binary", [False, True], ids=["three", "binary"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_one_finite_column_for_each_class_and_the_same_prediction(estimator, binary):
    rows = NAMES != "virginica" if binary else np.full(len(X), True)
    estimator.fit(X[rows], NAMES[rows])
    scores, classes = class_scores(estimator, X[rows])
    assert list(classes) == sorted(set(NAMES[rows]))
    assert scores.shape == (rows.sum(), len(classes))
    assert np.isfinite(scores).all()
    predicted = estimator.predict(X[rows])
    ties = (scores == scores.max(axis=1, keepdims=True)).sum(axis=1) > 1
    wrong = (classes[scores.argmax(axis=1)] != predicted) & ~ties
    assert wrong.sum() <= 1
    assert 0 <= posterior_agreement(scores, scores).score <= np.log(len(classes)) + 1e-12


def test_binary_margins_give_the_probabilities():
    rows = Y < 2
    model = LogisticRegression().fit(X[rows], Y[rows])
    scores, _ = class_scores(model, X[rows])
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(p, model.predict_proba(X[rows]), rtol=1e-9)


def test_probabilities_are_clipped_at_half_a_vote():
    for estimator, smallest in (
        (KNeighborsClassifier(5), 1 / 10),
        (RandomForestClassifier(25, random_state=0), 1 / 50),
        (DecisionTreeClassifier(), 1e-8),
        (make_pipeline(StandardScaler(), KNeighborsClassifier(4)), 1 / 8),
        (GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [2]}, cv=2), 1 / 4),
        (FrozenEstimator(KNeighborsClassifier(5).fit(X, Y)), 1 / 10),
    ):
        scores, _ = class_scores(estimator.fit(X, Y), X)
        assert scores.min() == pytest.approx(np.log(smallest))


def test_one_vs_one_decisions_are_not_class_scores():
    # With three classes there are as many pairs as classes.
    with pytest.raises(TypeError, match="SVC .* give it decision_function_shape='ovr'"):
        class_scores(SVC(decision_function_shape="ovo").fit(X, Y), X)
    binary = SVC(decision_function_shape="ovo").fit(X[Y < 2], Y[Y < 2])
    assert class_scores(binary, X)[0].shape == (150, 2)


class Multilabel(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = np.arange(3)
        return self

    def predict_proba(self, X):
        return np.full((len(X), 3), 0.9)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (LinearRegression().fit(X, Y), "expected a classifier, got LinearRegression"),
        (MultiOutputClassifier(GaussianNB()).fit(X, np.column_stack([Y, Y])), "one output"),
        (Multilabel().fit(X, Y), "exclusive classes from Multilabel, got a sum of 2.7 in row 0"),
        (VotingClassifier([("a", GaussianNB())]).fit(X, Y), "give it voting='soft'"),
    ],
    ids=lambda x: x if isinstance(x, str) else type(x).__name__,
)
def test_what_is_no_classifier_of_one_output(estimator, message):
    with pytest.raises(TypeError, match=f"estimator: .*{message}"):
        class_scores(estimator, X)


class Net(nn.Module):
    def __init__(self, n_outputs=3, several=False, squeeze=False):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, n_outputs)
        )
        self.several, self.squeeze = several, squeeze

    def forward(self, x):
        out = self.layers(x)
        out = out[:, 0] if self.squeeze else out
        return (out, x) if self.several else out


@pytest.mark.parametrize("convert", [np.asarray, pd.DataFrame, torch.tensor, np.float32])
def test_modules_give_their_raw_outputs(convert):
    torch.manual_seed(0)
    net = Net()
    net.layers[1].eval()  # a frozen layer stays frozen
    net.layers[2].train()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    state = torch.random.get_rng_state()
    scores, classes = class_scores(net, convert(X), batch_size=40)
    assert isinstance(scores, torch.Tensor)
    assert not scores.requires_grad
    assert [part.training for part in net.layers] == [True, False, True, True]
    assert all((v == before[k]).all() for k, v in net.state_dict().items())
    assert (torch.random.get_rng_state() == state).all()
    with torch.no_grad():
        expected = net.eval()(torch.tensor(X, dtype=torch.float32))
    torch.testing.assert_close(scores, expected)
    assert list(classes) == [0, 1, 2]


def test_a_module_may_name_its_classes():
    torch.manual_seed(0)
    net, names = Net(), np.array(["cat", "ant", "bee"])
    curves = [robustness_curve(net, X, Y, shift=FGSM(), powers=0.1).table]
    net.classes_ = names
    assert class_scores(net, X)[1].tolist() == names.tolist()
    curves.append(robustness_curve(net, X, names[Y], shift=FGSM(), powers=0.1).table)
    assert curves[0]["log_loss_gap"] > 0  # the attack is against the labels
    for column in ("log_loss", "log_loss_gap", "pa"):
        assert curves[0][column] == pytest.approx(curves[1][column])


def test_modules_get_integers_and_their_own_precision():
    net = Net()  # as of a quantised one
    expected, _ = class_scores(net, X)
    integer = nn.Parameter(torch.tensor(8), requires_grad=False)
    net.register_parameter("n_bits", integer)
    torch.testing.assert_close(class_scores(net, X)[0], expected)
    embedding = nn.Sequential(nn.Embedding(5, 3), nn.Flatten()).double()
    scores, _ = class_scores(embedding, np.array([[0], [4], [2]]))
    assert scores.dtype == torch.float64
    with pytest.raises(TypeError, match=r"expected outputs of shape \(n, n_classes\)"):
        class_scores(nn.Embedding(5, 3), np.array([[0, 1], [4, 4]]))


@pytest.fixture(scope="module")
def nets():
    settings = {"max_epochs": 2, "verbose": 0, "train_split": None, "batch_size": 64}
    logits = NeuralNetClassifier(Net, criterion=nn.CrossEntropyLoss, **settings)
    probabilities = NeuralNetClassifier(
        nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1)), **settings
    )
    binary = NeuralNetBinaryClassifier(Net(1, squeeze=True), **settings)
    binary.fit(X32, (Y == 0).astype(np.float32))
    return logits.fit(X32, Y), probabilities.fit(X32, Y), binary


def test_skorch_nets_give_logits(nets):
    for net in nets:
        net.module_.train()
        scores, classes = class_scores(net, X32)
        assert net.module_.training
        assert isinstance(scores, torch.Tensor)
        assert not scores.requires_grad
        assert len(classes) == scores.shape[1]
        p = net.predict_proba(X32)
        np.testing.assert_allclose(torch.softmax(scores, 1).numpy(), p, atol=1e-5)
    pipeline = make_pipeline(StandardScaler(), nets[0])
    pipeline.steps[0][1].fit(X32)
    scores, _ = class_scores(pipeline, X32)
    expected, _ = class_scores(nets[0], pipeline[:-1].transform(X32))
    torch.testing.assert_close(scores, expected)


class Wrapped(nn.Module):
    """A module whose output is wrapped, as that of a transformer may be."""

    def __init__(self, module, wrap):
        super().__init__()
        self.module, self.wrap = module, wrap

    def forward(self, x):
        return self.wrap(self.module(x))


Output = namedtuple("Output", "loss logits")
WRAPPERS = {
    "mapping": lambda x: {"hidden": x + 1, "logits": x},
    "object": lambda x: SimpleNamespace(logits=x),
    "named tuple": lambda x: Output(torch.zeros(()), x),
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_modules_that_name_their_logits_do_what_they_do_without_the_name(wrap):
    torch.manual_seed(0)
    X32, plain = torch.tensor(X, dtype=torch.float32), Net()
    named = Wrapped(plain, wrap)
    torch.testing.assert_close(class_scores(named, X32)[0], class_scores(plain, X32)[0])
    data = X32[::10], Y[::10]
    for shift in (GaussianNoise(), FGSM(), PGD(steps=2), FMN(steps=2)):
        curves = (robustness_curve({"": x}, *data, shift=shift) for x in (plain, named))
        pd.testing.assert_frame_equal(*(curve.to_frame() for curve in curves))
    torch.testing.assert_close(_outputs(named.eval(), X32), _outputs(plain.eval(), X32))


def test_a_class_that_a_model_lacks_has_the_lowest_score_of_each_row():
    scores = np.array([[2.0, -1.0], [0.0, 5.0]])
    found = align_classes(scores, np.array([0, 2]), np.array([0, 1, 2]))
    assert found.tolist() == [[2, -1, -1], [0, 0, 5]]
