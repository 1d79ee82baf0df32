"""What ``fit`` of a search was given, checked and aligned once, before any fit.

Only what other libraries cannot know is checked here: pairs, views, environments, alignment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import check_random_state, column_or_1d, indexable
from sklearn.utils.multiclass import check_classification_targets

from pa_select.model_selection.data import Given, Site, needs_groups
from pa_select.model_selection.rules import RULES, check_metric, metrics_of
from pa_select.scores.class_scores import warn_of_trained_module
from pa_select.utils.arrays import are_rows, check_column, check_weight, refuse_no_rows, stacked
from pa_select.utils.estimators import is_instance, unwrapped
from pa_select.utils.frames import (
    check_columns,
    check_not_shifted,
    check_row_order,
    look_up,
    named_like,
    shares_index,
    view_of,
)
from pa_select.utils.sklearn_private import _check_method_params, _num_samples
from pa_select.utils.typing import Array, Labels, PairedRows, Rows, Search

# The names of a site's columns must differ from those of the worst site.
_ENDS = {"se", "low", "high"}


def check_given(
    search: Search,
    X: Rows,
    y: Labels | None,
    params: dict[str, Any],
    *,
    environments: Any,
    views: Any,
    paired: PairedRows | None,
    groups: Any,
) -> Given:
    """Check and align what ``fit`` was given."""
    from pa_select.agreement.inputs.validation import check_prior
    from pa_select.utils.arrays import resolve_device

    of_regressors = is_regressor(search.estimator)
    _check_search(search, environments, views, paired)
    if y is None:
        kind = type(search).__name__
        raise ValueError(f"y: {kind} requires y to be passed, but the target y is None")
    refuse_no_rows(X, "X", may_be_dataset=False)
    check_row_order(y, X, "y")
    rows, y = indexable(X, y)
    n = _num_samples(rows)
    labels = check_column(y, n, "y")
    if of_regressors:
        labels = labels.astype(np.float64)
    else:
        check_classification_targets(y)
    *_, final = unwrapped(search.estimator)
    # The loss of such a net needs a column; others get what scikit-learn gives them.
    needs_column = is_instance(final, "skorch", "NeuralNet") and is_regressor(final)
    y_to_fit = y if needs_column or np.ndim(y) != 2 else column_or_1d(y, warn=not of_regressors)
    warn_of_trained_module(search.estimator)
    names = None if environments is None else check_environments(environments, rows)
    params = _check_method_params(rows, params=params)
    for_splitter = groups if groups is not None else names if needs_groups(search.cv) else None
    if for_splitter is not None:
        check_row_order(for_splitter, rows, "groups")
        for_splitter = check_column(for_splitter, n, "groups")
        if search.cv is not None and not isinstance(search.cv, (int, np.integer)):
            params |= {"groups": for_splitter}
    routed = search._get_routed_params_for_fit(params)
    given = Given(
        samples=[rows],
        y=labels,
        y_to_fit=y_to_fit,
        labels=np.unique(labels[: 0 if of_regressors else None]),
        of_regressors=of_regressors,
        groups=None if groups is None else for_splitter,
        environments=names,
        n_views=0,
        sites=(),
        weight=None if (w := params.get("sample_weight")) is None else check_weight(w, n),
        seed=int(check_random_state(search.random_state or 0).randint(2**31 - 2)),
        scorer=search._get_scorers()[0],
        error_score=search.error_score,
        fit_params=routed.estimator.fit,
        score_params=routed.scorer.score,
        split_params=routed.splitter.split,
    )
    check_prior(search.prior, len(given.labels))
    resolve_device(search.device)
    if views is not None:
        checked = [_check_view(view, rows, n, name) for name, view in _views_by_name(views, n)]
        return replace(given, samples=[rows, *checked], n_views=len(checked))
    if paired is None:
        return given
    sites, samples = _sites(paired, rows, search, given.seed)
    _check_metrics_of_pairs(given)
    return replace(given, samples=[rows, *samples], sites=sites)


def _check_search(search: Search, environments: Any, views: Any, paired: Any) -> None:
    """Check parameters of the search whose meaning depends on what ``fit`` was given."""
    of_regressors, refit, scoring = is_regressor(search.estimator), search.refit, search.scoring
    if not is_classifier(search.estimator) and not (of_regressors and paired is not None):
        raise ValueError(
            "estimator: expected a classifier, or a regressor with fit(X, y, paired=(X_a, X_b)), "
            f"got a {type(unwrapped(search.estimator)[-1]).__name__}."
        )
    named = {"environments": environments, "views": views, "paired": paired}
    names = [name for name, value in named.items() if value is not None]
    if len(names) > 1:
        raise ValueError(f"{names[1]}: expected None if {names[0]} is given, got both.")
    if names and search.pairing != "repeated" and names != ["environments"]:
        raise ValueError(f"{names[0]}: expected None with pairing={search.pairing!r}.")
    if callable(search.pairing) and environments is None:
        raise ValueError(f"environments: expected some with pairing={search.pairing!r}, got None.")
    check_metric(getattr(refit, "metric", None), scoring)
    metrics = metrics_of(scoring)
    words = (*RULES, "committee", scoring if isinstance(scoring, str) else "")
    if isinstance(refit, str) and metrics is not None and refit not in (*words, *metrics):
        raise ValueError(
            f"refit: expected a bool, a rule such as {', '.join(map(repr, RULES))}, 'committee', "
            f"a PACommittee, a metric of several, or a function, got {refit!r}."
        )
    if paired is None and (refit == "expected" or search.adapter is not None):
        name = "refit='expected'" if search.adapter is None else "an adapter"
        raise ValueError(f"paired: expected pairs, fit(X, y, paired=...), with {name}, got None.")
    if of_regressors and refit == "agreement":
        raise ValueError("refit: expected a rule for regressors, which have no agreement.")
    if hasattr(scoring, "pairing"):
        raise ValueError("scoring: expected a score such as 'accuracy', got a PAScorer.")


def check_environments(environments: Labels, X: Rows) -> Array:
    """Return the environment of each row of X, at least two."""
    # A Series in another order than X is looked up; one without X's index is taken by position.
    if shares_index(environments, X):
        environments = look_up(environments, X, "environments")
    names = check_column(environments, _num_samples(X), "environments")
    distinct = np.unique(names).tolist()
    if len(distinct) < 2:
        raise ValueError(f"environments: expected at least two, got only {distinct[0]!r}.")
    return names


def _views_by_name(views: Any, n: int) -> list[tuple[str, Any]]:
    """Return the views with their names for messages."""
    several = isinstance(views, (list, tuple)) and all(
        callable(v) or hasattr(v, "transform") or (hasattr(v, "shape") and _num_samples(v) == n)
        for v in views
    )
    if several and not len(views):
        raise ValueError("views: expected at least one, got an empty list.")
    return [(f"views[{i}]", v) for i, v in enumerate(views)] if several else [("views", views)]


def _check_view(view: Any, X: Any, n: int, name: str) -> Rows:
    # Imported here: a search that is not fitted does not need torch.
    from pa_select.two_sites.paired_rows import same_values

    check_not_shifted(view, name)
    view = stacked(view, name)  # rows of a Dataset, once for all fits
    made = callable(view) or hasattr(view, "transform") and not are_rows(view)
    indexed = hasattr(view, "loc") and hasattr(X, "loc") and not view.index.equals(X.index)
    if made and not hasattr(view, "loc") or indexed:
        view = view_of(view, X, name)
    if _num_samples(view) != n:
        raise ValueError(f"{name}: expected {n} rows as X, got {_num_samples(view)} rows.")
    check_columns(view, X, name)
    # Equal rows agree for every model, and would decide nothing.
    if same_values(view, X):
        raise ValueError(f"{name}: expected rows that differ from X, got the values of X.")
    return named_like(X, view, same_rows=True)


def _sites(paired: PairedRows, X: Rows, search: Search, seed: int) -> tuple[list[Site], list[Any]]:
    """Check the pairs of each site; return the sites, and the samples after X."""
    from pa_select.two_sites.paired_rows import check_pairs, has_own_columns, warn_of_known_rows
    from pa_select.two_sites.site_adapter import SiteAdapter, cross_adapted

    adapter, steps = search.adapter, getattr(search.estimator, "steps", None)
    # It would learn from rows of one site only, and map those that need no map.
    if steps and isinstance(steps[0][1], SiteAdapter):
        raise ValueError(
            "estimator: expected a model of rows of the first site, got one that begins with a "
            "SiteAdapter, which learns from pairs. Leave it out, and set adapter='ridge'."
        )
    sites: list[Site] = []
    samples: list[Any] = []
    rows_of_a: list[Any] = []
    for name, (X_a, X_b) in _pairs_by_name(paired).items():
        places = [f"paired[{name!r}][{i}]" if name else f"paired[{i}]" for i in (0, 1)]
        X_a, X_b = check_pairs(X_a, X_b, places[0], places[1], adapter)
        # Models that were fitted to a frame expect its names.
        X_a, X_b = named_like(X, X_a), named_like(X, X_b)
        check_columns(X_a, X, places[0])
        if not any(rows is X_a for rows in rows_of_a):  # sites may share these rows
            warn_of_known_rows(X_a, X, places[0])
        rows_of_a.append(X_a)
        a = 1 + len(samples)
        samples += [X_a, X_b]
        if adapter is not None:
            samples.append(cross_adapted(adapter, X_b, X_a, seed))
        has_own = adapter is not None and has_own_columns(X_b, X_a)
        adapted = None if adapter is None else a + 2
        sites.append(Site(name, _num_samples(X_a), a, a + 1, adapted, has_own))
    return sites, samples


def _pairs_by_name(paired: Any) -> dict[str, tuple[Any, Any]]:
    named = {"": paired}
    if isinstance(paired, Mapping) and not are_rows(paired):
        named = {str(name): rows for name, rows in paired.items()}
        # A column such as expected_score_se would have two meanings.
        if not named or any(not name or set(name.split("_")) & _ENDS for name in named):
            raise ValueError(
                f"paired: expected names of sites without the words {sorted(_ENDS)}, which "
                f"columns end with, got {list(paired)}."
            )
    for name, rows in named.items():
        if not isinstance(rows, (tuple, list)) or len(rows) != 2:
            got = f"{len(rows)} of them" if isinstance(rows, tuple) else type(rows).__name__
            raise TypeError(
                f"paired{f'[{name!r}]' if name else ''}: expected the rows of the same objects at "
                f"both sites, (X_a, X_b), or a dict of these by site, got {got}."
            )
    return named


def _check_metrics_of_pairs(given: Given) -> None:
    """Refuse metrics whose expected score cannot be computed."""
    from pa_select.two_sites.classification import Classification
    from pa_select.two_sites.regression import Regression
    from pa_select.two_sites.score_of_units import group_codes

    task = Regression() if given.of_regressors else Classification()
    for scorer in given.scorers.values():
        task.check_scorer(scorer, given.y)
    if given.groups is not None:
        group_codes(given.groups)  # refuses a single one
