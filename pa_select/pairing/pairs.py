"""What every pairing returns."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.intp]


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
    >>> import numpy as np
    >>> from pa_select.pairing import Pairs, pair_within_label
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
            Where to; what is there is replaced.
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
        """
        with np.load(path) as stored:
            return cls(
                stored["a"].astype(np.intp),
                stored["b"].astype(np.intp),
                int(stored["left_out"]),
                str(stored["why"]),
            )


def in_words(*parts: tuple[int, str, str]) -> str:
    """Reasons with their numbers: (how many, what one row does, what several do)."""
    return "; ".join(
        f"{n} {'row' if n == 1 else 'rows'} {one if n == 1 else several}"
        for n, one, several in parts
        if n
    )
