"""The command line: what it prints, what it reads, and how it refuses."""

import gzip
import io
import json
import os
import pickle
import re
import shlex
import subprocess
import sys
import textwrap
import threading
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from papers.posteriors import decompose

import pa_select
from pa_select import posterior_agreement
from pa_select.command_line import command
from pa_select.command_line import files as command_files
from pa_select.command_line.command import main
from pa_select.command_line.files import read_table

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, 60)
A = np.round(2 * np.eye(3)[Y] + RNG.normal(size=(60, 3)), 3)
B = np.round(A + RNG.normal(size=(60, 3)), 3)
UNIFORM, MARGINAL = (posterior_agreement(A, B, prior=prior) for prior in ("uniform", "marginal"))

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
    np.save("y.npy", Y)
    yield tmp_path
    assert not EXECUTED


NAMES = ["cat", "dog", "eel"]


def softmax(scores):
    return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)


def strict(text):
    def refuse(constant):
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


def test_text_says_what_the_result_says(run):
    for prior, expected in ((), MARGINAL), (("--prior", "uniform"), UNIFORM):
        status, out, error = run("score", "a.npy", "b.npy", "--labels", "y.npy", *prior)
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
        for name, part in decompose(expected, Y).items():
            assert re.search(
                rf"^{name} +{part.n_pairs} +{part.total:.4f} +{part.share:.1%}$", out, re.M
            )


@pytest.mark.parametrize("ids", [range(60), range(1, 61), 10_000 + RNG.permutation(60)])
def test_a_column_of_ids_is_noticed(ids, run):
    for name, scores in (("a", A), ("b", B)):
        pd.DataFrame(scores, columns=NAMES).assign(id=ids).to_csv(f"{name}.csv", index=False)
    status, _, error = run("score", "a.csv", "b.csv")
    assert (status, error.count("\n")) == (0, 1)
    assert "a.csv, b.csv: column 'id' has another whole number in each row, but is read" in error
    # Votes are whole numbers, too, and may all differ, but not count the rows.
    votes = np.column_stack([ids, 2 * np.array(ids), ids])
    pd.DataFrame(votes, columns=NAMES).to_csv("votes.csv", index=False)
    counts = ids[0] < 2
    assert ("whole number" in run("score", "votes.csv", "votes.csv")[2]) == counts
    few = pd.DataFrame(A[:5], columns=NAMES).assign(id=ids[:5])
    few.to_csv("few.csv", index=False)
    assert ("whole number" in run("score", "few.csv", "few.csv")[2]) == counts


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (Y[:, None], "column 3 has a few whole numbers, as labels have"),
        (1 + Y[:, None], "column 3 has a few whole numbers, as labels have"),
        (np.column_stack([Y, A.argmax(axis=1)]), "column 4 has a few whole numbers"),
        (np.arange(60)[:, None], "column 3 has another whole number in each row"),
        (1.5 + Y[:, None], "column 3 has the same numbers in both files"),  # such as times
        (np.full((60, 1), 0.5), ""),
        (np.zeros((60, 1)), ""),  # the score of a class that the others are relative to
        (np.column_stack([-Y, 10 * Y]), ""),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "npy"])
def test_a_column_of_labels_beside_scores_is_noticed(kind, extra, said, run):
    for name, scores in (("a", A), ("b", B)):
        matrix = np.column_stack([scores, extra])
        if kind == "npy":
            np.save(f"{name}.npy", matrix)
        else:
            np.savetxt(f"{name}.csv", matrix, delimiter=",", fmt="%.4g")
    status, _, error = run("score", f"a.{kind}", f"b.{kind}")
    assert status == 0
    assert said in error
    assert bool(said) == bool(error)


def test_a_class_that_is_always_certain_has_no_labels(run):
    others = softmax(A[:, 1:])
    certain = np.column_stack([Y == 0, (Y > 0)[:, None] * others])
    np.save("certain.npy", certain)
    assert "whole numbers" not in run("score", "certain.npy", "certain.npy")[2]


def test_names_of_rows_that_r_writes_without_those_of_columns_are_noticed(run):
    for name, scores in (("a", A), ("b", B)):
        lines = [f'"{i}" {" ".join(map(str, row))}' for i, row in enumerate(scores, 1)]
        Path(f"{name}.txt").write_text("\n".join(lines))
    error = run("score", "a.txt", "b.txt")[2]
    assert "a.txt, b.txt: column 0 has another whole number in each row" in error


@pytest.mark.parametrize("option", [(), ("--probabilities",)])
@pytest.mark.parametrize("place", [0, 3])
def test_a_column_beside_probabilities_is_no_class(place, option, run, refused):
    frame = pd.DataFrame(softmax(A), columns=NAMES)
    frame.insert(place, "patient", [10_000 + i // 2 for i in range(len(A))])
    frame.to_csv("ids.csv", index=False)
    said = "is no class: the others sum to 1; delete the column, or its name if it is the first"
    assert refused("score", "ids.csv", "ids.csv", *option) == (
        f"ids.csv: column 'patient' {said} one."
    )
    np.save("ids.npy", frame)
    assert f"ids.npy: column {place} {said}" in refused("score", "ids.npy", "ids.npy", *option)
    # Without its name, the first column has the names of the rows.
    if place == 0:
        frame.rename(columns={"patient": ""}).to_csv("ids.csv", index=False)
        assert run("score", "ids.csv", "ids.csv", "--probabilities")[0] == 0
    # A class that is never predicted is a class.
    np.save("never.npy", np.insert(softmax(A), place, 0, axis=1))
    assert run("score", "never.npy", "never.npy", "--probabilities")[0] == 0


def test_json_has_the_fields_of_the_result(run):
    status, out, error = run("score", "a.npy", "b.npy", "--json", "--prior", "marginal")
    assert (status, error) == (0, "")
    found = strict(out)
    expected = posterior_agreement(A, B, prior="marginal")
    decomposition = found.pop("decomposition")
    for name, value in found.items():
        assert value == getattr(expected, name), name
    assert set(found) == {f for f in vars(expected)} - {"terms", "source", "failure", "path"}
    for name, part in decompose(expected).items():
        assert decomposition[name] == {k: getattr(part, k) for k in ("n_pairs", "total", "share")}


def test_json_without_numbers_for_infinity_and_nan(run):
    np.save("one.npy", A[:1])
    found = strict(run("score", "one.npy", "one.npy", "--json")[1])
    assert found["beta"] == "Infinity"
    assert float(found["beta"]) == np.inf
    assert found["standard_error"] is None


def test_tolerance(run, refused):
    arguments = "--prior", "marginal", "--tol", "5"
    wide = strict(run("score", "a.npy", "b.npy", *arguments, "--json")[1])
    assert 1e-6 < wide["gap"] <= 5
    assert refused("score", "a.npy", "b.npy", "--tol", "0").startswith("--tol: expected at least")


def save_parquet(path, frame):
    pytest.importorskip("pyarrow")
    frame.to_parquet(path)


WRITERS = {
    "npy": lambda path, x: np.save(path, x),
    "npy_fortran_float32": lambda path, x: np.save(path, np.asfortranarray(x, np.float32)),
    "npy_byte_order": lambda path, x: np.save(path, x.astype(">f8")),
    "npz": lambda path, x: np.savez(path, scores=x),
    "csv": lambda path, x: np.savetxt(path, x, delimiter=","),
    "csv_named": lambda path, x: pd.DataFrame(x, columns=NAMES).to_csv(path, index=False),
    "csv_index": lambda path, x: pd.DataFrame(x).to_csv(path),
    "csv_excel": lambda path, x: pd.DataFrame(x, columns=NAMES).to_csv(
        path, index=False, encoding="utf-8-sig", lineterminator="\r\n"
    ),
    "parquet": lambda path, x: save_parquet(path, pd.DataFrame(x, columns=NAMES)),
    "parquet_nullable": lambda path, x: save_parquet(
        path, pd.DataFrame(x, columns=NAMES).convert_dtypes()
    ),
    "parquet_index": lambda path, x: save_parquet(
        path, pd.DataFrame(x, columns=NAMES, index=pd.Index(1000 * np.arange(len(x)), name="id"))
    ),
}


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("stdin", [False, True], ids=["file", "stdin"])
def test_every_format_gives_the_same(kind, stdin, run, monkeypatch):
    # Told by content: the name says nothing.
    for name, x in (("one", A), ("two", B)):
        with open(name, "wb") as file:
            WRITERS[kind](file, x)
    names = ["one", "two"]
    if stdin:
        content = Path("two").read_bytes()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        names[1] = "-"
    status, out, error = run("score", *names, "--json")
    assert (status, error) == (0, "")
    assert strict(out)["score"] == pytest.approx(MARGINAL.score, abs=1e-6)
    assert strict(out)["n_classes"] == 3


@pytest.mark.parametrize(
    ("text", "columns", "ids", "values"),
    [
        # A byte order mark is no part of a name.
        ("\ufeffcat,dog\r\n1.5,2\r\n3,4\r\n", ["cat", "dog"], None, [[1.5, 2], [3, 4]]),
        ("\ufeff1.5,2\r\n3,4\r\n", None, None, [[1.5, 2], [3, 4]]),
        # A table of R may have blanks and decimal commas.
        ('"a" "b"\n"1" 0,5 1\n"2" 2,5 3\n', ["a", "b"], ["1", "2"], [[0.5, 1], [2.5, 3]]),
        # Names may have the marks of other files.
        *((f"a{m}0,a{m}1\n1,2.5\n3,4\n", [f"a{m}0", f"a{m}1"], None, [[1, 2.5], [3, 4]])
          for m in ";\t "),
        ('"","u;1"\n"r;1",2\n"r;2",3\n', ["u;1"], ["r;1", "r;2"], [[2], [3]]),
        # Columns of blanks may end with some.
        (" u v \n 1 2 \n 3 4 \n", ["u", "v"], None, [[1, 2], [3, 4]]),
        ("3,1\n5,3\n", None, None, [[3, 1], [5, 3]]),
        # Excel writes exponents in capitals.
        ("1,5E+00;-2,0E-01\n3;4\n", None, None, [[1.5, -0.2], [3, 4]]),
        # Only some numbers may have decimals, which pandas quotes.
        ('a,b\n1,2\n"0,5",4\n', ["a", "b"], None, [[1, 2], [0.5, 4]]),
        ("a,b\n \n1,2\n\t\n3,4\n  \n", ["a", "b"], None, [[1, 2], [3, 4]]),
        ("+,-\n1,2\n", ["+", "-"], None, [[1, 2]]),
    ],
)  # fmt: skip
def test_tables_are_read(text, columns, ids, values):
    Path("table.csv").write_text(text, encoding="utf-8", newline="")
    found = read_table("table.csv")
    assert (found.columns, found.ids) == (columns, ids)
    assert found.values.tolist() == values


@pytest.mark.parametrize("stdin", [False, True], ids=["file", "stdin"])
def test_compressed_files_and_unicode_text_of_excel_are_read(stdin, monkeypatch):
    text = pd.DataFrame(A, columns=NAMES).to_csv(index=False, sep="\t")
    for content in (
        text.encode("utf-16"),
        gzip.compress(text.encode()),
        gzip.compress(Path("a.npy").read_bytes()),
    ):
        Path("other").write_bytes(content)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        np.testing.assert_array_equal(read_table("-" if stdin else "other").values, A)


@pytest.mark.parametrize("place", [None, 0, 1, 2])
def test_named_arrays_of_one_archive_also_of_standard_input(place, run, refused, monkeypatch):
    np.savez_compressed("all.npz", today=A, tomorrow=B, y=Y)
    names = ["all.npz:today", "all.npz:tomorrow", "all.npz:y"]
    if place is not None:
        names[place] = names[place].replace("all.npz", "-")
        content = io.BytesIO(Path("all.npz").read_bytes())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(content))
    status, out, _ = run("score", *names[:2], "--labels", names[2], "--json")
    assert status == 0
    assert strict(out)["score"] == MARGINAL.score
    assert set(strict(out)["decomposition"]) == set(decompose(MARGINAL, Y))
    said = "all.npz:x: expected one of the arrays today, tomorrow, y"
    assert refused("score", "all.npz:x", "b.npy").startswith(said)


def test_one_of_several_arrays_is_proposed(refused, monkeypatch):
    archive = io.BytesIO()
    np.savez(archive, today=A, tomorrow=B)
    Path("all").write_bytes(archive.getvalue())
    said = "expected one array, got today, tomorrow; choose one, for example"
    assert refused("score", "all", "b.npy") == f"all: {said} all:today."
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(archive.getvalue())))
    assert refused("score", "-", "b.npy") == f"-: {said} -:today."


def test_an_array_of_a_file_that_is_no_npz(refused, run):
    os.rename("a.npy", "scores.npz")
    assert refused("score", "scores.npz:today", "b.npy") == (
        "scores.npz:today: expected an npz file before the colon, got npy."
    )
    # A colon may also be part of the name of a file.
    os.rename("scores.npz", "scores.npz:today")
    assert (
        strict(run("score", "scores.npz:today", "b.npy", "--json")[1])["score"] == MARGINAL.score
    )


@pytest.mark.parametrize("names", ["", "x,y,z\n", '"x","y, or y","z"\n', '"","x","y","z"\n'])
@pytest.mark.parametrize(
    ("mark", "point"), [(";", ","), (";", "."), ("\t", "."), ("\t", ","), (" ", ".")]
)
def test_other_marks_between_columns_are_read(names, mark, point, run):
    numbered = names.startswith('"",')
    rows = [
        mark.join([*[f'"p {i}"'] * numbered, *(repr(x).replace(".", point) for x in row)])
        for i, row in enumerate(A.tolist())
    ]
    Path("other.csv").write_text(
        names.replace(",", mark).replace(f"y{mark} or", "y, or") + "\n".join(rows)
    )
    found = strict(run("score", "other.csv", "b.npy", "--json")[1])
    assert found["score"] == pytest.approx(MARGINAL.score, abs=1e-12)


@pytest.mark.parametrize("columns", [NAMES, None])
def test_numbers_with_decimal_commas_may_be_quoted(columns, run):
    frame = pd.DataFrame(A, columns=columns)
    frame.to_csv("other.csv", decimal=",", index=False, header=columns is not None)
    found = strict(run("score", "other.csv", "b.npy", "--json")[1])
    assert found["score"] == pytest.approx(MARGINAL.score, abs=1e-12)


def test_the_cells_of_a_large_file_are_never_all_in_memory():
    np.savetxt("large.csv", np.arange(40_000).reshape(-1, 20), "%.9e", ",")
    tracemalloc.start()
    values = read_table("large.csv", header=False).values
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert values[-1, -1] == 39_999
    assert most < 4 * values.nbytes  # strings would take thirteen times as much


@pytest.mark.parametrize("name", ['"{}"', '"Mazda RX{}"', "{}", "p{}", "Mazda RX{}"])
@pytest.mark.parametrize("mark", [",", " ", "\t", ";"])
def test_what_r_writes(mark, name, run, refused):
    numbers = [mark.join(map(str, row)) for row in A]
    rows = "".join(f"{name.format(i)}{mark}{row}\n" for i, row in enumerate(numbers, 1))
    # write.csv has an empty cell above the names of rows, and write.table has none.
    for above in ('""' + mark, ""):
        Path("r.csv").write_text(f"{above}V1{mark}V2{mark}V3\n{rows}")
        if mark == " " and name == "Mazda RX{}":
            said = refused("score", "r.csv", "b.npy")
            assert said.endswith(
                "got 5 in row 0; names of rows with blanks need quotes, or tabs between the cells."
            )
            continue
        assert strict(run("score", "r.csv", "b.npy", "--json")[1])["score"] == MARGINAL.score
        assert read_table("r.csv").ids[-1] == name.format(60).strip('"')


def test_a_terminal_obeys_no_name(run, refused):
    names = ["re\x1b[31md", "bl\x07ue", "gr\u202een \u200d\u00fc"]
    pd.DataFrame(A, columns=names).to_csv("named.csv", index=False)
    out = run("score", "named.csv", "b.npy")[1]
    assert "3: re\\x1b[31md, bl\\x07ue, gr\\u202een \u200d\u00fc\n" in out
    assert refused("score", "a.npy", "no\x1bne.npy").startswith("no\\x1bne.npy: expected a file")
    softmaxes = "prob\x1bs.npy"
    np.save(softmaxes, softmax(A))
    assert "warning: prob\\x1bs.npy, prob\\x1bs.npy: read" in run("score", softmaxes, softmaxes)[2]


def test_a_pipe_is_read_like_a_file(run):
    os.mkfifo("pipe")
    writer = threading.Thread(target=Path("pipe").write_bytes, args=[Path("b.npy").read_bytes()])
    writer.start()
    assert strict(run("score", "a.npy", "pipe", "--json")[1])["score"] == MARGINAL.score
    writer.join()


def test_files_are_mapped_and_not_changed(run):
    before = Path("a.npy").read_bytes()
    values = read_table("a.npy").values
    assert isinstance(values, np.memmap)
    assert not values.flags.writeable
    run("score", "a.npy", "b.npy", "--labels", "y.npy")
    assert Path("a.npy").read_bytes() == before


def test_probabilities_are_recognised(run, refused):
    for name, scores in (("p.csv", A), ("q.csv", B)):
        np.savetxt(name, softmax(scores), delimiter=",")
    status, out, error = run("score", "p.csv", "q.csv", "--probabilities", "--json")
    assert (status, error) == (0, "")
    assert strict(out)["score"] == pytest.approx(MARGINAL.score, abs=1e-9)
    status, recognised, error = run("score", "p.csv", "q.csv", "--json")
    assert (status, recognised) == (0, out)
    assert error.startswith("pa-select: warning: p.csv, q.csv: read as probabilities, since")
    assert "warning" not in run("score", "a.npy", "b.npy")[2]
    assert refused("score", "a.npy", "q.csv") == (
        "q.csv: expected logits or log-probabilities as in a.npy, got probabilities."
    )
    # Decisions are probabilities if another file of the model holds probabilities.
    np.save("decisions.npy", np.eye(3)[A.argmax(axis=1)])
    assert "decisions.npy, q.csv: read as" in run("score", "decisions.npy", "q.csv")[2]


def test_probabilities_with_few_decimals_are_noticed(run):
    rounded = [[0.10, 0.91, 0.0], [0.33, 0.33, 0.33], [1.0, 0.0, 0.0]]
    for name, rows in (("p", rounded), ("far", [*rounded[:2], [0.5, 0.39, 0.0]]),
                       ("above", [*rounded[:2], [1.01, 0.0, 0.0]]),
                       ("below", [*rounded[:2], [0.99, 0.01, -0.01]]),
                       ("decisions", np.eye(3))):  # fmt: skip
        np.save(f"{name}.npy", rows)
    said = (
        "pa-select: warning: {}: read as logits, since the rows only nearly sum to 1; "
        "probabilities need more decimals.\n"
    )
    status, _, error = run("score", "p.npy", "p.npy")
    assert (status, error) == (0, said.format("p.npy, p.npy"))
    for name in ("far", "above", "below", "decisions"):
        assert run("score", "p.npy", f"{name}.npy")[2] == said.format("p.npy")


def test_percentages_and_votes_are_noticed(run):
    p = softmax(A)
    for whole, other in (("100", np.round(100 * p)), ("500", np.rint(500 * softmax(B)))):
        np.save("other.npy", other)
        status, _, error = run("score", "a.npy", "other.npy")
        assert (status, error) == (
            0,
            f"pa-select: warning: other.npy: read as logits, since the rows sum to {whole} and "
            "not to 1; divide percentages or votes by their sum.\n",
        )
    # Counts whose sums differ are logits, and so are rows below 0.
    for other in (np.exp(A), 100 * p - 1):
        np.save("other.npy", other)
        assert run("score", "a.npy", "other.npy")[2] == ""


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8])
def test_probabilities_of_0_become_small_ones(dtype, run):
    p = np.eye(3)[Y].astype(dtype)
    q = p[:, [0, 2, 1]].copy()
    np.save("p.npy", p)
    np.save("q.npy", q)
    status, out, error = run("score", "p.npy", "q.npy", "--probabilities", "--json")
    assert status == 0
    assert error == (
        "pa-select: warning: p.npy, q.npy: 240 probabilities below 1e-08 are raised to it; "
        "this matters if they are a forest's zeros (see --help).\n"
    )
    expected = posterior_agreement(*(np.log(np.maximum(x.astype(float), 1e-8)) for x in (p, q)))
    assert strict(out)["score"] == pytest.approx(expected.score, abs=1e-9)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ([0.5, 0.6, 0.0], "a sum of 1.1 and a least number of 0 in row 2"),
        ([1.5, -0.5, 0.0], "a sum of 1 and a least number of -0.5 in row 2"),
        ([np.nan, 0.5, 0.5], "a sum of nan"),
    ],
)
def test_what_is_said_to_be_probabilities_is_checked(row, said, refused):
    p = softmax(A)
    p[2] = row
    np.save("p.npy", p)
    message = refused("score", "p.npy", "b.npy", "--probabilities")
    assert message.startswith("p.npy: expected probabilities")
    assert said in message


@pytest.mark.parametrize("save", ["to_csv", "to_parquet"])
def test_other_names_of_rows(save, refused, run):
    if save == "to_parquet":
        pytest.importorskip("pyarrow")
    names = [f"p{i}" for i in range(60)]
    one, other = (pd.DataFrame(x, index=names, columns=NAMES) for x in (A, B))
    getattr(one, save)("one")
    getattr(other.rename({"p5": "p55 "}), save)("renamed")
    # A row that is in one file only must not hide that the others are in another order.
    getattr(other.rename({"p5": "p60"})[::-1], save)("turned")
    pd.DataFrame({"y": Y}, index=[f"q{i}" for i in range(60)]).to_csv("labels.csv")
    for file, row, got, wanted in (("renamed", 5, "p55 ", "p5"), ("turned", 0, "p59", "p0")):
        assert refused("score", "one", file) == (
            f"{file}: expected the rows of one in the same order, got {got!r} instead of "
            f"{wanted!r} as row {row}. Without names, rows are compared by position."
        )
    message = refused("score", "one", "b.npy", "--labels", "labels.csv")
    assert message.startswith("labels.csv: expected the rows of one in the same order, got 'q0'")
    getattr(other[["dog", "cat", "eel"]], save)("columns")
    assert refused("score", "one", "columns") == (
        "columns: expected the columns of one in the same order, got 'dog' instead of 'cat' as "
        "column 0."
    )
    out = run("score", "one", "b.npy")[1]
    assert re.search("^classes +3: cat, dog, eel$", out, re.M)


def test_numbers_of_rows(refused, run):
    named, pandas_0, r_1, turned, sampled = (
        pd.DataFrame(B, columns=NAMES, index=index)
        for index in (
            [f"p{i}" for i in range(60)],
            range(60),
            range(1, 61),
            range(59, -1, -1),
            np.random.default_rng(0).permutation(60),
        )
    )
    for name, frame in (("0", pandas_0), ("1", r_1), ("turned", turned), ("named", named),
                        ("sampled", sampled)):  # fmt: skip
        frame.to_csv(name)
    for one, other in (("0", "0"), ("1", "1"), ("0", "1"), ("turned", "turned"),
                       ("0", "named"), ("named", "1"), ("a.npy", "turned")):  # fmt: skip
        assert run("score", one, other)[0] == 0
    for one, other in (("0", "turned"), ("turned", "1"), ("turned", "sampled"),
                       ("named", "turned")):  # fmt: skip
        assert refused("score", one, other).startswith(f"{other}: expected the rows of {one}")


def test_a_turned_range_in_parquet(refused):
    pytest.importorskip("pyarrow")
    pd.DataFrame(A, columns=NAMES).to_parquet("one")
    pd.DataFrame(B, columns=NAMES)[::-1].to_parquet("other")
    assert refused("score", "one", "other").startswith("other: expected the rows of one")
    # The numbers in a csv file are strings, and mean the same.
    index = pd.Index(1000 * np.arange(60), name="")
    pd.DataFrame(A, columns=NAMES, index=index).to_parquet("one")
    pd.DataFrame(A, columns=NAMES, index=index).to_csv("other")
    assert read_table("one").ids == read_table("other").ids == list(map(str, index))


def test_a_first_line_of_whole_numbers_is_not_guessed(refused, run):
    pd.DataFrame(A).to_csv("named.csv", index=False)
    Path("rows.csv").write_text("0,1,2\n5,3,4\n")
    for name in ("named.csv", "rows.csv"):
        assert f"{name}: expected names or scores in line 1, got '0,1,2'" in refused(
            "score", name, name
        )
    named = strict(run("score", "named.csv", "named.csv", "--header", "--json")[1])
    rows = strict(run("score", "rows.csv", "rows.csv", "--no-header", "--json")[1])
    assert (named["n_pairs"], rows["n_pairs"]) == (60, 2)
    pd.DataFrame(A[:, :2], columns=[-1, 1]).to_csv("signs.csv", index=False)
    assert "in line 1, got '-1,1', which may be either" in refused(
        "score", "signs.csv", "signs.csv"
    )


def content(text):
    return lambda file: file.write(text)


def write_zip(file, name, text):
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, text)


WRONG = [
    # what is in the file, what is said of it
    (content(b""), "expected numbers, got an empty file"),
    (content(b"u,v,w\n"), r"expected at least one row, got shape \(0, 3\)"),
    (content(b"1.5,2,3\n1,2\n"), "expected 3 cells in each line, .* got 2 in row 1"),
    (content(b"1.5,2\n\n1,x\n"), "separated by commas, got 'x' in row 1, column 1"),
    (content(b",u,v\na,1,\n"), r"value '' in row 0, column 1 \('v'\); "),
    (content(b"x\n1|a\n"), "separated by commas, got '1|a'".replace("|", "[|]")),
    (content(b"u,v\n1,2,3,4\n"), "expected 2 cells in each line, as in the first, got 4"),
    (content(b",u,v\na,1,2\nb,1\n"), "as in the first, got 2 in row 1"),
    (content(b"0.1,O.2\n1,2\n"), "got 'O.2' in row 0, column 1"),
    (content(b'"0.1,0.2\n1,2\n'), "expected npy, npz, Parquet or csv in UTF-8"),
    (content("é,u\n1,2\n".encode("latin-1")), "csv in UTF-8, got other bytes"),
    (content(b"1.5,2,nan\n"), "got nan in row 0, column 2"),
    (content(b"9.5\n1\n"), r"expected a column for each of at least 2 .* such as 1 - p and p\.$"),
    (content(b"\x93NUMPY\x01\x00\x10"), "expected a sound npy file, got: .+"),
    (content(b"PK\x03\x04 and more"), "expected a sound npz file, got: .+"),
    (content(b"PAR1"), "to read Parquet, pandas and|expected a sound Parquet file"),
    (lambda path: np.save(path, A[:, 0]), r"expected scores of shape .*, got shape \(60,\)"),
    (lambda path: np.save(path, A[None]), r"expected scores of shape .*, got shape \(1, 60, 3\)"),
    (lambda path: np.save(path, np.float64(3)), r"expected scores of shape .*, got shape \(\)"),
    (lambda path: np.save(path, A + 1j), "expected real numbers, got dtype complex128"),
    (lambda path: np.save(path, A.astype(str)), "expected real numbers, got dtype <U"),
    (lambda path: np.save(path, A[:5]), r"expected the shape of a.npy, \(60, 3\), got \(5, 3\)"),
    (lambda path: np.save(path, np.array([[Pickled()]])), "got Python objects, which are never"),
    (lambda path: np.savez(path, a=np.array([[Pickled()]])), "got Python objects, which are"),
    (lambda path: pickle.dump(Pickled(), path), "pickles are never loaded"),
    (lambda path: write_zip(path, "data.pkl", b"x"), "instead of torch.save"),
    (lambda path: write_zip(path, "x.npy", b"x"), "npz file|got other bytes"),
    (content(b"u,v\n1,2\nNA,4\n"), r"value 'NA' in row 1, column 0 \('u'\); leave its row"),
    (content(b"1.5,2\n1,\n"), "got the missing value '' in row 1, column 1; leave its row"),
    (content(b"NA,NA\n1,2\n"), "got the missing value 'NA' in row 0, column 0; leave its row"),
    *((content(f"u,v\n1,2\n{missing},2\n".encode()), f"missing value '{missing}' in row 1, col")
      for missing in ("#NV", "#DIV/0!", "-", "--")),
    (content(b"u;v;\n1;2;\n"), r"an empty cell in .*, column 2 \(''\); if each line ends with"),
    (content(b"\x1f\x8b\x08 and more"), "expected a sound gz file, got: .+"),
    (content(b"u;v\n1;2\n5;6\n3;4;5\n"), "as in the first, got 3 in row 2"),
    (content(b"u,v\n1,2\n# note\n3,4\n"), "got a comment in line 3; delete"),
    (content(b'# made by "x" y\nu,v\n1,2\n'), "got a comment in line 1; delete"),
    (content(b"# made by a program\nu,v\n1,2\n"), "got a comment in line 1; delete"),
    (content(b"  % MATLAB\n1,2\n3,4\n"), "comment in line 1; delete lines that begin with %"),
    (content(b"// note\n1,2\n3,4\n"), "comment in line 1; delete lines that begin with //"),
    (content(b"sep=;\nu;v\n1;2\n"), "in line 1; delete lines that begin with sep="),
    (content(b"u,v,y\n0.2,0.8,v\n"), r"got 'v' in row 0, column 2 \('y'\); if this column"),
    (content(b"u,v\n1_0,2\n"), r"got '1_0' in row 0, column 0 \('u'\)"),
    (content(b"u;v\n0.5;1,000\n"), "got '1,000' in row 0, column 1"),  # no decimal comma
    (content(b"0.2;0.8;big dog\n"), "got 'big dog' in row 0, column 2; if this column has labels"),
]  # fmt: skip


@pytest.mark.parametrize(("write", "said"), WRONG)
def test_wrong_files_are_named(write, said, refused):
    with open("wrong", "wb") as file:
        write(file)
    message = refused("score", "a.npy", "wrong")
    assert re.match(f"wrong: .*({said})", message)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (Y[:9], r"expected one label for each of 60 pairs, got shape \(9,\)"),
        (Y + 1, r"expected numbers of .*, got 3 in row \d+; columns count from 0: subtract 1\.$"),
        (Y + 2, r"expected numbers of columns, 0 to 2, got \d in row \d+\.$"),
        (np.where(Y, Y, 3), r"to 2, got 3 in row \d+; columns count from 0: subtract 1\.$"),
        (np.where(Y == 1, 3, Y), r"to 2, got 3 in row \d+\.$"),
        (Y - 1, "0 to 2, got -1 in row"),
        (Y + 0.5, r"0 to 2, got \d.5 in row 0"),
        (np.full(60, np.nan), "0 to 2, got nan in row 0"),
        (Y == 1, "0 to 2, got dtype bool"),
    ],
)
def test_wrong_labels_are_named_before_work_is_lost(labels, said, refused, monkeypatch):
    monkeypatch.setattr(command, "_import_agreement", None)
    np.save("labels.npy", labels)
    message = refused("score", "a.npy", "b.npy", "--labels", "labels.npy")
    assert re.match(f"labels.npy: .*{said}", message)


def test_files_that_cannot_be_read(refused):
    os.mkdir("folder")
    assert refused("score", "a.npy", "none.npy") == (
        "none.npy: expected a file that can be read, got: No such file or directory."
    )
    assert refused("score", "folder", "b.npy").endswith("got: Is a directory.")
    assert refused("score", "https://a.b/c.npy", "b.npy").endswith("No such file or directory.")
    assert refused("score", "a\0b", "b.npy").startswith("a\\x00b: expected a file")
    for arguments in (["-", "-"], ["-", "-:b"], ["-", "b.npy", "--labels", "-"]):
        assert refused("score", *arguments) == (
            "-: expected once, since standard input can be read only once."
        )


@pytest.mark.parametrize("missing", ["pandas", "pyarrow"])
def test_parquet_without_what_reads_it(missing, refused, monkeypatch):
    Path("x.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, missing, None)
    assert refused("score", "x.parquet", "b.npy") == (
        "x.parquet: to read Parquet, pandas and pyarrow are needed: pip install pandas pyarrow."
    )


@pytest.mark.parametrize(
    "arguments",
    [[], ["scores"], ["score"], ["score", "a.npy"], ["score", "a.npy", "b.npy", "--tol", "x"],
     ["score", "a.npy", "b.npy", "c\nd"],
     ["score", "a.npy", "b.npy", "--prior", "flat"], ["score", "a.npy", "b.npy", "--what"]],
)  # fmt: skip
def test_wrong_usage_is_one_line(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    out, error = capsys.readouterr()
    assert (stop.value.code, out) == (2, "")
    assert re.fullmatch(r"pa-select: error: .* \(see --help\)\n", error)


def test_a_computation_that_fails(run, monkeypatch):
    monkeypatch.setattr("pa_select.agreement.solver.branch_and_bound.MAX_EVALUATIONS", 1)
    status, out, error = run("score", "a.npy", "b.npy")
    assert (status, out) == (1, "")
    assert re.fullmatch(
        "pa-select: error: the computation failed: .*Ask for a larger --tol.\n", error
    )


def test_other_errors_are_not_disguised(monkeypatch):
    def broken(*scores, **options):
        raise ValueError("a fault of our own")

    monkeypatch.setattr(command, "_import_agreement", lambda own: broken)
    with pytest.raises(ValueError, match="a fault of our own"):
        main(["score", "a.npy", "b.npy"])


def test_interrupted(run, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(command_files, "read_table", interrupt)
    assert run("score", "a.npy", "b.npy") == (130, "", "")


def module(*arguments):
    return [sys.executable, "-m", "pa_select", *arguments]


def test_the_module_runs_and_help_needs_no_torch():
    code = "import sys; sys.modules['torch'] = None; from pa_select.__main__ import main; main()"
    found = subprocess.run(
        [sys.executable, "-c", code, "score", "--help"], capture_output=True, text=True, check=True
    )
    assert "exit status:" in found.stdout
    version = subprocess.run(module("--version"), capture_output=True, text=True, check=True)
    assert version.stdout == f"pa-select {pa_select.__version__}\n"


def test_both_helps_end_alike(capsys):
    ends = []
    for name in ("score", "expect"):
        with pytest.raises(SystemExit):
            main([name, "--help"])
        ends.append(capsys.readouterr().out.partition("\nfiles:\n")[2])
    assert ends[0] == ends[1]
    for heading in ("results", "JSON", "exit status"):
        assert f"\n{heading}:\n" in ends[0]


@pytest.mark.parametrize(
    ("stream", "arguments", "status"),
    [("stdin", ["-", "b.npy"], 2), ("stdout", ["a.npy", "b.npy"], 0), ("stderr", ["x", "y"], 2)],
)
def test_a_stream_that_is_closed(stream, arguments, status, capfd, monkeypatch):
    # Python sets a stream to None if the process begins without it.
    with monkeypatch.context() as patch:
        patch.setattr(sys, stream, None)
        assert main(["score", *arguments]) == status
    out, error = capfd.readouterr()
    assert out == ""
    said = "pa-select: error: -: expected a file that can be read, got: no standard input.\n"
    assert error == (said if stream == "stdin" else "")


def test_a_reader_that_goes_away_is_no_error():
    read, write = os.pipe()
    os.close(read)
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    found = subprocess.run(
        module("score", "--help"), stdout=write, stderr=subprocess.PIPE, env=buffered
    )
    os.close(write)
    assert (found.returncode, found.stderr) == (141, b"")


def test_classes_in_any_script_are_printed_in_any_encoding(run, monkeypatch):
    pd.DataFrame(A, columns=["猫", "犬", "鰻"]).to_csv("one.csv", index=False)
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    assert main(["score", "one.csv", "b.npy"]) == 0
    assert rb"\u732b" in out.buffer.getvalue()


def words(text):
    """The words of a text with None for numbers, and the numbers."""
    parts = [part.rstrip(",;%") for part in text.split()]
    number = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")
    return (
        [None if number.fullmatch(part) else part for part in parts],
        [float(part) for part in parts if number.fullmatch(part)],
    )


def test_the_documentation_shows_what_is_printed(run):
    page = (Path(pa_select.__file__).parents[1] / "docs" / "command_line.rst").read_text()
    blocks = re.findall(r"\.\. code-block:: (\w+)\n\n((?:    .*\n|\n)+)", page)
    shown = 0
    for language, block in blocks:
        text = textwrap.dedent(block).strip()
        if language == "python":
            exec(compile(text, "command_line.rst", "exec"), {})
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
    assert shown == 4


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_one_line(capsys, monkeypatch):
    with open("/dev/full", "w") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        assert main(["score", "a.npy", "b.npy"]) == 1
    error = capsys.readouterr().err
    assert re.fullmatch("pa-select: error: .*No space left.*\n", error)


def test_an_infinite_temperature_does_not_mean_that_all_pairs_agree(run):
    # The second sample never decides: half of what the first one says meets a tie.
    np.save("tied.npy", [[5.0, 5.0, 0.0]] * 4)
    status, text, _ = run("score", "tied.npy", "tied.npy")
    assert status == 0
    assert "beta            inf" in text
    assert "50.00% of 4 pairs" in text
    assert "all pairs agree" not in text
