"""Posterior agreement as a scikit-learn scorer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, is_regressor
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import UNCHANGED, MetadataRequest, get_routing_for_object
from sklearn.utils.validation import _num_samples

from pa_select.pairing import pair_environments, pair_within_label
from pa_select.scores import class_scores
from pa_select.scores.class_scores import cached_for_only
from pa_select.utils.arrays import (
    check_column,
    check_weight,
    refuse_no_rows,
    resolve_device,
    rows_of_parts,
    stacked,
)
from pa_select.utils.estimators import SavedWithVersions
from pa_select.utils.frames import (
    check_columns,
    check_view,
    is_shifted,
    look_up,
    view_of,
)
from pa_select.utils.messages import warn_once_by
from pa_select.utils.typing import (
    Array,
    Device,
    Floats,
    HasArray,
    Labels,
    Model,
    Prior,
    RandomState,
    Rows,
    Vector,
)

if TYPE_CHECKING:
    from pa_select.agreement import PosteriorAgreement

PAIRINGS = ("label", "views", "environments", "paired")
# With fewer pairs for each class the marginal prior lowers the agreement clearly.
_FEWEST_PAIRS_PER_CLASS = 2


@dataclass(eq=False, repr=False)
class PAScorer(SavedWithVersions, BaseEstimator):
    """Score a fitted classifier by the posterior agreement of paired observations.

    The score is the agreement of the classifier's posteriors on pairs of rows, in nats per
    pair; higher is better. The scorer works with every ``scoring`` parameter of
    scikit-learn. Pass the object, ``scoring=pa_scorer`` or ``scoring=PAScorer(...)``: there
    is no name for it, since scikit-learn has no public way to register one.

    One model makes all predictions, so the score does not see how much models of other samples
    would differ. `PASearchCV` compares such models.

    Parameters
    ----------
    pairing : {"label", "views", "environments", "paired"} or callable, default="label"
        Which rows are compared. If the scorer is given `views`, `environments` or `paired`, the
        pairing of that name is used.

        - "label": each row with another row of its class (a random derangement of each
          class; the only row of a class is left out). Needs y.
        - "views": each row with its own views. Needs no y.
        - "environments": rows of different environments with equal label, for any number of
          environments; the pairs of every two environments are pooled. Needs y.
        - "paired": the two measurements of the unlabelled objects in `paired`. The rows,
          labels and weights that are scored are ignored. Needs no y.
        - a pairing of two samples, such as `pa_select.pairing.NearestPairing`: as for
          "environments", but this object pairs the rows of every two environments. Needs y
          if the object does.
    views : callable, transformer, DataFrame or list of these, default=None
        ``views(X)``, ``views.transform(X)``, or the rows of a DataFrame with the index of X
        are the rows of X as another environment would show them; sets pairing="views". Each
        view gets a copy of X. A random view should be seeded, so that all candidates are
        compared on the same rows. The pairs of several views are pooled.
    environments : Series, default=None
        The environment of each row, looked up by the index of X; sets pairing="environments".
        With metadata routing, environments can be passed to ``fit`` instead, after
        ``set_score_request(environments=True)``. Each test fold of a cross-validation must
        have rows of several environments.
    paired : tuple of two array-likes of n rows, default=None
        ``(X_a, X_b)``, the same objects measured where the labels are and at another site;
        sets pairing="paired". Row i of both is the same object; DataFrames are aligned by their
        index. The objects should not be among the rows that are searched, since a model agrees
        better on objects that it was fitted to.
    prior : {"marginal", "uniform"} or array-like of shape (n_classes,), default="marginal"
        Class prior of `posterior_agreement`. With the marginal prior a constant classifier
        scores 0. With the uniform prior it has the best possible score: use that prior for
        reporting, not for selection.
    device : {None, "auto", "cpu", "cuda"} or torch.device, default=None
        Where the agreement is computed.
    random_state : int, RandomState instance or None, default=None
        Chooses the pairs. None: always the same pairs for the same labels, so that the
        candidates of a search are compared on the same pairs.

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
    Agreement measures stability, not truth: a constant classifier is perfectly stable.
    Select with `GuardedSelection`, or look at the accuracy, too. In a search without a guard the
    score is a ranking to look at: choosing the best one by it alone may lose much accuracy. In
    ``PACommittee(GridSearchCV(estimator, grid, scoring=pa_scorer))`` it is a score like any other,
    since several candidates remain. With the marginal prior the
    maximum is certified to 0.001 nats, and polished; with other priors to 1e-6 nats.

    Each test fold is scored alone, and few pairs lower the agreement: n pairs of K classes by
    about (K - 1) / (2 n) nats, one pair to 0. So values from folds of different sizes do not
    compare, and there is a warning if a fold has fewer pairs than twice the classes (several views
    of a row count as one). `PASearchCV` pools the pairs of all folds.

    In a search an error of the scorer is, as that of any other one, a score of nan and a warning
    whose last line is the message; ``error_score="raise"`` shows it at once. The parameters are
    checked when the scorer is made.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       section 3 (the metric).

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from pa_select import PAScorer
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), KNeighborsClassifier())
    >>> recalibrated = PAScorer(views=lambda X: 1.05 * X)
    >>> grid = {"kneighborsclassifier__n_neighbors": [1, 5, 25]}
    >>> search = GridSearchCV(model, grid, scoring=recalibrated).fit(X, y)
    >>> search.best_params_
    {'kneighborsclassifier__n_neighbors': 25}
    >>> recalibrated.agreement(search.best_estimator_, X).n_pairs
    178
    """

    pairing: str | Callable[..., Any] = "label"
    _: KW_ONLY
    views: Any = None
    environments: HasArray | None = None
    paired: tuple[Rows, Rows] | None = None
    prior: Prior = "marginal"
    device: Device = None
    random_state: RandomState = None

    def __post_init__(self) -> None:
        # Checked here, where the error shows at once; a search makes nan of that of a call.
        self._check()

    @property
    def __name__(self) -> str:
        """The name of the score in scikit-learn's displays and skorch's histories."""
        return "posterior_agreement"

    def _accept_sample_weight(self) -> bool:
        # Searches call this if metadata routing is off.
        return True

    def get_metadata_routing(self) -> MetadataRequest:
        """Get the metadata that this scorer requests.

        Returns
        -------
        sklearn.utils.metadata_routing.MetadataRequest
        """
        if hasattr(self, "_metadata_request"):
            return get_routing_for_object(self._metadata_request)
        request = MetadataRequest(owner=self)
        for name in ("environments", "sample_weight"):
            request.score.add_request(param=name, alias=None)
        return request

    def set_score_request(
        self, *, environments: Any = UNCHANGED, sample_weight: Any = UNCHANGED
    ) -> PAScorer:
        """Request metadata; scikit-learn's metadata routing must be enabled.

        Parameters
        ----------
        environments, sample_weight : bool, None or str
            True to request it, False to ignore it, None to raise if it is passed, or the
            name under which it is passed.

        Returns
        -------
        PAScorer
            Itself.

        Raises
        ------
        RuntimeError
            If metadata routing is not enabled.
        """
        if not get_config()["enable_metadata_routing"]:
            raise RuntimeError(
                "set_score_request needs metadata routing: "
                "sklearn.set_config(enable_metadata_routing=True)."
            )
        request = self.get_metadata_routing()
        for name, alias in (("environments", environments), ("sample_weight", sample_weight)):
            if alias is not UNCHANGED:
                request.score.add_request(param=name, alias=alias)
        self._metadata_request = request
        return self

    def __call__(
        self,
        estimator: Model,
        X: Rows,
        y: Labels | None = None,
        *,
        environments: Labels | None = None,
        sample_weight: Vector | None = None,
    ) -> float:
        """Score a fitted classifier.

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
            If a parameter, the estimator or the data are wrong; the message names the
            argument.
        """
        if hasattr(estimator, "__sklearn_tags__") and is_regressor(estimator):
            why = (
                f"estimator: expected a classifier, got {type(estimator).__name__}, a regressor; "
                "to choose among regressors use expected_scorer."
            )
            raise TypeError(why)
        X = rows_of_parts(X)
        plan = self._plan(X, y, environments, sample_weight)
        pairs = self._scored(plan, estimator, X)
        # The posteriors of a classifier fitted to one class are all 1, and the agreement on rows
        # of one class is 0, but for rounding.
        none = pairs.a.shape[1] == 1 or plan.is_of_one_class
        return 0.0 if none else float(self._solved(pairs).score)

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
            As for ``__call__``.

        Returns
        -------
        PosteriorAgreement
            Its ``score`` is what ``__call__`` returns.

        Raises
        ------
        TypeError, ValueError
            As ``__call__``; also if the classifier has only one class.

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
        X = rows_of_parts(X)
        plan = self._plan(X, y, environments, sample_weight)
        return self._solved(self._scored(plan, estimator, X))

    def _solved(self, pairs: _ScoredPairs) -> PosteriorAgreement:
        # Imported here: a search that only holds the scorer does not need torch.
        from pa_select.agreement import posterior_agreement
        from pa_select.agreement.inputs.validation import is_marginal

        # The objects of `paired` are the same for every fold, so their values compare.
        if self.paired is None and is_marginal(self.prior):
            self._warn_of_few(pairs.n, pairs.a.shape[1])
        result: PosteriorAgreement = posterior_agreement(
            pairs.a,
            pairs.b,
            prior=self.prior,
            sample_weight=pairs.weight,
            tol=1e-6,
            certify=not is_marginal(self.prior),
            device=self.device,
        )
        return result

    def _warn_of_few(self, n: int, n_classes: int) -> None:
        fewest = _FEWEST_PAIRS_PER_CLASS * n_classes
        if n < fewest:
            self._warn_once(
                f"expected at least {fewest} pairs of {n_classes} classes, got {n}. With few "
                "pairs the marginal prior lowers the agreement, to 0 with one pair, whatever the "
                "classifier. Take fewer and larger folds, or PASearchCV, which pools the pairs "
                "of all folds."
            )

    def _warn_of_one_class(self, labels: Array) -> bool:
        """Return whether all pairs are of one class, which the marginal prior expects."""
        from pa_select.agreement.inputs.validation import is_marginal

        if not is_marginal(self.prior) or (labels[0] != labels).any():
            return False
        self._warn_once(
            f"expected pairs of several classes, got only rows of class {labels.tolist()[0]!r}. "
            "Their agreement is 0 whatever the classifier. Give folds with all classes, or other "
            "environments."
        )
        return True

    def _warn_once(self, why: str) -> None:
        warn_once_by(self, f"PAScorer: {why} This warning is given once.")

    def _check(self) -> None:
        """Check what can be checked without a classifier."""
        self._chosen_pairing()
        if self.views is not None:
            for view in self._views():
                check_view(view)
        if self.paired is not None:
            self._both_sites()
        if self.environments is not None and not hasattr(self.environments, "loc"):
            raise TypeError(
                "environments: expected a Series to look up by the index of X, got "
                f"{type(self.environments).__name__}."
            )

    def _chosen_pairing(self, environments: Labels | None = None) -> str | Callable[..., Any]:
        """Return the pairing; views, environments or pairs select that of their name."""
        # A pairing of two samples pairs two environments.
        known = "environments" if callable(self.pairing) else self.pairing
        if not isinstance(known, str) or known not in PAIRINGS:
            got = repr(self.pairing)
            if not isinstance(known, str):
                got = f"{type(known).__name__}; for a view write PAScorer(views=...)"
            raise ValueError(
                f"pairing: expected one of {PAIRINGS} or a pairing of two samples, got {got}."
            )
        data = {
            "views": self.views,
            "environments": self.environments if environments is None else environments,
            "paired": self.paired,
        }
        given = [name for name, value in data.items() if value is not None]
        if len(given) > 1:
            raise ValueError(f"{given[1]}: expected None if {given[0]} is given, got both.")
        if given and known not in ("label", *given):
            raise ValueError(f"{given[0]}: expected None with pairing={self.pairing!r}.")
        if not given and known in ("views", "paired"):
            raise ValueError(f"{known}: expected some with pairing={known!r}, got None.")
        return self.pairing if callable(self.pairing) or not given else given[0]

    def _views(self) -> list[Any]:
        several = isinstance(self.views, (list, tuple)) and not is_shifted(self.views)
        views = list(self.views) if several else [self.views]
        if not views:
            raise ValueError("views: expected at least one, got an empty list.")
        return views

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

    def _plan_of_pairs(self, X: Rows) -> _Plan:
        both = self._both_sites()
        for number, rows in enumerate(both):
            check_columns(rows, X, f"paired[{number}]")
        return _Plan(both, lambda a, b: _ScoredPairs(a, b, None, len(a)))

    def _plan(
        self,
        X: Rows,
        y: Labels | None,
        environments: Labels | None,
        sample_weight: Vector | None,
    ) -> _Plan:
        """Return which rows are scored, and which of their scores are paired."""
        pairing = self._chosen_pairing(environments)
        resolve_device(self.device)
        between = pairing if callable(pairing) else None  # a pairing of two environments
        if pairing == "paired":
            return self._plan_of_pairs(X)
        refuse_no_rows(X, "X")
        n = _num_samples(X)
        weight = None if sample_weight is None else check_weight(sample_weight, n)
        if pairing == "views":
            return self._plan_of_views(X, n, weight)
        if y is None and not between:
            raise ValueError(
                f"y: expected labels with pairing={pairing!r}, got None. A scorer is called as "
                "scorer(estimator, X, y), and needs no make_scorer."
            )
        labels = np.zeros(n) if y is None else check_column(y, n, "y")
        # Rows without weight are not there; as partners they would take pairs away from others.
        used = np.arange(n) if weight is None else np.flatnonzero(weight)
        # The same pairs for every candidate, also without a seed: otherwise chance would rank
        # them.
        seed = 0 if self.random_state is None else self.random_state
        if pairing == "label":
            pairs = pair_within_label(labels[used], seed)
            needed = "a class with at least two rows"
        else:
            names = self._environments_of(X, environments, n)[used]
            if len(np.unique(names)) < 2:
                raise ValueError(
                    f"environments: expected at least two among the rows scored, got only "
                    f"{names.tolist()[0]!r} in {len(used)} rows. Cross-validation that holds out "
                    "whole environments leaves none to compare."
                )
            pairs = pair_environments(
                names,
                None if y is None else labels[used],
                seed,
                X=_safe_indexing(X, used) if between else None,
                pairing=between,
            )
            needed = "a class with rows in at least two environments"
            if between and not len(pairs.a):
                raise ValueError("pairing: expected pairs of the rows scored, got none.")
        if not len(pairs.a):
            raise ValueError(f"y: expected {needed}, got none in {len(used)} rows.")
        a, b = used[pairs.a], used[pairs.b]
        pair_weight = None if weight is None else np.sqrt(weight[a]) * np.sqrt(weight[b])
        compared = np.concatenate([labels[a], labels[b]])
        is_of_one_class = y is not None and self._warn_of_one_class(compared)
        return _Plan(
            (X,),
            lambda scores: _ScoredPairs(scores[a], scores[b], pair_weight, len(a)),
            is_of_one_class,
        )

    def _plan_of_views(self, X: Rows, n: int, weight: Floats | None) -> _Plan:
        """Pair each of the n rows of X with its views."""
        # Views are made of plain rows, and the model predicts X as it is.
        rows = stacked(X, "X")
        shown = [view_of(view, rows) for view in self._views()]
        for view in shown:
            check_columns(view, rows, "views")
        pair_weight = None if weight is None else np.tile(weight, len(shown))
        # Several views of a row say no more of the shares of the classes than one.
        n_used = n if weight is None else int(np.count_nonzero(weight))
        return _Plan(
            (X, *shown),
            lambda scores, *others: _ScoredPairs(
                _concatenate([scores] * len(others)),
                _concatenate(list(others)),
                pair_weight,
                n_used,
            ),
        )

    def _scored(self, plan: _Plan, estimator: Model, X: Rows) -> _ScoredPairs:
        """Return the scores of the pairs, where X are the rows that skorch has cached."""
        with cached_for_only(X, estimator):
            scores = [class_scores(estimator, rows)[0] for rows in plan.samples]
        return plan.paired(*scores)

    def _environments_of(self, X: Rows, environments: Labels | None, n: int) -> Array:
        if environments is None and self.environments is not None:
            environments = look_up(self.environments, X, "environments")
        if environments is None:
            view = "; for a view write PAScorer(views=...)" if callable(self.pairing) else ""
            raise ValueError(
                "environments: expected one for each row with pairing='environments', got "
                "None; give the scorer a Series, or route them with "
                f"set_score_request(environments=True){view}."
            )
        return check_column(environments, n, "environments")


class _ScoredPairs(NamedTuple):
    a: Any
    b: Any
    weight: Floats | None
    n: int  # of different rows


class _Plan(NamedTuple):
    samples: tuple[Rows, ...]
    paired: Callable[..., _ScoredPairs]  # of the scores of the samples
    is_of_one_class: bool = False


def _concatenate(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    import torch

    return torch.cat(parts)


#: A `PAScorer` with the default parameters: pairs within a class, marginal prior. All
#: importers share it; make your own `PAScorer()` to change a parameter or request metadata.
#: The best one by it alone may be much less accurate than others: use it with a `GuardedSelection`
#: or a `PACommittee`, or as a ranking to look at.
pa_scorer = PAScorer()
