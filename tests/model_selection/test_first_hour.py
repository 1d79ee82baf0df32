"""What a search says of itself: fits, choices within their error, environments left out."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, make_scorer, recall_score
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pa_select import PASearchCV
from pa_select.model_selection.choice import indistinguishable
from pa_select.model_selection.kinds.environments import _warn, _warn_of_own_classes
from pa_select.model_selection.rules import BestAgreement
from pa_select.two_sites.score_of_units import error_of_rate

X, Y = load_breast_cancer(return_X_y=True)
X, Y = X[:300], Y[:300]
MODEL = make_pipeline(StandardScaler(), LogisticRegression())
GRID = {"logisticregression__C": [1e-6, 0.1, 0.11]}
FEW_ROWS = pytest.mark.filterwarnings("ignore:(No candidate|The least populated class)")


def test_a_choice_within_its_error_is_said_to_be_one():
    search = PASearchCV(MODEL, GRID).fit(X, Y, views=1.1 * X)
    table, best = search.cv_results_, search.best_index_
    other = 3 - best
    found = search.compare(best, other)
    assert found.p_value >= 0.05
    np.testing.assert_array_equal(table["not_told_apart"], np.arange(3) == other)
    assert table["reason"][best].endswith(
        "; chosen, but its agreement cannot be told from that of another eligible candidate"
    )
    assert "chosen" not in table["reason"][other]
    # Whoever chooses by the score has not looked at it.
    by_score = PASearchCV(MODEL, GRID, selection="score").fit(X, Y, views=1.1 * X)
    assert not any("chosen" in reason for reason in by_score.cv_results_["reason"])
    assert "not_told_apart" in search.summary()
    assert "not_told_apart" not in by_score.summary()


def test_clear_differences_are_no_draw():
    search = PASearchCV(MODEL, GRID).fit(X, Y, views=1.1 * X)
    terms = search.agreement_terms_.copy()

    def found(eligible=True):
        table = {"eligible": np.full(3, eligible)}
        given = BestAgreement(), table, 1, terms, search._pairs, None
        return indistinguishable(*given).tolist()

    terms[1] += np.linspace(0.5, 1.5, terms.shape[1])
    assert found() == [False, False, False]
    terms[2] = terms[1]
    assert found() == [False, False, True]
    assert found(eligible=False) == [False, False, False]
    terms[2] = np.nan
    assert found() == [False, False, False]


@FEW_ROWS
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@pytest.mark.parametrize("several", [False, True])
def test_environments_that_cannot_be_judged_are_left_out_of_the_worst(several):
    sites = np.array(["a", "b"])[np.arange(len(Y)) % 2].astype(object)
    sites[7] = "one row"
    healthy = np.flatnonzero(Y == 1)[:40]
    sites[healthy] = "all healthy"
    y = 1 - Y  # the recall of the sick
    scoring = {"r": "recall", "a": "accuracy"} if several else "recall"
    name = "r" if several else "score"
    search = PASearchCV(MODEL, GRID, scoring=scoring, refit=name if several else True)
    with pytest.warns(UserWarning, match="leaves out 2 of") as caught:
        search.fit(X, y, environments=sites)
    said = next(str(w.message) for w in caught if "leaves out" in str(w.message))
    assert "'one row' (1 test row)" in said
    (few,) = (str(w.message) for w in caught if "least populated" in str(w.message))
    assert f"{y[7]} of 'one row', has only 1 row, fewer than the 5 folds" in few
    assert f"'all healthy' ({name} is not defined, since no row has class 1)" in said
    table = search.cv_results_
    assert set(table[f"worst_environment_{name}"]) <= {"a", "b"}
    assert np.isnan(table[f"mean_test_{name}_environment_all healthy"]).all()
    assert table[f"mean_test_{name}_worst_environment"][1:].min() > 0.5
    means = [table[f"mean_test_{name}_environment_{site}"] for site in "ab"]
    np.testing.assert_allclose(table[f"mean_test_{name}_worst_environment"], np.min(means, axis=0))
    if several:  # where it is defined it counts
        assert np.isfinite(table["mean_test_a_environment_all healthy"]).all()
        everywhere = [table[f"mean_test_a_environment_{s}"] for s in ("a", "b", "all healthy")]
        worst = table["mean_test_a_worst_environment"]
        np.testing.assert_allclose(worst, np.min(everywhere, axis=0))


@FEW_ROWS
def test_environments_of_other_metrics_are_left_alone():
    sites = np.array(["a", "b"])[np.arange(len(Y)) % 2]

    def of_rows(estimator, X, y):  # needs the features
        return recall_score(y, estimator.predict(X), average="macro") + 0 * X[0, 3]

    for scoring in ("neg_log_loss", "matthews_corrcoef", of_rows):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            search = PASearchCV(MODEL, GRID, scoring=scoring).fit(X, Y, environments=sites)
        assert np.isfinite(search.cv_results_["mean_test_score_worst_environment"]).all()
    sites[:] = "a"
    sites[:4] = "b"
    with pytest.warns(UserWarning, match="leaves out 1 of them.*'b' .4 test rows"):
        PASearchCV(MODEL, GRID).fit(X, Y, environments=sites)


def test_environments_that_the_model_sees_are_named():
    years = 2000 + np.arange(len(Y)) % 2
    frame = pd.DataFrame(X).add_prefix("x").assign(year=years * 1.0)
    search = PASearchCV(MODEL, {})
    search.fit(frame, Y, environments=years)
    assert [w for w in search.warnings_ if "no column of X, got column 'year'. " in w]
    for others in (years[::-1], np.where(years == 2000, "a", "b")):
        search.fit(frame, Y, environments=others)
        assert not [w for w in search.warnings_ if "column" in w]


def test_nothing_eligible_on_imbalanced_data_says_which_scoring_sees_more():
    data, labels = make_classification(
        400, weights=[0.97], flip_y=0, class_sep=0.3, random_state=0, n_informative=2
    )
    grid = {"logisticregression__C": [1e-4, 1e-3]}
    with pytest.warns(UserWarning, match=r"gives 0.97: scoring='balanced_accuracy', 'roc_auc'"):
        PASearchCV(MODEL, grid, cv=StratifiedKFold(3)).fit(data, labels, views=data + 1e-3)
    # Where chance is low another score would say no more.
    with pytest.warns(UserWarning, match="alone decides[.]$"):
        PASearchCV(DummyClassifier(), {"strategy": ["prior"]}).fit(X, Y % 2 == np.arange(300) % 2)


def new_sites(seed):
    """Four sites of 100 rows; what three of them have in common is turned round at the last."""
    rng = np.random.default_rng(seed)
    site = np.repeat(["a", "b", "c", "d"], 100)
    y = (rng.random(400) < 0.58).astype(int)
    common = (2 * y - 1) * np.where(site == "d", -1.2, 1.2)
    return np.column_stack([common, np.zeros((400, 4))]) + rng.normal(size=(400, 5)), y, site


NEW_SITES = {"logisticregression__C": [1e-5, 0.01, 1.0]}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("selection", ["guarded", "worst_environment", "score"])
def test_a_new_site_is_not_met_with_a_constant(selection):
    data, y, site = new_sites(0)
    search = PASearchCV(MODEL, NEW_SITES, cv=LeaveOneGroupOut(), selection=selection)
    table = search.fit(data, y, environments=site).cv_results_
    # The constant classifier is the best one in its worst site, and no better than chance.
    assert table["mean_test_score_worst_environment"].argmax() == 0
    assert table["mean_test_score"][0] == table["chance_test_score"][0]
    assert search.best_index_ > 0
    assert table["eligible"][search.best_index_]
    assert not table["eligible"][0]


@pytest.mark.parametrize("classes", [[False, True], [0, 1], ["no", "yes"]])
def test_chance_counts_constants_of_labels_of_any_kind(classes):
    is_rare = (Y == Y[0]).astype(int)
    assert is_rare.mean() < 0.5  # so that the other constant scores 0
    y, scoring = np.array(classes)[is_rare], make_scorer(f1_score, pos_label=classes[1])
    search = PASearchCV(MODEL, {}, cv=3, scoring=scoring).fit(X, y, views=1.1 * X)
    of_constant = 2 * is_rare.mean() / (1 + is_rare.mean())
    assert search.cv_results_["chance_test_score"] == pytest.approx(of_constant, abs=0.01)


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
def test_parts_without_a_class_say_nothing_of_the_error():
    data, y, site = new_sites(0)
    y = np.where(np.arange(400) % 40 == 0, 1, 0)  # at most 3 of the 100 rows of a site
    options = {"scoring": "roc_auc", "selection": "score", "error_score": "raise"}
    search = PASearchCV(MODEL, NEW_SITES, cv=LeaveOneGroupOut(), **options)
    search.fit(data, y, environments=site)
    assert (search.cv_results_["se_test_score"] > 0).all()


@pytest.mark.filterwarnings("ignore:No candidate is within:UserWarning")
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


def test_a_recall_needs_a_positive_label_and_is_best_for_a_constant():
    data, y, site = new_sites(0)
    labels = np.where(y > 0, "ill", "well")
    by_recall = PASearchCV(MODEL, {}, cv=2)
    for given in ({"scoring": ["accuracy", "recall"], "refit": "recall"}, {"scoring": "recall"}):
        with (
            pytest.warns(UserWarning, match="Scoring failed"),
            pytest.raises(ValueError, match="^scoring: .*pos_label"),
        ):
            by_recall.set_params(**given).fit(data, labels, environments=site)
    by_recall.set_params(scoring=make_scorer(recall_score, pos_label="ill"), refit=True)
    with pytest.warns(UserWarning, match="always predicting one class gives 1: scoring='balanced"):
        by_recall.fit(data, labels, environments=site)


@pytest.mark.parametrize("n", [3, 5])
def test_of_many_environments_some_are_named_and_the_rest_counted(n):
    y, end = np.arange(n), " and 2 more" if n == 5 else ""
    with pytest.warns(UserWarning, match=rf"\(0 of 0, 1 of 1, 2 of 2{end}\)"):
        _warn_of_own_classes(y, y)
    with pytest.warns(UserWarning, match=rf"1 \(few\); 2 \(few\){';' * bool(end)}{end}\.$"):
        _warn({"score": dict.fromkeys(range(n), "few")})
