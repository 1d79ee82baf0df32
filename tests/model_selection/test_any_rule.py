"""What holds for every rule with every kind of data, and for a rule of the user's own."""

import pickle
import re
import warnings

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC
from sklearn.utils import shuffle

from pa_select import PASearchCV, PASearchDisplay
from pa_select.model_selection import (
    Condition,
    GuardedSelection,
    Metric,
    SelectionRule,
    within_one_standard_error,
)
from pa_select.model_selection.choice import rule_of
from pa_select.model_selection.rules import SELECTIONS

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

X, Y = shuffle(*load_wine(return_X_y=True), random_state=0)
NOISY = X + X.std(0) * np.random.default_rng(0).normal(size=X.shape)
MODEL, GRID = KNeighborsClassifier(), {"n_neighbors": [1, 5, 15, 40, 80]}


def drift(rows):
    return rows + 0.5 * X.std(0) * np.random.default_rng(1).normal(size=rows.shape)


# What fit is given, by the name of the argument; "" is nothing.
DATA = {
    "": (X, Y, {}),
    "paired": (X[:120], Y[:120], {"paired": (X[120:], NOISY[120:])}),
    "views": (X, Y, {"views": drift}),
    "environments": (X, Y, {"environments": np.arange(len(X)) % 3}),
    "held out": (X, Y, {"environments": np.arange(len(X)) % 4}),
}


class AmongTheThreeBest(SelectionRule):
    """A rule of the user's own."""

    decides = "agreement"

    def conditions(self, cv_results):
        score = Metric.read(cv_results, self.score)
        third = np.sort(score.values)[-3]
        near = score.values >= third

        def words(candidate):
            compared = "at least" if near[candidate] else "below"
            return f"score {score.values[candidate]:.4g} is {compared} {third:.4g}, the third best"

        return [*super().conditions(cv_results), Condition(near, words, third)]


class LowestRank(SelectionRule):
    """A rule by a column of its own, which is not the agreement."""

    @property
    def decides(self):
        return f"std_test_{self.score}"

    def keys(self, cv_results):
        return [-np.asarray(cv_results[self.decides])]


RULES = {
    **{name: name for name in SELECTIONS},
    "wide": GuardedSelection(n_se=4),
    "uniform": GuardedSelection("agreement_uniform"),
    "fewest neighbors": within_one_standard_error("n_neighbors", n_se=2),
    "least complex": within_one_standard_error(lambda params: -params["n_neighbors"]),
    "own": AmongTheThreeBest(),
    "own column": LowestRank(),
    "function": lambda table: 1,
}
NEEDED = {"score_views": "views", "worst_environment": "environments", "new_site": "held out"}
NEEDED["expected"] = "paired"
CASES = [(rule, data) for rule in RULES for data in DATA if NEEDED.get(rule, data) == data]


@pytest.fixture(scope="module", params=CASES, ids=" with ".join)
def search(request):
    rule, data = request.param
    x, y, given = DATA[data]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cv = LeaveOneGroupOut() if data == "held out" else 3
        return PASearchCV(MODEL, GRID, selection=RULES[rule], cv=cv).fit(x, y, **given)


def limits_in(reasons):
    return set(re.findall(r" is (?:at least|below) ([\d.]+)", "\n".join(reasons)))


def picture(search):
    return PASearchDisplay.from_result(search, ax=Figure().subplots())


def test_the_drawn_guard_is_the_limit_in_the_reason(search):
    display = picture(search)
    table, rule = search.cv_results_, rule_of(search, search.cv_results_)
    limits = limits_in(table["reason"])
    drawn = display.threshold_ is not None
    assert drawn == np.isfinite(rule.threshold(table))
    if limits:
        assert limits == {f"{display.threshold:.4g}"}
        assert display.threshold_.get_xdata()[0] == display.threshold
    if drawn:
        assert np.asarray(display.score)[display.eligible].min() >= display.threshold


def test_the_order_of_the_summary_is_that_of_the_keys(search):
    table, rule = search.cv_results_, rule_of(search, search.cv_results_)
    order = search.summary()["index"].to_numpy()
    assert order[0] == search.best_index_
    by_eligibility = table["eligible"][order]
    assert not np.any(np.diff(by_eligibility.astype(int)[1:]) > 0)
    first = rule.keys(table)[0]
    for eligible in (True, False):
        ranked = [i for i in order[1:] if table["eligible"][i] == eligible]
        away = np.diff(first[ranked])
        # The values that tie with the best one are ordered by the next key.
        assert np.all(away <= (rule.tie_tol if eligible else 0) + 1e-9), first[ranked]


def test_the_summary_and_the_report_name_what_decided(search):
    table, rule = search.cv_results_, rule_of(search, search.cv_results_)
    column = rule.column(table)
    assert column in search.summary()
    drawn = search.report().split('<p class="key">')[1].split(",")[0]
    value = "agreement" if rule.by_agreement else column.split("_")[0].replace("mean", "acc")
    assert value in drawn, drawn
    # Searches are shown in notebooks, too.
    assert "(chosen)" in search._repr_html_()


def test_a_rule_is_cloned_pickled_and_keeps_what_it_was_given(search):
    rule = rule_of(search, search.cv_results_)
    if search.selection is RULES["function"] or search.selection is RULES["least complex"]:
        return  # a lambda cannot be pickled
    before = dict(vars(rule))
    again = pickle.loads(pickle.dumps(rule))
    assert again(search.cv_results_) == search.best_index_
    assert clone(rule).get_params() == rule.get_params()
    assert vars(rule) == before


class WithoutScores(GaussianNB):
    """An accurate classifier that has no class scores, and so no agreement."""

    predict_proba = predict_log_proba = property()


def test_one_that_cannot_be_chosen_moves_no_guard():
    grid = [{"m": [WithoutScores()]}, {"m": [KNeighborsClassifier(n) for n in (1, 15, 60)]}]
    search = PASearchCV(Pipeline([("m", SVC())]), grid, cv=3).fit(X, Y)
    table = search.cv_results_
    assert table["mean_test_score"].argmax() == 0
    assert not table["eligible"][0]
    threshold = picture(search).threshold
    assert limits_in(table["reason"]) == {f"{threshold:.4g}"}
    assert table["mean_test_score"][table["eligible"]].min() >= threshold


def test_what_a_rule_of_the_users_own_gets():
    x, y, given = DATA["views"]
    search = PASearchCV(MODEL, GRID, selection=AmongTheThreeBest(), refit="committee")
    search.fit(x, y, **given)
    table, best = search.cv_results_, search.best_index_
    assert 3 <= table["eligible"].sum() < 5  # scores may tie
    for reason, eligible in zip(table["reason"], table["eligible"], strict=True):
        start = ("" if eligible else "not ") + "eligible: score "
        assert reason.startswith(start)
        assert (" is at least " in reason) == eligible
    assert search.certified_choice_ is True
    assert "not_told_apart" in table
    assert len(search.best_estimator_.estimators_) >= 1
    assert search.compare(0, 1).difference == pytest.approx(
        table["agreement"][0] - table["agreement"][1], abs=1e-6
    )
    by_rule = PASearchCV(MODEL, GRID, refit=AmongTheThreeBest()).fit(x, y, **given)
    assert by_rule.best_index_ == best
    assert pickle.loads(pickle.dumps(by_rule)).best_index_ == best


class NeedsPairs(SelectionRule):
    needs = "paired"


@pytest.mark.parametrize("argument", ["selection", "refit"])
def test_fit_is_told_what_a_rule_needs(argument):
    search = PASearchCV(MODEL, GRID, **{argument: NeedsPairs()})
    with pytest.raises(ValueError, match=f"paired: expected some .* with {argument}=NeedsPairs"):
        search.fit(X, Y)
    x, y, given = DATA["paired"]
    search.fit(x, y, **given)
    assert search.best_index_ == np.argmax(search.cv_results_["mean_test_score"])


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (SelectionRule("accuracy"), r"score: expected one of the metrics \['score'\], got 'accur"),
        (GuardedSelection(score="f1"), r"score: expected one of the metrics .* got 'f1'"),
        (within_one_standard_error("neighbors"), "got 'neighbors'. Did you mean 'n_neighbors'"),
        (within_one_standard_error("n_neighbours"), "complexity: expected a function"),
    ],
)
@pytest.mark.parametrize("argument", ["selection", "refit"])
@pytest.mark.usefixtures("no_fit")
def test_names_that_a_search_will_not_have_are_refused_before_any_fit(rule, message, argument):
    with pytest.raises(ValueError, match=message):
        PASearchCV(MODEL, GRID, **{argument: rule}).fit(X, Y)
    several = PASearchCV(MODEL, GRID, scoring=["f1_macro", "accuracy"], refit=BestOwn("score"))
    with pytest.raises(ValueError, match=r"\['f1_macro', 'accuracy'\], got 'score'"):
        several.fit(X, Y)


class BestOwn(SelectionRule):
    """A rule whose methods can be wrong."""

    decides = "nonsense"


def returning(**methods):
    """A rule whose methods return these values."""
    own = {name: lambda self, cv_results, x=x: x for name, x in methods.items()}
    return type("Own", (SelectionRule,), own)()


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (BestOwn(), r"decides: expected one of the metrics \['score'\], got 'nonsense'"),
        (returning(conditions=[]), "conditions: expected at least .* 5 candidates, got none"),
        (
            returning(conditions=[Condition(np.ones(3, dtype=bool), str)]),
            r"conditions: expected at least one.* got one of the shape \(3,\)",
        ),
        (returning(keys=[np.ones(4)]), r"keys: expected at least one, .* of the shape \(4,\)"),
        (returning(keys=[]), "keys: expected at least one, each with .* got none"),
    ],
)
def test_what_is_wrong_with_a_rule_is_named(rule, message):
    with pytest.raises(ValueError, match=message):
        PASearchCV(MODEL, GRID, cv=3, selection=rule, tol=0.1).fit(X, Y)
