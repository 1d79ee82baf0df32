"""What the rooms of a search hand on: the data that it was given, and rows that models score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from sys import getsizeof
from typing import Any, NamedTuple

import numpy as np
from sklearn import get_config
from sklearn.utils.metadata_routing import get_routing_for_object

from pa_select.utils.sklearn_private import _MultimetricScorer
from pa_select.utils.typing import Array, ErrorScore, Floats, Ints, Labels

#: Training rows and test rows.
Split = tuple[Ints, Ints]
#: Number of X among the samples.
SAMPLE_X = 0


class PairsOfModels(NamedTuple):
    """Pairs of rows; a split's model scores each side, and may score both.

    `rows_a` and `rows_b` are the numbers of rows of two samples: 0 is X, then follow the others.
    """

    split_a: int
    rows_a: Ints
    split_b: int
    rows_b: Ints
    sample_a: int = SAMPLE_X
    sample_b: int = SAMPLE_X


class Extra(NamedTuple):
    """Rows of a sample on which a split's model is scored by the metrics, too."""

    #: What the scores are called.
    suffix: str
    sample: int
    rows: Ints


@dataclass(frozen=True)
class Task:
    """The work to do for one split."""

    train: Ints
    test: Ints
    #: Rows of each sample whose class scores are needed.
    scored_rows: Mapping[int, Ints] = field(default_factory=dict)
    extras: Sequence[Extra] = ()
    #: Samples whose predicted classes are needed, too, and whether with probabilities.
    predicted: Sequence[int] = ()
    with_probabilities: bool = False


class Site(NamedTuple):
    """A site where nobody labels; the paired objects were measured there and where X was."""

    #: Empty for the only site.
    name: str
    n_pairs: int
    #: The samples of the rows: as X was measured, and at the site.
    a: int
    b: int
    #: The sample of the rows at the site, mapped by an adapter that has not seen them, or None.
    adapted: int | None
    #: Whether the site has other columns than X, so that no model can predict rows as measured.
    has_own_columns: bool

    @property
    def b_samples(self) -> list[int]:
        """The samples that show the site's objects to a model: as measured, and adapted."""
        samples = [] if self.has_own_columns else [self.b]
        return samples if self.adapted is None else [*samples, self.adapted]


@dataclass(frozen=True, eq=False)
class Given:
    """What ``fit`` was given; it knows nothing of splits and models."""

    #: X, then its views, or the rows of paired objects.
    samples: Sequence[Any]
    #: The labels, and as the estimator's ``fit`` gets them: nets may need a column.
    y: Array
    y_to_fit: Any
    #: The distinct labels, the classes that estimators may have; none of regressors.
    labels: Array
    of_regressors: bool
    #: The groups and the environments of the rows of X, or None.
    groups: Array | None
    environments: Array | None
    n_views: int
    sites: Sequence[Site]
    #: Weights of the rows of X, or None.
    weight: Floats | None
    #: What chooses folds and pairs at random.
    seed: int
    scorer: Any
    error_score: ErrorScore
    #: What is passed on to ``fit``, to the scorer and to the splitter.
    fit_params: Mapping[str, Any]
    score_params: Mapping[str, Any]
    split_params: Mapping[str, Any]

    @property
    def scorers(self) -> dict[str, Any]:
        """The scorers by the names of their metrics."""
        several = isinstance(self.scorer, _MultimetricScorer)
        return dict(self.scorer._scorers) if several else {"score": self.scorer}

    @property
    def groups_within(self) -> Array | None:
        """The groups; None if they divide no environment, so that its rows count singly."""
        if self.groups is None or self.environments is None:
            return self.groups
        n_parts = cells(self.environments, self.groups).max() + 1
        return None if n_parts == len(np.unique(self.environments)) else self.groups

    def score_weight(self, metric: str) -> Array | None:
        """Return the weights that scikit-learn's searches give a metric; None without."""
        name, params = "sample_weight", self.score_params
        if params and isinstance(self.scorer, _MultimetricScorer):
            one = self.scorer._scorers[metric]
            if get_config()["enable_metadata_routing"]:
                taken = get_routing_for_object(one).consumes("score", params.keys())
                name = next(iter(taken), "")
            elif not one._accept_sample_weight():
                name = ""
        weight = params.get(name)
        return None if weight is None else np.asarray(weight, dtype=np.float64)

    def __sizeof__(self) -> int:
        # A cluster looks at the size: it sends large objects once, not with each job.
        return sum(getattr(x, "nbytes", None) or getsizeof(x) for x in self.samples)


def cells(environments: Array, y: Labels) -> Ints:
    """Return a number for each row that stands for its environment and class."""
    # Codes, since environments and labels may be of different types.
    codes = [np.unique(np.asarray(values), return_inverse=True)[1] for values in (environments, y)]
    return np.unique(np.column_stack(codes), axis=0, return_inverse=True)[1].ravel()
