"""The papers' experiments in miniature run."""

import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run an example with options, and read the table that it writes."""
    pd = pytest.importorskip("pandas")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")

    def run(name, *options):
        table = tmp_path / "table.csv"
        monkeypatch.setattr(sys, "argv", [name, *options, "--table", str(table)])
        runpy.run_path(str(EXAMPLES / name))
        matplotlib.pyplot.close("all")
        return pd.read_csv(table)

    return run


def test_words_that_amplify_raise_the_accuracy_and_lower_the_agreement():
    pd = pytest.importorskip("pandas")
    table = pd.read_csv(ROOT / "docs" / "figures" / "loaded_words.csv")
    assert len(table) == 20
    for (words, _), curve in table.groupby(["words", "estimator"]):
        assert curve["pa"].is_monotonic_decreasing
        change = curve["shifted_accuracy"].diff().dropna()
        assert (change >= 0).all() if words == "amplify" else (change < 0).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_epochs_of_lisa_are_selected(run):
    table = run(
        "plot_epoch_selection_under_shift.py", "--seeds=1", "--epochs=3", "--learners=LISA"
    )
    assert table["learner"].tolist() == ["LISA"] * 4
    assert table["thesis: PA"].notna().tolist() == [True, True, False, False]
    assert table["accuracy"].between(0, 100).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_measures_of_nets_under_attack_are_compared(run):
    table = run("plot_distances_under_attack.py", "--seeds=2", "--epochs=2")
    assert table["measure"].is_unique
    assert len(table) == 9
    for column in ("PGD: robustness", "PGD: shares"):
        assert table[column].str.split(" ").str[0].astype(float).between(-1, 1).all()
    assert table["PGD: W"].between(0, 1).all()
    # The nets are the same in both columns, so labels of the measured images rank them well.
    with_labels = table.set_index("measure")["PGD: robustness"]["AFR_T (with labels)"]
    assert float(with_labels.split(" ")[0]) > 0
