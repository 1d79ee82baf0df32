"""What the command line imports: the less, the sooner it answers."""

import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from pa_select import posterior_agreement
from pa_select.command_line.command import main

RNG = np.random.default_rng(0)
A = RNG.normal(size=(60, 3))
B = A + RNG.normal(size=(60, 3))


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", A)
    np.save("b.npy", B)
    np.save("p.npy", np.full((60, 3), 1 / 3))


def imported(*arguments):
    """What a process has imported after a command, its exit status and its error output."""
    code = (
        "import sys\n"
        "from pa_select.command_line.command import main\n"
        f"sys.argv[1:] = {list(arguments)!r}\n"
        "try:\n"
        "    status = main()\n"
        "except SystemExit as stop:\n"
        "    status = stop.code\n"
        "print('\\n' + ' '.join(sys.modules))\n"
        "sys.exit(status)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return set(found.stdout.splitlines()[-1].split()), found.returncode, found.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["a.npy", "b.npy"],
        ["a.npy", "b.npy", "--prior", "marginal", "--json"],
        ["p.npy", "p.npy", "--probabilities"],
    ],
)
def test_a_score_needs_torch_alone(arguments):
    modules, status, _ = imported("score", *arguments)
    assert status == 0
    assert "torch" in modules
    assert not modules & {"sklearn", "scipy", "pandas", "skorch", "joblib", "matplotlib"}


WRONG = [
    (["--help"], 0, ""),
    (["score"], 2, "the following arguments are required"),
    (["score", "a.npy", "none.npy"], 2, "No such file or directory"),
    (["score", "a.npy", "wrong.npy"], 2, r"wrong.npy: expected the shape of a.npy"),
    (["score", "a.npy", "b.npy", "--tol", "0"], 2, "--tol: expected at least 1e-12 nats"),
    (["score", "a.npy", "b.npy", "--probabilities"], 2, "a.npy: expected probabilities"),
    (["score", "a.npy", "nan.npy"], 2, "nan.npy: expected finite scores .* got nan in row 4"),
    (["score", "a.npy", "empty.npy"], 2, "empty.npy: .* got only -inf in row 4"),
    (["score", "a.npy", "none.csv"], 2, "none.csv: expected at least one row"),
    (["score", "one.csv", "one.csv"], 2, "one.csv: expected a column for each of at least 2"),
    (["score", "a.npy", "b.npy", "--labels", "y.csv"], 2, "y.csv: expected one label for each"),
    (["expect", "--help"], 0, ""),
    (["expect", "a.npy", "b.npy"], 2, "the following arguments are required: --validation"),
    (
        ["expect", "a.npy", "b.npy", "--validation", "a.npy", "--labels", "y.csv"],
        2,
        "y.csv: expected one label for each of 60 rows",
    ),
]


@pytest.mark.parametrize(("arguments", "status", "said"), WRONG, ids=lambda x: str(x)[:60])
def test_wrong_input_is_told_before_torch_is_imported(arguments, status, said):
    np.save("wrong.npy", B[:9])
    for name, value in (("nan.npy", np.nan), ("empty.npy", -np.inf)):
        scores = B.copy()
        scores[4] = value
        np.save(name, scores)
    pd.DataFrame(columns=["u", "v"]).to_csv("none.csv", index=False)
    np.savetxt("one.csv", B[:, 0])
    np.savetxt("y.csv", np.zeros(9))
    modules, got, error = imported(*arguments)
    assert got == status
    assert "torch" not in modules
    assert not modules & {"sklearn", "scipy", "pandas"}
    assert len(error.splitlines()) == bool(said)
    assert re.search(said, error)


def test_only_the_process_of_the_command_is_changed():
    code = (
        "import gc, sys\n"
        "from pa_select.command_line.command import main\n"
        "sys.argv[1:] = ['score', 'a.npy', 'b.npy']\n"
        "assert main(sys.argv[1:]) == 0 and gc.get_freeze_count() == 0 and gc.isenabled()\n"
        "assert main() == 0 and gc.get_freeze_count() > 0 and gc.isenabled()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_constant_predictions_are_noticed(capsys):
    scores = B.copy()
    scores[:58, 1] = 9
    np.save("constant.npy", scores)
    with pytest.warns(UserWarning, match="of one class"):
        posterior_agreement(scores, scores)
    assert main(["score", "constant.npy", "constant.npy"]) == 0
    assert capsys.readouterr().err.startswith(
        "pa-select: warning: constant.npy and constant.npy: 9"
    )
    assert main(["score", "constant.npy", "constant.npy", "--prior", "marginal"]) == 0
    assert capsys.readouterr().err == ""


def test_decisions_are_no_probabilities(capsys):
    np.save("decisions.npy", np.eye(3)[A.argmax(axis=1)])
    assert main(["score", "decisions.npy", "b.npy"]) == 0
    assert capsys.readouterr().err == ""
