"""Environments, groups and whole sites that are held out: scores, errors, chance, and choices."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from helpers.search_tables import same_tables
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, make_scorer, recall_score
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut, PredefinedSplit, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import shuffle

from pa_select import PASearchCV
from pa_select.pairing import LabelPairing
from pa_select.two_sites.score_of_units import error_of_rate

X, Y = load_breast_cancer(return_X_y=True)
X, Y = X[:300], Y[:300]
MODEL = make_pipeline(StandardScaler(), LogisticRegression())
GRID = {"logisticregression__C": [1e-6, 0.1, 0.11]}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("several", [False, True])
def test_an_environment_where_the_metric_is_not_defined_is_not_the_worst(several):
    sites = np.array(["a", "b"])[np.arange(len(Y)) % 2].astype(object)
    sites[np.flatnonzero(Y == 1)[:40]] = "all healthy"
    y = 1 - Y  # the average precision of the sick
    scoring = {"p": roc_auc, "a": "accuracy"} if several else roc_auc
    name = "p" if several else "score"
    search = PASearchCV(MODEL, GRID, scoring=scoring, refit=name if several else True)
    table = search.fit(X, y, environments=sites).cv_results_
    assert set(table[f"worst_environment_{name}"]) <= {"a", "b"}
    assert np.isnan(table[f"mean_test_{name}_environment_all healthy"]).all()
    means = [table[f"mean_test_{name}_environment_{site}"] for site in "ab"]
    np.testing.assert_allclose(table[f"mean_test_{name}_worst_environment"], np.min(means, axis=0))
    if several:  # where it is defined it counts
        everywhere = [table[f"mean_test_a_environment_{s}"] for s in ("a", "b", "all healthy")]
        worst = table["mean_test_a_worst_environment"]
        np.testing.assert_allclose(worst, np.min(everywhere, axis=0))


def roc_auc(estimator, X, y):
    """scikit-learn's scorer, which is nan for rows of one class."""
    return sklearn.metrics.get_scorer("roc_auc")(estimator, X, y)


def new_sites(seed):
    """Four sites of 100 rows; what three of them have in common is turned round at the last."""
    rng = np.random.default_rng(seed)
    site = np.repeat(["a", "b", "c", "d"], 100)
    y = (rng.random(400) < 0.58).astype(int)
    common = (2 * y - 1) * np.where(site == "d", -1.2, 1.2)
    return np.column_stack([common, np.zeros((400, 4))]) + rng.normal(size=(400, 5)), y, site


NEW_SITES = {"logisticregression__C": [1e-5, 0.01, 1.0]}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("refit", ["guarded", "score"])
def test_a_new_site_is_not_met_with_a_constant(refit):
    data, y, site = new_sites(0)
    search = PASearchCV(MODEL, NEW_SITES, cv=LeaveOneGroupOut(), refit=refit)
    table = search.fit(data, y, environments=site).cv_results_
    # The constant classifier is the best one in its worst site, and no better than chance.
    assert table["mean_test_score_worst_environment"].argmax() == 0
    assert table["mean_test_score"][0] == table["chance_test_score"][0]
    assert search.best_index_ > 0
    assert table["eligible"][search.best_index_]
    assert not table["eligible"][0]


@pytest.mark.parametrize("classes", [[False, True], [0, 1], [0.0, 1.0], ["no", "yes"]])
def test_chance_counts_constants_of_labels_of_any_kind(classes):
    is_rare = (Y == Y[0]).astype(int)
    assert is_rare.mean() < 0.5  # so that the other constant scores 0
    y, scoring = np.array(classes)[is_rare], make_scorer(f1_score, pos_label=classes[1])
    search = PASearchCV(MODEL, {}, cv=3, scoring=scoring).fit(X, y, views=1.1 * X)
    of_constant = 2 * is_rare.mean() / (1 + is_rare.mean())
    assert search.cv_results_["chance_test_score"] == pytest.approx(of_constant, abs=0.01)


def test_a_recall_is_best_for_a_constant():
    data, y, site = new_sites(0)
    scoring = make_scorer(recall_score, pos_label="ill")
    search = PASearchCV(MODEL, {}, cv=2, scoring=scoring)
    with pytest.warns(UserWarning, match="No candidate with .* has a .* 2 standard errors above"):
        search.fit(data, np.where(y > 0, "ill", "well"), environments=site)
    assert search.cv_results_["chance_test_score"] == 1


def test_the_error_of_whole_environments_is_that_of_their_rows():
    data, y, site = new_sites(0)
    search = PASearchCV(MODEL, NEW_SITES, cv=LeaveOneGroupOut()).fit(data, y, environments=site)
    found = search.cv_results_
    by_site = np.array([found[f"split{i}_test_score"] for i in range(4)])
    # The shares of right predictions at four sites of 100 rows.
    binomial = np.sqrt((by_site * (1 - by_site) / 100).mean(0) / 4)
    np.testing.assert_allclose(found["se_test_score"], binomial, rtol=0.4)
    over_sites = by_site.std(0, ddof=1) / 2
    assert (over_sites[1:] > 4 * found["se_test_score"][1:]).all()
    # So it is with folds that have rows of every site.
    mixed = PASearchCV(MODEL, NEW_SITES).fit(data, y, environments=site).cv_results_
    by_rows = error_of_rate(mixed["mean_test_score"], 400)
    np.testing.assert_allclose(mixed["se_test_score"], by_rows)


@pytest.mark.filterwarnings("error", "ignore:The chosen candidate may be no better than chance")
def test_sites_with_few_rows_of_a_class_have_an_error():
    data, y, site = new_sites(0)
    y = np.where(np.arange(400) % 40 == 0, 1, 0)  # at most 3 of the 100 rows of a site
    options = {"scoring": "roc_auc", "refit": "score", "error_score": "raise"}
    search = PASearchCV(MODEL, NEW_SITES, cv=LeaveOneGroupOut(), **options)
    search.fit(data, y, environments=site)
    assert (search.cv_results_["se_test_score"] > 0).all()


@pytest.mark.filterwarnings("ignore:No candidate with:UserWarning")
@pytest.mark.slow
def test_environments_are_the_groups_of_a_splitter_that_needs_groups():
    data, y, site = new_sites(0)
    rows = pd.DataFrame(data)
    later = pd.Series(site).sample(frac=1, random_state=0)  # aligned by the index
    for cv in (LeaveOneGroupOut(), GroupKFold(2), [LeaveOneGroupOut(), GroupKFold(2)]):
        search = PASearchCV(MODEL, NEW_SITES, cv=cv)
        table = search.fit(rows, y, environments=later).cv_results_
        expected = search.fit(rows, y, environments=site, groups=site).cv_results_
        np.testing.assert_allclose(table["mean_test_score"], expected["mean_test_score"])
        with sklearn.config_context(enable_metadata_routing=True):
            routed = search.fit(rows, y, environments=later).cv_results_
        np.testing.assert_allclose(table["mean_test_score"], routed["mean_test_score"])
    # Other groups are what they are, and other splitters get none.
    patients = np.arange(400) // 4
    grouped = PASearchCV(MODEL, NEW_SITES, cv=GroupKFold(2))
    assert grouped.fit(rows, y, environments=site, groups=patients).n_splits_ == 2
    assert PASearchCV(MODEL, NEW_SITES, cv=StratifiedKFold(3)).fit(rows, y, environments=site)


# -- what holds whatever makes the pairs --------------------------------------------------

WINES, SORTS = shuffle(*load_wine(return_X_y=True), random_state=0)
NOISY = WINES + 0.5 * WINES.std(axis=0) * np.random.default_rng(0).normal(size=WINES.shape)
SITE, ROWS = np.arange(len(SORTS)) % 3, np.arange(len(SORTS))
FEW = {"var_smoothing": [1e-9, 0.3]}
# A patient visits one site.
GROUPS = {"none": None, "patients": ROWS % 3 + 3 * (ROWS // 12), "sites": SITE}


class SameRows:
    """Pairs each test row with another one of its split."""

    def pairs(self, splits, X, y, *, environments, groups):
        for number, (_, test) in enumerate(splits):
            yield number, test, number, test[::-1]


GIVEN = {
    "folds": ({}, {}),
    "halves": ({"pairing": "split-half"}, {}),
    "views": ({}, {"views": [NOISY]}),
    "environments": ({}, {"environments": SITE}),
    "two samples": ({"pairing": LabelPairing()}, {"environments": SITE}),
    "custom": ({"pairing": SameRows()}, {"environments": SITE}),
    "pairs": ({}, {"paired": (WINES[:40] + 1e-3, NOISY[:40])}),
}


def fitted(params, fit):
    search = PASearchCV(GaussianNB(), FEW, **params)
    return search.fit(WINES, SORTS, **fit)


@pytest.mark.parametrize("given", ["environments", "two samples", "custom"])
def test_environments_are_held_out_and_stratify_folds_whatever_makes_the_pairs(given):
    params, fit = GIVEN[given]
    assert "new_site_low" in fitted(params | {"cv": LeaveOneGroupOut()}, fit).cv_results_
    found, usual = fitted(params, fit).cv_results_, fitted(*GIVEN["environments"]).cv_results_
    for name in ("mean_test_score", "mean_test_score_worst_environment"):
        np.testing.assert_allclose(found[name], usual[name])


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
        fitted(params | {"refit": refit}, fit) for refit in ("guarded", "committee")
    )
    assert committee.best_index_ == single.best_index_
    same_tables(committee.cv_results_, single.cv_results_)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_sites_as_groups_say_no_more_of_held_out_sites_than_their_rows():
    errors, table = [], None
    for groups in (None, SITE):
        given = {"environments": SITE, "groups": groups}
        table = fitted({"cv": LeaveOneGroupOut()}, given).cv_results_
        errors.append(table["se_test_score"])
    np.testing.assert_allclose(*errors)
    by_rows = error_of_rate(table["mean_test_score"], len(SORTS))
    np.testing.assert_allclose(errors[0], by_rows, rtol=1e-3)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_groups_within_environments_count_once():
    rows, labels, site, person = (np.repeat(x, 2, axis=0) for x in (WINES, SORTS, SITE, ROWS))
    search = PASearchCV(GaussianNB(), FEW).fit(rows, labels, environments=site, groups=person)
    once = error_of_rate(search.cv_results_["mean_test_score"], len(SORTS))
    np.testing.assert_allclose(search.cv_results_["se_test_score"], once, rtol=0.1)
