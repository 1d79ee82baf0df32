"""The studies of epochs run at their smallest size."""

import sys

import pytest


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_tables_of_collapses_and_attacks(monkeypatch, tmp_path):
    pd = pytest.importorskip("pandas")
    import study_epochs

    few = {name: study_epochs.CAUSES[name] for name in list(study_epochs.CAUSES)[:3]}
    monkeypatch.setattr(study_epochs, "CAUSES", few)
    files = [tmp_path / name for name in ("collapse.csv", "attacks.csv")]
    options = f"--seeds 2 2 --epochs 3 3 --collapse {files[0]} --attacks {files[1]}".split()
    options += ["--memory", str(tmp_path / "memory")]
    monkeypatch.setattr(sys, "argv", ["study_epochs.py", *options])
    study_epochs.main()
    collapses, attacks = map(pd.read_csv, files)
    assert collapses["normalisation"].tolist() == list(few)
    assert collapses["collapsed: PA"].str.endswith(" of 10").all()
    # Each of the five settings chooses from the same epochs.
    gain = attacks.set_index("rule")["attacked"].str.split(" ").str[0].astype(float)
    assert gain["best epoch"] == gain.drop("accuracy (percent)").max()
    assert 50 < float(attacks["clean"][0]) <= 100
