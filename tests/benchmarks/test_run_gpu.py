"""The command that measures on a GPU, tried in a tiny size, since time on a GPU is dear."""

import csv
import runpy
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parent / "run_gpu.py"


@pytest.mark.slow
def test_the_command_writes_its_tables(tmp_path, capfd):
    pytest.importorskip("pandas")
    if not (SCRIPT.parents[2] / "docs").is_dir():
        pytest.skip("needs the source tree")
    runpy.run_path(str(SCRIPT))["main"](["--tiny", f"--output={tmp_path}", "--limit=500"])
    printed = capfd.readouterr().out
    assert ("There is no CUDA device" in printed) != torch.cuda.is_available()
    solves, nets = (
        list(csv.DictReader((tmp_path / name).read_text().splitlines()))
        for name in ("gpu.csv", "gpu_training.csv")
    )
    # First the table that is predicted, then the less precise scores.
    assert [(row["prior"], row["type"]) for row in solves] == [
        ("uniform", "float64"),
        ("marginal", "float64"),
        ("uniform", "float32"),
        ("uniform", "bfloat16"),
    ]
    assert all(float(row["ms predicted"]) > 0 for row in solves[:2])
    steps = [(row["defence"], row["epoch or attack"].split()[0]) for row in nets]
    for defence in ("adversarial", "undefended"):
        assert sorted(steps.count((defence, step)) for step in ("1", "PGD", "FMN")) == [1, 1, 3]
    for row in solves + nets:
        assert row["torch"] == torch.__version__
        assert row["device"]
        assert row["driver"]
