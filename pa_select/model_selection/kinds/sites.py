"""The sites where nobody labels: their paired objects, and the models that are used there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from sklearn.pipeline import make_pipeline

from pa_select.model_selection.kinds.kind import Mapped
from pa_select.utils.arrays import are_rows
from pa_select.utils.frames import check_columns, check_not_missing, named_like
from pa_select.utils.sklearn_private import _num_samples
from pa_select.utils.typing import Adapter, Estimator, Mask, PairedRows, Rows

# The names of a site's columns must differ from those of the worst site.
_ENDS = {"se", "low", "high", "measured", "adapted"}


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


def make_sites(
    paired: PairedRows, X: Rows, estimator: Estimator, adapter: Adapter, seed: int
) -> tuple[list[Site], list[Any], list[str]]:
    """Check the pairs of each site; return the sites, the samples after X, and their names."""
    # Imported here: workers that fit and score do not need torch.
    from pa_select.two_sites.paired_rows import (
        check_pairs,
        has_own_columns,
        one_pair_for_each_object,
        warn_of_known_rows,
        warn_of_other_rows,
    )
    from pa_select.two_sites.site_adapter import SiteAdapter, cross_adapted

    steps = getattr(estimator, "steps", None)
    # It would learn from rows of one site only, and map those that need no map.
    if steps and isinstance(steps[0][1], SiteAdapter):
        raise ValueError(
            "estimator: expected a model of rows of the first site, got one that begins with a "
            "SiteAdapter, which learns from pairs. Leave it out, and set adapter='ridge'."
        )
    sites: list[Site] = []
    samples: list[Any] = []
    names: list[str] = []
    rows_of_a: list[Any] = []
    for name, (X_a, X_b) in _named(paired).items():
        places = [f"paired[{name!r}][{i}]" if name else f"paired[{i}]" for i in (0, 1)]
        check_not_missing(X_a, X, places[0], estimator)
        if adapter is None or not has_own_columns(X_b, X_a):  # which no candidate predicts
            check_not_missing(X_b, X, places[1], estimator, may_drop=adapter is not None)
        X_a, X_b = check_pairs(X_a, X_b, places[0], places[1], adapter)
        # Models that were fitted to a frame expect its names.
        X_a, X_b = named_like(X, X_a), named_like(X, X_b)
        check_columns(X_a, X, places[0])
        X_a, X_b = one_pair_for_each_object(X_a, X_b, X, *places)
        if not any(rows is X_a for rows in rows_of_a):  # sites may share these rows
            warn_of_other_rows(X_a, X, places[0])
            warn_of_known_rows(X_a, X, places[0])
        rows_of_a.append(X_a)
        first = 1 + len(samples)
        samples += [X_a, X_b]
        names += places
        if adapter is not None:
            samples.append(cross_adapted(adapter, X_b, X_a, seed))
            names.append(places[1])
        adapted = None if adapter is None else first + 2
        has_own = adapter is not None and has_own_columns(X_b, X_a)
        sites.append(Site(name, _num_samples(X_a), first, first + 1, adapted, has_own))
    return sites, samples, names


def adapted_to_sites(
    mapped: Mapped,
    adapter: Any,
    sites: Sequence[Site],
    samples: Sequence[Any],
    table: Mapping[str, Any],
) -> Estimator | dict[str, Estimator]:
    """Return what to use at the site: the fitted models, after an adapter where that helps.

    `samples` are X and those that `make_sites` returns. `table` is ``cv_results_``, which says
    which candidates an adapter helps. Returns a dict if the sites have names.
    """
    # Imported here: workers that fit and score do not need torch.
    from pa_select.two_sites.site_adapter import SiteAdapter

    by_site = {}
    for site in sites:
        helped, learnt = is_adapted(site, table), None
        # Nothing is learnt that no candidate uses.
        if helped.any():
            learnt = SiteAdapter(adapter)._learn(samples[site.b], samples[site.a])

        def adapted(
            model: Any, candidate: int, helped: Mask = helped, learnt: Any = learnt
        ) -> Any:
            return make_pipeline(learnt, model) if helped[candidate] else model

        by_site[site.name] = mapped(adapted)
    return by_site if sites[0].name else by_site[""]


def is_adapted(site: Site, table: Mapping[str, Any]) -> Mask:
    """Return which candidates are judged by adapted rows of a site."""
    if site.adapted is None:
        return np.zeros(len(table["params"]), dtype=bool)
    return np.asarray(table[f"adapted_{site.name}" if site.name else "adapted"], dtype=bool)


def _named(paired: PairedRows) -> dict[str, tuple[Any, Any]]:
    if isinstance(paired, Mapping) and not are_rows(paired):
        if not paired:
            raise ValueError("paired: expected at least one site, got an empty dict.")
        named = {str(name): rows for name, rows in paired.items()}
        # A column such as expected_score_se would have two meanings.
        taken = [name for name in named if not name or set(name.split("_")) & _ENDS]
        if taken or len(named) < len(paired):
            raise ValueError(
                "paired: expected different names of sites without the words "
                f"{sorted(_ENDS)}, which columns end with, got {list(paired)}."
            )
    else:
        named = {"": cast("tuple[Rows, Rows]", paired)}
    for name, rows in named.items():
        got = type(rows).__name__
        if isinstance(rows, (tuple, list)):
            if len(rows) == 2 and not all(map(_is_two_tables, rows)):
                continue
            got = f"{len(rows)} of them" if len(rows) != 2 else "two such tuples"
        raise TypeError(
            f"paired{f'[{name!r}]' if name else ''}: expected the rows of the same objects at "
            f"both sites, (X_a, X_b), or a dict of these by site, got {got}."
        )
    return {name: (rows[0], rows[1]) for name, rows in named.items()}


def _is_two_tables(rows: Any) -> bool:
    """Whether these are not rows of one site, but of two, as in a list of pairs."""
    if not isinstance(rows, (tuple, list)) or len(rows) != 2:
        return False
    return all(getattr(row, "ndim", 1) == 2 for row in rows)
