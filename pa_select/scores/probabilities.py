"""Scores from probabilities: their logs."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from pa_select.utils.arrays import as_numbers
from pa_select.utils.score_checks import DEFAULT_CLIP, check_clip, clipped_logs, wrong_row


def log_probabilities(probabilities: Any, *, clip: float = DEFAULT_CLIP) -> Any:
    """Convert probabilities to scores for `posterior_agreement`: their logs.

    Parameters
    ----------
    probabilities : array-like of shape (n, n_classes) or (n_problems, n, n_classes)
        Probabilities of exclusive classes, as a network's softmax or `predict_proba` returns
        them. Every row has non-negative numbers that sum to 1, to within 0.001. numpy arrays,
        tensors, DataFrames or lists.
    clip : float, default=1e-8
        Smallest probability, in (0, 0.5); smaller ones are raised to it, since two posteriors
        without a common class would make all other pairs irrelevant. For votes of n trees or n
        neighbours use 1 / (2 n), as `class_scores` does.

    Returns
    -------
    scores : ndarray, torch.Tensor or DataFrame of the shape of `probabilities`
        Log-probabilities, at most about 0. For a tensor, a tensor on the same device without
        gradients; for a pandas DataFrame, one with the same index and columns. The type is
        float32 if `probabilities` are float32, else float64.

    Raises
    ------
    TypeError
        If `probabilities` are not real numbers.
    ValueError
        If the shape is wrong, a row has a negative number or does not sum to 1 (the message
        names the first such row), or `clip` is not a number in (0, 0.5).

    See Also
    --------
    class_scores : Scores of a fitted classifier.
    posterior_agreement : The agreement of scores.

    Examples
    --------
    >>> from pa_select import log_probabilities
    >>> log_probabilities([[0.5, 0.25, 0.25], [1, 0, 0]]).round(2)
    array([[ -0.69,  -1.39,  -1.39],
           [  0.  , -18.42, -18.42]])
    """
    check_clip(clip)
    scores = scores_of_probabilities(probabilities, "probabilities", clip)
    if hasattr(probabilities, "iloc"):
        names = {"index": probabilities.index, "columns": probabilities.columns}
        return type(probabilities)(scores, **names)
    return scores


def scores_of_probabilities(probabilities: Any, name: str, clip: float) -> Any:
    """Return logs of clipped probabilities, an array or a tensor; errors begin with `name`."""
    values = _as_floats(probabilities, name)
    if values.ndim not in (2, 3) or not values.shape[-1]:
        hint = ""
        if values.ndim == 1:
            hint = (
                " One probability per row is not enough: give both classes a column, for "
                "example numpy.column_stack([1 - p, p])."
            )
        raise ValueError(
            f"{name}: expected shape (n, n_classes), got shape {tuple(values.shape)}.{hint}"
        )
    n, n_classes = values.shape[-2:]
    rows = values.reshape(-1, n_classes)
    row = wrong_row(rows)
    if row is not None:
        place = f"row {row}" if values.ndim == 2 else f"problem {row // n}, row {row % n}"
        raise ValueError(
            f"{name}: expected probabilities, rows of non-negative numbers that sum to 1, got a "
            f"sum of {float(rows[row].sum()):.4g} and a least number of "
            f"{float(rows[row].min()):.4g} in {place}."
        )
    return clipped_logs(values, clip)


def _as_floats(values: Any, name: str) -> Any:
    """Return real numbers in float32 or float64: a tensor for a tensor, else an array."""
    torch = sys.modules.get("torch")  # without torch there are no tensors
    if torch is not None and isinstance(values, torch.Tensor):
        from pa_select.agreement.inputs.validation import as_scores

        tensor = as_scores(values, name)
        return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.double()
    array = as_numbers(values, name)
    if array.dtype.kind == "c":
        raise TypeError(f"{name}: expected real numbers, got dtype {array.dtype}.")
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
