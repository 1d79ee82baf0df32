"""What a search compares: the face of a kind of data, and the comparison that it makes once.

A kind checks what ``fit`` was given beside X and y. `compare` returns all that the search then
needs to know of it, and whoever asks later asks this comparison; neither of them changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from pa_select.model_selection.rules import GuardedSelection
from pa_select.model_selection.selection_rule import SelectionRule
from pa_select.model_selection.split_scores import Data, Extra, PairsOfModels
from pa_select.model_selection.splits import Split
from pa_select.model_selection.table_columns import ScoresOfMetric, split_scores_of
from pa_select.scores.candidate_posterior import scores_of_pairs
from pa_select.scores.precomputed import Stacks
from pa_select.utils.typing import Array, Estimator, Floats, Groups, Ints, Rows

if TYPE_CHECKING:
    from pa_select.model_selection.committee_vote import CommitteeVote
    from pa_select.two_sites.score_of_units import Differences

#: Takes a function of a fitted model and its candidate's number, which maps the model, and
#: returns what a search predicts with, its model or models mapped.
Mapped: TypeAlias = Callable[[Callable[[Any, int], Any]], Any]


class RowsOfX(NamedTuple):
    """The labelled rows of a search.

    Attributes
    ----------
    X : array-like of n rows
        The rows, as ``fit`` was given them.
    y : ndarray of shape (n,)
        Their labels.
    groups : array-like of shape (n,) or None
        Their groups.
    seed : int
        What chooses pairs, halves and parts at random.
    """

    X: Rows
    y: Array
    groups: Groups
    seed: int


@dataclass(frozen=True, eq=False)
class ExpectedElsewhere:
    """What candidates are expected to score at other sites: nothing, unless pairs show it."""

    #: The columns of ``cv_results_``.
    columns: Mapping[str, Any] = field(default_factory=dict)
    #: Why some of them are nan.
    errors: Sequence[str] = ()

    def differences(self) -> dict[str, Differences]:
        """Return the differences between expected scores, by site; "" are those that decide."""
        return {}

    def attributes_of_choice(self, chosen: int) -> dict[str, Any]:
        """Return attributes of a search that chose a candidate; warn if these are in doubt."""
        return {}

    def attributes_of_committee(self, vote: CommitteeVote) -> dict[str, Any]:
        """Return attributes of a committee, which replace those of the chosen candidate."""
        return {}


@dataclass(frozen=True, eq=False)
class Comparison:
    """What a search compares and scores, and what follows from the scores.

    A kind of data with columns, parts or attributes of its own returns a subclass, whose methods
    say what these are.

    Attributes
    ----------
    kind : DataKind
        The kind of data.
    splits : sequence of tuple (train, test)
        The splits of the search.
    compared : sequence of PairsOfModels
        The pairs of rows whose agreement is computed, with the splits whose models score them.
    scored_too : sequence of PairsOfModels
        Pairs whose rows are scored without being compared.
    extra_test_rows : sequence of sequence of Extra
        For each split, other rows on which its model is scored by the metrics; empty for none.
    samples_to_predict : sequence of int
        The samples whose predictions are needed beside their class scores.
    pairs_have_weights : bool
        Whether the weight of a pair is that of its rows.
    only_class : str
        The name of the only class whose rows are compared; empty if there are several.
    needs_probabilities : bool
        Whether a metric is computed of recorded probabilities.
    """

    kind: DataKind
    splits: Sequence[Split]
    compared: Sequence[PairsOfModels]
    _: KW_ONLY
    scored_too: Sequence[PairsOfModels] = ()
    extra_test_rows: Sequence[Sequence[Extra]] = ()
    samples_to_predict: Sequence[int] = ()
    pairs_have_weights: bool = True
    only_class: str = ""
    needs_probabilities: bool = False

    def __post_init__(self) -> None:
        # Said here, since nothing that follows would say it in the user's terms.
        if not self.compared:
            raise ValueError("pairing: expected pairs of the test rows, got none.")

    @property
    def folds(self) -> list[Ints]:
        """The test folds whose scores compare the candidates."""
        return [test for _, test in self.splits]

    def scores_of_folds(self, table: Mapping[str, Any], metric: str) -> Floats:
        """Return what the candidates score on these folds, (n_folds, n_candidates)."""
        return split_scores_of(table, metric)

    def scores_of_parts(
        self,
        table: Mapping[str, Any],
        metric: str,
        expected: ExpectedElsewhere,
        folds: Sequence[Ints] | None = None,
    ) -> tuple[Floats, Floats]:
        """Return what the candidates score on the two parts of each pair of disjoint parts.

        `folds` are all test folds, of which empty ones are left out; None: all of them count.
        """
        # Searches compare regressors with pairs only.
        by_fold = self.scores_of_folds(table, metric)
        folds = self.folds if folds is None else folds
        return scores_of_pairs(by_fold, folds, of_regressors=False)

    def score_columns(self, scores: ScoresOfMetric) -> dict[str, Any]:
        """Make the columns of a metric's scores on the extra rows."""
        return {}

    @property
    def n_unseen_sites(self) -> int:
        """The number of sites that are scored by models that have not seen them."""
        return 0

    def expected(self, stacks: Stacks, table: Mapping[str, Any], metric: str) -> ExpectedElsewhere:
        """Compute what the candidates are expected to score elsewhere."""
        return ExpectedElsewhere()

    def warn_of_table(self, table: Mapping[str, Any]) -> None:
        """Warn if a table says little about its candidates."""

    def attributes_of_refit(self, mapped: Mapped, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return attributes of a search that has fitted what it predicts with."""
        return {}


class DataKind(ABC):
    """A kind of data that a search is given beside X and y.

    Parameters
    ----------
    rows : RowsOfX
        The labelled rows ``X``, ``y``, their ``groups``, and a ``seed``.
    """

    #: What `PASearchCV.pairing_` will be.
    pairing: Any
    #: Whether the data show anything of another site, time or instrument than that of X.
    shows_elsewhere = True
    #: Whether each row must be tested twice, for which a splitter of the user is used twice.
    tested_twice = False
    #: The environments of the rows, if folds are stratified by them, too.
    strata: Array | None = None
    #: The rows of the samples that follow X. Without names messages call them as ``fit`` does.
    samples: Sequence[Any] = ()
    names_of_samples: Sequence[str] = ()
    #: The names of the sites where nobody labels, at which scores are expected.
    sites: Sequence[str] = ()

    def __init__(self, rows: RowsOfX) -> None:
        self.rows = rows

    @property
    def sites_of_rows(self) -> Array | None:
        """The environment of each row of X, or its group, if these are known."""
        # Environments say more about a row than what no split may divide.
        known = self.rows.groups if self.strata is None else self.strata
        return None if known is None else np.asarray(known)

    @staticmethod
    def default_rule(score: str) -> SelectionRule:
        """Return the rule that ``selection="guarded"`` means, given the name of the metric."""
        return GuardedSelection(score=score)

    def check_candidates(self, candidates: Sequence[Estimator]) -> None:
        """Refuse data that no candidate takes, before the first fit.

        `candidates` are of every kind that the search has, not fitted.
        """

    @abstractmethod
    def compare(self, splits: list[Split], data: Data, weight: Floats | None) -> Comparison:
        """Return what is compared, given the splits of ``cv``.

        Metrics and rows that cannot be used are refused here, before the first fit. `data` has X
        and the samples; `weight` has the weights of the rows of X.
        """

    def compare_pairs(
        self, pairs: Sequence[PairsOfModels], splits: list[Split], data: Data
    ) -> Comparison:
        """Compare pairs that an object of the user made."""
        return Comparison(self, splits, pairs)

    def suggest_more_data(self, n_splits: int) -> None:
        """Warn once if other data would gain more."""


def check_text(value: object, name: str, X: Rows) -> None:
    """Refuse the name of a column where one value for each row, or rows, are expected.

    If X has that column, the message has the right call.
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
