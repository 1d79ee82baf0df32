"""skorch callbacks: what they record, keep, restore, and leave alone."""

import pickle
import random
from copy import deepcopy

import numpy as np
import pytest
import torch
from helpers.nets import Module
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.utils import check_random_state
from skorch import NeuralNetBinaryClassifier, NeuralNetClassifier
from skorch.callbacks import (
    Callback,
    Checkpoint,
    EarlyStopping,
    EpochScoring,
    LoadInitState,
    TrainEndCheckpoint,
)
from skorch.helper import SliceDict
from torch import nn
from torch.utils.data import TensorDataset

from pa_select import PAEarlyStopping, PAScoring, class_scores, posterior_agreement
from pa_select.training import SharedEnvironment
from pa_select.training.paired_environments import untouched_random_states

X, Y = load_digits(return_X_y=True)
X, Y = (X[:200] / 16).astype(np.float32), Y[:200].astype(np.int64)
OTHER = (0.7 * X + 0.1).astype(np.float32)
PAIR = (SharedEnvironment(X), SharedEnvironment(OTHER))


STRANGERS = (X, Y), (X, np.full(200, 77))
COLUMNS = ("pa", "pa_best", "pa_beta", "pa_uniform", "pa_agreement_rate", "pa_seconds")


def make(*callbacks, kind=NeuralNetClassifier, **params):
    torch.manual_seed(0)
    defaults = {
        "criterion": nn.CrossEntropyLoss,
        "max_epochs": 4,
        "lr": 0.1,
        "verbose": 0,
        "callbacks": list(callbacks),
    }
    return kind(Module, **defaults | params)


def callback(net, kind):
    return next(cb for _, cb in net.callbacks_ if isinstance(cb, kind))


class Keeper(Callback):
    """Every epoch's state."""

    def on_train_begin(self, net, **kwargs):
        self.states_ = []

    def on_epoch_end(self, net, **kwargs):
        self.states_.append(deepcopy(net.module_.state_dict()))


def same(one, two):
    return all(torch.equal(one[name], two[name]) for name in one)


def test_the_record_is_that_of_the_nets_scores():
    keeper = Keeper()
    net = make(PAScoring(PAIR, uniform=True, tol=1e-5), keeper).fit(X, Y)
    assert len(net.history[:, COLUMNS]) == 4
    for epoch, state in enumerate(callback(net, Keeper).states_):
        net.module_.load_state_dict(state)
        a, b = (class_scores(net, rows)[0] for rows in (X, OTHER))
        expected = posterior_agreement(a, b, prior="marginal")
        assert net.history[epoch, "pa"] == pytest.approx(expected.score, abs=1e-6)
        assert net.history[epoch, "pa_beta"] == pytest.approx(expected.beta, rel=1e-3)
        uniform = posterior_agreement(a, b).score
        assert net.history[epoch, "pa_uniform"] == pytest.approx(uniform, abs=1e-6)
    best = np.array(net.history[:, "pa"]) >= np.maximum.accumulate(net.history[:, "pa"])
    np.testing.assert_array_equal(net.history[:, "pa_best"], best)


def test_the_uniform_priors_column_is_there_on_request(monkeypatch):
    with_column = make(PAScoring(PAIR, every=2, uniform=True)).fit(X, Y).history

    def second_solve(*args, **kwargs):
        raise AssertionError("a second solve")

    monkeypatch.setattr("pa_select.training.epoch_scoring.agreements", second_solve)
    history = make(PAScoring(PAIR, every=2)).fit(X, Y).history
    for one, other in zip(history, with_column, strict=True):
        assert {*other} - {*one} == {"pa_uniform"}
        assert one["pa"] == pytest.approx(other["pa"], abs=1e-9, nan_ok=True)
    # With the uniform prior the column needs no second solve.
    history = make(PAScoring(PAIR, prior="uniform", uniform=True)).fit(X, Y).history
    assert history[:, "pa_uniform"] == history[:, "pa"]


def test_training_is_the_same_with_and_without():
    plain = make(Keeper(), iterator_train__shuffle=True).fit(X, Y)
    scored = make(PAScoring(PAIR), Keeper(), iterator_train__shuffle=True).fit(X, Y)
    states = [callback(net, Keeper).states_ for net in (plain, scored)]
    assert all(map(same, *states))
    assert plain.history[:, "valid_loss"] == scored.history[:, "valid_loss"]

    class Modes(Callback):
        def on_epoch_end(self, net, **kwargs):
            self.before_ = [part.training for part in net.module_.modules()]

    net = make(Modes(), PAScoring(PAIR)).fit(X, Y)
    assert [part.training for part in net.module_.modules()] == callback(net, Modes).before_


def test_the_best_epoch_is_restored():
    net = make(Keeper(), PAEarlyStopping(PAIR, patience=100, guard=None), max_epochs=8).fit(X, Y)
    stopping = callback(net, PAEarlyStopping)
    best = int(np.argmax(net.history[:, "pa"]))
    assert stopping.best_epoch_ == best + 1
    assert stopping.best_score_ == net.history[best, "pa"]
    assert same(net.module_.state_dict(), callback(net, Keeper).states_[best])
    assert stopping.stopped_epoch_ is None
    kept = make(Keeper(), PAEarlyStopping(PAIR, patience=100, load_best=False)).fit(X, Y)
    assert same(kept.module_.state_dict(), callback(kept, Keeper).states_[-1])


class Worsen(Callback):
    """Spoils the module from some epoch on, or interrupts."""

    def __init__(self, epoch, how):
        self.epoch = epoch
        self.how = how

    def on_epoch_begin(self, net, **kwargs):
        if net.history[-1, "epoch"] >= self.epoch and self.how == "interrupt":
            raise KeyboardInterrupt

    def on_batch_end(self, net, training=False, **kwargs):
        if net.history[-1, "epoch"] >= self.epoch and training and self.how != "interrupt":
            with torch.no_grad():
                weight = net.module_.layers[-1].weight
                weight.fill_(torch.nan if self.how == "nan" else 0.0)


def test_training_stops_after_all_other_callbacks():
    told = []
    net = make(
        PAEarlyStopping(PAIR, patience=2, guard=None, sink=told.append),
        Keeper(),
        Worsen(4, "collapse"),
        max_epochs=30,
    ).fit(X, Y)
    stopping = callback(net, PAEarlyStopping)
    assert stopping.stopped_epoch_ == len(net.history) < 30
    assert stopping.best_epoch_ <= 3
    assert len(callback(net, Keeper).states_) == len(net.history)  # heard of the last epoch
    assert told[-1] == f"Restoring the module of epoch {stopping.best_epoch_}."
    assert net.score(X, Y) > 0.3


def test_ctrl_c_restores_the_best_epoch():
    stopping = PAEarlyStopping(PAIR, guard=None)
    net = make(stopping, Keeper(), Worsen(4, "interrupt"), max_epochs=9).fit(X, Y)
    kept = callback(net, PAEarlyStopping)
    assert len(callback(net, Keeper).states_) == 3
    assert same(net.module_.state_dict(), callback(net, Keeper).states_[kept.best_epoch_ - 1])


def test_outputs_that_are_no_numbers_keep_the_best_so_far():
    stopping = PAEarlyStopping(PAIR, guard=None, patience=2, uniform=True)
    net = make(stopping, Worsen(3, "nan"), max_epochs=9)
    warning = "Epoch 3 cannot be compared and is not kept: scores_a: .*nan"
    with pytest.warns(UserWarning, match=warning):
        net.fit(X, Y)
    assert class_scores(net, X)[0].isfinite().all()
    kept = callback(net, PAEarlyStopping)
    assert kept.best_epoch_ <= 2
    assert kept.stopped_epoch_ == kept.best_epoch_ + 2
    assert np.isnan(net.history[-1, ("pa", "pa_uniform", "pa_beta")]).all()
    assert not any(net.history[2:, "pa_best"])


def test_the_guard_follows_the_validation_accuracy():
    net = make(PAEarlyStopping(PAIR, patience=100), max_epochs=5).fit(X, Y)
    accuracy, agreement = np.array(net.history[:, "valid_acc"]), np.array(net.history[:, "pa"])
    n = 40  # a fifth of the rows
    error = np.sqrt(accuracy * (1 - accuracy) / n)
    allowed = accuracy >= (accuracy - error).max()
    best = np.flatnonzero(allowed)[agreement[allowed].argmax()] + 1
    assert callback(net, PAEarlyStopping).best_epoch_ == best
    with pytest.raises(ValueError, match=r"The net has no validation rows \(train_split=None\)"):
        make(PAEarlyStopping(PAIR, guard="valid_acc"), train_split=None).fit(X, Y)


class Accuracies(Callback):
    """Records given accuracies."""

    def __init__(self, values):
        self.values = values

    def on_epoch_end(self, net, **kwargs):
        if len(net.history) <= len(self.values):
            net.history.record("acc", self.values[len(net.history) - 1])


@pytest.mark.parametrize(("second", "kept"), [(39 / 40, 2), (38 / 40, 1)])
def test_one_wrong_row_does_not_exclude_an_epoch(second, kept):
    # The accuracy 1 of the 40 validation rows has a standard error of more than one row.
    scripted = Accuracies([1.0, second]), PAEarlyStopping(PAIR, guard="acc")
    net = make(*scripted, max_epochs=2).fit(X, Y)
    assert net.history[1, "pa"] > net.history[0, "pa"]
    assert callback(net, PAEarlyStopping).best_epoch_ == kept


def test_the_history_says_which_epoch_is_kept():
    # The standard error of 0.93 is 0.04 with the 40 validation rows. The third epoch, which is
    # constant, thus excludes the second, and the first is kept again.
    scripted = Accuracies([0.90, 0.88, 0.93]), Worsen(3, "collapse")
    net = make(*scripted, PAEarlyStopping(PAIR, guard="acc"), max_epochs=3).fit(X, Y)
    assert net.history[:, "pa_best"] == [True, True, False]
    assert net.history[:, "pa_kept"] == [1, 2, 1]
    assert callback(net, PAEarlyStopping).best_epoch_ == 1
    rare = make(PAScoring(PAIR, every=2), max_epochs=3).fit(X, Y)
    assert rare.history[:, "pa_kept"] == [None, 2, 2]


@pytest.mark.slow
def test_training_goes_on_from_the_best_epoch():
    net = make(PAEarlyStopping(PAIR, patience=100, guard=None)).fit(X, Y)
    first = callback(net, PAEarlyStopping).best_score_
    net.partial_fit(X, Y)
    assert len(net.history) == 8
    stopping = callback(net, PAEarlyStopping)
    assert stopping.best_score_ >= first
    assert stopping.best_score_ == max(net.history[:, "pa"])
    warm = make(PAEarlyStopping(PAIR, patience=100, guard=None), warm_start=True)
    warm.fit(X, Y).fit(X, Y)
    assert callback(warm, PAEarlyStopping).best_score_ == max(warm.history[:, "pa"])
    # Fitted anew, nothing is left of the epochs before.
    net.fit(X, Y)
    assert len(net.history) == 4
    assert callback(net, PAEarlyStopping).best_epoch_ <= 4
    # A net that was pickled goes on, too; its pickle does not hold the best state.
    again = pickle.loads(pickle.dumps(make(PAEarlyStopping(PAIR, guard=None)).fit(X, Y)))
    assert callback(again, PAEarlyStopping).best_state_ is None
    best = max(again.history[:, "pa"])
    again.set_params(lr=1e-9).partial_fit(X, Y)
    assert callback(again, PAEarlyStopping).best_score_ >= best


def test_training_goes_on_after_a_crash(tmp_path):
    checkpoint = Checkpoint(monitor="pa_best", dirname=str(tmp_path))
    first = make(PAEarlyStopping(PAIR), checkpoint).fit(X, Y)
    saved = callback(first, PAEarlyStopping)
    # Without the accuracies of the epochs before, the guard would let go of the saved epoch.
    callbacks = PAEarlyStopping(PAIR), checkpoint, LoadInitState(checkpoint)
    second = make(Worsen(saved.best_epoch_ + 1, "collapse"), *callbacks, max_epochs=2).fit(X, Y)
    assert len(second.history) == saved.best_epoch_ + 2
    again = callback(second, PAEarlyStopping)
    assert (again.best_epoch_, again.best_score_) == (saved.best_epoch_, saved.best_score_)
    for name, value in saved.best_state_.items():
        assert torch.equal(value, second.module_.state_dict()[name])


@pytest.mark.filterwarnings("ignore:The (two environments|agreement of epoch):UserWarning")
def test_a_collapsed_net_is_warned_of_at_the_end():
    net = make(PAEarlyStopping(PAIR, guard=None), Worsen(1, "collapse"), max_epochs=2)
    with pytest.warns(UserWarning, match="predicts one class for 100% of the rows") as caught:
        net.fit(X, Y)
    assert any(w.filename == __file__ for w in caught)


def test_shared_environments_are_not_copied():
    net = clone(make(("pa", PAEarlyStopping(PAIR))))
    assert net.callbacks[0][1].environments[0] is PAIR[0]
    assert deepcopy(PAIR[0]) is PAIR[0]


def test_pairings_and_fewer_pairs():
    labelled = ((X[:60], Y[:60]), SharedEnvironment(OTHER[60:], Y[60:]))
    net = make(PAScoring(labelled, pairing="label")).fit(X, Y)
    paired = callback(net, PAScoring).paired_
    first, second = paired.pairs[0, 1]
    used = np.array(paired.datasets[1].indices)  # the larger one has rows without a partner
    np.testing.assert_array_equal(Y[:60][first], Y[60:][used[second]])
    rows = np.arange(0, 200, 2), np.arange(1, 200, 2)
    net = make(PAScoring(PAIR, pairing=lambda *samples: rows)).fit(X, Y)
    a, b = (class_scores(net, e)[0] for e in (X[rows[0]], OTHER[rows[1]]))
    expected = posterior_agreement(a, b, prior="marginal")
    assert net.history[-1, "pa"] == pytest.approx(expected.score, abs=1e-5)


def test_more_than_two_environments():
    third = SharedEnvironment((0.2 * X).astype(np.float32))
    net = make(PAScoring((*PAIR, third))).fit(X, Y)
    assert len(callback(net, PAScoring).paired_.pairs) == 3
    scores = [class_scores(net, rows)[0] for rows in (X, OTHER, third.X)]
    sides = [torch.cat([scores[i] for i in side]) for side in ((0, 0, 1), (1, 2, 2))]
    pooled = posterior_agreement(*sides, prior="marginal").score
    assert net.history[-1, "pa"] == pytest.approx(pooled, abs=1e-5)


@pytest.mark.parametrize("mixed_precision", ["no", "bf16"])
def test_nets_wrapped_by_accelerate(mixed_precision):
    accelerate = pytest.importorskip("accelerate")
    from skorch.hf import AccelerateMixin

    class AcceleratedNet(AccelerateMixin, NeuralNetClassifier):
        pass

    accelerator = accelerate.Accelerator(mixed_precision=mixed_precision, cpu=True)
    net = make(PAEarlyStopping(PAIR), kind=AcceleratedNet, accelerator=accelerator)
    net.fit(X, Y)
    # The module kept is the best epoch's.
    best = posterior_agreement(*(class_scores(net, x)[0] for x in (X, OTHER)), prior="marginal")
    recorded = net.history[:, "pa"][callback(net, PAEarlyStopping).best_epoch_ - 1]
    assert recorded == pytest.approx(best.score, abs=1e-3)  # bf16 rounds
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)


def test_binary_tuples_parallel_and_probabilities():
    one_output = {"module__n_out": 1, "criterion": nn.BCEWithLogitsLoss}
    binary = make(PAScoring(PAIR), kind=NeuralNetBinaryClassifier, **one_output)
    binary.fit(X, (Y % 2).astype(np.float32))
    assert 0 < binary.history[-1, "pa"] <= np.log(2) + 1e-9

    class Tuples(NeuralNetClassifier):
        def get_loss(self, y_pred, *args, **kwargs):
            return super().get_loss(y_pred[0], *args, **kwargs)

    several = make(PAScoring(PAIR), kind=Tuples, module__extra=True).fit(X, Y)
    plain = make(PAScoring(PAIR)).fit(X, Y)
    assert several.history[-1, "pa"] == pytest.approx(plain.history[-1, "pa"])

    class Parallel(NeuralNetClassifier):
        def initialize_module(self):
            super().initialize_module()
            self.module_ = nn.DataParallel(self.module_)
            return self

    assert make(PAEarlyStopping(PAIR), kind=Parallel).fit(X, Y).history[-1, "pa"] > 0


@pytest.mark.filterwarnings("ignore:You set iterator_valid__shuffle:UserWarning")  # refused
@pytest.mark.parametrize(
    ("scoring", "params", "message"),
    [
        (PAScoring((X, X[:9])), {}, "as many rows .* 200 in .* 9 in .* pairing='label'"),
        (PAScoring(PAIR, pairing="label"), {}, r"environments\[0\]: expected .X, y. or a Dataset"),
        (PAScoring((X, X[:, :9])), {}, r"environments\[1\]: the net cannot score its rows"),
        (PAScoring(PAIR), {"iterator_valid__shuffle": True}, "iterator_valid__shuffle: expected"),
        (PAEarlyStopping(PAIR, guard="valid_loss"), {}, "guard: .* higher is better, .* got 'v"),
        (PAScoring(PAIR), {"criterion": nn.NLLLoss}, "criterion: expected .* probabilities .* -"),
        (PAScoring(STRANGERS, pairing="label"), {}, "pairing: expected pairs of .* got none"),
    ],
)
def test_refused_before_training(scoring, params, message):
    class Untrainable(NeuralNetClassifier):
        def train_step(self, *args, **kwargs):
            raise AssertionError("a step before the check")

    with pytest.raises((TypeError, ValueError), match=message):
        make(scoring, kind=Untrainable, **params).fit(X, Y)


@pytest.mark.parametrize("params", [{"every": 9}, {"min_epochs": 9}])
def test_a_training_that_ends_before_an_epoch_can_be_kept(params):
    with pytest.warns(UserWarning, match="No epoch was chosen: training ended after 3 epochs"):
        net = make(PAEarlyStopping(PAIR, **params), max_epochs=3).fit(X, Y)
    assert net.history[-1, "pa_kept"] is None


def test_a_net_on_the_cpu_touches_no_device(monkeypatch):
    def touched(*args, **kwargs):
        raise AssertionError("a device was asked for its random state")

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_rng_state", touched)
    net = torch.nn.Linear(2, 2)
    numbers = check_random_state(None)  # numpy's own state
    before = torch.random.get_rng_state(), random.getstate(), numbers.get_state()[1].tolist()
    with untouched_random_states(net):
        torch.rand(3), random.random(), numbers.random_sample(700)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert (random.getstate(), numbers.get_state()[1].tolist()) == before[1:]


@pytest.mark.filterwarnings("error:.*callbacks. expected:UserWarning")
def test_a_checkpoint_of_the_last_epoch_is_warned_of(tmp_path):
    def stored(*order):
        folder = tmp_path / str(order)
        parts = [PAEarlyStopping(PAIR), TrainEndCheckpoint(dirname=str(folder))]
        net = make(*(parts[i] for i in order), lr=2.0, max_epochs=6).fit(X, Y)
        assert callback(net, PAEarlyStopping).best_epoch_ < 6
        state = torch.load(folder / "train_end_params.pt", weights_only=True)
        return same(state, net.module_.state_dict())

    assert stored(0, 1)
    with pytest.warns(UserWarning, match="callbacks: expected PAEarlyStopping before"):
        assert not stored(1, 0)


@pytest.mark.filterwarnings("error:.*callbacks. expected:UserWarning")
@pytest.mark.parametrize("kind", [Checkpoint, EarlyStopping])
def test_another_best_epoch_does_not_win_without_a_word(kind, tmp_path):
    options = {"dirname": str(tmp_path)} if kind is Checkpoint else {"patience": 100}

    def first_epoch(net):
        return net.history[-1, "epoch"] == 1

    monitor = first_epoch if kind is Checkpoint else "first"
    order = [Keeper(), kind(monitor=monitor, load_best=True, **options)]
    if kind is EarlyStopping:
        scored = EpochScoring(lambda net, *_: net.history[-1, "epoch"], name="first")
        order.insert(1, scored)
    pa = PAEarlyStopping(PAIR, guard=None)
    net = make(*order, pa, lr=0.5).fit(X, Y)
    kept = callback(net, Keeper).states_[callback(net, PAEarlyStopping).best_epoch_ - 1]
    assert same(kept, net.module_.state_dict())
    with pytest.warns(UserWarning, match=f"PAEarlyStopping after {kind.__name__}"):
        make(pa, *order, lr=0.5).fit(X, Y)


def weighted(rows):
    return SliceDict(x=rows, sample_weight=np.ones(len(rows), dtype=np.float32))


class Weighted(Module):
    def forward(self, x, sample_weight):
        return super().forward(x)


def test_rows_with_weights_are_scored_and_checked_as_rows_without():
    def net_with(rows, **params):
        return make(PAScoring(tuple(map(rows, (X, OTHER)))), max_epochs=2).set_params(**params)

    expected = net_with(np.array).fit(X, Y).history[:, "pa"]
    for rows in (weighted, lambda x: SharedEnvironment(weighted(x), Y)):
        found = net_with(rows, module=Weighted).fit(weighted(X), Y).history[:, "pa"]
        assert found == pytest.approx(expected, abs=1e-6)


def test_labels_of_environments_may_be_a_column():
    column = TensorDataset(torch.tensor(OTHER), torch.tensor(Y)[:, None])
    expected, one, other = (
        make(PAScoring(((X, Y), second), pairing="label"), max_epochs=2).fit(X, Y).history[:, "pa"]
        for second in ((OTHER, Y), (OTHER, Y[:, None]), column)
    )
    assert one == pytest.approx(expected, abs=1e-9)
    assert other == pytest.approx(expected, abs=1e-9)


def test_the_best_epoch_survives_an_error():
    net = make(Accuracies([-1, -2]), PAEarlyStopping(PAIR, guard="acc"), max_epochs=3)
    with pytest.raises(ValueError, match="guard: expected a column"):
        net.fit(X, Y)
    stopping = callback(net, PAEarlyStopping)
    assert stopping.best_epoch_ == 1
    assert same(net.module_.state_dict(), stopping.best_state_)
