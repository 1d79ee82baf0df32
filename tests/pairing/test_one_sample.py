import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pa_select.pairing import pair_environments, pair_within_label


@settings(max_examples=100)
@given(y=st.lists(st.integers(0, 4), min_size=1, max_size=40), seed=st.integers(0, 100))
def test_within_label_is_a_derangement_of_each_class(y, seed):
    y = np.array(y)
    a, b, n_left_out, _ = pair_within_label(y, seed)
    alone = np.array([np.sum(y == label) == 1 for label in y])
    assert n_left_out == alone.sum()
    assert sorted(a) == sorted(b) == np.flatnonzero(~alone).tolist()
    assert (a != b).all()
    assert (y[a] == y[b]).all()


@settings(max_examples=100)
@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=40),
    seed=st.integers(0, 100),
)
def test_environments_pair_as_many_rows_as_the_smaller_cell_has(rows, seed):
    environments, y = np.array(rows).T
    a, b, n_left_out, _ = pair_environments(environments, y, seed)
    assert (environments[a] != environments[b]).all()
    assert (y[a] == y[b]).all()
    cells = np.array(
        [[np.sum((environments == e) & (y == k)) for k in range(4)] for e in range(3)]
    )
    expected = sum(np.minimum(cells[i], cells[j]).sum() for i in range(3) for j in range(i))
    assert len(a) == expected
    assert n_left_out == len(y) - len(set(a) | set(b))
    # Within two environments no row is used twice.
    for i in range(3):
        for j in range(3):
            here = (environments[a] == i) & (environments[b] == j)
            assert len(set(a[here])) == here.sum() == len(set(b[here]))


@pytest.mark.parametrize("kind", [str, float])
def test_seeds_and_label_types(kind):
    y = np.repeat([0, 1, 2], 20).astype(kind)
    first, again, other = (pair_within_label(y, seed) for seed in (0, 0, 1))
    assert (first.b[np.argsort(first.a)] == again.b[np.argsort(again.a)]).all()
    assert (first.b[np.argsort(first.a)] != other.b[np.argsort(other.a)]).any()
