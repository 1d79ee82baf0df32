"""The shares of the classes that candidates predict on X and on a target."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pa_select.model_selection.layout import Layout
from pa_select.model_selection.pairings import OF_X
from pa_select.model_selection.stacks import Stacks
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Floats

# A larger ``class_balance_shift`` causes a warning.
LARGE_SHIFT = 0.1


def class_balances(
    stacks: Stacks, layout: Layout, labels: NDArray[Any], source: int
) -> tuple[Floats, Floats]:
    """Return the shares of the classes predicted for the test rows and for a source.

    Both arrays have the shape (n_candidates, n_classes). If no test row was scored, the
    shares are those of the labels.
    """
    shape = (len(stacks), len(stacks.classes))
    on_test, on_source = np.zeros(shape), np.zeros(shape)
    for c in range(len(stacks)):
        for split, wanted in enumerate(layout.wanted):
            for kind, counts in ((OF_X, on_test), (source, on_source)):
                if kind in wanted:
                    predicted = stacks.matrix(c, split, kind).argmax(1)
                    counts[c] += np.bincount(predicted, minlength=shape[1])
    if not on_test.any():
        on_test += (labels[:, None] == stacks.classes).sum(0)
    return (
        on_test / on_test.sum(1, keepdims=True),
        on_source / on_source.sum(1, keepdims=True),
    )


def warn_of_label_shift(table: dict[str, Any], chosen: int) -> None:
    """Warn if the chosen candidate predicts other class shares on the target than on X."""
    shift = table.get("class_balance_shift")
    if shift is not None and shift[chosen] > LARGE_SHIFT:
        warn_caller(
            f"The chosen candidate predicts other classes on the target than on X: "
            f"{shift[chosen]:.0%} of its predictions would have to change. Either the "
            "class shares differ on the target, or the candidate fails there; neither its "
            "score nor its agreement shows which."
        )
