"""The study of new sites: its rivals by hand, and what it counts at sites that are held out."""

import numpy as np
import pytest
from scipy import stats
from sklearn.dummy import DummyClassifier


def test_rivals_of_sites_of_one_size():
    from study_new_site import EFFECTS, EQUAL, MEAN, OURS, SEEN, SUBTRACTED, intervals

    right, sizes = np.array([60, 80, 95, 70, 90]), np.full(5, 100)
    found = intervals(right, sizes)
    assert found[SEEN] == (0.6, 0.95)
    assert np.mean(found[MEAN]) == pytest.approx(0.79)
    assert np.ptp(found[MEAN]) == pytest.approx(2 * 1.96 * np.std(right, ddof=1) / 100 / 5**0.5)
    # On logits all have the middle of the sites, and are the narrower the less they count.
    logits = [stats.logistic.ppf(ends) for ends in (found[OURS], found[EQUAL], found[SUBTRACTED])]
    middle = np.mean(np.log((right + 0.5) / (100.5 - right)))
    assert logits[0].mean() == pytest.approx(middle)
    assert logits[2].mean() == pytest.approx(middle)
    assert np.ptp(logits[2]) < np.ptp(logits[0]) < np.ptp(logits[1])
    assert found[EFFECTS][0] < found[SUBTRACTED][0]  # t with three degrees of freedom, not four


def test_random_effects_of_equal_sites_are_a_fixed_effect():
    from study_new_site import random_effects

    low, high = random_effects(np.array([80, 80, 80, 80]), np.full(4, 100))
    rate = 80.5 / 101
    error = 1 / np.sqrt(400 * rate * (1 - rate))
    width = stats.t.ppf(0.975, 2) * error
    middle = np.log(rate / (1 - rate))
    assert (low, high) == pytest.approx(stats.logistic.cdf([middle - width, middle + width]))


def test_a_model_of_the_other_sites_is_counted_at_each_site():
    from study_new_site import right_rows

    X, y = np.zeros((6, 1)), np.array([0, 0, 1, 1, 1, 0])
    model = DummyClassifier()
    assert right_rows(model, X, y, np.array([0, 1, 2]), np.array([3, 4]), np.array([5])) == [0, 1]
    assert right_rows(model, X, y, np.array([2, 3]), np.array([4, 5]), np.array([0])) == [1, 0]


def test_choices():
    from study_new_site import LOWER_END, choices

    sizes = np.full(4, 100)
    right = np.array([[50, 50, 50, 50], [95, 95, 95, 60], [85, 84, 86, 85]])
    found = choices(right, sizes, np.array([0.5, 0.6, 0.8]))
    assert found["accuracy"] == 60
    assert found[LOWER_END] == found["lower end of all candidates"] == 80
    alone = choices(right[:1], sizes, np.array([0.5]))  # nothing is above chance
    assert alone[LOWER_END] == 50


def test_the_simulation_has_a_line_for_each_kind_of_sites(monkeypatch):
    import study_new_site as study

    monkeypatch.setattr(study, "N_SITES", (3, 4))
    found = study.simulation(n_draws=20)
    assert len(found) == 2 * len(study.SIZES) * 2 * len(study.SPREADS)
    held = found[[name for name in found if name.startswith("holds")]]
    assert ((held >= 0) & (held <= 1)).all(axis=None)
    # The mean's error says nothing of the next site.
    assert (found[f"holds: {study.MEAN}"] < found[f"holds: {study.OURS}"]).mean() > 0.9
