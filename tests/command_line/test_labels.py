"""Labels on the command line: numbers of columns, or names of classes."""

import io
import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from papers.posteriors import decompose

from pa_select import posterior_agreement

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, 60)
A = np.round(2 * np.eye(3)[Y] + RNG.normal(size=(60, 3)), 3)
B = np.round(A + RNG.normal(size=(60, 3)), 3)
# Not in sorted order: columns are found by name.
COLUMNS = ["dog", "eel", "cat"]
NAMED = np.array(COLUMNS)[Y]
RIGHT = decompose(posterior_agreement(A, B), Y)["agree_right"].n_pairs


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", A)
    np.save("b.npy", B)
    for name, x in (("a.csv", A), ("b.csv", B)):
        pd.DataFrame(x, columns=COLUMNS).to_csv(name, index=False)


@pytest.fixture
def right(run):
    """The number of agreeing pairs that are right."""

    def right(*arguments):
        status, out, error = run("score", *arguments, "--json")
        assert (status, error) == (0, "")
        return json.loads(out)["decomposition"]["agree_right"]["n_pairs"]

    return right


@pytest.fixture
def refused(refused):
    def of_labels(labels, *scores):
        return refused("score", *(scores or ("a.csv", "b.csv")), "--labels", labels)

    return of_labels


def save_npy(path, labels):
    with open(path, "wb") as file:
        np.save(file, np.array(labels))


def save_npz(path, labels):
    with open(path, "wb") as file:
        np.savez(file, y=np.array(labels))


def save_parquet(path, labels):
    pytest.importorskip("pyarrow")
    pd.DataFrame({"y": labels}).to_parquet(path)


def save_categories(path, labels):
    pytest.importorskip("pyarrow")
    pd.DataFrame({"y": pd.Categorical(labels)}).to_parquet(path)


def r_table(mark, quote='"', name=""):
    """What R's write.table writes: names of rows, from 1, and no name above them."""

    def write(path, labels):
        rows = (f"{quote}{name}{i}{quote}{mark}{quote}{y}{quote}" for i, y in enumerate(labels, 1))
        Path(path).write_text("\n".join([f"{quote}class{quote}", *rows]) + "\n")

    return write


def put_first(path, text):
    Path(path).write_text(text + Path(path).read_text())


WRITERS = {
    "npy": save_npy,
    "npy_bytes": lambda path, y: save_npy(path, np.array(y).astype("S")),
    "npy_column": lambda path, y: save_npy(path, np.array(y)[:, None]),
    "npz": save_npz,
    "csv": lambda path, y: Path(path).write_text("\n".join(y)),
    "csv_blanks": lambda path, y: Path(path).write_text(" \n ".join(y) + " \n\n"),
    "csv_named": lambda path, y: pd.Series(y, name="y").to_csv(path, index=False),
    "csv_index": lambda path, y: pd.Series(y, name="y").to_csv(path),
    "csv_index_no_name": lambda path, y: pd.Series(y).to_csv(path),
    "csv_no_name": lambda path, y: pd.Series(y).to_csv(path, index=False),
    "r": r_table(" "),
    "r_tabs": r_table("\t"),
    "r_commas": r_table(","),
    "r_unquoted": r_table(" ", ""),
    "r_empty_name": lambda path, y: r_table(" ", name="")(path, y) or put_first(path, '"" '),
    "r_words": r_table("\t", "", "Mazda RX"),
    "r_quoted_words": r_table(" ", '"', "Mazda RX"),
    "parquet": save_parquet,
    "parquet_categories": save_categories,
}


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("stdin", [False, True], ids=["file", "stdin"])
def test_names_of_classes_in_every_format(kind, stdin, right, monkeypatch):
    WRITERS[kind]("labels", NAMED.tolist())
    name = "labels"
    if stdin:
        content = Path(name).read_bytes()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        name = "-"
    assert right("a.csv", "b.csv", "--labels", name) == RIGHT
    assert right("a.csv", "b.npy", "--labels", "labels") == RIGHT
    assert right("a.npy", "b.csv", "--labels", "labels") == RIGHT


@pytest.mark.parametrize("mark", [" ", ";"])
def test_numbers_and_names_of_rows_in_tables_of_r(mark, right, refused):
    r_table(mark, "")("labels", Y.tolist())
    assert right("a.npy", "b.npy", "--labels", "labels") == RIGHT
    other = pd.DataFrame(A, columns=COLUMNS, index=range(60, 0, -1))
    other.to_csv("ids.csv")
    assert "labels: expected the rows of ids.csv" in refused("labels", "ids.csv", "ids.csv")


def test_blanks_in_names_of_classes_are_no_marks(right):
    Path("labels").write_text("\n".join(f"1 {name}" for name in NAMED))
    np.save("a.npy", A[:, [2, 0, 1]])  # in the order of sorted names
    np.save("b.npy", B[:, [2, 0, 1]])
    assert right("a.npy", "b.npy", "--labels", "labels") == RIGHT


def test_bytes_in_another_encoding_are_shown(refused):
    np.save("y.npy", np.array([label.encode("latin-1") for label in ["öl", "dog", "eel"]])[Y])
    assert re.match(r"y.npy: expected names .*, got '\\\\xf6l' in row \d", refused("y.npy"))


def test_columns_without_names_are_in_sorted_order(right, run):
    np.save("y.npy", np.array(["cat", "dog", "eel"])[Y])
    assert right("a.npy", "b.npy", "--labels", "y.npy") == RIGHT
    out = run("score", "a.npy", "b.npy", "--labels", "y.npy")[1]
    assert re.search("^classes +3: cat, dog, eel$", out, re.M)
    # Digits in an array of strings are names, too.
    np.save("y.npy", Y.astype(str))
    assert right("a.npy", "b.npy", "--labels", "y.npy") == RIGHT


def test_names_that_are_whole_numbers(right, refused):
    for name, x in (("a.csv", A), ("b.csv", B)):
        pd.DataFrame(x, columns=[2, 3, 1]).to_csv(name, index=False)
    numbers = np.array([2, 3, 1])[Y]
    np.save("y.npy", numbers)
    np.savetxt("y.csv", numbers, fmt="%d")
    np.save("strings.npy", numbers.astype(str))
    np.save("column.npy", numbers[:, None].astype(float))
    np.save("bytes.npy", numbers.astype(np.uint8))
    for labels in ("y.npy", "y.csv", "strings.npy", "column.npy", "bytes.npy"):
        assert right("a.csv", "b.csv", "--header", "--labels", labels) == RIGHT
    np.save("y.npy", Y)
    row = int((Y == 0).argmax())
    assert refused("y.npy", "a.csv", "b.csv", "--header") == (
        f"y.npy: expected names of columns of the scores, '2', '3', '1', got 0 in row {row}."
    )


def test_labels_that_may_count_from_1_are_noticed(run):
    for first, said in ((0, ""), (1, "y.npy: no label is 0. Labels count from 0; R's factor")):
        np.save("y.npy", np.clip(Y, first, 2))
        status, _, error = run("score", "a.csv", "b.csv", "--labels", "y.npy")
        assert status == 0
        assert said in error if said else not error
    # Names say which column they mean.
    np.save("y.npy", np.array(COLUMNS)[np.clip(Y, 1, 2)])
    assert run("score", "a.csv", "b.csv", "--labels", "y.npy")[::2] == (0, "")


@pytest.mark.parametrize("kind", ["npy", "csv", "csv_index", "parquet"])
def test_labels_without_a_column_are_named(kind, refused):
    labels = NAMED.tolist()
    labels[3], labels[4], labels[7] = "bat", "Cat", "bat"
    WRITERS[kind]("labels", labels)
    assert refused("labels") == (
        "labels: expected names of columns of the scores, 'dog', 'eel', 'cat', got 'bat' in row 3."
    )
    assert refused("labels", "a.npy", "b.npy") == (
        "labels: expected 3 different labels, one for each column of the scores, whose columns "
        "have no names, got 5: 'Cat', 'bat', 'cat', 'dog', 'eel'."
    )


@pytest.mark.parametrize("kind", ["npy", "csv_index", "csv_no_name", "parquet"])
def test_missing_labels_are_named(kind, refused):
    labels = NAMED.tolist()
    labels[5] = "" if kind == "npy" else None
    WRITERS[kind]("labels", labels)
    assert refused("labels") == "labels: expected a label in each row, got none in row 5."


@pytest.mark.parametrize("missing", ["NA", "na", "?"])
def test_a_missing_value_among_numbers_is_named(missing, refused):
    labels = Y.astype(str).astype(object)
    labels[5] = missing
    Path("y.csv").write_text("\n".join(labels))
    assert f"got '{missing}' in row 5" in refused("y.csv")


def test_names_in_quotes_may_come_after_a_blank(right):
    Path("a.csv").write_text(
        "\n".join(
            [", ".join(f'"{name}"' for name in COLUMNS), *(", ".join(map(str, x)) for x in A)]
        )
    )
    np.save("y.npy", NAMED)
    assert right("a.csv", "b.csv", "--labels", "y.npy") == RIGHT


def test_a_name_of_two_columns_is_no_label(refused):
    pd.DataFrame(A, columns=["dog", "dog", "cat"]).to_csv("a.csv", index=False)
    np.save("y.npy", np.array(["dog", "dog", "cat"])[Y])
    assert refused("y.npy", "a.csv", "b.npy") == (
        "y.npy: expected names of columns of the scores, 'dog', 'dog', 'cat', got 'dog' in row "
        f"{int((Y < 2).argmax())}, which names several."
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected labels, got an empty file"),
        ("dog\ncat\n", r"expected one label for each of 60 pairs, got shape \(2,\)"),
        ("1,dog\n2,cat\n", r"unnamed row names\), got 2 columns: '1', 'dog'\.$"),
        (
            "diagnosis,age\ncat,40\n",
            r"expected one column of labels \(and .*\), got 2 columns: 'diagnosis', 'age'\.$",
        ),
        (
            "dog\ncat,eel\ndog\n",
            "expected 1 cells in each line, as in the first, got 2 in row 1",
        ),
    ],
)
def test_wrong_files_of_labels_are_named(text, said, refused):
    Path("y.csv").write_text(text)
    assert re.match(f"y.csv: .*{said}", refused("y.csv"))


def test_objects_are_not_unpickled(refused):
    class Object:
        def __reduce__(self):
            return os.mkdir, ("unpickled",)

    np.save("y.npy", np.array([Object()] * 60), allow_pickle=True)
    assert "got Python objects, which are never loaded; save values.astype" in refused("y.npy")
    assert not Path("unpickled").exists()
