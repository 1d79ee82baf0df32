"""Agreement of pairs that are read in chunks, for data larger than memory."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from pa_select.agreement.inputs import suspicious_scores as _notices
from pa_select.agreement.inputs.problem import check_pair
from pa_select.agreement.inputs.validation import (
    CheckedPrior,
    check_prior,
    check_tol,
    check_weight,
    check_weight_values,
    indexed,
)
from pa_select.agreement.pairs.block import Block
from pa_select.agreement.pairs.paired_scores import PairedScores, Result, normalised
from pa_select.agreement.result import PosteriorAgreement
from pa_select.agreement.solved_problems import solve_pairs
from pa_select.agreement.solver.branch_and_bound import Points
from pa_select.utils.estimators import resolve_device
from pa_select.utils.score_checks import look_like_probabilities
from pa_select.utils.typing import Device, Floats, Ints, Prior

# Rows are gathered up to this many scores, whatever the size of the chunks. That makes several
# blocks for each thread of a CPU, or one block for an accelerator.
_ROOM_PER_THREAD = 1 << 20
_ACCELERATOR_ROOM = 1 << 25
# The first pair of a later pass is another pair if it differs by more than this share of its
# largest score. In half precision on a GPU the same pair differs by less between passes.
_SAME = 0.02


def agreement_of_chunks(
    chunks: Any,
    *,
    prior: Prior = "uniform",
    tol: float | None = None,
    certify: bool = True,
    device: Device = None,
    verbose: int = 0,
) -> PosteriorAgreement:
    """Maximise the agreement of pairs whose scores are read in chunks, in many passes.

    The result equals `posterior_agreement` of all chunks stacked, but only one chunk and a
    buffer of rows are in memory. The division into chunks does not change the result.

    Parameters
    ----------
    chunks : iterable, or callable that returns one
        Yields tuples ``(scores_a, scores_b)`` or ``(scores_a, scores_b, sample_weight)``,
        as in `posterior_agreement`, of shapes (n, n_classes), (n, n_classes) and (n,) with
        any n. It may be a list, a DataLoader, a torch Dataset of chunks, an object with
        ``__iter__``, or a function that makes a generator. It is read once in each pass, 10
        to 15 times for a fixed prior and 30 to 100 times for the marginal one, and must give
        the same pairs in the same order. A generator can be read only once and is refused.
    prior : {"uniform", "marginal"} or array-like of shape (n_classes,), default="uniform"
        The class prior, as in `posterior_agreement`.
    tol : float, default=None
        Largest certified gap, in nats per pair. None: as in `posterior_agreement`.
    certify : bool, default=True
        Whether to certify the maximum, as in `posterior_agreement`.
    device : {None, "auto", "cpu", "cuda"} or torch.device, default=None
        Where to compute, as in `posterior_agreement`; each chunk is moved there when it is
        read. None: where the scores of the first chunk are.
    verbose : int, default=0
        1: a progress bar with the pass, the pairs read in all passes, the best agreement so
        far and its gap (both in nats per pair).

    Returns
    -------
    PosteriorAgreement
        Its `terms` are an array of all pairs, 8 bytes each, computed in a pass at the end.
        Its `source` is None, so that it can be neither resampled nor decomposed.

    Raises
    ------
    TypeError, ValueError
        As `posterior_agreement`; the message names the chunk and the row. Also if the chunks
        can be read only once, or a later pass gives other pairs than the first.
    RuntimeError
        As `posterior_agreement`.

    Warns
    -----
    UserWarning
        If the scores of every chunk look like probabilities, as in `posterior_agreement`.

    See Also
    --------
    posterior_agreement : The same for arrays, which may be memory-mapped files.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select import agreement_of_chunks
    >>> def chunks():
    ...     rng = np.random.default_rng(0)
    ...     for _ in range(10):
    ...         logits = 3 * rng.normal(size=(500, 4))
    ...         yield logits, logits + rng.normal(size=(500, 4))
    >>> result = agreement_of_chunks(chunks)
    >>> print(f"{result.score:.3f} nats over {result.n_pairs} pairs")
    1.028 nats over 5000 pairs
    """
    # Imported here, since this import takes long.
    from tqdm.auto import tqdm

    tol = check_tol(tol, prior)
    with tqdm(unit=" pairs", unit_scale=True, disable=not verbose) as bar:

        def report(value: Floats, upper: Floats, _: Points) -> None:
            bar.set_postfix_str(f"score={value[0]:.6g}, gap={upper[0] - value[0]:.1g}")

        reader = _ChunkReader(chunks, bar)
        pairs, checked, total = _read_first(reader, prior, device)
        totals = np.array([total])
        return solve_pairs(pairs, checked, totals, tol, certify=certify, report=report)[0]


def _read_first(
    reader: _ChunkReader, prior: Prior, device: Device
) -> tuple[_ChunkedScores, CheckedPrior, float]:
    """Read all chunks once; return the pairs, the checked prior and the total weight."""
    checked = CheckedPrior()
    target, n_pairs, n_classes, zeros = torch.device("cpu"), 0, 0, False
    dtypes: set[torch.dtype] = set()
    weights = array("d")  # grows in place
    probabilities = [True, True]
    for a, b, weight in reader:
        if not n_pairs:
            n_classes = a.shape[1]
            checked = check_prior(prior, n_classes)
            target = resolve_device(device, a, b)
        n_pairs += len(a)
        if any(probabilities):
            matrices = look_like_probabilities(a, b)
            probabilities = [all(both) for both in zip(probabilities, matrices, strict=True)]
        dtypes |= {a.dtype, b.dtype}
        zeros |= any(x.is_floating_point() and float(x.amin()) == -torch.inf for x in (a, b))
        if weight is not None:
            weights.frombytes(weight.tobytes())
    _notices.warn_of_probabilities([probabilities])
    given = np.frombuffer(weights) if weights else None
    weight = check_weight(given, n_pairs, "sample_weight of all chunks")
    on_cpu = target.type == "cpu"
    elements = _ROOM_PER_THREAD * torch.get_num_threads() if on_cpu else _ACCELERATOR_ROOM
    shape = min(-(-elements // n_classes), n_pairs), n_classes
    dtype = dtypes.pop() if len(dtypes) == 1 else torch.float64
    zero = np.zeros(1, dtype=np.int64)
    pairs = _ChunkedScores(
        torch.empty(shape, dtype=dtype, device=target),
        torch.empty(shape, dtype=dtype, device=target),
        normalised([weight], weight.sum()[None], target),
        zero + n_pairs,
        zero,
        zero,
        zero,
        reader,
        zeros,
    )
    return pairs, checked, float(weight.sum())


@dataclass(frozen=True)
class _ChunkedScores(PairedScores):
    """The pairs of one problem whose scores are read again in each pass.

    Only the rows in `a` and `b` are in memory: buffers that are filled again and again.
    """

    reader: _ChunkReader
    zeros: bool

    @cached_property
    def has_zero_posteriors(self) -> bool:
        return self.zeros

    def keeps(self, dtype: torch.dtype) -> bool:
        return False

    def map_blocks(
        self, part: Callable[[Block], Result], problems: Ints, dtype: torch.dtype = torch.float64
    ) -> Iterator[tuple[slice, Result]]:
        """Apply a function to all pairs, in one pass over the chunks."""
        number = begin = 0
        zero = np.zeros(1, dtype=np.int64)
        for n_rows in self._fill():
            rows = replace(self, counts=zero + n_rows, start_weight=zero + begin)

            def numbered(block: Block, first: int = number) -> Result:
                return part(block._replace(number=first + block.number))

            # A generator of scores may still be inside its own inference mode.
            with torch.inference_mode(False):
                for result in PairedScores.map_blocks(rows, numbered, problems, dtype):
                    yield result
                    number += 1
            begin += n_rows

    def _fill(self) -> Iterator[int]:
        """Fill `a` and `b` with rows, again and again; yield the number of rows.

        Blocks are therefore the same however the pairs are cut into chunks.
        """
        filled = 0
        for a, b, _ in self.reader:
            taken = 0
            while taken < len(a):
                n = min(len(a) - taken, len(self.a) - filled)
                # Copied at once, since the user's reader may use the chunk's memory again.
                self.a[filled : filled + n] = a[taken : taken + n]
                self.b[filled : filled + n] = b[taken : taken + n]
                filled, taken = filled + n, taken + n
                if filled == len(self.a):
                    yield filled
                    filled = 0
        if filled:
            yield filled


class _ChunkReader:
    """Reads and checks all chunks in each iteration, and shows its progress on a bar."""

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
