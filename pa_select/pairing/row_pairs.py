"""The pairs of rows that every pairing returns."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np

from pa_select.utils.typing import Index


class Pairs(NamedTuple):
    """Positions of the paired rows, and how many rows have no partner.

    Parameters
    ----------
    a, b : ndarray of shape (n_pairs,)
        Positions of the two rows of each pair; a row may be in several pairs.
    n_left_out : int
        Number of rows that are in no pair.
    why : str, default=""
        Why they are left out; empty if none is.

    Examples
    --------
    >>> from pa_select.pairing import pair_within_label
    >>> pairs = pair_within_label([0, 0, 1])
    >>> pairs.n_left_out, pairs.why
    (1, '1 row has a label that no other row has')
    """

    a: Index
    b: Index
    n_left_out: int
    why: str = ""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the pairs to a compressed npz file.

        Parameters
        ----------
        path : str or path
            The file; an existing one is replaced.
        """
        with open(path, "wb") as file:
            np.savez_compressed(file, a=self.a, b=self.b, left_out=self.n_left_out, why=self.why)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Pairs:
        """Read pairs that `save` wrote.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        Pairs

        Raises
        ------
        OSError
            If the file cannot be opened.
        ValueError
            If it is damaged, or something else; no pickle is loaded.
        """
        with open(path, "rb") as file:
            try:
                with np.load(file, allow_pickle=False) as stored:
                    return cls(
                        stored["a"].astype(np.intp),
                        stored["b"].astype(np.intp),
                        int(stored["left_out"]),
                        str(stored["why"]),
                    )
            except Exception as error:  # of many types, if the file is damaged
                raise ValueError(
                    f"path: expected a file that Pairs.save wrote, got {os.fspath(path)!r} "
                    f"({type(error).__name__}: {error})."
                ) from error


def check_rows(pairs: object, lengths: tuple[int, int], samples: tuple[str, str]) -> Pairs:
    """Return what a pairing returned as checked row numbers of two samples, named in errors."""
    found = list(pairs[:2]) if isinstance(pairs, (list, tuple)) else []
    rows = [np.asarray(part) for part in found]
    if len(rows) != 2 or len(rows[0]) != len(rows[1]):
        raise ValueError(
            f"pairing: expected two arrays of row numbers of equal length, got {pairs!r}."
        )
    for part, n, sample in zip(rows, lengths, samples, strict=True):
        fits = part.ndim == 1 and (part.dtype.kind in "iu" or not len(part))
        if not fits or ((part < 0) | (part >= n)).any():
            raise ValueError(f"pairing: expected row numbers of {sample}, 0 to {n - 1}.")
    a, b = (part.astype(np.intp) for part in rows)
    return Pairs(a, b, sum(lengths) - len(np.unique(a)) - len(np.unique(b)))


def in_words(*parts: tuple[int, str, str]) -> str:
    """Join reasons: (number of rows, the phrase for one row, the phrase for several)."""
    return "; ".join(
        f"{n} {'row' if n == 1 else 'rows'} {one if n == 1 else several}"
        for n, one, several in parts
        if n
    )
