"""Shifts of text: character edits and inserted or replaced words."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from pa_select.shifts.numeric_rows import seeded
from pa_select.shifts.shift import Shift, Shifted
from pa_select.utils.arrays import check_column
from pa_select.utils.estimators import is_instance
from pa_select.utils.typing import Floats, Labels, Model, RandomState, Rows

_EDITS = ("insert", "delete", "substitute")


class _TextShift(Shift):
    """Base class of shifts that edit texts step by step."""

    random_state: RandomState

    def _shift(self, X: Rows, y: Labels | None, estimator: Model | None, power: float) -> Shifted:
        if power != int(power):
            raise ValueError(f"{self._power}: expected a whole number, got {power!r}.")
        texts, restore = _texts(X)
        if y is not None and len(y) != len(texts):
            raise ValueError(f"y: expected {len(texts)} labels, got {len(y)}.")
        steps = self._steps(len(texts), y)
        made = np.zeros(len(texts))
        rng = seeded(self.random_state)
        for _ in range(int(power)):
            # All rows draw at each step, so that fewer edits are the first of more edits.
            for i, draw in enumerate(rng.random_sample((len(texts), 3))):
                text = steps(i, texts[i], draw)
                if text is not None:
                    texts[i] = text
                    made[i] += 1
        return Shifted(restore(texts), made)

    @abstractmethod
    def _steps(self, n: int, y: Labels | None) -> Callable[[int, str, Floats], str | None]:
        """Return a function that edits text i with three draws from [0, 1).

        It returns None if there is nothing to edit.
        """


@dataclass(eq=False, repr=False)
class CharacterEdits(_TextShift):
    """Insert, delete and substitute single characters.

    Each edit starts from the result of the edits before it, so fewer edits are the first of
    more edits. `Shifted.norm` is the number of edits of a text, which is an upper bound of the
    Levenshtein distance.

    Parameters
    ----------
    n_edits : int, default=1
        Number of edits of each text, at least 0; ``power`` overrides it.
    alphabet : str, default="abcdefghijklmnopqrstuvwxyz"
        Characters to insert. A substitution always changes the character.
    kinds : sequence of {"insert", "delete", "substitute"}, default=all three
        Kinds of edits to choose from. A text that allows none of them stays unchanged; for
        example, nothing can be deleted from an empty text.
    random_state : int, RandomState instance or None, default=None
        As in `GaussianNoise`.

    Notes
    -----
    The figures of [1]_ and [2]_ have a logarithmic axis: level :math:`L` means
    :math:`2^L` edits, so ``power=2**L`` for :math:`L` from 0 to 9 gives their points.

    References
    ----------
    .. [1] V. Jiménez Rodríguez, "Improved robustness of deep learning models through
       posterior agreement based model selection", Master's thesis, ETH Zurich, 2024,
       section 4.1, Experiment 3 and figure 4.5.
    .. [2] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       appendix C, figure 10.

    Examples
    --------
    >>> from papers.shifts import CharacterEdits
    >>> shifted = CharacterEdits(2, kinds=["substitute"], alphabet="*")(["a good film", "dull"])
    >>> [text.count("*") for text in shifted.X], shifted.norm
    ([2, 2], array([2., 2.]))
    """

    n_edits: int = 1
    _: KW_ONLY
    alphabet: str = "abcdefghijklmnopqrstuvwxyz"
    kinds: Sequence[str] = _EDITS
    random_state: RandomState = None

    _power = "n_edits"

    def _steps(self, n: int, y: Labels | None) -> Callable[[int, str, Floats], str | None]:
        if not isinstance(self.alphabet, str) or not self.alphabet:
            raise ValueError(f"alphabet: expected some characters, got {self.alphabet!r}.")
        kinds = [self.kinds] if isinstance(self.kinds, str) else list(self.kinds)
        if not kinds or not set(kinds) <= set(_EDITS):
            raise ValueError(f"kinds: expected some of {list(_EDITS)}, got {self.kinds!r}.")
        return lambda _, text, draw: _edited(text, kinds, self.alphabet, draw)


def _edited(text: str, kinds: list[str], alphabet: str, draw: Floats) -> str | None:
    inside = range(len(text))
    others = inside if len(set(alphabet)) > 1 else [i for i in inside if text[i] != alphabet[0]]
    places: dict[str, Any] = {
        "insert": range(len(text) + 1),
        "delete": inside,
        "substitute": others,
    }
    possible = [kind for kind in kinds if places[kind]]
    if not possible:
        return None
    kind = _pick(possible, draw[0])
    at = _pick(places[kind], draw[1])
    if kind == "delete":
        return text[:at] + text[at + 1 :]
    if kind == "insert":
        return text[:at] + _pick(alphabet, draw[2]) + text[at:]
    return text[:at] + _pick(alphabet.replace(text[at], ""), draw[2]) + text[at + 1 :]


@dataclass(eq=False, repr=False)
class WordEdits(_TextShift):
    """Insert words from a list into texts, or replace words by them.

    With a dict the words depend on the label of the text: they can amplify what the text says
    or contradict it, as in the example. Edits are made one after the other, so fewer edits are
    the first of more edits. `Shifted.norm` is the number of edits of a text.

    Parameters
    ----------
    words : sequence of str, or dict from label to sequence of str
        Words to choose from; a dict needs ``y`` in the call.
    n_words : int, default=1
        Number of words for each text, at least 0; ``power`` overrides it.
    mode : {"insert", "replace"}, default="insert"
        Insert each word between the words of the text, or let it replace one of them. With
        "replace" a text without words stays unchanged.
    random_state : int, RandomState instance or None, default=None
        As in `GaussianNoise`.

    References
    ----------
    .. [1] V. Jiménez Rodríguez, "Improved robustness of deep learning models through
       posterior agreement based model selection", Master's thesis, ETH Zurich, 2024,
       section 4.1 and figure B.6 (words replaced to amplify or to contradict).
    .. [2] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       appendix C, figure 10 (words added to amplify or to contradict).

    Examples
    --------
    >>> from papers.shifts import WordEdits
    >>> reviews, liked = ["a film with heart", "two hours of noise"], [1, 0]
    >>> praise, blame = ["great", "superb"], ["awful", "boring"]
    >>> WordEdits({1: praise, 0: blame})(reviews, liked).X  # amplify
    ['a film with superb heart', 'two hours boring of noise']
    >>> WordEdits({1: blame, 0: praise})(reviews, liked).X  # contradict
    ['a film with boring heart', 'two hours superb of noise']
    """

    words: Any
    n_words: int = 1
    _: KW_ONLY
    mode: str = "insert"
    random_state: RandomState = None

    _power = "n_words"

    def _steps(self, n: int, y: Labels | None) -> Callable[[int, str, Floats], str | None]:
        if self.mode not in ("insert", "replace"):
            raise ValueError(f"mode: expected 'insert' or 'replace', got {self.mode!r}.")
        words = self._words_of_rows(n, y)
        return lambda i, text, draw: _with_word(text, words[i], self.mode, draw)

    def _words_of_rows(self, n: int, y: Labels | None) -> list[list[str]]:
        if not isinstance(self.words, Mapping):
            return [_word_list(self.words)] * n
        if y is None:
            raise ValueError("y: expected labels to choose the words by, got None.")
        lists = {label: _word_list(words) for label, words in self.words.items()}
        labels = check_column(y, n, "y").tolist()
        missing = [label for label in labels if label not in lists]
        if missing:
            raise ValueError(
                f"words: expected words for label {missing[0]!r}, got some for {list(lists)}."
            )
        return [lists[label] for label in labels]


def _word_list(words: Any) -> list[str]:
    found = [] if isinstance(words, str) or not isinstance(words, Iterable) else list(words)
    if not found or not all(isinstance(word, str) for word in found):
        raise ValueError(f"words: expected a list of words, got {words!r}.")
    return found


def _with_word(text: str, words: list[str], mode: str, draw: Floats) -> str | None:
    word = _pick(words, draw[0])
    there = text.split()
    at = int(draw[1] * (len(there) + (mode == "insert")))
    if at == len(there):
        gap = " " if text and not text[-1].isspace() else ""
        return text + gap + word if mode == "insert" else None
    begin = len(text) - len(text.split(None, at)[at])
    if mode == "insert":
        return text[:begin] + word + " " + text[begin:]
    return text[:begin] + word + text[begin + len(there[at]) :]


def _pick(choices: Sequence[Any], draw: float) -> Any:
    return choices[int(draw * len(choices))]


def _texts(X: Any) -> tuple[list[str], Callable[[list[str]], Any]]:
    """Return the texts as a list, and a function that converts a list to the type of X."""
    array = isinstance(X, np.ndarray) and X.ndim == 1
    if not (array or isinstance(X, list) or is_instance(X, "pandas", "Series")):
        raise TypeError(
            "X: expected a list, an array of shape (n,) or a pandas Series of texts, got "
            f"{type(X).__name__}{f' of shape {X.shape}' if hasattr(X, 'shape') else ''}."
        )
    for row, text in enumerate(X):
        if not isinstance(text, str):
            raise TypeError(f"X: expected a str in each row, got {text!r} in row {row}.")

    def restore(texts: list[str]) -> Any:
        if is_instance(X, "pandas", "Series"):
            return type(X)(texts, index=X.index, name=X.name, dtype=X.dtype)
        return np.array(texts, dtype=X.dtype.type) if array else texts

    return list(X), restore
