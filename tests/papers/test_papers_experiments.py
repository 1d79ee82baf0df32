"""The papers' experiments in miniature run."""

import runpy
import sys
from pathlib import Path

import pytest

pd = pytest.importorskip("pandas")
ROOT = Path(__file__).parents[2]
PAPERS = ROOT / "examples" / "papers"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_epochs_are_selected_and_their_trainings_remembered(monkeypatch, tmp_path):
    pytest.importorskip("mlxtend")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    script, memory = "epoch_selection_under_shift.py", tmp_path / "memory"
    settings, written = tmp_path / "settings.csv", tmp_path / "table.csv"
    options = ["--seeds=1", "--epochs=3", "--learners=LISA", f"--memory={memory}"]
    options += [f"--settings={settings}", f"--table={written}"]
    monkeypatch.setattr(sys, "argv", [script, *options])

    def run():
        runpy.run_path(str(PAPERS / script))
        matplotlib.pyplot.close("all")
        return pd.read_csv(written)

    table = run()
    assert table["learner"].tolist() == ["LISA"] * 2
    assert table["thesis: PA"].notna().tolist() == [True, False]
    assert table["accuracy"].between(0, 100).all()
    by_setting = pd.read_csv(settings)
    assert by_setting.groupby("experiment").size().tolist() == [5, 5]
    kept = {path: path.stat().st_mtime_ns for path in memory.rglob("output.pkl")}
    assert len(kept) == 6
    pd.testing.assert_frame_equal(run(), table)
    assert {path: path.stat().st_mtime_ns for path in memory.rglob("output.pkl")} == kept


@pytest.fixture
def by_width():
    return pd.read_csv(ROOT / "docs" / "figures" / "double_descent.csv", index_col="width")


def test_the_error_descends_twice_and_agreement_is_lowest_where_it_is_highest(by_width):
    error = by_width["test error"]
    assert error.idxmax() == 300
    assert error.loc[:300].idxmin() == 70
    assert error.loc[300:].is_monotonic_decreasing
    assert (by_width["training error"].loc[300:] == 0).all()
    for kind in ("halves", "measurements"):
        assert by_width[f"agreement, marginal prior, {kind}"].idxmin() == 300
        assert by_width[f"beta, {kind}"].idxmin() == 300


def test_equally_accurate_classifiers_agree_differently(by_width):
    """Of two rows with nearly the same error the narrow one has more agreement of halves."""
    narrow, wide = by_width.loc[40], by_width.loc[4000]
    assert narrow["test error"] == pytest.approx(wide["test error"], abs=0.005)
    of_halves, measured = (f"agreement, marginal prior, {x}" for x in ("halves", "measurements"))
    assert narrow[of_halves] > wide[of_halves] + 0.3
    assert narrow[measured] < wide[measured] - 0.2


def test_accuracy_of_54_networks_before_and_after():
    stats = pytest.importorskip("scipy.stats")
    networks = pd.read_csv(PAPERS / "data/robustness_measures/networks.csv.gz", index_col=0)
    is_vgg = networks.index.str.startswith("vgg")
    plain, vgg = networks[~is_vgg], networks[is_vgg]
    assert (len(plain), len(vgg)) == (48, 6)
    line = stats.linregress(networks["accuracy"], networks["test_101_accuracy"])
    assert line.slope == pytest.approx(1.06, abs=0.01)
    for nets, shift, low, high in (
        (plain, "test_101", 0.9, 1),
        *((plain, shift, 0.3, 0.4) for shift in ("fgsm", "cw")),
        *((networks, shift, 0.7, 0.77) for shift in ("fgsm", "cw")),
    ):
        fitted = stats.linregress(nets["accuracy"], nets[f"{shift}_accuracy"])
        assert low < fitted.rvalue**2 < high
    for shift in ("test_101", "fgsm", "pgd", "bim", "cw"):
        column = f"{shift}_accuracy"
        assert (vgg[column].min() > plain[column].max()) == (shift != "test_101")
        assert stats.shapiro(networks[column]).pvalue < 0.001
        assert stats.shapiro(plain[column]).pvalue > 0.05


def test_agreement_predicts_the_losses_of_the_nets_of_the_study():
    table = pd.read_csv(ROOT / "docs" / "figures" / "small_nets_study.csv", index_col=0)
    tau = table.apply(lambda column: column.str.split(" ").str[0].astype(float))
    for shift in ("noise", "turned", "PGD"):
        lost, gained = tau.loc[f"lost accuracy, {shift}"], tau.loc[f"gained log-loss, {shift}"]
        assert lost["agreement, marginal prior"] < -0.4 < lost["entropy"]
        without_labels = gained.drop("with labels").abs()
        assert without_labels.idxmax() == "inverse temperature"
