"""Posterior agreement as a scikit-learn scorer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, is_regressor
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import _num_samples

from pa_select.pairing import pair_environments, pair_within_label
from pa_select.scores.class_scores import cached_for_only, class_scores
from pa_select.utils.arrays import (
    check_column,
    check_weight,
    refuse_no_rows,
    rows_of_parts,
    stacked,
)
from pa_select.utils.frames import check_columns, check_view, is_shifted, look_up, view_of
from pa_select.utils.messages import warn_once_by
from pa_select.utils.typing import Array, Device, Labels, Model, Prior, RandomState, Rows, Vector

if TYPE_CHECKING:
    from pa_select.agreement import PosteriorAgreement

PAIRINGS = ("label", "views", "environments", "paired")


@dataclass(eq=False, repr=False)
class PAScorer(BaseEstimator):
    """Score a fitted classifier by the posterior agreement of paired observations.

    The score is the agreement of the classifier's posteriors on pairs of rows, in nats per pair;
    higher is better. Every ``scoring`` parameter of scikit-learn takes the object,
    ``scoring=pa_scorer`` or ``scoring=PAScorer(...)``. One model makes all predictions;
    `PASearchCV` also compares models of other samples.

    Parameters
    ----------
    pairing : {"label", "views", "environments", "paired"} or callable, default="label"
        Which rows are compared; `views`, `environments` or `paired` select that of their name.

        - "label": each row with another row of its class (a random derangement of each class;
          the only row of a class is left out). Needs y.
        - "views": each row with its own views.
        - "environments": rows of different environments with equal label; the pairs of every
          two environments are pooled. Needs y.
        - "paired": the two measurements of the unlabelled objects in `paired`. The rows, labels
          and weights that are scored are ignored.
        - a pairing of two samples, such as `pa_select.pairing.NearestPairing`: pairs the rows of
          every two environments. Needs y if the pairing does.
    views : callable, transformer, DataFrame or list of these, default=None
        ``views(X)``, ``views.transform(X)``, or the rows of a DataFrame with the index of X are
        the rows of X as another environment would show them. Each view gets a copy of X; seed a
        random one, so that all candidates see the same rows. Pairs of several views are pooled.
    environments : Series, default=None
        The environment of each row, looked up by the index of X. With metadata routing ``fit``
        takes them instead, after ``set_score_request(environments=True)``. Each test fold of a
        cross-validation must have rows of several environments.
    paired : tuple of two array-likes of n rows, default=None
        ``(X_a, X_b)``, the same objects measured where the labels are and at another site. Row i
        of both is the same object; DataFrames are aligned by their index. Leave the objects out of
        the rows that are searched: a model agrees better on objects that it was fitted to.
    prior : {"marginal", "uniform"} or array-like of shape (n_classes,), default="marginal"
        Class prior of `posterior_agreement`. A constant classifier scores 0 with the marginal
        prior and best with the uniform one, which is for reporting, not for selection.
    device : {None, "auto", "cpu", "cuda"} or torch.device, default=None
        Where the agreement is computed.
    random_state : int, RandomState instance or None, default=None
        Chooses the pairs. None: the same pairs for the same labels, for all candidates.

    Raises
    ------
    TypeError, ValueError
        If the parameters contradict each other, or views or pairs are wrong whatever is scored.

    See Also
    --------
    posterior_agreement : The agreement of given scores.
    GuardedSelection : Chooses by agreement among the candidates that are also accurate.
    PACommittee : Keeps all candidates that a search cannot tell apart by this score.
    expected_scorer : The score that is expected at the other site, from the same pairs.

    Notes
    -----
    Agreement measures stability, not truth: a constant classifier is perfectly stable, and the
    best candidate by this score alone may be much less accurate than others. Select with
    `GuardedSelection`, or take the score as a ranking to look at; `PACommittee` takes it as any
    other score. With the marginal prior the maximum is certified to 0.001 nats, and polished; with
    other priors to 1e-6 nats.

    Each test fold is scored alone, and few pairs lower the agreement: n pairs of K classes by
    about (K - 1) / (2 n) nats, one pair to 0. So values from folds of different sizes do not
    compare; fewer pairs than twice the classes are warned of (several views of a row count as
    one). `PASearchCV` pools the pairs of all folds.

    In a search an error of the scorer is, as that of any other one, a score of nan and a warning
    whose last line is the message; ``error_score="raise"`` shows it at once.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach", section 3.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from pa_select import PAScorer
    >>> X, y = load_wine(return_X_y=True)
    >>> recalibrated = PAScorer(views=lambda X: 1.05 * X)
    >>> grid = {"n_neighbors": [1, 5, 25]}
    >>> search = GridSearchCV(KNeighborsClassifier(), grid, scoring=recalibrated).fit(X, y)
    >>> search.best_params_
    {'n_neighbors': 25}
    """

    pairing: str | Callable[..., Any] = "label"
    _: KW_ONLY
    views: Any = None
    environments: Any = None
    paired: tuple[Rows, Rows] | None = None
    prior: Prior = "marginal"
    device: Device = None
    random_state: RandomState = None

    def __post_init__(self) -> None:
        # Checked here, where the error shows at once; a search makes nan of that of a call.
        self._chosen_pairing()
        for view in self._views():
            check_view(view)
        if self.paired is not None:
            self._both_sites()
        if self.environments is not None and not hasattr(self.environments, "loc"):
            raise TypeError(
                "environments: expected a Series to look up by the index of X, got "
                f"{type(self.environments).__name__}."
            )

    # In scikit-learn's displays and skorch's histories.
    __name__ = "posterior_agreement"

    def _accept_sample_weight(self) -> bool:
        # Searches call this if metadata routing is off.
        return True

    # scikit-learn makes `set_score_request` of the other parameters of `score`.
    __metadata_request__score = {"estimator": UNUSED}

    def score(
        self,
        estimator: Model,
        X: Rows,
        y: Labels | None = None,
        *,
        environments: Labels | None = None,
        sample_weight: Vector | None = None,
    ) -> float:
        """Score a fitted classifier, as a call of the scorer does.

        Parameters
        ----------
        estimator : object
            A fitted classifier that `class_scores` takes.
        X : array-like of n rows
            The rows to predict. With pairing="paired" the rows of the pairs are predicted.
        y : array-like of shape (n,), default=None
            Labels, for the pairings that need them.
        environments : array-like of shape (n,), default=None
            The environment of each row; sets pairing="environments".
        sample_weight : array-like of shape (n,), default=None
            Non-negative weights. The weight of a pair of two rows is their geometric mean.
            With pairing="paired" each pair counts once, since these weights belong to X.

        Returns
        -------
        float
            The agreement, in nats per pair; 0 if the classifier has only one class.

        Raises
        ------
        TypeError, ValueError
            If a parameter, the estimator or the data are wrong; the message names the argument.
        """
        pairs = self._pairs(estimator, X, y, environments, sample_weight)
        # The posteriors of a classifier fitted to one class are all 1, and the agreement on rows
        # of one class is 0, but for rounding.
        none = pairs.a.shape[1] == 1 or pairs.of_one_class
        return 0.0 if none else float(self._solved(pairs).score)

    __call__ = score

    def agreement(
        self,
        estimator: Model,
        X: Rows,
        y: Labels | None = None,
        *,
        environments: Labels | None = None,
        sample_weight: Vector | None = None,
    ) -> PosteriorAgreement:
        """Compute the agreement whose value is the score, with its error and its bounds.

        Parameters
        ----------
        estimator, X, y, environments, sample_weight
            As for `score`.

        Returns
        -------
        PosteriorAgreement
            Its ``score`` is what `score` returns.

        Raises
        ------
        TypeError, ValueError
            As `score`; also if the classifier has only one class.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from pa_select import PAScorer
        >>> X, y = load_wine(return_X_y=True)
        >>> scorer = PAScorer(views=lambda X: 1.1 * X)
        >>> result = scorer.agreement(GaussianNB().fit(X, y), X)
        >>> result.n_pairs, result.score == scorer(GaussianNB().fit(X, y), X)
        (178, True)
        """
        return self._solved(self._pairs(estimator, X, y, environments, sample_weight))

    def _solved(self, pairs: _Pairs) -> PosteriorAgreement:
        # Imported here: a search that only holds the scorer does not need torch.
        from pa_select.agreement import posterior_agreement
        from pa_select.agreement.inputs.validation import is_marginal

        n_classes = pairs.a.shape[1]
        fewest = 2 * n_classes  # with fewer pairs the marginal prior lowers the agreement clearly
        # The objects of `paired` are the same for every fold, so their values compare.
        if self.paired is None and is_marginal(self.prior) and pairs.n < fewest:
            warn_once_by(
                self,
                f"PAScorer: expected at least {fewest} pairs of {n_classes} classes, got "
                f"{pairs.n}. With few pairs the marginal prior lowers the agreement, to 0 with "
                "one pair, whatever the classifier. Take fewer and larger folds, or PASearchCV, "
                "which pools the pairs of all folds. This warning is given once.",
            )
        return posterior_agreement(
            pairs.a,
            pairs.b,
            prior=self.prior,
            sample_weight=pairs.weight,
            tol=1e-6,
            certify=not is_marginal(self.prior),
            device=self.device,
        )

    def _chosen_pairing(self, environments: Labels | None = None) -> str | Callable[..., Any]:
        """Return the pairing; views, environments or pairs select that of their name."""
        # A pairing of two samples pairs two environments.
        named = "environments" if callable(self.pairing) else self.pairing
        if not isinstance(named, str) or named not in PAIRINGS:
            got = repr(named) if isinstance(named, str) else type(named).__name__
            raise ValueError(
                f"pairing: expected one of {PAIRINGS} or a pairing of two samples, got {got}."
            )
        sites = self.environments if environments is None else environments
        data = {"views": self.views, "environments": sites, "paired": self.paired}
        given = [name for name, value in data.items() if value is not None]
        if len(given) > 1:
            raise ValueError(f"{given[1]}: expected None if {given[0]} is given, got both.")
        if given and named not in ("label", *given):
            raise ValueError(f"{given[0]}: expected None with pairing={self.pairing!r}.")
        if not given and named in ("views", "paired"):
            raise ValueError(f"{named}: expected some with pairing={named!r}, got None.")
        return self.pairing if callable(self.pairing) or not given else given[0]

    def _views(self) -> list[Any]:
        several = isinstance(self.views, (list, tuple)) and not is_shifted(self.views)
        if several and not self.views:
            raise ValueError("views: expected at least one, got an empty list.")
        return list(self.views) if several else [] if self.views is None else [self.views]

    def _both_sites(self) -> tuple[Any, Any]:
        """Return both measurements of the same objects, row by row."""
        # Imported here: a search that only holds the scorer does not need torch.
        from pa_select.two_sites.paired_rows import aligned_pairs

        rows: Any = self.paired
        if not isinstance(rows, (tuple, list)) or len(rows) != 2:
            many = isinstance(rows, (tuple, list))
            raise TypeError(
                "paired: expected the rows of the same objects at both sites, (X_a, X_b), got "
                f"{f'{len(rows)} of them' if many else type(rows).__name__}."
            )
        # Few pairs are no reason to warn here: that would come once for each fit of a search.
        return aligned_pairs(rows[0], rows[1], "paired[0]", "paired[1]")

    def _pairs(
        self, estimator: Model, X: Rows, y: Any, environments: Any, sample_weight: Any
    ) -> _Pairs:
        """Check which rows are pairs, then score them."""
        if hasattr(estimator, "__sklearn_tags__") and is_regressor(estimator):
            raise TypeError(
                f"estimator: expected a classifier, got {type(estimator).__name__}, a regressor; "
                "to choose among regressors use expected_scorer."
            )
        pairing, X = self._chosen_pairing(environments), rows_of_parts(X)

        def scores_of(*samples: Rows) -> list[Any]:
            with cached_for_only(X, estimator):  # the rows whose outputs skorch has cached
                return [class_scores(estimator, rows)[0] for rows in samples]

        if pairing == "paired":
            both = self._both_sites()
            check_columns(both[0], X, "paired[0]")
            a, b = scores_of(*both)
            return _Pairs(a, b, None, len(a))
        refuse_no_rows(X, "X")
        n = _num_samples(X)
        weight = None if sample_weight is None else check_weight(sample_weight, n)
        # Rows without weight are not there; as partners they would take pairs away from others.
        used = np.arange(n) if weight is None else np.flatnonzero(weight)
        if pairing == "views":
            # Views are made of plain rows, and the model predicts X as it is.
            rows = stacked(X, "X")
            shown = [view_of(view, rows) for view in self._views()]
            for view in shown:
                check_columns(view, rows, "views")
            a, *b = scores_of(X, *shown)
            of_views = None if weight is None else np.tile(weight, len(b))
            # Several views of a row say no more of the shares of the classes than one.
            return _Pairs(_joined([a] * len(b)), _joined(b), of_views, len(used))
        if y is None and not callable(pairing):
            raise ValueError(f"y: expected labels with pairing={pairing!r}, got None.")
        labels = None if y is None else check_column(y, n, "y")
        names = None if pairing == "label" else self._environments_of(X, environments, n)
        first, second = self._paired_rows(pairing, X, labels, names, used)
        of_one_class = labels is not None and self._are_of_one_class(labels[np.r_[first, second]])
        (scores,) = scores_of(X)
        of_pairs = None if weight is None else np.sqrt(weight[first]) * np.sqrt(weight[second])
        return _Pairs(scores[first], scores[second], of_pairs, len(first), of_one_class)

    def _paired_rows(
        self, pairing: Any, X: Rows, labels: Any, names: Array | None, used: Array
    ) -> tuple[Array, Array]:
        """Return the numbers of paired rows, among those used."""
        known: Any = None if labels is None else labels[used]
        # The same pairs for every candidate, also without a seed: chance does not rank them.
        seed = 0 if self.random_state is None else self.random_state
        if names is None:
            pairs = pair_within_label(known, seed)
            needed = "y: expected a class with at least two rows"
        elif len(found := np.unique(names[used])) < 2:
            raise ValueError(
                "environments: expected at least two among the rows scored, got only "
                f"{found.tolist()[0]!r} in {len(used)} rows."
            )
        elif callable(pairing):
            some = _safe_indexing(X, used)
            pairs = pair_environments(names[used], known, X=some, pairing=pairing)
            needed = "pairing: expected pairs of the rows scored"
        else:
            pairs = pair_environments(names[used], known, seed)
            needed = "y: expected a class with rows in at least two environments"
        if not len(pairs.a):
            raise ValueError(f"{needed}, got none in {len(used)} rows.")
        return used[pairs.a], used[pairs.b]

    def _are_of_one_class(self, labels: Array) -> bool:
        """Return whether the marginal prior has pairs of one class only, and warn of it."""
        from pa_select.agreement.inputs.validation import is_marginal

        if not is_marginal(self.prior) or (labels[0] != labels).any():
            return False
        warn_once_by(
            self,
            "PAScorer: expected pairs of several classes, got only rows of class "
            f"{labels.tolist()[0]!r}. Their agreement is 0 whatever the classifier. Give folds "
            "with all classes, or other environments. This warning is given once.",
        )
        return True

    def _environments_of(self, X: Rows, environments: Labels | None, n: int) -> Array:
        if environments is None and self.environments is not None:
            environments = look_up(self.environments, X, "environments")
        if environments is None:
            raise ValueError(
                "environments: expected one for each row with pairing='environments', got "
                "None; give the scorer a Series, or route them with "
                "set_score_request(environments=True)."
            )
        return check_column(environments, n, "environments")


class _Pairs(NamedTuple):
    """The class scores of pairs."""

    a: Any
    b: Any
    weight: Array | None
    n: int  # of different rows
    of_one_class: bool = False


def _joined(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    import torch

    return torch.cat(parts)


#: A `PAScorer` with the default parameters: pairs within a class, marginal prior. All
#: importers share it; make your own `PAScorer()` to change a parameter or request metadata.
pa_scorer = PAScorer()
