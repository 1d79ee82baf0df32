"""The study of language identifiers runs, with models of the test and with those published."""

import sys

import numpy as np
from numpy.testing import assert_allclose

STUDY = "study_language_identifiers"


def majority(text):
    """Count all letters: few edits change the answer seldom."""
    return {"a": text.count("a") + 1, "b": text.count("b") + 1}


def first_letter(text):
    """Read one letter: its edit changes the answer."""
    return {"a": 9, "b": 1} if text.startswith("a") else {"a": 1, "b": 9}


def test_languages_without_a_score_share_the_probability(study):
    models = sys.modules["published_identifiers"]
    model = models.Identifier(lambda text: {"b": 3.0, "c": 1.0} if text else {}, ["a", "b", "c"])
    assert_allclose(model.predict_proba(["x", ""]), [[0, 0.75, 0.25], [1 / 3] * 3])
    assert model.predict(["x"]).tolist() == ["b"]


def test_errors_count_each_group_once(study):
    values, groups = np.array([0.0, 0.0, 100.0, 100.0]), np.arange(4)
    alone = study.with_error(values, groups)
    assert alone == f"50.0 +- {values.std(ddof=1) / 2:.1f}"
    assert study.with_error(np.repeat(values, 9), np.repeat(groups, 9)) == alone


def test_the_model_that_reads_all_letters_withstands_more(study):
    models = {
        name: sys.modules["published_identifiers"].Identifier(identify, ["a", "b"])
        for name, identify in (("majority", majority), ("first letter", first_letter))
    }
    labels = np.repeat(["a", "b"], 40)
    texts = np.array([5 * label for label in labels], dtype=object)
    table, pairs = study.measure(models, texts, labels, np.arange(80) % 40, (3,), n_draws=2)
    assert table["typing errors"].tolist() == [0, 3, 0, 3]
    for column in ("right, percent", "unchanged, percent"):
        assert (table[column][::2] == "100.0 +- 0.0").all()
    changes = {column: float(pairs[column][0].split()[0]) for column in pairs.columns[2:]}
    assert changes["lost, points"] < 0
    assert changes["right, points"] == changes["unchanged, points"] > 0
    assert changes["agreement, nats"] > 0
