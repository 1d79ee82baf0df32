"""Agreement of pairs that are read in chunks: data larger than memory."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from pa_select._probabilities import look_like_probabilities
from pa_select.agreement import notices as _notices
from pa_select.agreement import validation as _validation
from pa_select.agreement.chunk_reader import ChunkReader
from pa_select.agreement.kernel import Floats
from pa_select.agreement.pairs import Block, Ints, PairedScores, Result
from pa_select.agreement.result import PosteriorAgreement
from pa_select.agreement.solve import solve

# Rows are gathered to so many elements, whatever the chunks are: some blocks for each thread
# of a CPU, one for an accelerator.
_ROOM_PER_THREAD = 1 << 20
_ACCELERATOR_ROOM = 1 << 25


def agreement_of_chunks(
    chunks: Any,
    *,
    prior: Any = "uniform",
    tol: float | None = None,
    certify: bool = True,
    device: Any = None,
    verbose: int = 0,
) -> PosteriorAgreement:
    """Maximise the agreement of pairs whose scores are read in chunks, many times.

    The result is that of `posterior_agreement` on all chunks one below the other, with one
    chunk and a few rows of room in memory at a time. How the pairs are cut into chunks
    changes nothing.

    Parameters
    ----------
    chunks : iterable, or callable that returns one
        Of tuples ``(scores_a, scores_b)`` or ``(scores_a, scores_b, sample_weight)``, each
        as in `posterior_agreement`, of shapes (n, n_classes), (n, n_classes) and (n,) with
        any n: a list, a DataLoader, a torch Dataset of chunks, an object with ``__iter__``,
        or a function that makes a generator. It is read once for each pass, some 10 to 15
        times for a fixed prior and 40 to 60 times for the marginal one, and must give the
        same pairs in the same order; a generator, which can be read only once, will not do.
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
        far and how much more the bounds allow (both in nats per pair).

    Returns
    -------
    PosteriorAgreement
        Its `terms` are an array of all pairs, 8 bytes each, computed in a pass at the end; its
        `source` is None, so that it can be neither resampled nor decomposed.

    Raises
    ------
    TypeError, ValueError
        As `posterior_agreement`, with the chunk and the row in it; if the chunks can be read
        only once, or a later pass gives others than the first.
    RuntimeError
        As `posterior_agreement`.

    Warns
    -----
    UserWarning
        If the scores of every chunk look like probabilities, as in `posterior_agreement`.

    See Also
    --------
    posterior_agreement : The same for arrays, also such that are mapped from a file.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       section 3 (the metric).

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
    # What tqdm decides by the environment, terminal or notebook, costs an import.
    from tqdm.auto import tqdm

    tol = _validation.check_tol(tol, prior)
    with tqdm(unit=" pairs", unit_scale=True, disable=not verbose) as bar:

        def report(value: Floats, upper: Floats) -> None:
            bar.set_postfix_str(f"score={value[0]:.6g}, gap={upper[0] - value[0]:.1g}")

        reader = ChunkReader(chunks, bar)
        pairs, checked, total, used = _first_pass(reader, prior, device)
        totals, n_used = np.array([total]), np.array([used])
        return solve(pairs, checked, tol, totals, n_used, certify=certify, report=report)[0]


def _first_pass(
    reader: ChunkReader, prior: Any, device: Any
) -> tuple[_ChunkedScores, Floats | str | None, float, int]:
    """The pairs, the checked prior, and the sum and the number of positive weights."""
    checked: Floats | str | None = None
    target, n_pairs, n_classes, zeros = torch.device("cpu"), 0, 0, False
    dtypes: set[torch.dtype] = set()
    weights = array("d")  # grows in place
    probabilities = [True, True]
    for a, b, weight in reader:
        if not n_pairs:
            n_classes = a.shape[1]
            checked = _validation.check_prior(prior, n_classes)
            target = _validation.resolve_device(device, a, b)
        n_pairs += len(a)
        if any(probabilities):
            found = look_like_probabilities(a, b)
            probabilities = [all(both) for both in zip(probabilities, found, strict=True)]
        dtypes |= {a.dtype, b.dtype}
        zeros |= any(x.is_floating_point() and float(x.amin()) == -torch.inf for x in (a, b))
        if weight is not None:
            weights.frombytes(weight.tobytes())
    _notices.warn_of_probabilities([probabilities])
    given = np.frombuffer(weights) if weights else None
    weight = _validation.check_weight(given, n_pairs, "sample_weight of all chunks")
    on_cpu = target.type == "cpu"
    elements = _ROOM_PER_THREAD * torch.get_num_threads() if on_cpu else _ACCELERATOR_ROOM
    shape = min(-(-elements // n_classes), n_pairs), n_classes
    dtype = dtypes.pop() if len(dtypes) == 1 else torch.float64
    zero = np.zeros(1, dtype=np.int64)
    pairs = _ChunkedScores(
        torch.empty(shape, dtype=dtype, device=target),
        torch.empty(shape, dtype=dtype, device=target),
        _validation.normalised([weight], target),
        zero + n_pairs,
        zero,
        zero,
        zero,
        reader,
        zeros,
    )
    return pairs, checked, float(weight.sum()), int(np.count_nonzero(weight))


@dataclass(frozen=True)
class _ChunkedScores(PairedScores):
    """The pairs of one problem whose scores are read anew in each pass.

    `a` and `b` are room for some rows: all that is in memory at a time.
    """

    reader: ChunkReader
    zeros: bool

    @cached_property
    def has_zero_posteriors(self) -> bool:
        return self.zeros

    def keeps(self, dtype: torch.dtype) -> bool:
        return False

    def map_blocks(
        self,
        part: Callable[[Block], Result],
        problems: Ints,
        dtype: torch.dtype = torch.float64,
    ) -> Iterator[tuple[slice, Result]]:
        """Apply a function to all pairs, in one pass over the chunks."""
        number = begin = 0
        zero = np.zeros(1, dtype=np.int64)
        for n_rows in self._fill():
            rows = replace(self, counts=zero + n_rows, start_weight=zero + begin)

            def numbered(block: Block, first: int = number) -> Result:
                return part(block._replace(number=first + block.number))

            # A generator of scores that stands in an inference mode has not left it yet.
            with torch.inference_mode(False):
                for found in PairedScores.map_blocks(rows, numbered, problems, dtype):
                    yield found
                    number += 1
            begin += n_rows

    def _fill(self) -> Iterator[int]:
        """Fill the room with rows, again and again; yields how many.

        Blocks then are the same however the pairs are cut into chunks.
        """
        filled = 0
        for a, b, _ in self.reader:
            taken = 0
            while taken < len(a):
                n = min(len(a) - taken, len(self.a) - filled)
                # Copied at once: what reads the chunks may use their memory again.
                self.a[filled : filled + n] = a[taken : taken + n]
                self.b[filled : filled + n] = b[taken : taken + n]
                filled, taken = filled + n, taken + n
                if filled == len(self.a):
                    yield filled
                    filled = 0
        if filled:
            yield filled
