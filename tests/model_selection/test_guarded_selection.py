"""The guarded selection rule on results made by hand and by searches."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.dummy import DummyClassifier

from pa_select import PASearchCV
from pa_select.model_selection import GuardedSelection


def results(agreement, score, spread=0.01, **more):
    """cv_results_ of three splits whose scores have a standard deviation of `spread`."""
    score = np.asarray(score, dtype=float)
    found = {
        "params": [{"c": i} for i in range(len(score))],
        "mean_test_pa": np.asarray(agreement, dtype=float),
        "mean_test_acc": score,
    }
    for i, step in enumerate((-1, 0, 1)):
        found[f"split{i}_test_acc"] = score + step * np.broadcast_to(spread, score.shape)
    return found | {key: np.asarray(value, dtype=float) for key, value in more.items()}


def choose(*args, rule=None, **kwargs):
    return (rule or GuardedSelection("pa", "acc"))(results(*args, **kwargs))


def test_best_agreement_within_one_standard_error():
    # The standard error is 0.01 / sqrt(3) = 0.0058.
    assert choose([0.1, 0.9, 2.0], [0.95, 0.945, 0.94]) == 1
    wide = GuardedSelection("pa", "acc", n_se=2)
    assert choose([0.1, 0.9, 2.0], [0.95, 0.945, 0.94], rule=wide) == 2
    strict = GuardedSelection("pa", "acc", n_se=0)
    assert choose([0.1, 0.9, 2.0], [0.95, 0.945, 0.94], rule=strict) == 0


def test_ties_go_to_the_score_then_log_loss_then_steadiness_never_to_order():
    assert choose([1, 1 + 1e-7, 1 - 1e-7], [0.948, 0.947, 0.95]) == 2
    log_loss = {"mean_test_neg_log_loss": [-0.5, -0.3, -0.4]}
    assert choose([1, 1, 1], [0.95] * 3, **log_loss) == 1
    assert choose([1, 1, 1], [0.95] * 3, spread=[0.01, 0.01, 0.004]) == 2
    # Entirely equal candidates: the same one in whatever order they come.
    there = results([1, 1], [0.95, 0.95])
    back = results([1, 1], [0.95, 0.95])
    back["params"] = back["params"][::-1]
    rule = GuardedSelection("pa", "acc")
    assert there["params"][rule(there)] == back["params"][rule(back)]


def test_failed_candidates_are_never_chosen():
    nan = np.nan
    assert choose([5, nan, 1], [nan, 0.95, 0.95]) == 2
    with pytest.raises(ValueError, match="expected a finite 'acc', got none"):
        choose([1, 1], [nan, nan])


def test_floor_and_the_warning_when_nothing_is_eligible():
    floor = GuardedSelection("pa", "acc", floor=0.93)
    assert choose([1, 3, 2], [0.95, 0.93, 0.945], rule=floor) == 2
    with pytest.warns(UserWarning, match=r"No candidate is within 1 standard error"):
        assert choose([1, 3, 2], [0.935, 0.93, 0.93], rule=floor) == 0
    number = GuardedSelection("pa", "acc", n_se=100, floor=0.94)
    assert choose([1, 3, 2], [0.97, 0.93, 0.96], rule=number) == 2


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (GuardedSelection(), r"agreement: .*\['pa', 'acc'\], got 'agreement'.*refit=GuardedSelec"),
        (GuardedSelection("pa", "accuracy"), r"score: .*\['pa', 'acc'\], got 'accuracy'"),
        (GuardedSelection("pa", "pa"), "score: expected another metric than agreement='pa'"),
        (GuardedSelection("pa", "acc", floor="dummy"), "floor: expected 'auto', .* got 'dummy'"),
        (GuardedSelection("pa", "acc", n_se=-1), "n_se: expected a number >= 0, got -1"),
    ],
)
def test_wrong_parameters_are_named(rule, message):
    with pytest.raises(ValueError, match=message):
        choose([1, 2], [0.9, 0.9], rule=rule)


def test_swapped_metrics_and_the_class_as_a_rule_are_told():
    with pytest.warns(UserWarning, match=r"got 'accuracy', .* GuardedSelection\('pa', 'accuracy'"):
        GuardedSelection("accuracy", "pa")(
            {"mean_test_pa": [1, 2], "mean_test_accuracy": [0.5, 0.6], "params": [{}, {}]}
        )
    with pytest.raises(TypeError, match=r"refit: expected an object .*, got the class"):
        GuardedSelection(results([1, 2], [0.9, 0.9]))


@pytest.mark.parametrize(
    ("scoring", "given"), [("accuracy", ""), (["f1_macro", "accuracy"], "score='f1_macro'")]
)
def test_a_name_of_the_agreement_is_not_needed_in_our_searches(scoring, given):
    rule = GuardedSelection("pa", "accuracy")
    search = PASearchCV(DummyClassifier(), {"strategy": ["prior"]}, scoring=scoring, cv=2)
    message = f"agreement: expected 'agreement' .* got 'pa'. Give GuardedSelection.{given}[)]"
    with pytest.raises(ValueError, match=message):
        search.set_params(refit=rule).fit(X, Y)


X, Y = load_breast_cancer(return_X_y=True)
