"""Agreement of pairs that are read in chunks, for data larger than memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from pa_select.agreement.inputs.validation import check_tol
from pa_select.agreement.pairs.chunk_reader import ChunkReader
from pa_select.agreement.pairs.chunked_scores import read_first
from pa_select.agreement.result import PosteriorAgreement
from pa_select.agreement.solved_problems import solve_pairs
from pa_select.utils.typing import Floats


def agreement_of_chunks(
    chunks: Any,
    *,
    prior: Any = "uniform",
    tol: float | None = None,
    certify: bool = True,
    device: Any = None,
    verbose: int = 0,
) -> PosteriorAgreement:
    """Maximise the agreement of pairs whose scores are read in chunks, in many passes.

    The result is that of `posterior_agreement` on all chunks one below the other, but only
    one chunk and a buffer of rows are in memory. How the pairs are cut into chunks does not
    change the result.

    Parameters
    ----------
    chunks : iterable, or callable that returns one
        Yields tuples ``(scores_a, scores_b)`` or ``(scores_a, scores_b, sample_weight)``,
        as in `posterior_agreement`, of shapes (n, n_classes), (n, n_classes) and (n,) with
        any n. It may be a list, a DataLoader, a torch Dataset of chunks, an object with
        ``__iter__``, or a function that makes a generator. It is read once in each pass, 10
        to 15 times for a fixed prior and 40 to 60 times for the marginal one, and must give
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

        def report(value: Floats, upper: Floats) -> None:
            bar.set_postfix_str(f"score={value[0]:.6g}, gap={upper[0] - value[0]:.1g}")

        reader = ChunkReader(chunks, bar)
        pairs, checked, total = read_first(reader, prior, device)
        totals = np.array([total])
        return solve_pairs(pairs, checked, totals, tol, certify=certify, report=report)[0]
