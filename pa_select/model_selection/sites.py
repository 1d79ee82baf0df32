"""The sites where nobody labels: their paired objects, and the scores expected there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from pa_select.model_selection.split_scores import OF_X, Data, Layout, Stacks
from pa_select.model_selection.table_columns import (
    ranks,
    scores_and_errors,
    split_scores_of,
)
from pa_select.scores import align_classes, class_scores
from pa_select.scores.candidate_posterior import halves_of, scores_of_changes
from pa_select.scores.precomputed import RecordedClassifier, RecordedRegressor
from pa_select.utils.arrays import are_rows, as_numpy
from pa_select.utils.frames import check_columns, check_not_missing, named_like
from pa_select.utils.messages import warn_caller
from pa_select.utils.sklearn_private import _MultimetricScorer, _num_samples
from pa_select.utils.typing import (
    Adapter,
    Array,
    Estimator,
    Floats,
    Ints,
    Mask,
    PairedRows,
    Reference,
    Rows,
)

if TYPE_CHECKING:
    from pa_select.model_selection.committee_vote import CommitteeVote
    from pa_select.two_sites.errors_of_scores import Differences

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
    #: Whether the site has other columns than X, so that no model can predict rows as measured.
    has_own_columns: bool

    @property
    def shown(self) -> list[int]:
        """The sources that show the site's objects to a model: as measured, and adapted."""
        sources = [] if self.has_own_columns else [self.b]
        return sources if self.adapted is None else [*sources, self.adapted]


def make_sites(
    paired: PairedRows, X: Rows, estimator: Estimator, adapter: Adapter, seed: int
) -> tuple[list[Site], list[Any]]:
    """Check the pairs of each site; return the sites and the sources that follow X."""
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
    if steps and isinstance(steps[0][1], SiteAdapter):
        raise ValueError(
            "estimator: expected a model of rows of the first site, got one that begins with a "
            "SiteAdapter, which learns from pairs. Leave it out, and set adapter='ridge'."
        )
    sites: list[Site] = []
    sources: list[Any] = []
    rows_of_a: list[Any] = []
    for name, (X_a, X_b) in _named(paired).items():
        places = [f"paired[{name!r}][{i}]" if name else f"paired[{i}]" for i in (0, 1)]
        check_not_missing(X_a, X, places[0], estimator)
        check_not_missing(X_b, X, places[1], estimator, may_drop=adapter is not None)
        X_a, X_b = check_pairs(X_a, X_b, places[0], places[1], adapter)
        X_a, X_b = named_like(X, X_a), named_like(X, X_b)
        check_columns(X_a, X, places[0])
        X_a, X_b = one_pair_for_each_object(X_a, X_b, X, *places)
        if not any(rows is X_a for rows in rows_of_a):  # sites may share these rows
            warn_of_other_rows(X_a, X, places[0])
            warn_of_known_rows(X_a, X, places[0])
        rows_of_a.append(X_a)
        first = 1 + len(sources)
        sources += [X_a, X_b]
        if adapter is not None:
            sources.append(cross_adapted(adapter, X_b, X_a, seed))
        adapted = None if adapter is None else first + 2
        has_own = adapter is not None and has_own_columns(X_b, X_a)
        sites.append(Site(name, _num_samples(X_a), first, first + 1, adapted, has_own))
    return sites, sources


#: Takes a function of a fitted model and its candidate's number, which maps the model, and
#: returns what a search predicts with, its model or models mapped.
Mapped: TypeAlias = Callable[[Callable[[Any, int], Any]], Any]


def adapted_to_sites(
    mapped: Mapped,
    adapter: Any,
    sites: Sequence[Site],
    sources: Sequence[Any],
    table: Mapping[str, Any],
) -> Estimator | dict[str, Estimator]:
    """Return what to use at the site: the fitted models, after an adapter where that helps.

    `sources` are X and those that `make_sites` returns. `table` is ``cv_results_``, which says
    which candidates an adapter helps. Returns a dict if the sites have names.
    """
    # Imported here: workers that fit and score do not need torch.
    from pa_select.two_sites.site_adapter import SiteAdapter

    by_site = {}
    for site in sites:
        helped, learnt = _is_adapted(site, table), None
        if helped.any():
            learnt = SiteAdapter(adapter).fit(sources[site.b], sources[site.a])

        def adapted(
            model: Any, candidate: int, helped: Mask = helped, learnt: Any = learnt
        ) -> Any:
            return make_pipeline(learnt, model) if helped[candidate] else model

        by_site[site.name] = mapped(adapted)
    return by_site if sites[0].name else by_site[""]


def _is_adapted(site: Site, table: Mapping[str, Any]) -> Mask:
    """Return which candidates are judged by adapted rows of a site."""
    if site.adapted is None:
        return np.zeros(len(table["params"]), dtype=bool)
    return np.asarray(table[f"adapted_{site.name}" if site.name else "adapted"], dtype=bool)


def attributes_of(table: Mapping[str, Any], metric: str, model: int) -> dict[str, Any]:
    """Return the attributes of a search that say what a model is expected to score."""
    expected, interval = f"expected_{metric}", None
    if f"{expected}_low" in table:
        interval = tuple(float(table[f"{expected}_{end}"][model]) for end in ("low", "high"))
    return {
        "expected_score_": float(table[expected][model]),
        "expected_score_se_": float(table[f"{expected}_se"][model]),
        "expected_interval_": interval,
    }


def _named(paired: PairedRows) -> dict[str, tuple[Any, Any]]:
    if isinstance(paired, Mapping) and not are_rows(paired):
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


class ExpectedColumns:
    """Computes what the candidates of a search are expected to score at other sites.

    The posteriors or predictions of `reference` stand in for the labels of the paired objects:
    "self", "ensemble" or a fitted model. `weight` has the weights of the rows of X. A metric, a
    reference or groups that cannot be used are refused.
    """

    def __init__(
        self,
        sites: Sequence[Site],
        layout: Layout,
        groups: Array | None,
        data: Data,
        reference: Reference,
        weight: Floats | None,
    ) -> None:
        # Imported here: workers that fit and score do not need torch.
        from pa_select.two_sites.classification import Classification, is_accuracy
        from pa_select.two_sites.regression import Regression
        from pa_select.two_sites.score_of_units import (
            LabelledRows,
            check_reference,
            check_several,
        )

        self._sites, self._error_score = sites, data.error_score
        self._task = Regression() if data.of_regressors else Classification()
        rows = [of_split[OF_X] for of_split in layout.scored_rows]
        #: The labelled rows, on which each split's model is scored.
        y = np.asarray(data.y, dtype=np.float64 if data.of_regressors else None)
        self.labelled = LabelledRows(y, rows, groups, weight)
        if groups is not None:
            check_several(len(np.unique(groups[self.labelled.tested])))
        several = isinstance(data.scorer, _MultimetricScorer)
        #: By the metric's name, as in ``mean_test_<metric>``.
        self.scorers = dict(data.scorer._scorers) if several else {"score": data.scorer}
        for scorer in self.scorers.values():
            self._task.check_scorer(scorer, self.labelled.y)
        #: Whether a metric looks at more than the predicted classes.
        self.needs_probabilities = not all(map(is_accuracy, self.scorers.values()))
        self._of_regressors = data.of_regressors
        check_reference(reference, data.of_regressors)
        self._reference = self._stand_ins(reference, data)
        #: For each candidate and site, the mean posterior of each class over the paired objects.
        self.class_shares: dict[tuple[int, str], Floats] = {}

    def _stand_ins(self, reference: Any, data: Data) -> str | dict[int, Floats]:
        """Return what a fitted model lets stand in for the labels, by the source of the rows."""
        if isinstance(reference, str):
            return reference
        from pa_select.two_sites.engine import reference_labels

        kind = "regressor" if data.of_regressors else "classifier"

        def output(source: int) -> RecordedClassifier | RecordedRegressor:
            try:
                if data.of_regressors:
                    return RecordedRegressor.of(reference, data.sources[source])
                scores, classes = class_scores(reference, data.sources[source])
            except NotFittedError as error:
                raise ValueError(
                    f"reference: expected a fitted {kind}, got one that is not fitted: "
                    f"{reference!r}."
                ) from error
            if not np.isin(classes, data.labels).all():
                raise ValueError(
                    f"reference: expected a classifier of the classes {data.labels.tolist()}, got "
                    f"one of {np.asarray(classes).tolist()}."
                )
            scores = align_classes(np.asarray(as_numpy(scores)), classes, data.labels)
            return RecordedClassifier(data.labels, scores, None)

        known = output(OF_X), self.labelled.y
        return {
            site.a: reference_labels(self._task, *known, output(site.a), self.labelled.weight)
            for site in self._sites
        }

    def table(self, stacks: Stacks, cv_results: dict[str, Any], metric: str) -> dict[str, Any]:
        """Make the columns; `metric` decides about adapted rows, and which site is the worst."""
        from pa_select.two_sites.engine import Engine

        candidates = stacks.candidates
        errors = None if isinstance(self._error_score, str) else list[str]()
        validation: dict[str, tuple[Floats, Floats | None]] = {}
        for name in self.scorers:
            scores, of_scores = scores_and_errors(cv_results, name)
            validation[name] = scores[candidates], of_scores[candidates]
        self._engine = engine = Engine(
            self._task,
            self.scorers,
            self.labelled,
            stacks,
            validation,
            metric,
            self._reference,
            errors,
        )
        by_site = []
        #: What is expected at each site, of the candidates that have all scores.
        self._found = [(candidates, engine.at(site)) for site in self._sites]
        for site, (_, expected) in zip(self._sites, self._found, strict=True):
            if site.has_own_columns:
                _add_adapted_columns(expected.columns, metric)
            self.class_shares |= {
                (candidate, site.name): shares
                for candidate, shares in zip(candidates.tolist(), expected.shares, strict=True)
            }
            columns = {}
            for name, values in expected.columns.items():
                columns[name] = np.full(len(cv_results[f"mean_test_{metric}"]), np.nan)
                columns[name][candidates] = values
            by_site.append(columns)
        if errors:
            warn_caller(
                f"{len(errors)} expected scores could not be computed and are nan. The "
                f"first error: {errors[0]}"
            )
        return self._joined(by_site, metric)

    def scores_of_parts(
        self, folds: Sequence[Ints], table: Mapping[str, Any], metric: str, seed: int
    ) -> tuple[Floats, Floats]:
        """Return the expected scores from parts of the rows and of the pairs, for all candidates.

        A part is a fold of the rows with half of the objects; see `scores_of_changes`.
        """
        expected = np.asarray(table[f"expected_{metric}"])
        scores = split_scores_of(table, metric)
        names, at_worst = self._names, self._worst(table)
        n_units = [found.contributions.shape[1] for _, found in self._found]
        every = np.arange(len(expected))

        def at_sites(values: Iterable[Floats]) -> Floats:
            """Return each candidate's value at its worst site; nan for those without scores."""
            of_all = np.full((len(names), len(expected)), np.nan)
            for row, (known, _), of_known in zip(of_all, self._found, values, strict=True):
                row[known] = of_known
            return of_all[at_worst, every]

        believed = at_sites(found.believed for _, found in self._found)
        of_rows = believed * (scores - scores.mean(axis=0))

        def of_pairs(masks: Sequence[Mask]) -> Floats:
            return at_sites(
                found.change_by(mask) for (_, found), mask in zip(self._found, masks, strict=True)
            )

        # At every site the same objects are halved alike.
        by_site = zip(*(halves_of(n, seed) for n in n_units), strict=True)
        halves = [[of_pairs(masks) for masks in zip(*both, strict=True)] for both in by_site]
        return scores_of_changes(folds, expected, of_rows, halves)

    @property
    def _names(self) -> list[str]:
        return [site.name for site in self._sites]

    def _worst(self, table: Mapping[str, Any]) -> Ints:
        """Return the position of each candidate's worst site."""
        if "worst_site" not in table:
            return np.zeros(len(table["disagreement"]), dtype=np.intp)
        return np.array([self._names.index(name) for name in table["worst_site"]])

    def differences(self, table: Mapping[str, Any]) -> dict[str, Differences]:
        """Return the differences between expected scores: at "", the worst sites, and by site."""
        worst, found = self._worst(table), [expected for _, expected in self._found]
        places = {"": worst} | {
            name: np.full_like(worst, i) for i, name in enumerate(self._names) if name
        }
        candidates = self._found[0][0]
        return {
            name: self._engine.differences(found, at[candidates]).among(candidates, len(worst))
            for name, at in places.items()
        }

    def of_committee(
        self, vote: CommitteeVote, table: Mapping[str, Any], metric: str
    ) -> dict[str, Any]:
        """Return the attributes that say what a committee is expected to score.

        It is one more model of the engine. Its members predict the rows of each site as they are
        judged: as measured, or adapted.
        """
        n = len(vote.stacks)
        validation = {}
        with_vote = self._engine.with_models(vote, self._engine.validation)
        for name, (scores, errors) in self._engine.validation.items():
            score = float(vote.scores(self.scorers[name], name).mean())
            error = with_vote.error_of_score(name, n, score)
            score = with_vote.validated(name, n, score)
            validation[name] = np.append(scores, score), np.append(errors, error)
        by_site = []
        for site in self._sites:
            adapted = site.b if site.adapted is None else site.adapted
            shown = np.where(_is_adapted(site, table), adapted, site.b)
            models = vote.as_judged({site.b: shown})
            engine = self._engine.with_models(models, validation)
            found = engine.at(site._replace(adapted=None, has_own_columns=False))
            by_site.append({name: values[n:] for name, values in found.columns.items()})
        expected = [columns[f"expected_{metric}"][0] for columns in by_site]
        return attributes_of(by_site[int(np.argmin(expected))], metric, 0)

    def warn_of_other_classes(self, chosen: int) -> None:
        """Warn if a candidate expects other class shares of the pairs than the labels have."""
        from pa_select.two_sites.paired_rows import other_mix

        if self._of_regressors:
            return
        classes, counts = np.unique(self.labelled.y, return_counts=True)
        shares = counts / counts.sum()
        for site in self._sites:
            at_site = self.class_shares.get((chosen, site.name), shares)
            if len(at_site) != len(shares):
                continue
            # Posteriors vary less than labels, so that the test is conservative.
            variance = shares * (1 - shares) * (1 / site.n_pairs + 1 / len(self.labelled.y))
            other = other_mix(at_site, shares, variance)
            if other is not None:
                where = f"paired[{site.name!r}]" if site.name else "paired"
                warn_caller(other.message(where, classes))

    def warn_of_scores(self, chosen: int) -> None:
        """Warn if a candidate's scores of some labels are missing, or absurdly low."""
        from pa_select.two_sites.classification import doubt_of_lapses

        candidates = self._found[0][0].tolist()
        if chosen in candidates:
            rows = self._engine.lapses(candidates.index(chosen))
            for message in doubt_of_lapses(rows, self.labelled.n, "X"):
                warn_caller(message)

    def warn_of_better_site(self, table: dict[str, Any], metric: str, chosen: int) -> None:
        """Warn if a regressor should be clearly better at the other site."""
        from pa_select.two_sites.regression import doubt_of_sites

        candidates = self._found[0][0]
        if self._of_regressors and chosen in candidates:
            expected, of_pairs = (
                table[f"expected_{metric}{x}"][chosen] for x in ("", "_se_pairs")
            )
            position = int(np.searchsorted(candidates, chosen))
            score, of_rows = (x[position] for x in self._engine.validation[metric])
            error = np.hypot(of_pairs, np.nan_to_num(of_rows))
            given = self.scorers[metric], expected, float(error), float(score)
            for message in doubt_of_sites("paired", *given):
                warn_caller(message)

    def _joined(self, by_site: list[dict[str, Floats]], metric: str) -> dict[str, Any]:
        """Take each candidate's worst site; add the columns of every site if they have names."""
        values = np.stack([columns[f"expected_{metric}"] for columns in by_site])
        worst = np.where(np.isnan(values), np.inf, values).argmin(0)
        candidates = np.arange(values.shape[1])
        joined: dict[str, Any] = {
            name: np.stack([columns[name] for columns in by_site])[worst, candidates]
            for name in by_site[0]
        }
        sites = self._sites
        if sites[0].name:
            for site, columns in zip(sites, by_site, strict=True):
                joined |= {f"{name}_{site.name}": value for name, value in columns.items()}
            joined["worst_site"] = np.array([site.name for site in sites], dtype=object)[worst]
        for name in joined:
            if name == "adapted" or name.startswith("adapted_"):
                joined[name] = joined[name] == 1
        joined[f"rank_expected_{metric}"] = ranks(joined[f"expected_{metric}"])
        return joined


def _add_adapted_columns(columns: dict[str, Floats], metric: str) -> None:
    """Add the columns of rows as measured and adapted where only adapted rows are predicted."""
    expected = columns[f"expected_{metric}"]
    columns["adapted"] = np.ones_like(expected)
    columns[f"expected_{metric}_as_measured"] = np.full_like(expected, np.nan)
    columns[f"expected_{metric}_as_adapted"] = expected


def warn_of_equal_predictions(table: dict[str, Any]) -> None:
    """Warn if no candidate predicts anything else at the other site."""
    disagreement = table["disagreement"]
    known = disagreement[np.isfinite(disagreement)]
    # Where adapted rows are expected to score more, the rows as measured differ.
    if len(known) and not known.any() and not np.any(table.get("adapted", False)):
        warn_caller(
            "No candidate predicts another class or number for any of the paired objects: the "
            "pairs do not show a difference between the sites that matters, and the score decides."
        )
