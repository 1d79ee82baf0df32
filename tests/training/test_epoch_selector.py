"""Which epoch is kept, by hand-made epochs."""

import pickle
import re
import warnings

import numpy as np
import pytest
import torch

from pa_select import posterior_agreement
from pa_select.training import EpochSelector


def epoch(noise, seed=0, n=200):
    """Scores of two environments that agree less the more noise there is."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(n, 3))
    return 3 * a, 3 * a + noise * rng.normal(size=a.shape)


def run(noises, scores=None, error=0.02, **params):
    selector = EpochSelector(**params)
    for i, noise in enumerate(noises):
        selector.update(
            *epoch(noise),
            {"number": torch.tensor(i + 1)},
            score=None if scores is None else scores[i],
            score_error=0.0 if scores is None else error,
        )
    return selector


def test_the_best_epoch_is_kept_and_patience_counts():
    selector = run([3, 1, 2, 2, 2], patience=3)
    assert selector.best_epoch == 2
    assert selector.best_state["number"] == 2
    expected = posterior_agreement(*epoch(1), prior="marginal").score
    assert selector.best_score == pytest.approx(expected, abs=1e-12)
    assert selector.should_stop
    assert not run([3, 1, 2, 2], patience=3).should_stop
    # A small improvement is kept, but does not count for the patience.
    slow = run([2.0, 1.999, 1.998, 1.997], patience=3, min_delta=0.1)
    assert slow.should_stop
    assert slow.best_epoch == 4


def test_ties_and_first_epochs():
    assert run([2, 1, 1, 3]).best_epoch == 2
    assert run([1, 3, 2], min_epochs=2).best_epoch == 3
    assert run([1, 3, 3, 3], patience=2, min_epochs=3).should_stop is False


@pytest.mark.slow
def test_the_guard_keeps_agreement_within_an_error_of_the_best_score():
    # The first epoch agrees best, but its score is soon too low.
    selector = run([0.1, 1.0, 0.5, 2.0], [0.50, 0.90, 0.89, 0.91])
    assert selector.best_epoch == 3
    assert selector.best_state["number"] == 3
    # It is the error of the best so far that counts, also for epochs kept before.
    assert run([0.1, 1.0], [0.50, 0.90]).best_epoch == 2
    assert run([0.1, 1.0, 0.5], [0.50, 0.90, 0.51]).best_epoch == 2
    # Only states that can still be chosen are held.
    many = run(np.linspace(0.5, 3, 15), np.linspace(0.8, 0.9, 15), error=0.001)
    assert len(many._kept) <= 2
    # The brute-force rule over random epochs.
    rng = np.random.default_rng(1)
    for _ in range(5):
        noises, scores = rng.uniform(0.5, 3, 12), rng.uniform(0.7, 0.9, 12)
        both = zip(*map(epoch, noises), strict=True)
        results = posterior_agreement(*map(list, both), prior="marginal")
        agreement = np.array([result.score for result in results])
        allowed = scores >= scores.max() - 0.05
        best = np.flatnonzero(allowed)[agreement[allowed].argmax()] + 1
        assert run(noises, scores, error=0.05).best_epoch == best


def test_patience_waits_while_the_guard_changes_the_choice():
    # The agreement falls from the second epoch on. As long as the score rises by more than its
    # error, the guard excludes the epochs before.
    falling, rising = np.linspace(1, 2, 8), [0.5, 0.6, 0.7, 0.8, 0.9, 0.9, 0.9, 0.9]
    assert run(falling, patience=3).should_stop
    selector = EpochSelector(patience=3)
    stops = []
    for noise, score in zip(falling, rising, strict=True):
        selector.update(*epoch(noise), {}, score=score, score_error=0.01)
        stops.append(selector.should_stop)
    assert stops == 7 * [False] + [True]
    assert selector.best_epoch == 5
    # A higher agreement is no improvement where the guard does not allow the epoch.
    assert run([2.0, 1.5, 1.2, 1.0], [0.9, 0.5, 0.5, 0.5], patience=3).should_stop
    assert not run([2.0, 1.5, 1.2, 1.0], [0.9, 0.5, 0.5, 0.9], patience=3).should_stop
    # min_delta is counted from the last improvement, also from one that the guard chose anew.
    noises, scores = [0.5, 1.5, 1.499, 1.498, 1.497], [0.5, 0.9, 0.9, 0.9, 0.9]
    assert run(noises, scores, patience=3, min_delta=0.1).should_stop
    assert run(noises, scores, patience=3, min_delta=0.1).best_epoch == 5
    # Ties are no improvement.
    assert run(1 - 1e-10 * np.arange(4), patience=3).should_stop


def test_states_are_copies_on_the_cpu():
    module = torch.nn.Linear(3, 3)
    selector = EpochSelector()
    selector.update(*epoch(1), module)
    weight = module.weight.detach().clone()
    with torch.no_grad():
        module.weight.zero_()
    assert (selector.best_state["weight"] == weight).all()
    light = pickle.loads(pickle.dumps(selector._without_states()))
    assert light._best_state() is None
    assert light.best_epoch == 1
    assert selector.best_state is not None
    assert EpochSelector(keep_state=False).update(*epoch(1), module)


def test_a_module_in_training_mode_is_warned_of():
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.5))
    with pytest.warns(UserWarning, match="state: expected a module in evaluation"):
        EpochSelector().update(*epoch(1), module)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        EpochSelector().update(*epoch(1), module.eval())
        EpochSelector().update(*epoch(1), torch.nn.Linear(3, 3).train())


def test_agreements_of_two_priors_are_not_compared():
    marginal = run([3, 1])
    for prior, got in (("uniform", "'uniform'"), ([0.5, 0.25, 0.25], r"\[0.5, 0.25, 0.25\]")):
        other = EpochSelector(prior=prior)
        expected = f"prior: expected 'marginal', as in the epochs before, got {got}."
        with pytest.raises(ValueError, match=expected):
            other.load_state_dict(marginal.state_dict())
        same = EpochSelector(prior=prior if isinstance(prior, str) else np.array(prior))
        other.update(*epoch(1))
        same.load_state_dict(other.state_dict())
        assert same.best_epoch == 1


def test_going_on_from_a_checkpoint(tmp_path):
    noises, scores = [3, 1, 2, 2, 1.5], [0.5, 0.6, 0.9, 0.9, 0.9]

    def take(selector, epochs):
        for k in epochs:
            state = {"w": torch.full((1,), float(k))}
            selector.update(*epoch(noises[k]), state, score=scores[k], score_error=0.02)
        return selector

    whole, first = take(EpochSelector(), range(5)), take(EpochSelector(), range(4))
    # As torch.load reads a checkpoint by default: numbers and tensors, no objects.
    torch.save({"selector": first.state_dict()}, tmp_path / "checkpoint.pt")
    second = EpochSelector()
    second.load_state_dict(torch.load(tmp_path / "checkpoint.pt", weights_only=True)["selector"])
    assert second.state_dict() == first.state_dict()
    assert first.state_dict()["misses"] > 0
    assert take(second, range(4, 5)).state_dict() == whole.state_dict()
    assert whole.best_epoch == 5
    empty = EpochSelector()
    empty.load_state_dict(EpochSelector().state_dict())
    assert empty.best_epoch is None


def test_what_speaks_against_the_epoch_kept():
    a, b = epoch(1)
    with pytest.warns(UserWarning, match="the same data") as caught:
        EpochSelector().update(a, a)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        EpochSelector().update(np.ones((9, 3)), np.ones((9, 3)))  # a constant module
        for one, other, concern in (
            (a, -b, "environments are not in the same order .*pairing='label'"),
            (a + [99, 0, 0], b + [99, 0, 0], "epoch 1 predicts one class for 100% of the rows"),
        ):
            selector = EpochSelector()
            selector.update(one, other)
            assert re.search(concern, selector.concerns[0])
        # A better epoch is of no concern, nor is one whose pairs all agree.
        for epochs, other in ((2, b), (3, a * (1 + 1e-3))):
            selector.update(a, other)
            assert (selector.best_epoch, selector.concerns) == (epochs, ())


def test_warnings_of_scores_come_once():
    a, b = (torch.softmax(torch.tensor(x), 1) for x in epoch(1))
    selector = EpochSelector()
    with pytest.warns(UserWarning, match="They look like probabilities, .* module's softmax"):
        selector.update(a, b)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        selector.update(a, b)


def test_the_agreement_is_certified_to_the_tolerance():
    for tol in (0.01, 1e-5):
        selector = run([0.7], tol=tol)
        best = posterior_agreement(*epoch(0.7), prior="marginal", tol=1e-6)
        assert selector.last.gap <= tol
        assert -1e-6 <= best.score - selector.best_score <= tol
    assert EpochSelector().tol == 0.01
