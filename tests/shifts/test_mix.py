"""Samples of which only a share has shifted."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from pa_select.shifts import mix, shifted_rows

X = np.arange(20.0).reshape(10, 2)
X2 = -X - 1
ORDER = [3, 1, np.nan, 0, np.inf, 5, 2, 2, 9, 4]


@settings(deadline=None, max_examples=50)
@given(
    n=st.integers(0, 30),
    ratios=st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted),
    data=st.data(),
)
def test_shares_are_nested_and_of_the_right_size(n, ratios, data):
    numbers = st.floats(width=16)
    order = data.draw(st.none() | st.lists(numbers, min_size=n, max_size=n))
    few, many = (shifted_rows(n, ratio, order) for ratio in ratios)
    assert few.dtype == bool
    assert (few.sum(), many.sum()) == tuple(round(ratio * n) for ratio in ratios)
    assert not (few & ~many).any()
    if order is not None:
        # Whoever is in is not behind anybody who is out.
        behind = np.where(np.isnan(order), np.inf, order)
        assert max(behind[few], default=-np.inf) <= min(behind[~few], default=np.inf)


def test_order():
    assert_array_equal(np.flatnonzero(shifted_rows(10, 0.4, ORDER)), [1, 3, 6, 7])
    assert_array_equal(
        shifted_rows(10, 0.4, torch.tensor(ORDER)), shifted_rows(10, 0.4, pd.Series(ORDER))
    )


def test_random_rows():
    masks = [shifted_rows(10, 0.3, random_state=seed) for seed in range(1000)]
    np.testing.assert_allclose(np.mean(masks, axis=0), 0.3, atol=0.05)
    assert_array_equal(shifted_rows(10, 0.3), shifted_rows(10, 0.3))
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    mix(X, X2, 0.3)
    assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def rows_of_all_types():
    index = list("abcdefghij")
    frame, frame2 = (
        pd.DataFrame(x, index=index, columns=["u", "v"]).assign(
            word=[f"{value:.0f}" for value in x[:, 0]],
            group=pd.Categorical(["g"] * 10, categories=["g", "h"]),
        )
        for x in (X, X2)
    )
    return {
        "array": (X, X2),
        "column": (X[:, 0], X2[:, 0]),
        "texts": (np.array(["a"] * 10), np.array(["long"] * 10)),
        "objects": (X.astype(object), X2.astype(object)),
        "list": (X.tolist(), X2.tolist()),
        "tensor": (torch.tensor(X), torch.tensor(X2)),
        "frame": (frame, frame2),
        "other index": (frame, frame2.reset_index(drop=True)),
        "series": (frame["word"], frame2["word"].rename("new")),
        "csr": (sparse.csr_matrix(X), sparse.csr_matrix(X2)),
        "csc": (sparse.csc_array(X), sparse.coo_array(X2)),
    }


@pytest.mark.parametrize("name", rows_of_all_types())
def test_types_of_rows(name):
    rows, rows2 = rows_of_all_types()[name]
    before = rows_of_all_types()[name]
    mask = shifted_rows(10, 0.4, ORDER)

    def plain(x):
        return np.asarray(x.toarray() if sparse.issparse(x) else x)

    mixed = mix(rows, rows2, 0.4, ORDER)
    assert type(mixed) is type(rows)
    assert_array_equal(plain(mixed)[mask], plain(rows2)[mask])
    assert_array_equal(plain(mixed)[~mask], plain(rows)[~mask])
    for now, then in zip((rows, rows2), before, strict=True):
        assert_array_equal(plain(now), plain(then))
    if hasattr(rows, "iloc"):
        assert mixed.index.equals(rows.index)
        if name == "series":
            assert (mixed.name, mixed.dtype) == (rows.name, rows.dtype)
        else:
            assert mixed.columns.equals(rows.columns)
            assert mixed.dtypes.equals(rows.dtypes)
    elif hasattr(rows, "dtype") and name != "texts":
        assert mixed.dtype == rows.dtype
    for ratio, all_of in ((0, rows), (1, rows2)):
        assert_array_equal(plain(mix(rows, rows2, ratio)), plain(all_of))
        assert mix(rows, rows2, ratio) is not all_of


def test_integers_become_floats_where_needed():
    counts = np.arange(4)
    assert_array_equal(mix(counts, counts + 0.5, 0.5, order=counts), [0.5, 1.5, 2, 3])
    frame = pd.DataFrame({"n": counts}, index=[7, 7, 8, 8])
    assert mix(frame, frame + 0.5, 0.5, order=counts)["n"].tolist() == [0.5, 1.5, 2, 3]


def test_an_array_that_is_mapped_from_a_file_is_an_array(tmp_path):
    mapped = np.memmap(tmp_path / "rows", dtype=X.dtype, mode="w+", shape=X.shape)
    mapped[:] = X
    for rows, rows2 in ((mapped, X2), (X2, mapped)):
        order = np.arange(10)
        expected = np.concatenate([rows2[:5], rows[5:]])
        assert_array_equal(mix(rows, rows2, 0.5, order=order), expected)


FRAME = pd.DataFrame(X, columns=["u", "v"])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((X, X2, 1.2), r"ratio: expected a number in \[0, 1\], got 1.2"),
        ((X, X2, "0.1"), "ratio: expected a number, got '0.1'"),
        ((X, X2[:5], 0.1), "X2: expected 10 rows as X has, got 5"),
        ((X, X2[:, :1], 0.1), r"X2: expected shape \(10, 2\), got \(10, 1\)"),
        ((X, X2.astype(str), 0.1), "X2: expected dtype float64 as X has, got <U32"),
        ((FRAME, X2, 0.1), "X2: expected rows of the type of X, DataFrame, got ndarray"),
        ((FRAME, FRAME[["v", "u"]], 0.1), r"X2: expected columns \['u', 'v'\], got \['v', 'u'\]"),
        ((FRAME, FRAME.iloc[::-1], 0.1), "X2: expected the rows of X in their order"),
        ((X, X2, 0.1, [1, 2]), r"order: expected shape \(10,\), got \(2,\)"),
        ((X, X2, 0.1, list("abcdefghij")), "order: expected numbers, got dtype <U1"),
        (({"a": 1}, X2, 0.1), "X: expected an array, a tensor, .* got dict"),
    ],
)
def test_bad_input(args, message):
    with pytest.raises((TypeError, ValueError), match=message):
        mix(*args)
