"""Kinds of data: one of a user's own, what all of them keep to, and environments under pairs."""

import numpy as np
import pytest
from helpers.search_tables import same_tables
from sklearn.datasets import load_wine
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut, PredefinedSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.utils import shuffle

import pa_select.model_selection.plan as plan_of_search
from pa_select import PASearchCV
from pa_select.model_selection import base
from pa_select.pairing import LabelPairing
from pa_select.two_sites.score_of_units import error_of_rate

X, Y = shuffle(*load_wine(return_X_y=True), random_state=0)
NOISY = X + 0.5 * X.std(axis=0) * np.random.default_rng(0).normal(size=X.shape)
SITE = np.arange(len(Y)) % 3
GRID = {"var_smoothing": [1e-9, 1e-4, 1e-2, 0.3]}


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
    assert "new_site_low" in search.fit(X, Y, environments=SITE).cv_results_


def test_folds_are_stratified_by_environments_whatever_makes_the_pairs():
    both = [
        PASearchCV(GaussianNB(), GRID, pairing=pairing).fit(X, Y, environments=SITE)
        for pairing in ("repeated", SameRows())
    ]
    for name in ("mean_test_score", "mean_test_score_worst_environment"):
        np.testing.assert_allclose(*(search.cv_results_[name] for search in both))


GIVEN = {
    "folds": ({}, {}),
    "halves": ({"pairing": "split-half"}, {}),
    "views": ({}, {"views": [NOISY]}),
    "environments": ({}, {"environments": SITE}),
    "two samples": ({"pairing": LabelPairing()}, {"environments": SITE}),
    "custom": ({"pairing": SameRows()}, {"environments": SITE}),
    "pairs": ({}, {"paired": (X[:40] + 1e-3, NOISY[:40])}),
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


@pytest.mark.parametrize("pairing", ["repeated", SameRows()])
def test_groups_that_made_the_splits_are_named_where_environments_had_to(pairing):
    search = PASearchCV(GaussianNB(), FEW, cv=GroupKFold(5), selection="new_site", pairing=pairing)
    with pytest.raises(ValueError, match="got 0. The groups made the splits: without them"):
        search.fit(X, Y, environments=SITE, groups=GROUPS["patients"])
    with pytest.raises(ValueError, match=r"got 0\.$"):  # they would make none
        search.set_params(cv=5).fit(X, Y, environments=SITE, groups=GROUPS["patients"])
