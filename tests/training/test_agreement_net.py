"""The learner of few labels and many pairs: its contract as of the others, and what it learns."""

import numpy as np
import pytest
import torch
from helpers.nets import Linear
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import QuantileTransformer
from sklearn.utils import shuffle
from skorch.dataset import Dataset

from pa_select import PAEarlyStopping, PASearchCV, class_scores
from pa_select.shifts import GaussianNoise
from pa_select.training import AgreementNet, PosteriorAgreementLoss, SharedEnvironment
from pa_select.training.pair_batches import PairBatches
from papers.learners import ERMNet

# The nets of these tests are hardly trained.
pytestmark = pytest.mark.filterwarnings("ignore:pairs. expected the classes:UserWarning")

X, Y = shuffle(*load_digits(return_X_y=True), random_state=0)
X = (X / 16).astype("float32")
PAIRS = X[100:400], X[100:400] + np.random.default_rng(0).normal(0, 0.2, (300, 64)).astype("f4")


def net(**params):
    torch.manual_seed(0)
    usual = {"module": Linear, "max_epochs": 2, "lr": 0.1, "verbose": 0, "pairs": PAIRS}
    return AgreementNet(**usual | params)


def weights(fitted):
    return [p.detach().numpy().copy() for p in fitted.module_.parameters()]


def test_one_step_is_that_of_the_two_losses():
    # With one step in all the weight is reached at once.
    fitted = net(train_split=None, batch_size=-1, weight=3.0, pair_batch_size=300)
    fitted.set_params(max_epochs=1, beta=2.0).initialize()
    start = [torch.tensor(w).requires_grad_() for w in weights(fitted)]
    fitted.partial_fit(X[:50], Y[:50])
    logits = [torch.tensor(rows) @ start[0].T + start[1] for rows in (X[:50], *PAIRS)]
    of_labels = torch.nn.functional.cross_entropy(logits[0], torch.tensor(Y[:50]))
    of_pairs = PosteriorAgreementLoss(beta=2.0)(*logits[1:])
    (of_labels + 3 * of_pairs).backward()
    for before, after in zip(start, weights(fitted), strict=True):
        assert_allclose(after, (before - 0.1 * before.grad).detach(), atol=1e-6)
    last = fitted.history[-1]
    assert last["train_label_loss"] == pytest.approx(of_labels.item(), abs=1e-5)
    assert last["train_agreement"] == pytest.approx(-of_pairs.item(), abs=1e-5)
    assert last["beta"] == pytest.approx(2.0)
    assert last["train_loss"] == pytest.approx((of_labels + 3 * of_pairs).item(), abs=1e-5)
    shares = np.bincount(logits[1].argmax(1), minlength=10) / 300
    assert_allclose(fitted.pair_classes_, shares)


@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")  # 50 rows
def test_probabilities_are_the_softmax_of_the_logits():
    fitted = net().fit(X[:50], Y[:50])
    logits = fitted.forward(X[:9], training=False)
    assert_allclose(fitted.predict_proba(X[:9]), logits.softmax(1), atol=1e-6)
    fitted.set_params(predict_nonlinearity=None)
    assert_allclose(fitted.predict_proba(X[:9]), logits, atol=1e-6)


def changed(side, row, value):
    pairs = [rows.copy() for rows in PAIRS]
    pairs[side][row, 5] = value
    return tuple(pairs)


def test_a_module_may_take_nan():
    class Filled(Linear):
        def forward(self, rows):
            return super().forward(rows.nan_to_num())

    filled = net(module=Filled, pairs=changed(0, 7, np.nan)).fit(X[:100], Y[:100])
    of_zeros = net(pairs=changed(0, 7, 0.0)).fit(X[:100], Y[:100])
    assert_array_equal(weights(filled)[0], weights(of_zeros)[0])


def test_the_weight_rises_over_the_ramp():
    fitted = net(train_split=None, batch_size=25, max_epochs=10).fit(X[:50], Y[:50])
    history = fitted.history
    columns = ("train_loss", "train_label_loss", "train_agreement")
    steps = [b for epoch in history for b in epoch["batches"]]
    rises = [(b[columns[1]] - b[columns[0]]) / b[columns[2]] for b in steps]
    assert_allclose(rises, [0.25, 0.5, 0.75] + 17 * [1], atol=1e-3)


def test_without_weight_it_is_plain_training():
    plain = net(weight=0.0, train_split=None, batch_size=-1).fit(X[:50], Y[:50])
    torch.manual_seed(0)
    usual = ERMNet(Linear, max_epochs=2, lr=0.1, verbose=0, train_split=None, batch_size=-1)
    # Both environments are the same rows, so that their mean risk is that of the rows.
    usual.fit(np.tile(X[:50], (2, 1)), np.tile(Y[:50], 2), environments=np.repeat([0, 1], 50))
    for a, b in zip(weights(plain), weights(usual), strict=True):
        assert_allclose(a, b, atol=1e-5)


@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")  # 50 rows
def test_beta_is_learnt_at_its_own_rate_without_decay():
    fitted = net(optimizer=torch.optim.AdamW, optimizer__weight_decay=0.5, lr=1e-3)
    fitted.fit(X[:50], Y[:50])
    groups = fitted.optimizer_.param_groups
    assert [g["weight_decay"] for g in groups] == [0.5, 0]
    assert [g["lr"] for g in groups] == [1e-3, 0.03]
    assert groups[1]["params"] == [fitted.agreement_loss_.log_beta]
    assert fitted.agreement_loss_.beta != 1
    assert fitted.history[-1, "beta"] == pytest.approx(fitted.agreement_loss_.beta, rel=0.2)
    fixed = net(beta=2.0).fit(X[:50], Y[:50])
    assert len(fixed.optimizer_.param_groups) == 1
    assert fixed.history[-1, "beta"] == pytest.approx(2)


def test_every_pair_is_drawn_once_before_any_twice():
    rows = np.arange(40, dtype="f4")[:, None]
    batches = PairBatches(net(), (rows, rows + 100), 16, np.random.RandomState(0))
    drawn = [batches.draw() for _ in range(5)]
    for first, second in drawn:
        assert_array_equal(second, first + 100)
    order = torch.cat([first for first, _ in drawn]).ravel().tolist()
    assert sorted(order[:40]) == rows.ravel().tolist()
    assert len(set(order[40:80])) == 40


def test_views_are_drawn_anew_and_labelled_rows_are_seen_through_them():
    view = GaussianNoise(0.5, random_state=0)
    batches = PairBatches(net(), (X[:100], view), 20, np.random.RandomState(0))
    batch = torch.tensor(X[:20])
    one, other = batches.seen(batch), batches.seen(batch)
    assert one.dtype == batch.dtype
    assert not torch.equal(one, other)
    assert float((one - batch).std()) == pytest.approx(0.5, rel=0.1)
    seen = []

    class Module(Linear):
        def forward(self, rows):
            seen.append(len(rows))
            return super().forward(rows)

    options = {"module": Module, "train_split": None, "max_epochs": 1, "batch_size": -1}
    net(pairs=(X[100:200], lambda rows: rows[:, ::-1].copy()), **options).fit(X[:50], Y[:50])
    assert seen == [100, 64, 64]
    seen.clear()
    net(pairs=(X[100:200], view), augment=False, **options).fit(X[:50], Y[:50])
    assert seen == [50, 64, 64]


def test_training_goes_on():
    fitted = net().fit(X[:100], Y[:100])
    assert not hasattr(fitted, "_batches")
    beta, steps = fitted.agreement_loss_.beta, fitted._step
    fitted.partial_fit(X[:100], Y[:100])
    assert len(fitted.history) == 4
    assert fitted.agreement_loss_.beta != beta
    assert fitted._step == 2 * steps  # the ramp does not start again
    with pytest.raises(ValueError, match="beta: expected the prior and the inverse temperature"):
        fitted.set_params(beta=5.0).partial_fit(X[:100], Y[:100])
    assert fitted.fit(X[:100], Y[:100]).agreement_loss_.beta == pytest.approx(5)


def test_saved_parameters(tmp_path):
    fitted, file = net().fit(X[:100], Y[:100]), tmp_path / "agreement.pt"
    fitted.save_params(f_agreement_loss=file)
    again = net().initialize()
    again.load_params(f_agreement_loss=file)
    assert again.agreement_loss_.beta == fitted.agreement_loss_.beta


def test_a_fitted_transformer_with_a_seed_is_a_view():
    view = QuantileTransformer(n_quantiles=50, random_state=0).fit(X)
    batches = PairBatches(net(), (X[:100], view), 20, np.random.RandomState(0))
    batch = torch.tensor(X[:20])
    assert_allclose(batches.seen(batch), view.transform(X[:20]), atol=1e-5)
    assert view.random_state == 0


def test_rows_of_all_kinds():
    expected = weights(net().fit(X[:100], Y[:100]))[0]
    for convert in (torch.tensor, SharedEnvironment, Dataset):
        found = net(pairs=tuple(convert(rows) for rows in PAIRS)).fit(X[:100], Y[:100])
        assert_array_equal(weights(found)[0], expected)


@pytest.mark.filterwarnings("ignore:No candidate with:UserWarning")
def test_searches_and_callbacks():
    shared = tuple(SharedEnvironment(rows) for rows in PAIRS)
    grid = {"weight": [0.0, 1.0]}
    search = GridSearchCV(net(pairs=shared), grid, cv=2, error_score="raise")
    search.fit(X[:200], Y[:200])
    assert class_scores(search, X[:5])[0].shape == (5, 10)
    by_agreement = PASearchCV(net(pairs=shared), grid, cv=2)
    assert by_agreement.fit(X[:200], Y[:200]).best_index_ in (0, 1)
    stopping = PAEarlyStopping((X[:100], X[:100] / 2), patience=2)
    fitted = net(callbacks=[("pa", stopping)]).fit(X[:200], Y[:200])
    assert np.isfinite(fitted.history[-1, ("pa", "valid_acc", "train_agreement")]).all()


def test_warnings():
    one_class = X[Y == 3][:100]
    with pytest.warns(UserWarning, match=r"got class \d for .* of the pairs"):
        net(pairs=(one_class, one_class * 0.9), max_epochs=30).fit(X[:200], Y[:200])
    with pytest.warns(UserWarning, match="expected at least 16 pairs in a batch, got 8"):
        net(pair_batch_size=8).fit(X[:100], Y[:100])


@pytest.mark.filterwarnings("error:pairs:UserWarning")
def test_a_small_last_batch_is_little_evidence_of_another_class_mix():
    # The last epoch is one step. It sees 16 of 1000 pairs, and no pair of some classes.
    adam = {"optimizer": torch.optim.Adam, "lr": 0.05, "max_epochs": 15, "train_split": None}
    pairs = {"pairs": (X[400:1400], X[400:1400]), "pair_batch_size": 16, "weight": 0.0}
    fitted = net(batch_size=-1, **pairs, **adam).fit(X[:400], Y[:400])
    assert fitted.pair_classes_.min() == 0


SOFTMAX = torch.nn.Sequential(torch.nn.Linear(64, 10), torch.nn.Softmax(1))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"pairs": (X[:50], X[:49])}, "pairs: expected as many rows of both, got 50"),
        ({"pairs": (X[:9], X[:9])}, "pairs: expected at least 16 pairs, got 9"),
        ({"module": SOFTMAX}, "module: expected one that returns logits"),
    ],
)
def test_parameters_that_do_not_fit(params, message):
    with pytest.raises((TypeError, ValueError), match=message):
        net(**{"pair_batch_size": 300} | params).fit(X[:100], Y[:100])
