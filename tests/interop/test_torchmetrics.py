"""The torchmetrics metric: torchmetrics' conventions, Lightning, and several processes."""

import pickle

import numpy as np
import pytest
import torch
from helpers import processes
from helpers.nets import lightning_trainer
from torch.utils.data import DataLoader, TensorDataset

torchmetrics = pytest.importorskip("torchmetrics")

from pa_select import posterior_agreement  # noqa: E402
from pa_select.interop.torchmetrics import PosteriorAgreement  # noqa: E402

A, B = (torch.tensor(x, dtype=torch.float32) for x in processes.noisy(900))
BATCHES = [slice(0, 100), slice(100, 700), slice(700, 900)]
PRIORS = ["uniform", "marginal", [0.4, 0.3, 0.2, 0.1]]


def updated(*args, a=A, b=B, **kwargs):
    metric = PosteriorAgreement(*args, **kwargs)
    for batch in BATCHES:
        metric.update(a[batch], b[batch])
    return metric


def value(a=A, b=B, **kwargs):
    return pytest.approx(posterior_agreement(a, b, **kwargs).score, abs=1e-6)


@pytest.mark.parametrize("prior", PRIORS)
def test_batches_are_one_problem(prior):
    metric = updated(prior)
    found = metric.compute()
    assert found.shape == ()
    assert found.dtype == torch.float64
    assert found.item() == metric.result_.score  # not rounded to float32
    assert found.item() == value(prior=prior)
    expected = posterior_agreement(A, B, prior=prior)
    assert metric.result_.score == pytest.approx(expected.score, abs=1e-9)
    np.testing.assert_allclose(metric.result_.terms, expected.terms, atol=1e-6)


def test_weights_and_options():
    weight = torch.rand(900, generator=torch.Generator().manual_seed(0))
    weight[:100] = 0  # all of a batch
    metric = PosteriorAgreement("marginal", tol=0.1)
    for batch in BATCHES:
        metric.update(A[batch], B[batch], weight[batch])
    expected = posterior_agreement(A, B, prior="marginal", sample_weight=weight, tol=0.1)
    assert metric.compute().item() == pytest.approx(expected.score, abs=1e-6)
    assert metric.result_.gap == pytest.approx(expected.gap, rel=1e-3)
    assert metric.result_.gap > 1e-5  # of the default tol it is smaller
    assert metric.result_.n_pairs == 800
    metric = updated(certify=False)
    metric.compute()
    assert 0 <= metric.result_.gap <= 1e-3


def test_forward_is_the_batch_and_accumulates():
    metric = PosteriorAgreement()
    for batch in BATCHES:
        assert metric(A[batch], B[batch]).item() == value(A[batch], B[batch])
    assert metric.compute().item() == value()
    metric.reset()
    assert metric.result_ is None
    assert metric.scores_a == []
    metric.update(A[:50], B[:50])
    assert metric.compute().item() == value(A[:50], B[:50])


@pytest.mark.parametrize("copy", [lambda m: pickle.loads(pickle.dumps(m)), lambda m: m.clone()])
def test_copies(copy):
    metric = updated("marginal")
    computed = metric.compute()
    other = copy(metric)
    assert other.result_.score == metric.result_.score
    other.update(A[:100] * 2, B[:100])
    assert metric.compute() == computed
    assert other.compute() != computed
    assert metric.result_.n_pairs == 900
    assert other.result_.n_pairs == 1000


def test_states():
    metric = updated()
    assert metric.state_dict() == {}
    metric.persistent(True)
    other = PosteriorAgreement()
    other.load_state_dict(metric.state_dict(), strict=False)
    other._update_count = 1
    assert other.compute().item() == pytest.approx(metric.compute().item(), abs=1e-6)
    halves = PosteriorAgreement(), PosteriorAgreement()
    halves[0].update(A[:300], B[:300])
    halves[1].update(A[300:], B[300:])
    halves[0].merge_state(halves[1])
    assert halves[0].compute().item() == pytest.approx(metric.compute().item(), abs=1e-6)


def test_types():
    metric = updated(a=A.half(), b=B.half()).half()
    assert metric.scores_a[0].dtype == torch.float16
    assert metric.compute().dtype == torch.float64
    assert metric.compute().item() == value(A.half(), B.half())
    metric = updated().set_dtype(torch.float32)
    assert metric.compute().dtype == torch.float64
    assert metric.result_.score == value(A.double(), B.double())
    bfloat = updated(a=A.bfloat16(), b=B.bfloat16())
    assert bfloat.compute().item() == value(A.bfloat16(), B.bfloat16())
    needs_grad = A.clone().requires_grad_()
    metric = PosteriorAgreement()
    assert not metric(needs_grad, B).requires_grad


def test_collection():
    both = {"uniform": PosteriorAgreement(), "marginal": PosteriorAgreement("marginal")}
    collection = torchmetrics.MetricCollection(both)
    for batch in BATCHES:
        collection.update(A[batch], B[batch])
    found = collection.compute()
    for prior in ("uniform", "marginal"):
        assert found[prior].item() == value(prior=prior)
    # Both hold one copy of the scores.
    assert len(collection.compute_groups) == 1
    pair = list(collection.values(copy_state=False))
    assert pair[0].scores_a[0].data_ptr() == pair[1].scores_a[0].data_ptr()
    collection.reset()
    other = collection(A[:50], scores_b=B[:50])
    assert other["uniform"].item() == value(A[:50], B[:50])


def test_errors_keep_what_was_there():
    metric = updated()
    with pytest.raises(ValueError, match="scores_a: expected 4 classes, as before, got"):
        metric.update(A[:, :3], B[:, :3])
    assert metric.compute().item() == value()


@pytest.mark.filterwarnings("ignore")
def test_lightning_logs_it(tmp_path):
    lightning = pytest.importorskip("lightning.pytorch")

    class Classifier(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)
            self.agreement = PosteriorAgreement("marginal")
            self.steps = torchmetrics.MetricCollection({"pa": PosteriorAgreement()})

        def training_step(self, batch, _):
            a, b = self.layer(batch[0]), self.layer(batch[1])
            self.log_dict(self.steps, on_step=False, on_epoch=True)
            self.steps.update(a, b)
            return torch.nn.functional.mse_loss(a, b)

        def validation_step(self, batch, _):
            self.agreement.update(self.layer(batch[0]), self.layer(batch[1]))
            self.log("val_pa", self.agreement)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    torch.manual_seed(0)
    module = Classifier()
    loader = DataLoader(TensorDataset(A, B), batch_size=250)
    trainer = lightning_trainer(tmp_path, epochs=2)
    trainer.fit(module, loader, loader)
    with torch.no_grad():  # the last validation comes after the last step
        expected = value(module.layer(A), module.layer(B), prior="marginal")
    assert float(trainer.callback_metrics["val_pa"]) == expected
    assert 0 < float(trainer.callback_metrics["pa"]) < np.log(4)
    # Lightning resets it after each epoch.
    assert module.agreement.scores_a == []


@pytest.mark.slow
def test_two_ranks(tmp_path):
    first, second = processes.ask(2, tmp_path, processes.metrics)
    expected = {
        "all": value(prior="marginal"),
        "more": value(torch.cat([A, A[:50]]), torch.cat([B, B[:50]]), prior="marginal"),
        "gathering": value(prior="marginal"),
        "idle": value(prior="marginal"),
    }
    on_step = torch.cat([A[100:900]]), torch.cat([B[100:900]])
    twice = torch.cat([A[:300]] * 2), torch.cat([B[:300]] * 2)
    for found in (first, second):
        for name, wanted in expected.items():
            assert found[name] == wanted, name
        assert found["step"] == [value(*x, prior="marginal") for x in (on_step, twice)]
        # The scores of 900 rows are 7200 numbers. A round sums a hundred for each of its points.
        assert found["largest"] < 1500
    assert first["rows"] == (900, 700)
    assert second["rows"] == (900, 200)
    assert first["held"] == (2, False)
    assert second["held"] == (1, False)
    assert first["local"] == value(A[:700], B[:700], prior="marginal")
    assert second["local"] == value(A[700:], B[700:], prior="marginal")
