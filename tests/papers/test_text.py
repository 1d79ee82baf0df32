"""Edits of texts."""

import os

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papers.shifts import CharacterEdits, WordEdits

TEXTS = ["a film with heart", "two hours of noise", ""]


def levenshtein(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


@settings(deadline=None)
@given(
    texts=st.lists(st.text("abc ", max_size=8), min_size=1, max_size=4),
    n_edits=st.integers(0, 6),
    kinds=st.sets(st.sampled_from(["insert", "delete", "substitute"]), min_size=1).map(sorted),
    alphabet=st.sampled_from(["abc", "a", "xyz"]),
    seed=st.integers(0, 3),
)
def test_edits(texts, n_edits, kinds, alphabet, seed):
    shift = CharacterEdits(alphabet=alphabet, kinds=kinds, random_state=seed)
    shifted = shift(texts, power=n_edits)
    for before, after, made in zip(texts, shifted.X, shifted.norm, strict=True):
        assert levenshtein(before, after) <= made <= n_edits
        assert made == n_edits or "insert" not in kinds
        change = len(after) - len(before)
        if kinds == ["substitute"]:
            assert change == 0
        if kinds == ["insert"]:
            assert change == n_edits
        if kinds == ["delete"]:
            assert -change == made == min(n_edits, len(before))
        assert set(after) <= set(before) | set(alphabet)
    # Few edits are the first of many.
    if n_edits:
        fewer = shift(texts, power=n_edits - 1)
        for first, last in zip(fewer.X, shifted.X, strict=True):
            assert levenshtein(first, last) <= 1


def test_each_single_edit_is_one_away():
    texts = ["abcdefgh"] * 600
    shifted = CharacterEdits(1, alphabet="abc")(texts)
    distances = [levenshtein("abcdefgh", text) for text in shifted.X]
    assert distances == [1] * 600
    lengths = np.bincount([len(text) for text in shifted.X])[7:]
    assert (lengths > 160).all()  # of 200 expected
    substituted = [text for text in shifted.X if len(text) == 8]
    places = {len(os.path.commonprefix([text, "abcdefgh"])) for text in substituted}
    assert places == set(range(8))


def test_words():
    words = ["good", "fine"]
    inserted = WordEdits(words, 3)(TEXTS)
    for before, after in zip(TEXTS, inserted.X, strict=True):
        assert [word for word in after.split() if word not in words] == before.split()
        assert len(after.split()) == len(before.split()) + 3
        assert after == after.strip()
    assert inserted.norm.tolist() == [3, 3, 3]
    replaced = WordEdits(words, 2, mode="replace")(TEXTS)
    for before, after in zip(TEXTS[:2], replaced.X, strict=False):
        pairs = list(zip(before.split(), after.split(), strict=True))
        assert all(old == new or new in words for old, new in pairs)
        assert 1 <= sum(old != new for old, new in pairs) <= 2
    assert replaced.X[2] == ""
    assert replaced.norm.tolist() == [2, 2, 0]
    # Few are the first ones of many, and every place is used.
    once, twice = (WordEdits(["NEW"])(TEXTS[:1] * 200, power=n).X for n in (1, 2))
    for first, last in zip(once, twice, strict=True):
        tokens = last.split()
        assert first.split() in [tokens[:i] + tokens[i + 1 :] for i in range(len(tokens))]
    assert {text.split().index("NEW") for text in once} == {0, 1, 2, 3, 4}
    # White space stays.
    assert WordEdits(["B"], mode="replace")([" a\n"]).X == [" B\n"]
    assert set(WordEdits(["B"])([" a\n"] * 20).X) == {" B a\n", " a\nB"}


def test_words_by_label():
    labels = np.array(["pos", "neg", "pos"])
    shift = WordEdits({"pos": ["great"], "neg": ["awful"]})
    shifted = shift(TEXTS, labels)
    for text, label in zip(shifted.X, labels, strict=True):
        assert ("great" in text) == (label == "pos")
        assert ("awful" in text) == (label == "neg")
    numbered = WordEdits({1: ["great"], 0: ["awful"]})(TEXTS, np.array([1, 0, 1]))
    assert numbered.X == shifted.X


@pytest.mark.parametrize("shift", [CharacterEdits(20), WordEdits(["wonderful"], 4)], ids=repr)
def test_types_of_texts(shift):
    expected = shift(TEXTS).X
    for texts in (np.array(TEXTS), np.array(TEXTS, dtype=object)):
        assert shift(texts).X.dtype.kind == texts.dtype.kind
        assert shift(texts).X.tolist() == expected
    before, after = (pd.Series(texts, [3, 3, 1], object) for texts in (TEXTS, expected))
    pd.testing.assert_series_equal(shift(before).X, after)
