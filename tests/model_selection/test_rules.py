"""The rules that choose: on tables by hand, against brute force, and in searches of all data."""

import pickle
import warnings

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC
from sklearn.utils import shuffle

from pa_select import PACommittee, PASearchCV, PASearchDisplay, pa_scorer
from pa_select.model_selection import GuardedSelection, within_one_standard_error
from pa_select.model_selection.rules import RULES, is_certified

# -- tables by hand -----------------------------------------------------------------------


def table(score, agreement, **more):
    score = np.asarray(score, dtype=float)
    found = {
        "params": [{"size": i} for i in range(len(score))],
        "param_size": np.arange(len(score)),
        "mean_test_score": score,
        "se_test_score": np.full(len(score), 0.01),
        "chance_test_score": np.full(len(score), 0.5),
        "agreement": np.asarray(agreement, dtype=float),
    }
    return found | {name: np.asarray(values) for name, values in more.items()}


def named(name):
    return RULES[name]("score")


def test_the_best_agreement_within_one_standard_error():
    found = table([0.95, 0.945, 0.93], [0.1, 0.9, 2.0])
    assert GuardedSelection()(found) == 1
    assert GuardedSelection(n_se=2)(found) == 2
    assert GuardedSelection(n_se=0)(found) == 0
    low = table([0.515, 0.51, 0.5], [0.1, 0.2, 0.3])
    with pytest.warns(UserWarning, match="2 standard errors above chance.* alone dec"):
        assert GuardedSelection()(low) == 0
    assert GuardedSelection(floor=None)(low) == 1
    assert GuardedSelection(n_se=100, floor=0.94)(table([0.97, 0.93, 0.965], [1, 3, 2])) == 2


def test_in_searches_of_scikit_learn_the_error_is_that_over_the_splits():
    # Three splits with a standard deviation of 0.01: a standard error of 0.0058.
    score = np.array([0.95, 0.945, 0.94])
    found = {"params": [{}] * 3, "mean_test_pa": [0.1, 0.9, 2.0], "mean_test_acc": score}
    found |= {f"split{i}_test_acc": score + 0.01 * (i - 1) for i in range(3)}
    assert GuardedSelection("pa", "acc")(found) == 1
    assert GuardedSelection("pa", "acc", n_se=2)(found) == 2


def test_ties_go_to_the_score_then_log_loss_then_steadiness_never_to_order():
    assert GuardedSelection()(table([0.948, 0.947, 0.95], [1, 1 + 1e-7, 1 - 1e-7])) == 2
    log_loss = {"mean_test_neg_log_loss": [-0.5, -0.3, -0.4]}
    assert GuardedSelection()(table([0.95] * 3, [1, 1, 1], **log_loss)) == 1
    assert GuardedSelection()(table([0.95] * 3, [1, 1, 1], se_test_score=[0.01, 0.01, 0.004])) == 2
    # Entirely equal candidates: the same one in whatever order they come.
    there, back = table([0.95, 0.95], [1, 1]), table([0.95, 0.95], [1, 1])
    back["params"] = back["params"][::-1]
    rule = GuardedSelection()
    assert there["params"][rule(there)] == back["params"][rule(back)]


def test_what_differs_by_rounding_ties():
    noise = np.array([0, 1e-15, 1e-15])
    found = table(0.9 + noise, [0.3, 0.3, 0.1], params=[{"a": i} for i in range(3)])
    found |= {"expected_score": 0.9 + noise, "expected_score_se": np.full(3, 0.01)}
    # The first is taken, or the one of the smallest parameters.
    for name in ("score", "expected", "guarded"):
        assert named(name)(found) == 0
    assert within_one_standard_error(lambda _: 1)(found) == 0
    found["mean_test_score"] = found["mean_test_score"] + [0, 1e-6, 0]
    assert named("score")(found) == 1


def test_who_has_no_score_or_agreement_is_never_chosen():
    nan = np.nan
    assert GuardedSelection()(table([nan, 0.95, 0.95], [5, nan, 1])) == 2
    assert named("agreement")(table([0.95, 0.95], [nan, 1])) == 1
    nobody = table([nan, nan], [1, 1], error=["", "ValueError: no luck"])
    said = r"a finite 'score' .* got none. The first error: ValueError: no luck. error_score='rai"
    for rule in (GuardedSelection(), named("score"), within_one_standard_error("size")):
        with pytest.raises(ValueError, match=said):
            rule(nobody)
    with pytest.raises(ValueError, match="a finite 'score' and 'agreement' in every"):
        named("agreement")(table([0.9], [nan]))


def test_no_rule_chooses_who_is_no_better_than_who_looks_at_no_feature():
    # A stable constant classifier, and three that have learnt something.
    found = table([0.52, 0.7, 0.68, 0.66], [0.9, 0.1, 0.3, 0.2])
    found |= {"expected_score": np.array([0.52, 0.3, 0.51, 0.55])}
    found |= {"expected_score_se": np.array([0.04, 0.04, 0.04, 0.02])}
    blind = found | {"mean_test_score": np.full(4, 0.5), "expected_score": np.full(4, 0.5)}
    wide, simplest = GuardedSelection(n_se=19), within_one_standard_error("size", n_se=9)
    for rule, chosen in ((named("expected"), 3), (named("score"), 1), (wide, 2), (simplest, 1)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert rule(found) == chosen
        if rule is not simplest:  # unless nobody is better, and then it warns
            assert not rule.eligible(found)[0]
            with pytest.warns(UserWarning, match="alone decides|may be no better than chance"):
                assert rule(blind) in range(4)
    # The agreement alone may choose it.
    with pytest.warns(UserWarning, match="may be no better than chance: its 'score' is not 2"):
        assert named("agreement")(found) == 0


def test_the_simplest_within_one_standard_error():
    found = table([0.88, 0.895, 0.9, 0.7], [0, 0, 0, 0], mean_fit_time=[4, 3, 2, 1])
    assert within_one_standard_error("size")(found) == 1
    assert within_one_standard_error("param_size", n_se=3)(found) == 0
    assert within_one_standard_error("mean_fit_time")(found) == 2
    assert within_one_standard_error(lambda params: -params["size"])(found) == 2
    assert pickle.loads(pickle.dumps(within_one_standard_error("size", n_se=2)))(found) == 0
    with pytest.raises(KeyError, match="depth"):
        within_one_standard_error("depth")(found)


@pytest.mark.parametrize("rule", [GuardedSelection(score="f1"), RULES["score"]("f1")])
def test_a_metric_that_the_table_does_not_have_is_named(rule):
    with pytest.raises(ValueError, match=r"one of the metrics \['score'\], or a column.* 'f1'"):
        rule(table([0.9], [1]))


# -- brute force --------------------------------------------------------------------------


def random_table(seed):
    """A table whose values are few, so that many tie, and some are missing."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    found = table(rng.integers(48, 62, n) / 100, rng.integers(0, 4, n) / 10)
    found |= {"se_test_score": rng.integers(0, 4, n) / 100, "expected_score_se": np.zeros(n)}
    found["expected_score"] = rng.integers(48, 60, n) / 100
    found["params"] = [{"size": int(x)} for x in rng.permutation(n)]
    for name in ("mean_test_score", "agreement", "expected_score"):
        found[name][rng.random(n) < 0.15] = np.nan
    return found


def brute(name, found):
    """Who may be chosen, and who is, by loops; None if nobody has a value."""
    score, error = found["mean_test_score"], found["se_test_score"]
    value = {"agreement": found["agreement"], "guarded": found["agreement"], "score": score}.get(
        name, found["expected_score"]
    )
    known = [i for i in range(len(score)) if np.isfinite(score[i] + value[i])]
    judged, of_judged = (value, 0 * error) if name == "expected" else (score, error)
    above = [i for i in known if judged[i] > 0.5 + 2 * of_judged[i]]
    scored = [i for i in range(len(score)) if np.isfinite(score[i])]
    if not (scored if name == "guarded" else known):
        return None
    order = [repr(sorted(params.items())) for params in found["params"]]
    if name == "guarded":
        best = max(above or known or scored, key=lambda i: (score[i], -i))
        eligible = [i for i in above if score[i] >= score[best] - error[best]]
        if not eligible:
            return [], min(scored, key=lambda i: (-score[i], error[i], order[i]))
        return eligible, min(eligible, key=lambda i: (-value[i], -score[i], error[i], order[i]))
    eligible = known if name == "agreement" else above or known
    # The score takes the first of equal ones, as GridSearchCV does.
    return eligible, min(
        eligible, key=lambda i: (-value[i], -score[i], i if name == "score" else order[i])
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", RULES)
def test_rules_choose_what_brute_force_does(name):
    n_chosen = 0
    for seed in range(400):
        found, rule = random_table(seed), named(name)
        expected = brute(name, found)
        if expected is None:
            with pytest.raises(ValueError, match="got none"):
                rule(found)
            continue
        eligible, chosen = expected
        assert np.flatnonzero(rule.eligible(found)).tolist() == eligible, seed
        assert rule(found) == chosen, seed
        n_chosen += 1
    assert n_chosen > 300


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_simplest_is_what_brute_force_finds():
    for seed in range(400):
        found = random_table(seed)
        if (best := brute("score", found)) is None:
            continue
        score, size = found["mean_test_score"], [params["size"] for params in found["params"]]
        low = score[best[1]] - found["se_test_score"][best[1]]
        simplest = min((i for i in best[0] if score[i] >= low), key=size.__getitem__)
        rule = within_one_standard_error(lambda params: params["size"])
        assert rule(found) == simplest, seed


# -- in searches --------------------------------------------------------------------------

X, Y = shuffle(*load_wine(return_X_y=True), random_state=0)
NOISY = X + X.std(0) * np.random.default_rng(0).normal(size=X.shape)
MODEL, GRID = KNeighborsClassifier(), {"n_neighbors": [1, 5, 15, 40, 80]}


def drift(rows):
    return rows + 0.5 * X.std(0) * np.random.default_rng(1).normal(size=rows.shape)


def lowest_spread(cv_results):
    return int(np.argmin(cv_results["std_test_score"]))


class ThreeBest:
    """A rule of the user's own with a guard, by a column of its own."""

    decides = "agreement_uniform"

    def eligible(self, cv_results):
        score = cv_results["mean_test_score"]
        return score >= np.sort(score)[-3]

    def __call__(self, cv_results):
        agreement = cv_results[self.decides]
        return int(np.where(self.eligible(cv_results), agreement, -np.inf).argmax())


# What fit is given, by the name of the argument; "" is nothing.
DATA = {
    "": (X, Y, {}),
    "paired": (X[:120], Y[:120], {"paired": (X[120:], NOISY[120:])}),
    "views": (X, Y, {"views": drift}),
    "environments": (X, Y, {"environments": np.arange(len(X)) % 3}),
    "held out": (X, Y, {"environments": np.arange(len(X)) % 4}),
}
REFITS = {
    "default": True,
    "score": "score",
    "agreement": "agreement",
    "expected": "expected",
    "wide": GuardedSelection("agreement_uniform", n_se=4),
    "fewest": within_one_standard_error("n_neighbors", n_se=2),
    "function": lowest_spread,
    "own": ThreeBest(),
}
CASES = [
    (refit, data) for refit in REFITS for data in DATA if refit != "expected" or data == "paired"
]


def rule_by_hand(refit, data):
    if callable(REFITS[refit]):
        return REFITS[refit]
    if refit == "default" and data == "paired":
        return named("expected")
    if refit == "default":
        return (
            GuardedSelection(score="score_views", n_se=2) if data == "views" else named("guarded")
        )
    return named(refit)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("refit", "data"), CASES, ids=map(" with ".join, CASES))
def test_a_search_chooses_by_its_rule_and_says_so(refit, data):
    x, y, given = DATA[data]
    cv = LeaveOneGroupOut() if data == "held out" else 3
    search = PASearchCV(MODEL, GRID, refit=REFITS[refit], cv=cv).fit(x, y, **given)
    found, rule, best = search.cv_results_, rule_by_hand(refit, data), search.best_index_
    assert best == rule(found)
    decides = getattr(rule, "decides", "score")
    assert search.decides_ == decides
    if hasattr(rule, "eligible"):
        np.testing.assert_array_equal(found["eligible"], rule.eligible(found))
    else:
        assert found["eligible"].all()
    assert search.best_params_ == found["params"][best]
    assert search.best_score_ == found["mean_test_score"][best]
    assert search.best_estimator_.n_neighbors == search.best_params_["n_neighbors"]
    # The chosen one is first, then come the other eligible ones, by what decides.
    column = "mean_test_score" if decides == "score" else decides
    order = search.summary()["index"].to_numpy()
    assert order[0] == best
    assert not np.any(np.diff(found["eligible"][order].astype(int)[1:]) > 0)
    for eligible in (True, False):
        ranked = [i for i in order[1:] if found["eligible"][i] == eligible]
        assert np.all(np.diff(found[column][ranked]) <= 0)
    assert column in search.summary()
    assert pickle.loads(pickle.dumps(search)).best_index_ == best
    # The guard is drawn at the lowest score that it allows, if it excludes some.
    display = PASearchDisplay.from_result(search, ax=Figure().subplots())
    guards = isinstance(rule, GuardedSelection) and not found["eligible"].all()
    assert (display.threshold_ is not None) == guards
    if guards:
        of_score = rule.score
        score, error = found[f"mean_test_{of_score}"], found[f"se_test_{of_score}"]
        top = score.argmax()
        np.testing.assert_allclose(display.threshold, score[top] - rule.n_se * error[top])


class WithoutScores(GaussianNB):
    """An accurate classifier that has no class scores, and so no agreement."""

    predict_proba = predict_log_proba = property()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_one_that_cannot_be_chosen_moves_no_guard():
    grid = [{"m": [WithoutScores()]}, {"m": [KNeighborsClassifier(n) for n in (1, 15, 60)]}]
    found = PASearchCV(Pipeline([("m", SVC())]), grid, cv=3).fit(X, Y).cv_results_
    assert found["mean_test_score"].argmax() == 0
    others = found["mean_test_score"][1:]
    near = others >= others.max() - found["se_test_score"][1:][others.argmax()]
    assert found["eligible"].tolist() == [False, *near]


def test_tables_of_scikit_learns_searches_have_the_same_rules():
    scoring = {"pa": pa_scorer, "accuracy": "accuracy"}
    rule = GuardedSelection("pa", "accuracy")
    search = GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9, 1.0, 1e3]}, scoring=scoring)
    search.set_params(refit=rule).fit(X, Y)
    assert search.best_index_ == rule(search.cv_results_)
    assert rule.eligible(search.cv_results_)[search.best_index_]
    assert clone(rule).set_params(n_se=2).get_params()["n_se"] == 2


# -- what refit may be --------------------------------------------------------------------

METRICS = {"accuracy": "accuracy", "f1": "f1_macro"}


def searched(refit, scoring=None, **given):
    search = PASearchCV(MODEL, GRID, refit=refit, scoring=scoring, cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return search.fit(X, Y, **given)


def test_the_default_is_guarded_and_false_chooses_too():
    usual = searched(True, views=drift)
    for refit in ("guarded", False):
        assert searched(refit, views=drift).best_index_ == usual.best_index_
    unfitted = searched(False, views=drift)
    assert unfitted.best_params_ == usual.best_params_
    assert not {"best_estimator_", "refit_time_"} & set(vars(unfitted))
    assert not hasattr(unfitted, "predict")
    with pytest.raises(AttributeError, match="refit=False"):
        unfitted.score(X, Y)
    assert unfitted.n_fits_ == usual.n_fits_ - 1 == 15


@pytest.mark.parametrize("refit", ["committee", PACommittee(min_weight=0)])
def test_a_committee_is_fitted_beside_the_best_single_candidate(refit):
    search = searched(refit, scoring=METRICS)
    members = search.best_estimator_
    assert isinstance(members, PACommittee)
    assert search.best_index_ == searched("guarded", scoring=METRICS).best_index_
    assert search.decides_ == "agreement"
    n = len(members.estimators_)
    assert n == (5 if isinstance(refit, PACommittee) else np.count_nonzero(members.weights_))
    assert search.score(X, Y) == accuracy_score(Y, members.predict(X))


@pytest.mark.parametrize("refit", ["f1", *RULES, lowest_spread, "committee"])
def test_score_of_several_metrics_is_that_of_the_named_or_the_first_one(refit):
    if refit == "expected":
        given = {"paired": (X[120:] + 1e-3, NOISY[120:])}
    else:
        given = {"views": drift}
    rule = (lambda found: int(found["std_test_f1"].argmin())) if callable(refit) else refit
    search = searched(rule, scoring=METRICS, **given)
    metric = "f1" if refit == "f1" else "accuracy"
    predicted = search.predict(X)
    by_hand = f1_score(Y, predicted, average="macro") if refit == "f1" else np.mean(predicted == Y)
    assert search.score(X, Y) == pytest.approx(by_hand)
    assert search.best_score_ == search.cv_results_[f"mean_test_{metric}"][search.best_index_]
    decides = {"score": "accuracy", "expected": "expected_accuracy"}.get(refit, "agreement")
    assert search.decides_ == (metric if callable(refit) else decides)


def test_a_metric_called_score_is_a_metric_and_not_the_rule():
    scoring = {"other": "neg_log_loss", "score": "accuracy"}
    search, alone = searched("score", scoring=scoring), searched("guarded", scoring="accuracy")
    assert search.decides_ == "agreement"
    assert search.best_index_ == alone.best_index_ != searched("score").best_index_
    np.testing.assert_array_equal(search.cv_results_["eligible"], alone.cv_results_["eligible"])
    assert search.score(X, Y) == accuracy_score(Y, search.predict(X))


def test_with_several_metrics_false_chooses_nothing():
    search = searched(False, scoring=METRICS)
    assert not {"best_index_", "best_params_", "best_score_"} & set(vars(search))
    assert search.decides_ == "agreement"
    assert search.cv_results_["eligible"].any()


@pytest.mark.usefixtures("no_fit")
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"refit": "best"}, "refit: expected a bool, a rule such as 'guarded', .* got 'best'"),
        ({"refit": "precision", "scoring": METRICS}, "a metric of several, .* got 'precision'"),
        ({"refit": "expected"}, r"paired: expected pairs, .* with refit='expected', got None"),
        ({"refit": PACommittee(GridSearchCV(MODEL, GRID))}, "a PACommittee without a search, got"),
    ],
)
def test_what_refit_may_not_be_is_refused_before_any_fit(params, message):
    with pytest.raises(ValueError, match=message):
        PASearchCV(MODEL, GRID, **params).fit(X, Y)


# -- the certificate ----------------------------------------------------------------------


class SecondBest:
    decides = "agreement"

    def __call__(self, cv_results):
        return int(np.argsort(cv_results["agreement"])[-2])


@pytest.mark.parametrize(
    ("refit", "certified"),
    [("agreement", True), (True, True), (SecondBest(), False), ("score", None),
     (GuardedSelection("agreement_uniform"), None), (lowest_spread, None)],
)  # fmt: skip
def test_a_choice_by_the_agreement_is_certified(refit, certified):
    search = searched(refit, views=drift)
    found, best = search.cv_results_, search.best_index_
    assert search.certified_choice_ is certified
    if certified is not None:
        others = found["eligible"] & (np.arange(len(GRID["n_neighbors"])) != best)
        upper = (found["agreement"] + found["gap"])[others]
        assert (upper.max() <= found["agreement"][best] + 2e-6) == certified
    assert ((found["gap"] >= 0) & (found["gap"] <= 1e-6)).all()


def test_only_eligible_candidates_of_a_certain_lower_bound_leave_it_certain():
    found = table([0.9] * 3, [0.5, 0.4, 0.3], gap=[0.2, 1e-7, np.nan], eligible=[1, 1, 0])
    found["eligible"] = found["eligible"].astype(bool)
    assert is_certified(found, 0)
    for position, gap in ((1, 0.1 + 1e-5), (1, np.nan)):
        other = found | {"gap": found["gap"].copy()}
        other["gap"][position] = gap
        assert not is_certified(other, 0)
    found["eligible"][2] = True
    assert not is_certified(found, 0)
