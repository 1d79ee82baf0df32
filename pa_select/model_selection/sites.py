"""The sites of a search: objects that were measured twice, and the sources of their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sklearn.pipeline import make_pipeline

from pa_select.utils.frames import check_columns, check_not_missing, named_like
from pa_select.utils.sklearn_private import _num_samples

# The names of a site's columns must differ from those of the worst site.
_ENDS = {"se", "low", "high", "measured", "adapted"}


class Site(NamedTuple):
    """A site where nobody labels; the paired objects were measured there and where X was."""

    #: Empty for the only site.
    name: str
    n_pairs: int
    #: The sources of the rows: as X was measured, and at the site.
    a: int
    b: int
    #: The source of the rows at the site, mapped by an adapter that has not seen them, or None.
    adapted: int | None

    @property
    def shown(self) -> list[int]:
        """The sources that show the site's objects to a classifier: as measured, and adapted."""
        return [self.b] if self.adapted is None else [self.b, self.adapted]


def make_sites(
    paired: Any, X: Any, estimator: Any, adapter: Any, seed: int
) -> tuple[list[Site], list[Any]]:
    """Check the pairs of each site; return the sites and the sources that follow X.

    Raises
    ------
    TypeError, ValueError
        If they are not pairs of rows like those of X; the message names what is wrong.
    """
    # Imported here: workers that fit and score do not need torch.
    from pa_select.unlabelled.paired_rows import (
        check_pairs,
        one_pair_for_each_object,
        warn_of_known_rows,
        warn_of_other_rows,
    )
    from pa_select.unlabelled.site_adapter import cross_adapted

    sites: list[Site] = []
    sources: list[Any] = []
    looked_at: list[Any] = []
    for name, (X_a, X_b) in _named(paired).items():
        places = [f"paired[{name!r}][{i}]" if name else f"paired[{i}]" for i in (0, 1)]
        for rows, place in zip((X_a, X_b), places, strict=True):
            check_not_missing(rows, X, place, estimator)
        X_a, X_b = (named_like(X, rows) for rows in check_pairs(X_a, X_b, *places))
        check_columns(X_a, X, places[0])
        X_a, X_b = one_pair_for_each_object(X_a, X_b, X, *places)
        if not any(rows is X_a for rows in looked_at):  # sites may share these rows
            warn_of_other_rows(X_a, X, places[0])
            warn_of_known_rows(X_a, X, places[0])
        looked_at.append(X_a)
        first = 1 + len(sources)
        sources += [X_a, X_b]
        if adapter is not None:
            sources.append(cross_adapted(adapter, X_b, X_a, seed))
        adapted = None if adapter is None else first + 2
        sites.append(Site(name, _num_samples(X_a), first, first + 1, adapted))
    return sites, sources


def adapted_to_sites(
    estimator: Any,
    adapter: Any,
    sites: Sequence[Site],
    sources: Sequence[Any],
    row: Mapping[str, Any],
) -> Any:
    """Return what to use at the site: a fitted estimator, after an adapter if that helps it.

    Parameters
    ----------
    estimator : estimator object
    adapter : None, "ridge" or estimator
    sites : sequence of Site
    sources : sequence
        X, and the sources that `make_sites` returns.
    row : mapping
        The estimator's row of ``cv_results_``, which says whether an adapter helps.

    Returns
    -------
    estimator object or dict of these
        A dict if the sites have names.
    """
    # Imported here: workers that fit and score do not need torch.
    from pa_select.unlabelled.site_adapter import SiteAdapter

    found = {}
    for site in sites:
        found[site.name] = estimator
        if site.adapted is not None and row[f"adapted_{site.name}" if site.name else "adapted"]:
            learnt = SiteAdapter(adapter).fit(sources[site.b], sources[site.a])
            found[site.name] = make_pipeline(learnt, estimator)
    return found if sites[0].name else found[""]


def _named(paired: Any) -> dict[str, tuple[Any, Any]]:
    if isinstance(paired, Mapping):
        if not paired:
            raise ValueError("paired: expected at least one site, got an empty dict.")
        named = {str(name): rows for name, rows in paired.items()}
        taken = [name for name in named if not name or set(name.split("_")) & _ENDS]
        if taken or len(named) < len(paired):
            raise ValueError(
                "paired: expected different names of sites without the words "
                f"{sorted(_ENDS)}, which columns end with, got {list(paired)}."
            )
    else:
        named = {"": paired}
    for name, rows in named.items():
        if not isinstance(rows, (tuple, list)) or len(rows) != 2:
            got = (
                f"{len(rows)} of them" if isinstance(rows, (tuple, list)) else type(rows).__name__
            )
            raise TypeError(
                f"paired{f'[{name!r}]' if name else ''}: expected the rows of the same objects at "
                f"both sites, (X_a, X_b), or a dict of these by site, got {got}."
            )
    return {name: (rows[0], rows[1]) for name, rows in named.items()}
