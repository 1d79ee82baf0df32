"""The study of the richness condition runs, and its guard does what it says."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

STUDY = "study_richness"


@pytest.fixture
def menu(study):
    """A constant classifier, and one whose predictions agree in most rows."""
    rng = np.random.default_rng(0)
    good = 5 * np.eye(3)[np.arange(60) % 3]
    constant = np.tile([5.0, 0, 0], (60, 1))
    scores = [[constant, constant], [good, good + rng.normal(size=good.shape)]]
    return study.Menu("", scores, np.array([30, 90]), np.array([0.3, 0.9]), np.full(3, 1 / 3))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_limits_exclude_the_constant_classifier_that_the_uniform_prior_chooses(study, menu):
    picks = study.choices(menu)
    assert picks["uniform prior"] == 0
    assert {picks[f"uniform prior, divergence up to {limit}"] for limit in study.LIMITS} == {1}
    assert picks[study.MARGINAL] == 1
    lines = study.measure(menu)
    assert [line["rule"] for line in lines if line["collapsed"]] == [
        "uniform prior",
        study.SOURCE,
    ]


@pytest.mark.filterwarnings("ignore")  # of constant candidates
def test_the_smallest_menus_give_a_table(study, monkeypatch):
    monkeypatch.setattr(study, "CANDIDATES", study.CANDIDATES[:4])
    menus = [study.menu_of_candidates(load_iris, 0.5, most, 0) for most in (False, True)]
    menus += [study.menu_of_epochs(0.01, weight, 0, epochs=2) for weight in (0, 1.0)]
    lines = [line for menu in menus for line in study.measure(menu)]
    found = study.summary([*lines, *lines])
    assert len({menu.kind for menu in menus}) == 4
    assert found.shape == (19, 6)
    assert found.iloc[0, 0] == study.MARGINAL
    best = found.set_index("choice by").loc["best in hindsight"]
    assert [value[0] for value in best[:-1]] == ["+"] * 4
    assert best["collapsed"] == "0 of 8"
