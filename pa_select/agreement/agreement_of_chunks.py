"""Agreement of pairs that are read in chunks, for data larger than memory."""

from __future__ import annotations

import mmap
import os
import tempfile
from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from pa_select.agreement.inputs.problem import check_pair
from pa_select.agreement.inputs.validation import check_prior, check_weight, indexed
from pa_select.agreement.pairs.block import converted
from pa_select.agreement.posterior_agreement import posterior_agreement
from pa_select.agreement.result import PosteriorAgreement
from pa_select.utils.arrays import check_tol, resolve_device
from pa_select.utils.typing import Device, Floats, Prior

# This many scores are converted to another type at once: it bounds the memory.
_SCORES_AT_ONCE = 1 << 20


def agreement_of_chunks(
    chunks: Any,
    *,
    prior: Prior = "uniform",
    tol: float = 1e-6,
    certify: bool = True,
    device: Device = None,
    folder: str | os.PathLike[str] | None = None,
) -> PosteriorAgreement:
    """Maximise the agreement of pairs whose scores are read in chunks, once.

    The scores are written to a temporary file, which `posterior_agreement` then reads like any
    memory-mapped array. So the result is that of all chunks stacked, and only one chunk is in
    memory.

    Parameters
    ----------
    chunks : iterable
        Yields tuples ``(scores_a, scores_b)`` or ``(scores_a, scores_b, sample_weight)``,
        as in `posterior_agreement`, of shapes (n, n_classes), (n, n_classes) and (n,) with
        any n. It may be a generator, a list or a DataLoader. ``tqdm(chunks)`` shows a progress
        bar.
    prior : {"uniform", "marginal"} or array-like of shape (n_classes,), default="uniform"
        The class prior, as in `posterior_agreement`.
    tol : float, default=1e-6
        Largest certified gap, in nats per pair.
    certify : bool, default=True
        Whether to certify the maximum, as in `posterior_agreement`.
    device : {None, "auto", "cpu", "cuda"} or torch.device, default=None
        Where to compute, as in `posterior_agreement`. None: where the scores of the first chunk
        are. A GPU must have room for all scores; "cpu" reads them from the file.
    folder : str or path, default=None
        The folder of the temporary file, which takes the bytes of all scores: 80 for a pair of
        ten classes in float32. None: the system's temporary folder (`tempfile.gettempdir`). On
        some systems that folder is in memory; then give one on a disk.

    Returns
    -------
    PosteriorAgreement
        Its `terms` and weights are arrays of all pairs, 8 bytes each. Its `source` is the file,
        which has no name and vanishes with the result.

    Raises
    ------
    TypeError, ValueError
        As `posterior_agreement`; the message names the chunk and the row.
    OSError
        If the scores cannot be written to `folder`, for example because the disk is full.
    RuntimeError
        As `posterior_agreement`.

    Warns
    -----
    UserWarning
        As `posterior_agreement`.

    See Also
    --------
    posterior_agreement : The same for arrays, which may be memory-mapped files.

    Notes
    -----
    Each sample is stored in the type of its chunks, or in float64 if its chunks have several.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select.agreement import agreement_of_chunks
    >>> def chunks():
    ...     rng = np.random.default_rng(0)
    ...     for _ in range(10):
    ...         logits = 3 * rng.normal(size=(500, 4))
    ...         yield logits, logits + rng.normal(size=(500, 4))
    >>> result = agreement_of_chunks(chunks())
    >>> print(f"{result.score:.3f} nats over {result.n_pairs} pairs")
    1.028 nats over 5000 pairs
    """
    check_tol(tol)
    target = torch.device("cpu")
    weights = array("d")  # grows in place
    with _ScoresInFile(folder) as file_a, _ScoresInFile(folder) as file_b:
        for number, (a, b, weight) in enumerate(_read(chunks)):
            if number == 0:  # a wrong argument should not cost the scores of all chunks
                check_prior(prior, a.shape[1])
                target = resolve_device(device, a, b)
            file_a.append(a)
            file_b.append(b)
            if weight is not None:
                weights.frombytes(weight.tobytes())
        scores = file_a.mapped(), file_b.mapped()
    result: PosteriorAgreement = posterior_agreement(
        *scores,
        prior=prior,
        sample_weight=np.frombuffer(weights) if weights else None,
        tol=tol,
        certify=certify,
        device=target,
    )
    return result


class _ScoresInFile:
    """The scores of one sample, in a temporary file that nobody has to delete.

    On POSIX the file has no name, on Windows it is deleted when its last handle is closed. A
    mapping has a handle of its own. So the file lives as long as its scores, and a process that
    is killed leaves nothing behind.
    """

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        self._folder = tempfile.gettempdir() if folder is None else folder
        self._dtype, self._n_classes = torch.float64, 0
        self._file = self._open()

    def __enter__(self) -> _ScoresInFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, scores: torch.Tensor) -> None:
        if not self._n_classes:
            self._dtype, self._n_classes = scores.dtype, scores.shape[1]
        elif scores.dtype != self._dtype:
            self._convert_to_double()
        self._write(converted(scores.cpu(), self._dtype))

    def mapped(self) -> torch.Tensor:
        mapping = mmap.mmap(self._file.fileno(), 0)
        return torch.frombuffer(mapping, dtype=self._dtype).view(-1, self._n_classes)

    def _convert_to_double(self) -> None:
        if self._dtype == torch.float64:
            return
        stored, self._dtype = self._dtype, torch.float64
        n_bytes = max(_SCORES_AT_ONCE // self._n_classes, 1) * self._n_classes * stored.itemsize
        # It is not mapped: a mapping would live on in the traceback of a full disk.
        with self._file as file:
            self._file = self._open()
            file.seek(0)
            while data := file.read(n_bytes):
                rows = torch.frombuffer(bytearray(data), dtype=stored).view(-1, self._n_classes)
                self._write(converted(rows, torch.float64))

    # Without a buffer, which would be written once more, and fail again, when the file is closed.
    def _open(self) -> Any:
        return tempfile.TemporaryFile(buffering=0, dir=self._folder)

    def _write(self, scores: torch.Tensor) -> None:
        left = scores.contiguous().view(torch.uint8).numpy().data.cast("B")
        try:
            # By `write`, since a full disk would kill a process that writes to a mapping.
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            raise OSError(
                error.errno,
                "folder: expected a folder with room for the scores of all chunks, got "
                f"{os.fspath(self._folder)!r} ({error.strerror}).",
            ) from error


def _read(chunks: Any) -> Iterator[tuple[torch.Tensor, torch.Tensor, Floats | None]]:
    """Yield the checked scores and weights of each chunk."""
    if not hasattr(chunks, "__iter__") and hasattr(chunks, "__len__"):
        # A torch Dataset may have no end but its length.
        chunks = map(chunks.__getitem__, range(len(chunks)))
    first: tuple[int, bool] | None = None
    for number, chunk in enumerate(chunks):
        where = f" of chunk {number}"
        scores_a, scores_b, weight = chunk if len(chunk) == 3 else (*chunk, None)
        a, b = check_pair(scores_a, scores_b, where)
        if weight is not None:
            name, rows = f"sample_weight{where}", indexed(scores_a, scores_b)
            weight = check_weight(weight, len(a), name, rows=rows, shard=True)
        n_classes, weighted = first = first or (a.shape[1], weight is not None)
        if a.shape[1] != n_classes:
            raise ValueError(
                f"scores_a{where}: expected {n_classes} classes, like chunk 0, got {a.shape[1]}."
            )
        if (weight is not None) != weighted:
            raise ValueError(
                f"sample_weight{where}: expected {'' if weighted else 'no '}weights, like "
                f"chunk 0, got {'none' if weighted else 'some'}."
            )
        yield a, b, weight
    if first is None:
        raise ValueError("chunks: expected at least one, got none.")
