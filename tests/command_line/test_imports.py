"""What the command line imports: the less, the sooner it answers."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

RNG = np.random.default_rng(0)
A = RNG.normal(size=(60, 3))
B = A + RNG.normal(size=(60, 3))


SCORES = [
    ["a.npy", "b.npy"],
    ["a.npy", "b.npy", "--prior", "marginal", "--json"],
    ["p.npy", "p.npy", "--probabilities"],
]
WRONG = [
    (["--help"], 0, ""),
    (["score"], 2, "the following arguments are required"),
    (["score", "a.npy", "b.npy", "--tol", "0"], 2, "--tol: expected at least 1e-12 nats"),
    (["score", "a.npy", "b.npy", "--probabilities"], 2, "a.npy: expected probabilities"),
    (["score", "a.npy", "nan.npy"], 2, "nan.npy: expected finite scores .* got nan in row 4"),
    (["score", "a.npy", "empty.npy"], 2, "empty.npy: .* got only -inf in row 4"),
    (["expect", "--help"], 0, ""),
    (["expect", "a.npy", "b.npy", "--labels", "y.npy"], 2, "expected a, b and --validation of"),
    (
        ["expect", "a.npy", "b.npy", "--validation", "a.npy", "--labels", "y.npy"],
        2,
        "y.npy: expected one label for each of 60 rows",
    ),
]
# One process runs the commands one after the other, and says after each of them what it has
# imported until then: first the wrong ones, which need the least.
SCRIPT = """
import contextlib, gc, io, json, sys
from pa_select.command_line.command import main

def run(arguments):
    sys.argv[1:] = arguments
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        try:
            status = main()
        except SystemExit as stop:
            status = stop.code
    return list(sys.modules), status, said.getvalue()

before = gc.get_freeze_count()  # of Python itself, some of whose versions freeze objects
frozen = []
wrong = [run(arguments) for arguments in {wrong!r}]
with contextlib.redirect_stdout(io.StringIO()):
    assert main(["score", "a.npy", "b.npy"]) == 0
frozen.append([gc.get_freeze_count() - before, gc.isenabled()])
scores = [run(["score", *arguments]) for arguments in {scores!r}]
frozen.append([gc.get_freeze_count() - before, gc.isenabled()])
print(json.dumps([wrong, scores, frozen]))
"""


def write_files():
    np.save("a.npy", A)
    np.save("b.npy", B)
    np.save("p.npy", np.full((60, 3), 1 / 3))


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files()


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What a process had imported after each command, its exit status and its error output.

    For wrong commands and for others; and how many objects the collector no longer looks at.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("commands"))
        write_files()
        for name, value in (("nan.npy", np.nan), ("empty.npy", -np.inf)):
            scores = B.copy()
            scores[4] = value
            np.save(name, scores)
        np.save("y.npy", np.zeros(9))
        code = SCRIPT.format(wrong=[arguments for arguments, *_ in WRONG], scores=SCORES)
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("i", range(len(SCORES)), ids=[" ".join(s) for s in SCORES])
def test_a_score_needs_torch_alone(found, i):
    modules, status, _ = found[1][i]
    assert status == 0
    assert "torch" in modules
    assert not {*modules} & {"sklearn", "scipy", "pandas", "skorch", "joblib", "matplotlib"}


@pytest.mark.parametrize("i", range(len(WRONG)), ids=[" ".join(w[0])[:60] for w in WRONG])
def test_wrong_input_is_told_before_torch_is_imported(found, i):
    _, status, said = WRONG[i]
    modules, got, error = found[0][i]
    assert got == status
    assert "torch" not in modules
    assert not {*modules} & {"sklearn", "scipy", "pandas"}
    assert len(error.splitlines()) == bool(said) or "usage: " in error
    assert re.search(said, error)


def test_only_the_process_of_the_command_is_changed(found):
    (given, enabled), (own, still_enabled) = found[2]  # given arguments, and its own
    assert given == 0
    assert own > 0
    assert enabled
    assert still_enabled
