"""The study of many environments runs."""

import numpy as np
import pytest

from papers.datasets import WILDSData


@pytest.fixture
def texts(monkeypatch):
    """Stand in for the docstrings of libraries: 24 modules, and two that are left out."""
    from papers import many_environments

    kinds = many_environments.KINDS
    sizes = {f"library.m{k}": 52 + k for k in range(24)} | {"library.few": 40}
    found = [
        (f"{kinds[i % 3]} number {i} of {module}", kinds[i % 3], module)
        for module, n in sizes.items()
        for i in range(n)
    ]
    found += [(f"function {i} of one kind", "function", "library.one") for i in range(60)]
    monkeypatch.setattr(many_environments, "docstrings", lambda: found)


@pytest.mark.parametrize(
    ("name", "fields", "n_environments", "new"),
    [
        ("cameras", "camera", (6, 6), True),
        ("regions", ["region", "year"], (10, 5), True),
        ("regions", "region", (5, 5), False),
        ("modules", "module", (10, 10), True),
    ],
)
def test_collections_are_read_as_those_of_wilds(texts, name, fields, n_environments, new):
    from papers.many_environments import COLLECTIONS

    make, known, candidates = COLLECTIONS[name]
    assert len(candidates()) in (12, 16)
    whole = make(0)
    source, labelled, test = (
        WILDSData(whole.get_subset(split), fields) for split in ("train", "labelled", "test")
    )
    assert (len(source.names), len(test.names)) == n_environments
    assert labelled.names == test.names
    assert new == (not set(source.names) & set(test.names))
    assert len(whole) == len(source) + len(labelled) + len(test)
    _, sizes = np.unique(test.environments, return_counts=True)
    assert sizes.min() >= 26
    again = make(0)
    assert all(np.array_equal(a, b) for a, b in zip(whole.inputs, again.inputs, strict=True))
    if name == "modules":
        assert not {"library.few", "library.one"} & {*source.names, *test.names}
        assert all(str(source[i][0]).endswith(source.environments[i]) for i in range(500))


def test_all_rules_choose():
    from papers.many_environments_rules import BEST, ORACLE, RULES, one_draw

    picks, found = one_draw("cameras", 0, 4, n_cameras=5, n_source=3, n=40)
    assert set(picks) == set(RULES)
    assert found.shape == (4, 3)
    assert (found[:, 2] <= found[:, 1]).all()  # the worst and the mean
    assert found[picks[BEST], 1] == found[:, 1].max()
    assert found[picks[ORACLE], 1] >= found[:, 1].min()
