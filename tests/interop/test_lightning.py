"""The Lightning callback on the same cases as skorch's."""

import numpy as np
import pytest
import torch
from helpers.nets import Module, lightning_trainer
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

lightning = pytest.importorskip("lightning.pytorch")

from pa_select import posterior_agreement  # noqa: E402
from pa_select.interop.lightning import PAEarlyStopping  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

DATA, LABELS = load_digits(return_X_y=True)
X = torch.tensor(DATA[:400] / 16, dtype=torch.float32)
Y = torch.tensor(LABELS[:400])
OTHER = 0.7 * X + 0.1


class Classifier(lightning.LightningModule):
    def __init__(self, collapse_at=99, validate=True):
        super().__init__()
        self.net = Module()
        self.collapse_at = collapse_at
        self.states = []
        if validate:
            self.validation_step = self._validation_step

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, _):
        if self.current_epoch + 1 >= self.collapse_at:
            with torch.no_grad():
                self.net.layers[-1].weight.zero_()
        return torch.nn.functional.cross_entropy(self(batch[0]), batch[1])

    def _validation_step(self, batch, _):
        self.log("acc", (self(batch[0]).argmax(1) == batch[1]).float().mean())

    def on_train_epoch_end(self):
        self.states.append({k: v.clone() for k, v in self.state_dict().items()})

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(tmp_path, callback, module, epochs=6, validate=True, checkpoint=None):
    torch.manual_seed(0)
    trainer = lightning_trainer(tmp_path, epochs, callback)
    loaders = [DataLoader(TensorDataset(X, Y), batch_size=100)]
    if validate:
        loaders.append(DataLoader(TensorDataset(X, Y), batch_size=400))
    trainer.fit(module, *loaders, ckpt_path=checkpoint)
    return trainer


@pytest.mark.parametrize("validate", [True, False])
def test_the_best_epoch_is_restored(tmp_path, validate):
    module, stopping = Classifier(validate=validate), PAEarlyStopping((X, OTHER), patience=9)
    trainer = fit(tmp_path, stopping, module, validate=validate)
    scores = []
    probe = Classifier().eval()
    for state in module.states:
        probe.load_state_dict(state)
        with torch.no_grad():
            scores.append(posterior_agreement(probe(X), probe(OTHER), prior="marginal").score)
    best = int(np.argmax(scores))
    assert stopping.selector_.best_epoch == best + 1
    assert stopping.selector_.best_score == pytest.approx(scores[best], abs=1e-6)
    assert all(torch.equal(v, module.states[best][k]) for k, v in module.state_dict().items())
    assert float(trainer.callback_metrics["pa"]) == pytest.approx(scores[-1], abs=1e-5)


def test_it_stops_and_takes_loaders(tmp_path):
    loaders = [DataLoader(TensorDataset(rows, Y), batch_size=64) for rows in (X, OTHER)]
    stopping = PAEarlyStopping(loaders, patience=2)
    trainer = fit(tmp_path, stopping, Classifier(collapse_at=3), epochs=30)
    assert trainer.current_epoch < 10
    assert stopping.selector_.best_epoch <= 2


def test_training_goes_on_from_a_checkpoint(tmp_path):
    first, file = PAEarlyStopping((X, OTHER)), tmp_path / "last.ckpt"
    fit(tmp_path, first, Classifier(), epochs=3).save_checkpoint(file)
    second = PAEarlyStopping((X, OTHER))
    fit(tmp_path, second, Classifier(collapse_at=4), epochs=5, checkpoint=file)
    assert second.selector_.epoch == 5
    assert second.selector_.best_epoch == first.selector_.best_epoch
    assert second.selector_.best_score == first.selector_.best_score


def test_guard_and_wrong_input(tmp_path):
    guarded = PAEarlyStopping((X, OTHER), guard="acc", guard_error=0.02)
    fit(tmp_path, guarded, Classifier())
    assert guarded.selector_.best_score > 0
    shuffled = DataLoader(TensorDataset(X, Y), shuffle=True)
    with pytest.raises(ValueError, match=r"environments\[0\]: expected a DataLoader that"):
        PAEarlyStopping((shuffled, X))


def test_an_epoch_that_cannot_be_compared_is_not_kept(tmp_path):
    class Diverges(Classifier):
        def training_step(self, batch, _):
            if self.current_epoch >= 2:
                with torch.no_grad():
                    self.net.layers[-1].weight.fill_(torch.nan)
            return super().training_step(batch, _)

    # Interrupted before an epoch is kept, it has nothing to restore.
    PAEarlyStopping((X, OTHER)).on_train_end(None, Classifier())
    stopping = PAEarlyStopping((X, OTHER), patience=2)
    module = Diverges()
    with pytest.warns(UserWarning, match="Epoch 3 cannot be compared and is not kept"):
        fit(tmp_path, stopping, module)
    assert stopping.selector_.best_epoch <= 2
    assert stopping.selector_.should_stop
    assert torch.isfinite(module(X)).all()
