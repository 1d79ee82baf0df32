"""The command line: what it prints, what it reads, and how it refuses."""

import json
import os
import pickle
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pa_select
from pa_select import posterior_agreement
from pa_select.command_line.files import read

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, 60)
A = np.round(2 * np.eye(3)[Y] + RNG.normal(size=(60, 3)), 3)
B = np.round(A + RNG.normal(size=(60, 3)), 3)
UNIFORM, MARGINAL = (posterior_agreement(A, B, prior=prior) for prior in ("uniform", "marginal"))
NAMES = ["cat", "dog", "eel"]

# Whoever reads a file of another's must not run what is in it.
EXECUTED = []


class Pickled:
    def __reduce__(self):
        return EXECUTED.append, ("unpickled",)


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", A)
    np.save("b.npy", B)
    yield tmp_path
    assert not EXECUTED


def softmax(scores):
    return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)


def strict(text):
    def refuse(constant):
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


def test_text_says_what_the_result_says(run):
    for prior, expected in ((), MARGINAL), (("--prior", "uniform"), UNIFORM):
        status, out, error = run("score", "a.npy", "b.npy", *prior)
        assert (status, error) == (0, "")
        # Both agreements are there, the one of --prior first; each says what it is for.
        lines = [
            f"{one.score:.4f} +- {one.standard_error:.2g} nats per pair, of at most 1.0986 {what}"
            for one, what in (
                (MARGINAL, "(marginal prior, for ranking models)"),
                (UNIFORM, "(uniform prior, the papers' metric)"),
            )
        ]
        found = [line[16:] for line in out.splitlines()[:2]]
        assert found == (lines[::-1] if prior else lines)
        assert out.startswith("agreement ")
        assert f"beta            {expected.beta:.4g}," in out
        assert f"{expected.agreement_rate:.2%} of 60 pairs" in out


def test_json_has_the_fields_of_the_result(run):
    status, out, error = run("score", "a.npy", "b.npy", "--json", "--prior", "marginal")
    assert (status, error) == (0, "")
    found = strict(out)
    for name, value in found.items():
        assert value == pytest.approx(getattr(MARGINAL, name), abs=1e-9), name
    assert set(found) == {f for f in vars(MARGINAL)} - {"terms", "source", "failure", "path"}
    wide = strict(run("score", "a.npy", "b.npy", "--tol", "5", "--json")[1])
    assert 1e-6 < wide["gap"] <= 5


def test_json_without_numbers_for_infinity_and_nan(run):
    np.save("one.npy", A[:1])
    found = strict(run("score", "one.npy", "one.npy", "--json")[1])
    assert found["beta"] == "Infinity"
    assert float(found["beta"]) == np.inf
    assert found["standard_error"] is None


def save_parquet(path, frame):
    pytest.importorskip("pyarrow")
    frame.to_parquet(path)


WRITERS = {
    "floats.npy": lambda path, x: np.save(path, x),
    "float32.npy": lambda path, x: np.save(path, np.asfortranarray(x, np.float32)),
    "big_endian.npy": lambda path, x: np.save(path, x.astype(">f8")),
    "named.csv": lambda path, x: pd.DataFrame(x, columns=NAMES).to_csv(path, index=False),
    "index.csv": lambda path, x: pd.DataFrame(x, columns=NAMES).to_csv(path),
    "excel.csv": lambda path, x: pd.DataFrame(x, columns=NAMES).to_csv(
        path, index=False, encoding="utf-8-sig", lineterminator="\r\n", sep=";"
    ),
    "index_csv2.csv": lambda path, x: pd.DataFrame(x, columns=NAMES).to_csv(
        path, sep=";", decimal=","
    ),
    "tabs.tsv": lambda path, x: pd.DataFrame(x, columns=NAMES).to_csv(path, sep="\t"),
    "compressed.csv.gz": lambda path, x: pd.DataFrame(x, columns=NAMES).to_csv(path, index=False),
    # R's write.table has no cell above the names of rows.
    "r.txt": lambda path, x: Path(path).write_text(
        "\n".join(["cat dog eel", *(f'"p {i}" {" ".join(map(str, r))}' for i, r in enumerate(x))])
    ),
    "plain.parquet": lambda path, x: save_parquet(path, pd.DataFrame(x, columns=NAMES)),
    "nullable.parquet": lambda path, x: save_parquet(
        path, pd.DataFrame(x, columns=NAMES).convert_dtypes()
    ),
}


@pytest.mark.parametrize("file", WRITERS)
def test_every_format_gives_the_same(file, run):
    for name, x in (("one_", A), ("two_", B)):
        WRITERS[file](name + file, x)
    status, out, error = run("score", "one_" + file, "two_" + file, "--json")
    assert (status, error) == (0, "")
    assert strict(out)["score"] == pytest.approx(MARGINAL.score, abs=1e-6)
    assert strict(out)["n_classes"] == 3
    found = read("one_" + file, None)
    assert found.columns == (None if file.endswith(".npy") else NAMES)
    assert (found.rows is None) == (not file.startswith(("index", "tabs", "r.")))


def test_named_arrays_of_one_archive(run, refused):
    np.savez_compressed("all.npz", today=A, tomorrow=B)
    status, out, _ = run("score", "all.npz:today", "all.npz:tomorrow", "--json")
    assert status == 0
    assert strict(out)["score"] == pytest.approx(MARGINAL.score, abs=1e-9)
    assert refused("score", "all.npz", "b.npy").startswith("all.npz: expected one array, got tod")


def test_line_1_is_not_guessed(run, refused):
    np.savetxt("a.csv", A, delimiter=",")
    message = refused("score", "a.csv", "b.npy")
    assert message.startswith("a.csv: expected names in line 1, got ")
    found = strict(run("score", "a.csv", "b.npy", "--no-header", "--json")[1])
    assert found["score"] == pytest.approx(MARGINAL.score, abs=1e-12)
    pd.DataFrame(A).to_csv("numbered.csv", index=False)
    assert "got 0, 1, 2; use --header" in refused("score", "numbered.csv", "b.npy")
    found = strict(run("score", "numbered.csv", "b.npy", "--header", "--json")[1])
    assert found["score"] == pytest.approx(MARGINAL.score, abs=1e-9)


def test_files_are_mapped_and_not_changed(run):
    before = Path("a.npy").read_bytes()
    values = read("a.npy", None).values
    assert isinstance(values, np.memmap)
    assert not values.flags.writeable
    run("score", "a.npy", "b.npy")
    assert Path("a.npy").read_bytes() == before


def test_probabilities_are_recognised(run, refused):
    np.save("p.npy", softmax(A))
    np.save("q.npy", softmax(B))
    status, out, error = run("score", "p.npy", "q.npy", "--probabilities", "--json")
    assert (status, error) == (0, "")
    assert strict(out)["score"] == pytest.approx(MARGINAL.score, abs=1e-9)
    status, recognised, error = run("score", "p.npy", "q.npy", "--json")
    assert (status, recognised) == (0, out)
    assert error.startswith("pa-select: warning: p.npy, q.npy: read as probabilities")
    assert refused("score", "a.npy", "q.npy").startswith("q.npy: expected logits or log-prob")
    # Decisions are probabilities if another file of the model holds probabilities.
    np.save("decisions.npy", np.eye(3)[A.argmax(axis=1)])
    assert "decisions.npy, q.npy: read as" in run("score", "decisions.npy", "q.npy")[2]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8])
def test_probabilities_of_0_become_small_ones(dtype, run):
    p = np.eye(3)[Y].astype(dtype)
    q = p[:, [0, 2, 1]].copy()
    np.save("p.npy", p)
    np.save("q.npy", q)
    status, out, error = run("score", "p.npy", "q.npy", "--probabilities", "--json")
    assert (status, error) == (0, "")
    expected = posterior_agreement(*(np.log(np.maximum(x.astype(float), 1e-8)) for x in (p, q)))
    assert strict(out)["score"] == pytest.approx(expected.score, abs=1e-9)


@pytest.mark.parametrize("row", [[0.5, 0.6, 0.0], [1.5, -0.5, 0.0], [np.nan, 0.5, 0.5]])
def test_what_is_said_to_be_probabilities_is_checked(row, refused):
    p = softmax(A)
    p[2] = row
    np.save("p.npy", p)
    said = refused("score", "p.npy", "b.npy", "--probabilities")
    assert said.startswith("p.npy: expected probabilities")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_other_names_of_rows_and_columns(kind, refused, run):
    if kind == "parquet":
        pytest.importorskip("pyarrow")

    def save(frame, name):
        getattr(frame, f"to_{kind}")(f"{name}.{kind}")
        return f"{name}.{kind}"

    names = [f"p{i}" for i in range(60)]
    one, other = (pd.DataFrame(x, index=names, columns=NAMES) for x in (A, B))
    first = save(one, "one")
    renamed = save(other.rename({"p5": "p55 "}), "renamed")
    # A row that is in one file only must not hide that the others are in another order.
    turned = save(other.rename({"p5": "p60"})[::-1], "turned")
    for file in (renamed, turned):
        assert refused("score", first, file).startswith(f"{file}: expected the rows of {first} in")
    columns = save(other[["dog", "cat", "eel"]], "columns")
    assert refused("score", first, columns).startswith(f"{columns}: expected the columns of ")
    out = run("score", first, "b.npy")[1]
    assert re.search("^classes +3: cat, dog, eel$", out, re.M)
    # Without names, rows are taken by position.
    assert run("score", first, save(other.reset_index(drop=True), "numbered"))[0] == (
        0 if kind == "parquet" else 2
    )


def content(text):
    return lambda path: Path(path).write_bytes(text)


def saved_by(function, *values):
    def write(path):
        with open(path, "wb") as file:
            function(file, *values)

    return write


WRONG = [
    # the file, what is in it, what is said of it
    ("https://a.b/c.csv", lambda path: None, "expected a file that can be read"),  # not fetched
    ("x.xlsx", content(b"PK\x03\x04"), "expected a file of npy, npz, csv or parquet, got an xlsx"),
    ("x.csv", content(b""), "expected a file that numpy or pandas can read, got"),
    ("x.csv", content(b"u,v\n1,2\n1,x\n"), "expected numbers, got .* in column 'v'"),
    ("x.npy", saved_by(np.save, A[:, 0]), r"expected scores of shape .*, got shape \(60,\)"),
    ("x.npy", saved_by(np.save, A[:, :2]), "expected the 3 columns of a.npy, got 2 columns"),
    ("x.npy", saved_by(np.save, np.array([[Pickled()]])), "Python objects"),
    ("x.pkl", content(pickle.dumps(Pickled())), "expected"),
]


@pytest.mark.parametrize(("file", "write", "said"), WRONG)
def test_wrong_files_are_named(file, write, said, refused):
    write(file)
    assert re.match(f"{file}: .*({said})", refused("score", "a.npy", file))


def test_a_computation_that_fails(run, monkeypatch):
    monkeypatch.setattr("pa_select.solver.branch_and_bound.MAX_EVALUATIONS", 1)
    status, out, error = run("score", "a.npy", "b.npy")
    assert (status, out) == (1, "")
    assert error.startswith("pa-select: error: the computation failed: ")


def module(*arguments):
    return [sys.executable, "-m", "pa_select", *arguments]


def test_the_module_runs_and_help_needs_no_torch():
    code = "import sys; sys.modules['torch'] = None; from pa_select.__main__ import main; main()"
    for name in ("score", "expect"):
        found = subprocess.run(
            [sys.executable, "-c", code, name, "--help"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "exit status:" in found.stdout
    version = subprocess.run(module("--version"), capture_output=True, text=True, check=True)
    assert version.stdout == f"pa-select {pa_select.__version__}\n"


def test_a_reader_that_goes_away_is_no_error():
    read_end, write_end = os.pipe()
    os.close(read_end)
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    found = subprocess.run(
        module("score", "a.npy", "b.npy"), stdout=write_end, stderr=subprocess.PIPE, env=buffered
    )
    os.close(write_end)
    assert (found.returncode, found.stderr) == (141, b"")


def words(text):
    """The words of a text with None for numbers, and the numbers."""
    parts = [part.rstrip(",;%") for part in text.split()]
    number = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")
    return (
        [None if number.fullmatch(part) else part for part in parts],
        [float(part) for part in parts if number.fullmatch(part)],
    )


def test_the_documentation_shows_what_is_printed(run):
    page = (Path(pa_select.__file__).parents[1] / "docs" / "score.rst").read_text()
    blocks = re.findall(r"\.\. code-block:: (\w+)\n\n((?:    .*\n|\n)+)", page)
    shown = 0
    for language, block in blocks:
        text = textwrap.dedent(block).strip()
        if language == "python":
            exec(compile(text, "score.rst", "exec"), {})
        for call in re.split(r"^\$ ", text, flags=re.M)[1:] if language == "console" else []:
            line, _, expected = call.replace("\\\n", "").partition("\n")
            name, *arguments = shlex.split(line)
            assert name == "pa-select"
            status, out, error = run(*arguments)
            (said, numbers), (wanted, figures) = words(error + out), words(expected)
            assert said == wanted
            # What is printed as 7e-06 is rounding, and how far the bounds happened to meet.
            assert numbers == pytest.approx(figures, rel=1e-3, abs=2e-5)
            assert status == (2 if "error:" in expected else 0)
            shown += 1
    assert shown == 2


def test_an_infinite_temperature_does_not_mean_that_all_pairs_agree(run):
    # The second sample never decides: half of what the first one says meets a tie.
    np.save("tied.npy", [[5.0, 5.0, 0.0]] * 4)
    status, text, _ = run("score", "tied.npy", "tied.npy")
    assert status == 0
    assert "beta            inf" in text
    assert "50.00% of 4 pairs" in text
    assert "all pairs agree" not in text
