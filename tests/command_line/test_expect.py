"""The accuracy at another site, from saved scores."""

import json
import re
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, get_scorer, make_scorer

from pa_select import expected_score
from pa_select.command_line import expect
from pa_select.command_line.output import models_as_text
from pa_select.scores.candidate_posterior import scores_on_random_folds
from pa_select.scores.precomputed import RecordedClassifier
from pa_select.two_sites.classification import Classification
from pa_select.two_sites.trained import of_outputs

X, Y = make_classification(400, 6, n_informative=4, n_redundant=0, n_classes=3, random_state=0)
MODEL = LogisticRegression().fit(X[:150], Y[:150])
X_A, X_VAL, Y_VAL = X[150:200], X[200:], Y[200:]
X_B = X_A + np.random.default_rng(0).normal(size=X_A.shape)
SCORES = {
    name: MODEL.decision_function(rows) for name, rows in [("a", X_A), ("b", X_B), ("val", X_VAL)]
}
EXPECTED = expected_score(MODEL, X_A, X_B, X_VAL, Y_VAL)
FILES = ["a.npy", "b.npy", "--validation", "val.npy", "--labels", "y.npy"]
CLASSES = ["cat", "dog", "eel"]
NAMES = ["plain", "shrunk"]


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, scores in SCORES.items():
        np.save(f"{name}.npy", scores)
    np.save("y.npy", Y_VAL)


@pytest.fixture
def run(run):
    return partial(run, "expect")


def replaced(position, name):
    return [*FILES[:position], name, *FILES[position + 1 :]]


def test_text_says_what_expected_score_says(run):
    before = Path("a.npy").read_bytes()
    status, out, error = run(*FILES)
    assert (status, error) == (0, "")
    assert Path("a.npy").read_bytes() == before
    for line in (
        f"expected accuracy   {EXPECTED.score:.4f} \\+- {EXPECTED.standard_error:.2g} at",
        f"interval            {EXPECTED.low:.4f} to {EXPECTED.high:.4f}, also",
        f"validation accuracy {EXPECTED.validation_score:.4f} on 200 labelled rows",
        f"disagreement        {EXPECTED.disagreement:.2%} of 50 pairs",
        f"beta                {EXPECTED.beta:.4g}, ",
        "classes             3$",
    ):
        assert re.search(f"^{line}", out, re.M), line


def test_json_has_the_fields_of_expected_score(run):
    found = json.loads(run(*FILES, "--json")[1])
    assert found == pytest.approx(EXPECTED._asdict())


def test_probabilities(run):
    for name, rows in [("a", X_A), ("b", X_B), ("val", X_VAL)]:
        np.save(f"{name}.npy", MODEL.predict_proba(rows))
    status, out, error = run(*FILES, "--probabilities", "--json")
    assert (status, error) == (0, "")
    assert json.loads(out)["score"] == pytest.approx(EXPECTED.score, abs=1e-4)
    assert "a.npy, b.npy, val.npy: read as probabilities" in run(*FILES)[2]


def test_models_may_have_logits_and_probabilities(run):
    models = []
    for name, save in [("first", MODEL.predict_log_proba), ("second", MODEL.predict_proba)]:
        for site, rows in [("a", X_A), ("b", X_B), ("val", X_VAL)]:
            np.save(f"{name}_{site}.npy", save(rows))
        models += ["--model", name, *(f"{name}_{site}.npy" for site in ("a", "b", "val"))]
    status, out, error = run(*models, "--labels", "y.npy", "--json")
    assert status == 0
    assert re.findall("warning: (.*): read as", error) == [
        "second_a.npy, second_b.npy, second_val.npy"
    ]
    first, second = json.loads(out).values()
    errors = sorted(one.pop("difference_standard_error") for one in (first, second))
    assert errors[0] == 0 < errors[1]
    assert second == pytest.approx(first, abs=1e-4)


def test_names_of_classes_and_rows(run, refused):
    for name, scores in SCORES.items():
        index = [f"{'new' if name == 'val' else 'object'} {i}" for i in range(len(scores))]
        pd.DataFrame(scores, index, CLASSES).to_csv(f"{name}.csv")
    labels = pd.Series(np.array(CLASSES)[Y_VAL], index)
    labels.to_csv("y.csv")
    named = ["a.csv", "b.csv", "--validation", "val.csv", "--labels", "y.csv"]
    status, out, error = run(*named)
    assert (status, error) == (0, "")
    assert f"{EXPECTED.score:.4f}" in out
    assert re.search("^classes +3: cat, dog, eel$", out, re.M)
    # Names of any of the files are names of the columns.
    status, out, _ = run("a.npy", "b.npy", *named[2:])
    assert (status, f"{EXPECTED.score:.4f}" in out) == (0, True)
    labels[::-1].to_csv("y.csv")
    assert refused(*named).startswith("y.csv: expected the rows of val.csv in the same order")
    pd.read_csv("b.csv", index_col=0)[::-1].to_csv("b.csv")
    assert refused(*named).startswith("b.csv: expected the rows of a.csv in the same order")


@pytest.mark.parametrize(
    ("position", "value", "said"),
    [
        (1, SCORES["b"][1:], r"wrong.npy: expected the shape of a.npy, \(50, 3\), got \(49, 3\)"),
        (3, SCORES["val"][1:], r"y.npy: expected one label for each of 199 rows, got shape \(200"),
    ],
)
def test_wrong_files_are_named_before_work_is_lost(position, value, said, refused, monkeypatch):
    monkeypatch.setattr(expect, "quick_imports", None)
    np.save("wrong.npy", value)
    assert re.match(said, refused(*replaced(position, "wrong.npy")))


def test_few_pairs_and_the_same_scores_are_noticed(run):
    for name in "ab":
        np.save(f"few_{name}.npy", SCORES[name][:5])
    status, _, error = run("few_a.npy", "few_b.npy", *FILES[2:])
    assert (status, error.count("\n")) == (0, 1)
    assert error.startswith("pa-select: warning: few_a.npy and few_b.npy: expected at least 20")
    status, out, error = run("a.npy", "a.npy", *FILES[2:])
    assert (status, error.count("\n")) == (0, 1)
    assert error.startswith("pa-select: warning: a.npy: expected scores of other measurements")
    assert "0.00% of 50 pairs" in out


@pytest.fixture
def of_two():
    """Save the scores of a second model, and return the options and what Python says."""
    other = LogisticRegression(C=1e-3).fit(X[:150], Y[:150])
    options = ["--labels", "y.npy"]
    for name, model in (("plain", MODEL), ("shrunk", other)):
        options += ["--model", name]
        for rows, of_site in zip((X_A, X_B, X_VAL), ("a", "b", "val"), strict=True):
            np.save(f"{name}_{of_site}.npy", model.decision_function(rows))
            options.append(f"{name}_{of_site}.npy")
    models = {"plain": MODEL, "shrunk": other}
    return options, expected_score(models, X_A, X_B, X_VAL, Y_VAL)


def test_several_models_are_ranked(run, of_two):
    options, expected = of_two
    status, out, error = run(*options)
    assert (status, error) == (0, "")
    table, _, rest = out.partition("\n\n")
    header, *lines = table.splitlines()
    assert header.split()[0] == "model"
    assert rest.startswith("50 pairs, 200 labelled rows, 3 classes\n")
    ranked = sorted(expected, key=lambda name: -expected[name].score)
    assert [line.split()[:2] for line in lines] == [
        [name, f"{expected[name].score:.4f}"] for name in ranked
    ]
    found = json.loads(run(*options, "--json")[1])
    assert list(found) == list(expected)
    weights = {name: one.pop("weight") for name, one in found.items()}
    for name, one in expected.items():
        assert found[name] == pytest.approx(one._asdict())
    assert header.split()[-1] == "weight"
    assert [line.split()[-1] for line in lines] == [f"{weights[name]:.2f}" for name in ranked]
    assert sum(weights.values()) == pytest.approx(1)


def test_a_model_that_is_clearly_worse_has_no_weight_and_equal_ones_share_it(run):
    options = ["--labels", "y.npy"]
    for name in ("first", "second"):
        options += ["--model", name, "a.npy", "b.npy", "val.npy"]
    for name, scores in SCORES.items():
        np.save(f"turned_{name}.npy", scores[:, [1, 2, 0]])
    turned = ["--model", "turned", *(f"turned_{name}.npy" for name in ("a", "b", "val"))]
    found = json.loads(run(*options, *turned, "--json")[1])
    weights = {name: one["weight"] for name, one in found.items()}
    assert weights == pytest.approx({"first": 0.5, "second": 0.5, "turned": 0}, abs=1e-6)
    alone = run(*options[:7])[1]
    assert "weight" not in alone
    assert "weight" not in run(*options[:7], "--json")[1]


@pytest.mark.usefixtures("of_two")
def test_the_parts_are_folds_of_the_rows_with_halves_of_the_pairs():
    models = [[np.load(f"{name}_{rows}.npy") for rows in ("a", "b", "val")] for name in NAMES]
    recorded = zip(*models, strict=True)
    a, b, val = (
        [RecordedClassifier(np.arange(3), scores, scores.argmax(1)) for scores in of_models]
        for of_models in recorded
    )
    found = of_outputs(
        Classification(), NAMES, [val, a, b], Y_VAL, make_scorer(accuracy_score), "self"
    ).posterior()
    right = np.array([one.predicted == Y_VAL for one in val])
    folds, _ = scores_on_random_folds(make_scorer(accuracy_score), val, Y_VAL, False)
    assert found.scores_a.shape == (50 * 100, 2)  # halves, and pairs of folds of one repetition
    # Two halves of the pairs change the expected score by the same in opposite directions, so
    # that the sum of both parts tells what the rows change: nothing else, as each model is judged
    # by its own posteriors, and not shrunk towards those of others.
    both = found.scores_a[:100] / 40 + found.scores_b[:100] / 40
    pairs = [(i, j) for i, j in combinations(range(50), 2) if i // 5 == j // 5]
    of_rows = np.array([right[:, folds[i]].mean(1) + right[:, folds[j]].mean(1) for i, j in pairs])
    np.testing.assert_allclose(both - both.mean(0), of_rows - of_rows.mean(0), atol=1e-9)
    apart = found.scores_a[:100] / 40 - found.scores_b[:100] / 40
    assert np.ptp(apart, axis=0).min() > 0
    # The log-loss needs a row of every class in each fold.
    rows = np.r_[np.flatnonzero(Y_VAL == 2)[:1], np.flatnonzero(Y_VAL < 2)]
    few = [RecordedClassifier(np.arange(3), x.scores[rows], x.predicted[rows]) for x in val]
    given = NAMES, [few, a, b], Y_VAL[rows], get_scorer("neg_log_loss"), "self"
    assert of_outputs(Classification(), *given).posterior() is None


def test_one_labelled_row_has_no_parts(run, of_two):
    options, _ = of_two
    np.save("y.npy", Y_VAL[:1])
    for name in NAMES:
        np.save(f"{name}_val.npy", np.load(f"{name}_val.npy")[:1])
    status, out, _ = run(*options)
    assert status == 0
    assert "weight" not in out


@pytest.mark.parametrize(
    ("others", "last"),
    [
        ({"b": 0.8}, "9 classes"),
        ({"b": 0.8, "c": 0.87}, "c cannot be told from a"),
        ({"b": 0.88, "c": 0.87, "d": 0.89, "e": 0.86}, "d, b and c cannot be told from a"),
    ],
)
def test_models_that_cannot_be_told_from_the_best_are_named(others, last):
    models = {name: EXPECTED._replace(score=x) for name, x in {"a": 0.9, **others}.items()}
    alike = [name for name, score in others.items() if score > 0.865]
    assert models_as_text(models, alike, {}, 200, 9, None).splitlines()[-1].endswith(last)


def test_a_label_without_a_score_decides_nothing(run):
    scores = np.array(SCORES["val"])
    row = int(np.flatnonzero(scores.argmax(axis=1) != Y_VAL)[0])
    scores[row, Y_VAL[row]] = -np.inf
    np.save("val.npy", scores)
    status, out, error = run(*FILES, "--json")
    assert status == 0
    assert json.loads(out)["score"] == pytest.approx(EXPECTED.score, abs=0.01)
    assert error.startswith("pa-select: warning: val.npy: expected a score of each row's label")
    assert f"in 1 of 200 rows, the first in row {row}." in error
