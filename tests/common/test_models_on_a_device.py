"""Scorers, curves, callbacks and metrics on a device that only pretends to be one."""

from functools import partial

import numpy as np
import pytest
import torch
from helpers.nets import Module
from helpers.pretend_device import PretendDevice, PretendTensor
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from skorch import NeuralNetClassifier
from torch import nn

from pa_select import (
    PAEarlyStopping,
    PAScorer,
    PAScoring,
    PASearchCV,
    class_scores,
    posterior_agreement,
    robustness_curve,
)
from pa_select.scores import log_probabilities
from pa_select.shifts import GaussianNoise

X, Y = load_digits(return_X_y=True)
X, Y = (X[:90] / 16).astype(np.float32), Y[:90].astype(np.int64)
OTHER = (0.7 * X + 0.1).astype(np.float32)
CLOSE = {"rtol": 1e-6, "atol": 1e-7}


@pytest.fixture
def device():
    with PretendDevice() as there:
        yield there


def module():
    torch.manual_seed(0)
    return Module().eval()


def test_class_scores_of_a_module_stay_there(device):
    here, _ = class_scores(module(), X)
    there, classes = class_scores(module().to("cuda"), X)
    assert isinstance(there, PretendTensor)
    assert len(classes) == 10
    assert_allclose(there.cpu(), here, **CLOSE)
    p = log_probabilities(there.softmax(1))
    assert isinstance(p, PretendTensor)
    assert_allclose(p.cpu(), log_probabilities(here.softmax(1)), **CLOSE)


def scores(where, pairing, **views):
    scorer = PAScorer(pairing, prior="uniform", device=where, **views)
    return {"score": cross_val_score(LogisticRegression(), X, Y, scoring=scorer, cv=2)}


def table_of_a_search(where):
    found = PASearchCV(LogisticRegression(), {"C": [0.01, 1]}, cv=2, prior="uniform", device=where)
    table = found.fit(X, Y, views=lambda rows: 0.7 * rows).cv_results_
    names = ("mean_agree", "mean_test", "agree", "rank")
    return {name: values for name, values in table.items() if name.startswith(names)}


def table_of_a_curve(where):
    model = {"model": LogisticRegression().fit(X, Y)}
    how = {"shift": GaussianNoise(random_state=0), "powers": [0.2], "prior": "uniform"}
    table = robustness_curve(model, X, Y, device=where, **how).table
    return {name: values for name, values in table.items() if name != "estimator"}


@pytest.mark.parametrize(
    "compute",
    [
        partial(scores, pairing="label"),
        partial(scores, pairing="views", views=lambda rows: 0.7 * rows),
        table_of_a_search,
        table_of_a_curve,
    ],
    ids=["label", "views", "search", "curve"],
)
def test_scorers_searches_and_curves(device, compute):
    here = compute("cpu")
    assert not device.counts.launches
    there = compute("cuda")
    assert device.counts.launches
    assert there.keys() == here.keys() != set()
    for name in here:
        both = (np.asarray(table[name], float) for table in (there, here))
        assert_allclose(*both, err_msg=name, **CLOSE)


class StandingStill(NeuralNetClassifier):
    """A net that does not learn: the pretended device has no gradients."""

    def train_step_single(self, batch, **_):
        return {"loss": torch.zeros(()), "y_pred": torch.zeros(len(batch[0]), 10)}

    def run_single_epoch(self, iterator, training, prefix, step_fn, **options):
        if training:
            super().run_single_epoch(iterator, training, prefix, step_fn, **options)


@pytest.mark.parametrize("kind", [PAScoring, PAEarlyStopping])
def test_callbacks(device, kind):
    def fit(where):
        torch.manual_seed(0)
        net = StandingStill(
            Module,
            criterion=nn.CrossEntropyLoss,
            max_epochs=2,
            verbose=0,
            device=where,
            train_split=None,
            classes=np.arange(10),
            callbacks=[("pa", kind(environments=(X, OTHER), prior="uniform"))],
        )
        return net.fit(X, Y)

    here, there = fit("cpu"), fit("cuda")
    assert isinstance(next(there.module_.parameters()), PretendTensor)
    if kind is PAEarlyStopping:
        state = dict(there.callbacks_)["pa"].selector_.best_state
        assert not any(isinstance(x, PretendTensor) for x in state.values())
    for name in ("pa", "pa_beta", "pa_agreement_rate"):
        assert_allclose(there.history[:, name], here.history[:, name], **CLOSE)


@pytest.mark.parametrize("prior", ["uniform", "marginal"])
def test_torchmetrics(device, prior):
    pytest.importorskip("torchmetrics")
    from pa_select.interop.torchmetrics import PosteriorAgreement

    a, b = (class_scores(module(), rows)[0] for rows in (X, OTHER))
    metric = PosteriorAgreement(prior).to("cuda")
    for rows in (slice(0, 50), slice(50, None)):
        metric.update(a[rows].to("cuda"), b[rows].to("cuda"))
    assert isinstance(metric.scores_a[0], PretendTensor)
    found = metric.compute()
    assert found.is_cuda
    assert_allclose(found.item(), posterior_agreement(a, b, prior=prior).score, **CLOSE)
