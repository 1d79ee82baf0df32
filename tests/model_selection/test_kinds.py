"""Kinds of data: one of a user's own, what all of them keep to, and environments under pairs."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from helpers.search_tables import same_tables
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut, PredefinedSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.utils import shuffle

import pa_select.model_selection.plan as plan_of_search
from pa_select import GuardedSelection, PASearchCV, PASearchDisplay
from pa_select.model_selection import Comparison, DataKind, PairsOfModels, base
from pa_select.model_selection.rules import named_rule
from pa_select.model_selection.split_scores import Extra
from pa_select.model_selection.table_columns import metric_columns
from pa_select.pairing import LabelPairing
from pa_select.two_sites.score_of_units import error_of_rate

X, Y = shuffle(*load_wine(return_X_y=True), random_state=0)
NOISY = X + 0.5 * X.std(axis=0) * np.random.default_rng(0).normal(size=X.shape)
SITE = np.arange(len(Y)) % 3
GRID = {"var_smoothing": [1e-9, 1e-4, 1e-2, 0.3]}
RULE = GuardedSelection(score="score_last", n_se=3)


class Visits(DataKind):
    """Each row of X was measured at several visits; one model scores the first and the others."""

    pairing = "visits"
    asks = "predicts well, and alike at every visit"
    compares = "what each candidate predicts for the same person at two visits"

    def __init__(self, rows, views):
        super().__init__(rows)
        self.samples = list(views)

    def compare(self, splits, data, weight):
        later = range(1, 1 + len(self.samples))
        tests = [test for _, test in splits]
        return ComparisonOfVisits(
            self,
            splits,
            [PairsOfModels(i, t, i, t, 0, visit) for i, t in enumerate(tests) for visit in later],
            extra_test_rows=[[Extra("last", later[-1], test)] for test in tests],
        )

    @staticmethod
    def default_rule(score):
        return GuardedSelection(score=f"{score}_last", n_se=3)


@dataclass(frozen=True, eq=False)
class ComparisonOfVisits(Comparison):
    """The score at the last visit is a column, and compares the candidates of a committee."""

    def score_columns(self, scores):
        last, name = scores.extras["last"][0], f"{scores.metric}_last"
        return metric_columns(name, last) | {f"se_test_{name}": scores.errors(last)}

    def scores_of_folds(self, table, metric):
        return super().scores_of_folds(table, f"{metric}_last")


def test_a_kind_of_the_users_own_is_known_to_all_that_read_a_search():
    search = PASearchCV(GaussianNB(), GRID, pairing=Visits, refit="committee")
    search.fit(X, Y, views=[NOISY, NOISY])
    views = PASearchCV(GaussianNB(), GRID, refit="committee").fit(X, Y, views=[NOISY, NOISY])
    assert search.pairing_ == "visits"
    for name in ("agreement", "mean_test_score", "agreement_se", "weight"):
        np.testing.assert_allclose(search.cv_results_[name], views.cv_results_[name], rtol=1e-9)
    last = search.cv_results_["mean_test_score_last"]
    np.testing.assert_allclose(last, views.cv_results_["mean_test_score_views"])
    assert search.certified_choice_
    assert search.compare(0, 3).difference > 0
    assert "agreement" in search.summary()
    page = search.report()
    assert "predicts well, and alike at every visit" in page
    assert "the same person at two visits" in page
    assert len(PASearchDisplay.from_result(search).value) == 4
    assert search.score(X, Y) > 0.9
    again = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(again.predict(X), search.predict(X))
    assert clone(search).pairing is Visits


def test_a_kind_of_the_users_own_states_its_default_rule():
    search = PASearchCV(GaussianNB(), GRID, pairing=Visits).fit(X, Y, views=[NOISY])
    by_hand = PASearchCV(GaussianNB(), GRID, pairing=Visits, selection=RULE)
    by_hand.fit(X, Y, views=[NOISY])
    same_tables(search.cv_results_, by_hand.cv_results_)
    assert " less 3 standard errors" in search.cv_results_["reason"][search.best_index_]
    assert search.best_index_ == by_hand.best_index_
    # All that read a search know it, also of one that was saved.
    for one in (search, pickle.loads(pickle.dumps(search))):
        assert list(one.summary()["index"]) == list(by_hand.summary()["index"])
        assert "score_last" in one.report()
        drawn, expected = (PASearchDisplay.from_result(x).threshold for x in (one, by_hand))
        assert drawn == pytest.approx(expected)
    # Who names another rule gets that one.
    search.set_params(selection="score").fit(X, Y, views=[NOISY])
    assert set(search.cv_results_["reason"]) == {"eligible"}


class Doubtful(Visits):
    """Visits whose default rule can be wrong."""

    rule = None

    @classmethod
    def default_rule(cls, score):
        return cls.rule


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("score", "pairing: expected a SelectionRule of Doubtful.default_rule, got str"),
        (named_rule("expected", "score"), r"paired: expected some in fit\(X, y, paired=...\)"),
        (named_rule("new_site", "score"), "at least 3 environments that no training rows"),
    ],
)
@pytest.mark.usefixtures("no_fit")
def test_a_default_rule_is_checked_before_any_fit(rule, message, monkeypatch):
    monkeypatch.setattr(Doubtful, "rule", rule)
    with pytest.raises((TypeError, ValueError), match=message):
        PASearchCV(LogisticRegression(), {}, pairing=Doubtful).fit(X, Y, views=[NOISY])


@pytest.mark.usefixtures("no_fit")
def test_a_kind_of_the_users_own_says_whether_its_rule_judges_regressors():
    class Both(Visits):
        def __init__(self, rows, paired):
            super().__init__(rows, paired)

    with pytest.raises(ValueError, match="selection: expected a rule that does not look at"):
        PASearchCV(Ridge(), {}, pairing=Both).fit(X, Y / 2, paired=(X, NOISY))


class Called(Exception):
    """Has the data that the plan of a search was given."""


def test_the_data_of_every_kind_arrive_by_their_names(monkeypatch):
    def plan(search, X, y, params, **given):
        raise Called(given)

    monkeypatch.setattr(base, "Plan", plan)
    given = {name: object() for name in plan_of_search.GIVEN}
    with pytest.raises(Called) as called:
        PASearchCV(GaussianNB(), GRID).fit(X, Y, **given)
    assert called.value.args == (given,)


class SameRows:
    """Pairs each test row with another one of its split."""

    def pairs(self, splits, X, y, *, environments, groups):
        for number, (_, test) in enumerate(splits):
            yield number, test, number, test[::-1]


@pytest.mark.parametrize("pairing", ["repeated", LabelPairing(), SameRows()])
def test_environments_are_held_out_whatever_makes_the_pairs(pairing):
    search = PASearchCV(GaussianNB(), GRID, cv=LeaveOneGroupOut(), pairing=pairing)
    assert "which the fits had not seen" in search.fit(X, Y, environments=SITE).report()


def test_folds_are_stratified_by_environments_whatever_makes_the_pairs():
    both = [
        PASearchCV(GaussianNB(), GRID, pairing=pairing).fit(X, Y, environments=SITE)
        for pairing in ("repeated", SameRows())
    ]
    for name in ("mean_test_score", "mean_test_score_worst_environment"):
        np.testing.assert_array_equal(*(search.cv_results_[name] for search in both))


GIVEN = {
    "folds": ({}, {}),
    "halves": ({"pairing": "split-half"}, {}),
    "views": ({}, {"views": [NOISY]}),
    "environments": ({}, {"environments": SITE}),
    "two samples": ({"pairing": LabelPairing()}, {"environments": SITE}),
    "custom": ({"pairing": SameRows()}, {"environments": SITE}),
    "pairs": ({}, {"paired": (X[:40] + 1e-3, NOISY[:40])}),
    "own": ({"pairing": Visits}, {"views": [NOISY]}),
}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_kind_is_asked_once_and_stores_nothing(given, monkeypatch):
    made = []

    def noted(*args):
        kind = kind_of(*args)
        made.append((kind, dict(vars(kind)), []))
        compare = type(kind).compare
        monkeypatch.setattr(
            type(kind), "compare", lambda self, *x: made[-1][2].append(1) or compare(self, *x)
        )
        return kind

    kind_of = plan_of_search.kind_of
    monkeypatch.setattr(plan_of_search, "kind_of", noted)
    params, fit = GIVEN[given]
    PASearchCV(GaussianNB(), GRID, refit="committee", **params).fit(X, Y, **fit)
    [(kind, before, asked)] = made
    assert len(asked) == 1
    after = vars(kind)
    assert list(after) == list(before)
    assert all(after[name] is value for name, value in before.items())


ROWS = np.arange(len(Y))
FEW = {"var_smoothing": [1e-9, 0.3]}
# A patient visits one site.
GROUPS = {"none": None, "patients": ROWS % 3 + 3 * (ROWS // 12), "sites": SITE}


@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss"])
@pytest.mark.parametrize("groups", ["none", "patients"])
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_committee_changes_neither_the_errors_nor_the_choice(given, groups, scoring):
    params, fit = GIVEN[given]
    check_same_table(params | {"scoring": scoring}, fit | {"groups": GROUPS[groups]})


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("given", ["environments", "two samples", "custom"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_committee_changes_no_errors_of_environments_that_are_held_out(given, groups):
    params, fit = GIVEN[given]
    cv = PredefinedSplit(SITE)
    if groups == "none":  # the environments are tested twice
        cv = [LeaveOneGroupOut(), GroupKFold(2)]
    for scoring in ("accuracy", "f1_macro"):
        check_same_table(params | {"cv": cv, "scoring": scoring}, fit | {"groups": GROUPS[groups]})


def check_same_table(params, fit):
    single, committee = (
        PASearchCV(GaussianNB(), FEW, refit=refit, **params).fit(X, Y, **fit)
        for refit in (True, "committee")
    )
    assert committee.best_index_ == single.best_index_
    same_tables(committee.cv_results_, single.cv_results_)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_sites_as_groups_say_no_more_of_held_out_sites_than_their_rows():
    search = PASearchCV(GaussianNB(), GRID, cv=LeaveOneGroupOut())
    errors = [
        search.fit(X, Y, environments=SITE, groups=groups).cv_results_["se_test_score"]
        for groups in (None, SITE)
    ]
    np.testing.assert_array_equal(*errors)
    by_rows = error_of_rate(search.cv_results_["mean_test_score"], len(Y))
    np.testing.assert_allclose(errors[0], by_rows, rtol=1e-3)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_groups_within_environments_count_once():
    rows, labels, site, person = (np.repeat(x, 2, axis=0) for x in (X, Y, SITE, ROWS))
    search = PASearchCV(GaussianNB(), GRID).fit(rows, labels, environments=site, groups=person)
    once = error_of_rate(search.cv_results_["mean_test_score"], len(Y))
    np.testing.assert_allclose(search.cv_results_["se_test_score"], once, rtol=0.1)


class Repeats(DataKind):
    """Compares what `made` returns of the number, the training and the test rows of a split."""

    pairing, compares = "repeats", "what each candidate predicts for both measurements"
    made = None

    def compare(self, splits, data, weight):
        return Comparison(self, splits, [type(self).made(i, *x) for i, x in enumerate(splits)])


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda i, train, test: PairsOfModels(i, test, i, train[: len(test)]), "not fitted to"),
        (lambda i, train, test: PairsOfModels(1 - i, test, i, test), "split 1 was not fitted to"),
        (lambda i, train, test: PairsOfModels(i, test + 999, i, test), "numbers from 0 to 177"),
        (lambda i, train, test: PairsOfModels(i, test, i, test[1:]), "as many rows on both"),
        (lambda i, train, test: PairsOfModels(i, test, 2, test), "number of a split, 0 to 1"),
        (lambda i, train, test: PairsOfModels(i, test, i, test, 0, 1), "number of a sample, 0"),
        (lambda i, train, test: (i, test, i, test), "expected a PairsOfModels"),
    ],
)
def test_what_a_kind_of_the_users_own_compares_is_checked(made, message, monkeypatch):
    monkeypatch.setattr(Repeats, "made", made)
    search = PASearchCV(GaussianNB(), FEW, pairing=Repeats, cv=2)
    error = TypeError if "PairsOf" in message else ValueError
    with pytest.raises(error, match=f"^pairing: item 0 that Repeats compares: .*{message}"):
        search.fit(X, Y)


def test_a_kind_of_the_users_own_returns_a_comparison(monkeypatch):
    monkeypatch.setattr(Repeats, "compare", lambda *_: [])
    with pytest.raises(TypeError, match="^pairing: expected a Comparison of Repeats.*, got list"):
        PASearchCV(GaussianNB(), FEW, pairing=Repeats).fit(X, Y)


@pytest.mark.parametrize(
    ("pairing", "given", "message"),
    [
        (Repeats, {"environments": SITE}, "environments: expected None with pairing=Repeats, .*"),
        (Visits, {"views": [NOISY], "environments": SITE}, "environments: .* views, got ndarray"),
        (Visits, {}, r"views: expected some in fit\(X, y, views=...\) with pairing=Visits"),
    ],
)
def test_a_kind_of_the_users_own_is_given_what_it_takes(pairing, given, message):
    with pytest.raises(TypeError, match=f"^{message}"):
        PASearchCV(GaussianNB(), FEW, pairing=pairing).fit(X, Y, **given)


@pytest.mark.parametrize("pairing", ["repeated", SameRows()])
def test_groups_that_made_the_splits_are_named_where_environments_had_to(pairing):
    search = PASearchCV(GaussianNB(), FEW, cv=GroupKFold(5), selection="new_site", pairing=pairing)
    with pytest.raises(ValueError, match="got 0. The groups made the splits: without them"):
        search.fit(X, Y, environments=SITE, groups=GROUPS["patients"])
    with pytest.raises(ValueError, match=r"got 0\.$"):  # they would make none
        search.set_params(cv=5).fit(X, Y, environments=SITE, groups=GROUPS["patients"])
