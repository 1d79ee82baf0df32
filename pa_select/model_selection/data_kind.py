"""What a search is given beside X and y, and all that it changes; here nothing is given.

A kind of data checks what was given. It says which rows are compared, which rows the model of
every split scores, which columns ``cv_results_`` has, and what else a fitted search has.
"""

from __future__ import annotations

import multiprocessing
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pa_select.model_selection.sites import Site
from pa_select.model_selection.stacks import Block, Layout, Stacks
from pa_select.model_selection.table_columns import Agreements, ScoresOfMetric
from pa_select.model_selection.worker import Data, Extra, SplitTask
from pa_select.utils.halves import Split, halves
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Floats, Ints

if TYPE_CHECKING:
    from pa_select.agreement.pooled_agreement import PooledPairs


_suggested = False


class Rows(NamedTuple):
    """The labelled rows of a search."""

    X: Any
    y: NDArray[Any]
    groups: Any
    #: Chooses pairs, halves and parts.
    seed: int


class DataKind(ABC):
    """What a search was given beside X and y; a search calls the methods in this order."""

    #: What `PASearchCV.pairing_` will be.
    pairing: Any
    #: Whether each row must be tested twice, and whether a splitter of the user is then used
    #: a second time.
    tested_twice, splitter_twice = False, False
    #: The environments of the rows, if folds are stratified by them, too.
    strata: NDArray[Any] | None = None
    #: Whether the weight of a pair is that of its rows.
    pairs_have_weights = True
    #: The rows of the sources that follow X.
    sources: Sequence[Any] = ()
    #: Sites where nobody labels, at which scores are expected.
    sites: Sequence[Site] = ()
    #: Whether a metric is computed of recorded probabilities.
    needs_probabilities = False

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def settled(self, splits: list[Split]) -> tuple[DataKind, list[Split]]:
        """Return the kind and the splits that are used, given the splits of ``cv``."""
        return self, splits

    @abstractmethod
    def blocks(self, splits: Sequence[Split]) -> list[Block]:
        """Return the pairs that are compared."""

    def no_pairs(self) -> str:
        """Say why there are no pairs."""
        return "pairing: expected pairs of the test rows, got none."

    def blocks_beside(self, splits: Sequence[Split]) -> list[Block]:
        """Return pairs whose rows are scored, too."""
        return []

    def extras(self, splits: Sequence[Split]) -> list[list[Extra]]:
        """Return, for each split, the rows on which its model is scored by the metrics."""
        return [[] for _ in splits]

    def predicted(self, splits: Sequence[Split]) -> list[int]:
        """Return the sources whose predicted classes are needed."""
        return []

    def prepare(
        self, layout: Layout, splits: Sequence[SplitTask], data: Data, weight: Floats | None
    ) -> None:
        """Check metrics and rows before the first fit."""

    def score_columns(self, scores: ScoresOfMetric) -> dict[str, Any]:
        """Make the columns of a metric's scores on the extras."""
        return {}

    def agreement_columns(
        self, agreements_of: Callable[[PooledPairs], Agreements], n_candidates: int
    ) -> dict[str, Floats]:
        """Make columns of the agreements of other pairs."""
        return {}

    def class_balance(self, stacks: Stacks) -> dict[str, Floats]:
        """Compute attributes and columns (without a final _) of the predicted classes."""
        return {}

    def expected_columns(
        self, stacks: Stacks, candidates: Ints, table: dict[str, Any], metric: str
    ) -> dict[str, Any]:
        """Make the columns of scores expected elsewhere; the stacks are of these candidates."""
        return {}

    def warn_of_choice(self, table: dict[str, Any], metric: str, chosen: int) -> None:
        """Warn if little can be said of the chosen candidate."""

    def attributes_of_choice(
        self, table: dict[str, Any], metric: str, chosen: int
    ) -> dict[str, Any]:
        """Return attributes of the fitted search, given the chosen candidate."""
        return {}

    def attributes_of_refit(self, estimator: Any, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return attributes of the fitted search; `row` is that of the best estimator."""
        return {}

    def suggest_more_data(self, n_splits: int) -> None:
        """Warn once if other data would gain more."""


class RepeatedFolds(DataKind):
    """No other data: two models, not fitted to a row, score it."""

    pairing = "repeated"
    tested_twice, splitter_twice = True, True

    def settled(self, splits: list[Split]) -> tuple[DataKind, list[Split]]:
        if self.blocks(splits):
            return self, splits
        warn_caller(
            "cv tests no row by two models, but pairing='repeated' compares two models on each "
            "row. The search compares models of the two halves of each split's training rows "
            "instead (pairing='split-half'). To train on all of these rows, give as cv a number "
            "of folds, a repeated splitter, or a list of two splitters with different seeds."
        )
        return SplitHalves(self.rows).settled(splits)

    def blocks(self, splits: Sequence[Split]) -> list[Block]:
        return of_rows_tested_twice(splits)

    def suggest_more_data(self, n_splits: int) -> None:
        global _suggested
        if _suggested or multiprocessing.current_process().name != "MainProcess":
            return
        _suggested = True
        warn_caller(
            "fit was given no pairs, views, environments or target: the search compares the "
            f"models of repeated cross-validation ({n_splits} fits of each candidate). Expect a "
            "model as good as GridSearchCV's, but not better under a shift. In our studies "
            "fit(X, y, paired=...), with objects measured at both sites, and "
            "fit(X, y, views=...), with views that show the rows as the shift would, gained "
            "most. This warning is given once."
        )


class SplitHalves(DataKind):
    """No other data: the models of the two halves of a split's training rows score its test."""

    pairing = "split-half"

    def settled(self, splits: list[Split]) -> tuple[DataKind, list[Split]]:
        return self, halves(splits, self.rows.y, self.rows.groups, self.rows.seed)

    def blocks(self, splits: Sequence[Split]) -> list[Block]:
        return [Block(s, splits[s][1], s + 1, splits[s][1]) for s in range(0, len(splits), 2)]


def of_rows_tested_twice(splits: Sequence[Split]) -> list[Block]:
    """Pair every row with itself, for every two models that were not fitted to it."""
    blocks = []
    for (s, (train_s, test_s)), (t, (train_t, test_t)) in combinations(enumerate(splits), 2):
        rows = np.intersect1d(test_s, test_t)
        # Two fits to the same rows may be one model, which always agrees with itself.
        if len(rows) and not np.array_equal(np.sort(train_s), np.sort(train_t)):
            blocks.append(Block(s, rows, t, rows))
    return blocks


def check_text(value: Any, name: str, X: Any) -> None:
    """Refuse the name of a column where one value for each row, or rows, are expected.

    Raises
    ------
    TypeError
        If value is a text; if X has that column, the message has the right call.
    """
    if not isinstance(value, str):
        return
    how = ""
    if value in list(getattr(X, "columns", [])):
        how = (
            f" X has a column of this name: call fit(X.drop(columns={value!r}), y, "
            f"{name}=X[{value!r}]), so that the model does not see this column."
        )
    rows = "one value for each row of X" if name in ("environments", "groups") else "rows like X"
    raise TypeError(f"{name}: expected {rows}, got the text {value!r}.{how}")
