"""The study of other tools runs, with stand-ins and with the packages if they are installed."""

import numpy as np
import pytest

STUDY = "study_other_tools"


@pytest.fixture
def stand_ins(study, monkeypatch):
    """What the packages would say, in one line each."""

    def confidence(model, X_labelled, y_labelled, X_new):
        return model.predict_proba(X_new).max(axis=1).mean()

    def same_error(model, X_labelled, y_labelled, X_new):
        return -study.errors_of([model], X_labelled, y_labelled)[0]

    def moved(X_old, X_new):
        return np.mean(np.abs(X_new.mean(0) - X_old.mean(0)) > 0.5 * X_old.std(0))

    def largest(model, X_labelled, y_labelled, *of_rows):
        found = [model.predict_proba(X) for X in of_rows]
        return [np.eye(p.shape[1], dtype=bool)[p.argmax(axis=1)] for p in found]

    monkeypatch.setattr(study, "estimated_by_cbpe", confidence)
    monkeypatch.setattr(study, "estimated_by_dle", same_error)
    monkeypatch.setattr(study, "share_of_drifted_columns", moved)
    monkeypatch.setattr(study, "prediction_sets", largest)


@pytest.mark.filterwarnings("ignore:X_val. expected rows:UserWarning")
@pytest.mark.filterwarnings("ignore::scipy.stats.ConstantInputWarning")  # few rows
@pytest.mark.usefixtures("stand_ins")
def test_tables_have_what_was_measured(study):
    import pandas as pd

    names = ["iris, two rulers", "wine, drifting", "breast cancer, rounded"]
    data = pd.concat([study.measure(name, 0) for name in names], ignore_index=True)
    table = study.table_of_estimates(data).set_index("estimate")
    away = 100 * (data["expected"] - data["truth"])
    off = np.abs(away).groupby(data["problem"]).mean().mean()
    assert table.loc["expected_score", "off by"].startswith(f"{off:.1f} +- ")
    assert table.loc["expected_score", "mean error"].startswith(f"{away.mean():.1f} +- ")
    assert table.loc["evidently, share of drifted columns", "off by"] == ""
    coverage = study.table_of_coverage(data).set_index("rows")
    # The sets of the stand-in are the predicted classes.
    inside, size = coverage.loc["other site", ["labels in the set [%]", "classes in a set"]]
    assert inside.startswith(f"{100 * data['truth'].mean():.1f} +- ")
    assert size == "1.00 +- 0.00"
