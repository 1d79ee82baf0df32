"""The study of new sites: its rivals by hand, and what it counts at sites that are held out."""

import numpy as np
import pytest
from scipy import stats
from sklearn.dummy import DummyClassifier

STUDY = "study_new_site"


def test_rivals_of_sites_of_one_size(study):
    right, sizes = np.array([60, 80, 95, 70, 90]), np.full(5, 100)
    found = study.intervals(right, sizes)
    assert found[study.SEEN] == (0.6, 0.95)
    assert np.mean(found[study.MEAN]) == pytest.approx(0.79)
    error = np.std(right, ddof=1) / 100 / 5**0.5
    assert np.ptp(found[study.MEAN]) == pytest.approx(2 * 1.96 * error)
    # On logits all have the middle of the sites, and are the narrower the less they count.
    names = study.OURS, study.EQUAL, study.SUBTRACTED
    ours, equal, subtracted = (stats.logistic.ppf(found[name]) for name in names)
    middle = np.mean(np.log((right + 0.5) / (100.5 - right)))
    assert ours.mean() == pytest.approx(middle)
    assert subtracted.mean() == pytest.approx(middle)
    assert np.ptp(subtracted) < np.ptp(ours) < np.ptp(equal)
    # Student's t with three degrees of freedom, not four.
    assert found[study.EFFECTS][0] < found[study.SUBTRACTED][0]


def test_random_effects_of_equal_sites_are_a_fixed_effect(study):
    low, high = study.random_effects(np.array([80, 80, 80, 80]), np.full(4, 100))
    rate = 80.5 / 101
    error = 1 / np.sqrt(400 * rate * (1 - rate))
    width = stats.t.ppf(0.975, 2) * error
    middle = np.log(rate / (1 - rate))
    assert (low, high) == pytest.approx(stats.logistic.cdf([middle - width, middle + width]))


def test_a_model_of_the_other_sites_is_counted_at_each_site(study):
    X, y = np.zeros((6, 1)), np.array([0, 0, 1, 1, 1, 0])
    for train, tests, right in (
        ([0, 1, 2], ([3, 4], [5]), [0, 1]),
        ([2, 3], ([4, 5], [0]), [1, 0]),
    ):
        assert study.right_rows(DummyClassifier(), X, y, train, *tests) == right


def test_choices(study):
    sizes = np.full(4, 100)
    right = np.array([[50, 50, 50, 50], [95, 95, 95, 60], [85, 84, 86, 85]])
    found = study.choices(right, sizes, np.array([0.5, 0.6, 0.8]))
    assert found["accuracy"] == 60
    assert found[study.LOWER_END] == found["lower end of all candidates"] == 80
    alone = study.choices(right[:1], sizes, np.array([0.5]))  # nothing is above chance
    assert alone[study.LOWER_END] == 50


def test_the_simulation_has_a_line_for_each_kind_of_sites(study, monkeypatch):
    monkeypatch.setattr(study, "N_SITES", (3, 4))
    found = study.simulation(n_draws=20)
    assert len(found) == 2 * len(study.SIZES) * 2 * len(study.SPREADS)
    held = found[[name for name in found if name.startswith("holds")]]
    assert ((held >= 0) & (held <= 1)).all(axis=None)
    # The mean's error says nothing of the next site.
    assert (found[f"holds: {study.MEAN}"] < found[f"holds: {study.OURS}"]).mean() > 0.9
