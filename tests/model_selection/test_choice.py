"""Whether a candidate that was not chosen could agree better than the chosen one."""

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pa_select import PASearchCV
from pa_select.model_selection import GuardedSelection
from pa_select.model_selection.choice import certify_choice
from pa_select.model_selection.rules import BestAgreement, BestScore

X, Y = load_wine(return_X_y=True)
MODEL = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def drift(rows):
    return rows + 0.5 * rows.std(0) * np.random.default_rng(0).normal(size=rows.shape)


def table_of(agreement, gap):
    n = len(agreement)
    return {
        "agreement": np.array(agreement),
        "gap": np.array(gap),
        "mean_test_score": np.linspace(0.9, 0.91, n),
        "se_test_score": np.full(n, 0.1),
        "std_test_score": np.full(n, 0.1),
        "split0_test_score": np.linspace(0.9, 0.91, n),
        "eligible": np.ones(n, dtype=bool),
        "params": [{}] * n,
    }


class Truth:
    """Refines by known maxima, and records what was asked for."""

    def __init__(self, table, truth):
        self.table, self.truth, self.asked = table, truth, []

    def __call__(self, candidates, gap):
        self.asked.append((candidates.tolist(), gap))
        self.table["agreement"][candidates] = np.array(self.truth)[candidates]
        self.table["gap"][candidates] = gap / 2


@pytest.mark.parametrize("rule", [GuardedSelection(score="score"), BestAgreement("score")])
def test_only_contenders_are_refined(rule):
    table = table_of([0.5, 0.4, 0.4995, 0.3], [1e-3, 1e-3, 1e-3, np.nan])
    refine = Truth(table, table["agreement"].copy())
    table["eligible"][3] = False
    assert certify_choice(rule, table, 1e-6, refine) == (0, True)
    assert refine.asked == [([2], pytest.approx(5e-4))]


@pytest.mark.parametrize(
    ("truth", "chosen", "asked", "gaps"),
    [
        # A higher maximum changes the choice; a candidate that comes closer is refined again.
        ([0.5, 0.5005, 0.4], 1, [[1], [0]], None),
        ([0.5, 0.49999, 0.4], 0, [[1], [1]], [1e-4, 1e-5]),
    ],
)
def test_contenders_are_refined_until_the_choice_is_certain(truth, chosen, asked, gaps):
    table = table_of([0.5, 0.4999, 0.4], [1e-3, 1e-3, 1e-3])
    refine = Truth(table, truth)
    assert certify_choice(BestAgreement("score"), table, 1e-6, refine) == (chosen, True)
    assert [candidates for candidates, _ in refine.asked] == asked
    assert gaps is None or [gap for _, gap in refine.asked] == pytest.approx(gaps)


def test_a_candidate_that_cannot_be_refined_leaves_the_choice_uncertified():
    table = table_of([0.5, 0.4999], [1e-3, 1e-3])
    asked = []
    found = certify_choice(BestAgreement("score"), table, 1e-6, lambda *x: asked.append(x))
    assert found == (0, False)
    assert len(asked) == 1


def test_other_rules_do_not_ask():
    table = table_of([0.5, 0.4999], [1e-3, 1e-3])
    assert certify_choice(BestScore("score"), table, 1e-6, None) == (1, None)
    table["agreement_uniform"] = np.array([0.4, 0.6])
    rule = GuardedSelection(agreement="agreement_uniform", score="score")
    assert certify_choice(rule, table, 1e-6, None) == (1, None)


def test_the_choice_of_a_search_is_certified():
    grid = {"logisticregression__C": [0.01, 0.999, 1.0, 1.001, 10.0]}
    search = PASearchCV(MODEL, grid, selection="agreement", cv=3).fit(X, Y, views=drift)
    table = search.cv_results_
    assert search.certified_choice_ is True
    assert (table["gap"] <= 1e-3).all()
    assert (table["gap"] >= 0).all()
    best = search.best_index_
    others = np.arange(5) != best
    upper = (table["agreement"] + table["gap"])[others]
    assert upper.max() <= table["agreement"][best] + 2e-6
    assert table["rank_agreement"][best] == 1
    # The same candidate, certified from the start.
    exact = PASearchCV(MODEL, grid, selection="agreement", cv=3, tol=1e-6)
    assert exact.fit(X, Y, views=drift).best_params_ == search.best_params_
