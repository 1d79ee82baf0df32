"""Labels on the command line: numbers of columns, or names of classes."""

import json
import re

import numpy as np
import pandas as pd
import pytest

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, 60)
A = np.round(2 * np.eye(3)[Y] + RNG.normal(size=(60, 3)), 3)
B = np.round(A + RNG.normal(size=(60, 3)), 3)
# Not in sorted order: columns are found by name.
COLUMNS = ["dog", "eel", "cat"]
NAMED = np.array(COLUMNS)[Y]
ACCURACY = pytest.approx((A.argmax(axis=1) == Y).mean())


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", A)
    np.save("b.npy", B)
    for name, x in (("a.csv", A), ("b.csv", B)):
        pd.DataFrame(x, columns=COLUMNS).to_csv(name, index=False)


def arguments(labels, a="a.csv", b="b.csv"):
    """Options of a command whose labelled rows are those of the first site."""
    return "expect", a, b, "--validation", a, "--labels", labels


@pytest.fixture
def accuracy(run):
    """The accuracy on the labelled rows."""

    def accuracy(*given):
        status, out, error = run(*arguments(*given), "--json")
        assert (status, error) == (0, "")
        return json.loads(out)["validation_score"]

    return accuracy


@pytest.fixture
def refused(refused):
    return lambda *given: refused(*arguments(*given))


def save_parquet(path, labels):
    pytest.importorskip("pyarrow")
    pd.DataFrame({"y": labels}).to_parquet(path)


WRITERS = {
    "array.npy": lambda path, y: np.save(path, np.array(y)),
    "column.npy": lambda path, y: np.save(path, np.array(y)[:, None]),
    "named.csv": lambda path, y: pd.Series(y, name="y").to_csv(path, index=False),
    "index.csv": lambda path, y: pd.Series(y, name="y").to_csv(path),
    "index_no_name.csv": lambda path, y: pd.Series(y).to_csv(path),
    "csv2.csv": lambda path, y: pd.Series(y).to_csv(path, sep=";", decimal=","),
    "plain.parquet": save_parquet,
}


@pytest.mark.parametrize("file", WRITERS)
def test_names_and_numbers_of_classes_in_every_format(file, accuracy):
    WRITERS[file](file, NAMED.tolist())
    for scores in (("a.csv", "b.csv"), ("a.csv", "b.npy"), ("a.npy", "b.csv")):
        assert accuracy(file, *scores) == ACCURACY
    for dtype in (int, float):
        WRITERS[file](file, Y.astype(dtype).tolist())
        assert accuracy(file, "a.csv", "b.csv") == accuracy(file, "a.npy", "b.npy") == ACCURACY


def test_names_of_rows_must_be_those_of_the_scores(accuracy, refused):
    names = [f"p{i}" for i in range(60)]
    pd.DataFrame(A, names, COLUMNS).to_csv("a.csv")
    labels = pd.Series(NAMED, names, name="y")
    labels.to_csv("y.csv")
    assert accuracy("y.csv", "a.csv", "b.npy") == ACCURACY
    labels[::-1].to_csv("y.csv")
    assert refused("y.csv", "a.csv", "b.npy").startswith("y.csv: expected the rows of a.csv in")


def test_a_class_may_be_called_na(accuracy):
    names = ["NA", "None", "eel"]
    pd.DataFrame(A, columns=names).to_csv("a.csv", index=False)
    pd.Series(np.array(names)[Y], name="y").to_csv("y.csv", index=False)
    assert accuracy("y.csv", "a.csv", "b.npy") == ACCURACY


def test_columns_without_names_are_in_sorted_order(accuracy, run):
    np.save("y.npy", np.array(["cat", "dog", "eel"])[Y])
    assert accuracy("y.npy", "a.npy", "b.npy") == ACCURACY
    out = run(*arguments("y.npy", "a.npy", "b.npy"))[1]
    assert re.search("^classes +3: cat, dog, eel$", out, re.M)
    # Digits in an array of strings are names, too.
    np.save("y.npy", Y.astype(str))
    assert accuracy("y.npy", "a.npy", "b.npy") == ACCURACY


@pytest.mark.parametrize("file", ["array.npy", "named.csv"])
def test_labels_without_a_column_are_named(file, refused):
    labels = NAMED.tolist()
    labels[3], labels[4], labels[7] = "bat", "Cat", "bat"
    WRITERS[file](file, labels)
    assert refused(file).startswith(f"{file}: expected names of columns of the scores, 'dog'")
    assert refused(file, "a.npy", "b.npy").startswith(f"{file}: expected 3 different labels")


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (Y[:9], r"expected one label for each of 60 rows, got shape \(9,\)"),
        (Y + 1, r"expected numbers of columns, 0 to 2, got 3 in row \d+\.$"),
        (np.array([{}] * 60), "Python objects"),
    ],
)
def test_wrong_labels_are_named(labels, said, refused):
    np.save("labels.npy", labels)
    assert re.match(f"labels.npy: .*{said}", refused("labels.npy"))
