"""A reader of chunks of paired scores that checks that each pass gives the same pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from pa_select.agreement.inputs.arrays import indexed
from pa_select.agreement.inputs.problem import check_pair
from pa_select.agreement.inputs.validation import check_weight_values
from pa_select.utils.typing import Floats

# The first pair of a later pass is another pair if it differs by more than this share of its
# largest score. In half precision on a GPU the same pair differs by less between passes.
_SAME = 0.02


class ChunkReader:
    """Reads and checks all chunks in each iteration, and shows its progress on a bar.

    Parameters
    ----------
    chunks : iterable, or callable that returns one
        As in `agreement_of_chunks`.
    bar : tqdm
        Shows the number of the pass and the number of pairs that were read.
    """

    def __init__(self, chunks: Any, bar: Any) -> None:
        self._open = _opener(chunks)
        self._bar = bar
        self._n_passes = 0
        #: Numbers of rows of the chunks of the first pass.
        self._lengths: list[int] = []
        self._n_classes, self._weighted = 0, False
        self._first_pair: tuple[torch.Tensor, ...] = ()

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor, Floats | None]]:
        self._n_passes += 1
        self._bar.set_description_str(f"pass {self._n_passes}")
        number = -1
        for number, chunk in enumerate(self._open()):
            a, b, weight = self._check(chunk, number)
            yield a, b, weight
            self._bar.update(len(a))
        if number + 1 < len(self._lengths):
            raise ValueError(
                f"chunks: expected the {len(self._lengths)} chunks of the first pass, got only "
                f"{number + 1} in pass {self._n_passes}; each pass must read all of them again."
            )
        if number < 0:
            raise ValueError("chunks: expected at least one, got none.")

    def _check(self, chunk: Any, number: int) -> tuple[torch.Tensor, torch.Tensor, Floats | None]:
        where = f" of chunk {number}"
        if not isinstance(chunk, (tuple, list)) or len(chunk) not in (2, 3):
            got = type(chunk).__name__
            if isinstance(chunk, (tuple, list)):
                got += f" of {len(chunk)}"
            raise TypeError(
                f"chunks: expected tuples (scores_a, scores_b) or (scores_a, scores_b, "
                f"sample_weight), got a {got} as chunk {number}."
            )
        a, b = check_pair(chunk[0], chunk[1], where)
        weight = chunk[2] if len(chunk) == 3 else None
        if weight is not None:
            name = f"sample_weight{where}"
            rows = indexed(chunk[0], chunk[1])
            weight = check_weight_values(weight, len(a), name, rows)
        if number == 0 and self._n_passes == 1:
            self._n_classes, self._weighted = a.shape[1], weight is not None
            self._first_pair = a[0].clone(), b[0].clone()
        if a.shape[1] != self._n_classes:
            raise ValueError(
                f"scores_a{where}: expected {self._n_classes} classes, like chunk 0, got "
                f"{a.shape[1]}."
            )
        if (weight is not None) != self._weighted:
            raise ValueError(
                f"sample_weight{where}: expected {'' if self._weighted else 'no '}weights, like "
                f"chunk 0, got {'none' if self._weighted else 'some'}."
            )
        if self._n_passes == 1:
            self._lengths.append(len(a))
        else:
            self._compare(a, b, number)
        return a, b, weight

    def _compare(self, a: torch.Tensor, b: torch.Tensor, number: int) -> None:
        """Compare a chunk of a later pass with that of the first."""
        if number >= len(self._lengths):
            raise ValueError(
                f"chunks: expected the {len(self._lengths)} chunks of the first pass, got more "
                f"in pass {self._n_passes}."
            )
        if len(a) != self._lengths[number]:
            raise ValueError(
                f"scores_a of chunk {number}: expected the {self._lengths[number]} rows of the "
                f"first pass, got {len(a)} in pass {self._n_passes}."
            )
        # One pair is enough to find shuffled rows, or a model that scores at random.
        pair = zip((a[0], b[0]), self._first_pair, strict=True)
        if number == 0 and not all(_same(one, other) for one, other in pair):
            raise ValueError(
                f"chunks: expected the pairs of the first pass in the same order, got another "
                f"first pair in pass {self._n_passes}; shuffle nothing, seed what is random, and "
                "score with model.eval()."
            )


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    one, other = one.double().cpu(), other.double().cpu()
    finite = other[torch.isfinite(other)]
    return torch.allclose(one, other, rtol=0, atol=_SAME * float(finite.abs().max()))


def _opener(chunks: Any) -> Callable[[], Iterator[Any]]:
    """Return a function that begins to read the chunks."""
    if isinstance(chunks, Iterator):
        raise TypeError(
            "chunks: expected an object that can be read again for each pass, got a "
            f"{type(chunks).__name__}, which can be read only once; give the function that makes "
            "it, without calling it, or a list."
        )
    if not hasattr(chunks, "__iter__"):
        if hasattr(chunks, "__getitem__") and hasattr(chunks, "__len__"):
            # A torch Dataset may have no end but its length.
            return lambda: (chunks[i] for i in range(len(chunks)))
        if callable(chunks):
            return lambda: _begin(chunks())
    return lambda: _begin(chunks)


def _begin(chunks: Any) -> Iterator[Any]:
    try:
        return iter(chunks)
    except TypeError as error:
        raise TypeError(
            "chunks: expected an iterable of tuples (scores_a, scores_b), or a function that "
            f"returns one, got {type(chunks).__name__} ({error})."
        ) from error
