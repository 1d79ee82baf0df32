"""The selection rules beside the guard, on tables made by hand."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from pa_select import PASearchCV
from pa_select.model_selection import GuardedSelection, within_one_standard_error
from pa_select.model_selection.choice import make_rule
from pa_select.model_selection.kinds.kind import DataKind
from pa_select.model_selection.kinds.pairs import PairedObjects
from pa_select.model_selection.kinds.views import Views
from pa_select.model_selection.rules import (
    SELECTIONS,
    BestAgreement,
    BestExpected,
    BestScore,
    BestWorstEnvironment,
)


def table(score, agreement, **more):
    score = np.asarray(score, dtype=float)
    found = {
        "params": [{"size": i} for i in range(len(score))],
        "param_size": np.arange(len(score)),
        "mean_test_score": score,
        "se_test_score": np.full(len(score), 0.01),
        "chance_test_score": np.full(len(score), 0.5),
        "n_failed_splits": np.zeros(len(score), dtype=int),
        "agreement": np.asarray(agreement, dtype=float),
    }
    return found | {name: np.asarray(values) for name, values in more.items()}


def test_what_differs_by_rounding_ties():
    noise = np.array([0, 1e-15, 1e-15])
    found = table(0.9 + noise, [0.3, 0.3, 0.1], params=[{"a": i} for i in range(3)])
    found |= {"expected_score": 0.9 + noise, "expected_score_se": np.full(3, 0.01)}
    # The first is taken, or the one of the smallest parameters.
    for rule in ("score", "expected", "guarded"):
        assert make_rule(rule)(found) == 0
    assert within_one_standard_error(lambda _: 1)(found) == 0
    found["mean_test_score"] = found["mean_test_score"] + [0, 1e-6, 0]
    assert BestScore()(found) == 1


def test_best_score_and_best_agreement():
    found = table([0.9, 0.9, 0.7], [0.1, 0.2, 0.4])
    assert BestScore()(found) == 0  # the first, as scikit-learn does
    # In a small environment scores tie: the score on all rows decides.
    worst = {"mean_test_score_worst_environment": [0.7, 0.8, 0.8, 0.8]}
    tied = table([0.95, 0.8, 0.9, 0.9], np.zeros(4), **worst)
    assert BestWorstEnvironment("score_worst_environment")(tied) == 2
    # The mean of a worst environment has roundings, too.
    worst = {"mean_test_score_worst_environment": [0.7, 0.8, 0.1 + 0.7, 0.8]}
    assert worst["mean_test_score_worst_environment"][2] < 0.8
    tied = table([0.95, 0.8, 0.9, 0.6 + 0.3 - 1e-16], np.zeros(4), **worst)
    assert BestWorstEnvironment("score_worst_environment")(tied) == 2
    assert BestAgreement()(found) == 2
    assert BestAgreement()(table([0.8, 0.9], [0.4, 0.4 + 1e-8])) == 1
    with pytest.warns(UserWarning, match="near-constant: its score 0.51 is not above that"):
        assert BestAgreement()(table([0.9, 0.51], [0.1, 0.4])) == 1
    with pytest.raises(ValueError, match="got none; the first is not eligible: no agreement"):
        BestAgreement()(table([0.9], [np.nan]))


# A stable constant classifier, and three that have learnt something.
BLIND = {
    "score": [0.52, 0.7, 0.68, 0.66],
    "agreement": [0.9, 0.1, 0.3, 0.2],
    "mean_test_score_worst_environment": [0.51, 0.3, 0.4, 0.2],
    "mean_test_score_views": [0.52, 0.3, 0.6, 0.55],
    "se_test_score_views": [0.03] * 4,
    "chance_test_score_views": [0.5] * 4,
    "expected_score": [0.52, 0.3, 0.51, 0.55],
    "expected_score_se": [0.04, 0.04, 0.04, 0.02],
}


@pytest.mark.parametrize(
    ("rule", "chosen"),
    [
        ("worst_environment", 2),
        ("score_views", 2),
        ("expected", 3),
        ("score", 1),
        (within_one_standard_error("size", n_se=9), 1),
        (GuardedSelection(n_se=19), 2),
    ],
)
def test_no_rule_chooses_who_is_no_better_than_who_looks_at_no_feature(rule, chosen):
    found = table(**BLIND)
    rule = make_rule(rule)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rule(found) == chosen
    explained = rule.explain(found)
    assert not explained.eligible[0]
    assert " 2 standard errors above chance, 0.5" in explained.reason[0]
    # Unless nobody is, and then it warns.
    blind = table(**BLIND | {"score": [0.51, 0.5, 0.5, 0.49]})
    for name in ("views", "environment"):
        blind |= {key: np.full(4, 0.5) for key in blind if key.endswith(name) and "mean" in key}
    blind["expected_score"] = np.full(4, 0.5)
    with pytest.warns(UserWarning, match="alone decides|is not above that of predictions that"):
        assert rule(blind) in range(4)


def test_a_large_error_of_the_best_score_excludes_no_other():
    found = table([0.7, 0.6, 0.5], [0.1, 0.1, 0.9], se_test_score=[0.2, 0.02, 0.02])
    assert GuardedSelection()(found) == BestScore()(found) == 1
    assert BestExpected().explain(table(**BLIND)).reason == [
        "not eligible: expected score 0.52 is not 2 standard errors above chance, 0.5",
        "not eligible: expected score 0.3 is not 2 standard errors above chance, 0.5",
        "not eligible: expected score 0.51 is not 2 standard errors above chance, 0.5",
        "eligible: score 0.66, expected at the other site 0.55 with a standard error of 0.02",
    ]


def test_simplest_within_one_standard_error():
    found = table([0.88, 0.895, 0.9, 0.7], [0, 0, 0, 0], mean_fit_time=[4, 3, 2, 1])
    assert within_one_standard_error("size")(found) == 1
    assert within_one_standard_error("param_size", n_se=3)(found) == 0
    assert within_one_standard_error("mean_fit_time")(found) == 2
    assert within_one_standard_error(lambda params: -params["size"])(found) == 2
    reasons = within_one_standard_error("size").explain(found).reason
    lowest = 0.9 - found["se_test_score"][2]
    limit = f"{lowest:.4g}, the best (0.9) less 1 standard error"
    assert reasons[0] == f"not eligible: score 0.88 is below {limit}"
    assert reasons[1] == f"eligible: score 0.895 is at least {limit}"
    rule = within_one_standard_error("size", n_se=2)
    assert clone(rule).get_params() == rule.get_params()
    assert pickle.loads(pickle.dumps(rule))(found) == 0
    with pytest.raises(ValueError, match="complexity: expected a function .* got 'depth'"):
        within_one_standard_error("depth")(found)
    with pytest.raises(ValueError, match="complexity: expected a number for each candidate"):
        within_one_standard_error(lambda params: "x")(found)


def test_the_guard_of_a_search_uses_its_errors_and_chance():
    found = table([0.9, 0.895, 0.88], [0.1, 0.2, 0.3])
    assert GuardedSelection()(found) == 1
    assert GuardedSelection(n_se=2)(found) == 2
    low = table([0.515, 0.51, 0.5], [0.1, 0.2, 0.3])
    with pytest.warns(UserWarning, match="the 'score' alone decides"):
        assert GuardedSelection()(low) == 0
    assert GuardedSelection(floor=None)(low) == 1
    reasons = GuardedSelection().explain(low).reason
    assert reasons[1] == "not eligible: score 0.51 is not 2 standard errors above chance, 0.5"


def test_names_of_rules():
    for name in SELECTIONS:
        rule = make_rule(name, "accuracy")
        assert rule.score.startswith("accuracy")
        assert f'"{name}"' in PASearchCV.__doc__
    own = GuardedSelection(n_se=3)
    assert make_rule(own, "accuracy", Views) is own
    assert type(make_rule("agreement", "accuracy", Views)) is BestAgreement
    # What the default means is said by the kind of data.
    assert type(make_rule("guarded", "accuracy", PairedObjects)) is BestExpected
    usual, with_views = (make_rule("guarded", "accuracy", kind) for kind in (DataKind, Views))
    assert (usual.score, usual.n_se) == ("accuracy", 1)
    assert (with_views.score, with_views.n_se) == ("accuracy_views", 2)
    # Agreements of one class say nothing.
    assert type(make_rule("guarded", "accuracy", Views, "ill")) is BestScore
