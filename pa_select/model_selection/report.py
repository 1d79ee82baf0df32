"""A fitted search as a page for readers who do not program."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from datetime import date
from html import escape

import numpy as np
from sklearn.base import is_regressor

from pa_select._version import __version__
from pa_select.model_selection.choice import by_what_decides, rule_of
from pa_select.model_selection.committee import PACommittee
from pa_select.model_selection.report_html import (
    COLOURS,
    STYLE,
    Axis,
    bullets,
    definitions,
    drawn,
    items,
)
from pa_select.model_selection.results_table import (
    candidate_names,
    class_of_all,
    column_in_words,
    error_column,
    in_digits,
    metric_in_words,
    objects_of_choice,
    scoring_of,
    some_names,
    table_of_candidates,
    with_error,
)
from pa_select.model_selection.selection_rule import with_ties
from pa_select.model_selection.table_columns import (
    cv_results_of,
    first_metric,
    new_site_interval_of,
)
from pa_select.scores.new_site import FEWEST_SITES
from pa_select.utils.html import visible
from pa_select.utils.typing import Floats, Mask, Search

#: Candidates that the picture shows.
_DRAWN = 12
#: Environments whose scores are listed.
_LISTED = 20
#: The characters of a name; lines end inside of names, but a list of numbers has no end.
_LONGEST_NAME = 200
#: What is known of the choice that is said first; the rest is below the pictures.
_FIRST = 4
#: The axis of the weights is at least as long.
_LEAST_WEIGHT = 0.2


def report(search: Search) -> str:
    """Return a page of HTML that says what was asked, what was chosen, and how sure it is."""
    return visible(_Report(search).page())


class _Report:
    """The parts of the page."""

    def __init__(self, search: Search) -> None:
        self.search, self.table = search, cv_results_of(search)
        self.metric = first_metric(search, self.table)
        self.words = metric_in_words(self.metric, scoring_of(search))
        # Errors are recorded with a minus sign, since larger scores are better.
        self.sign = -1 if self.words.startswith("neg ") else 1
        self.words = self.words.removeprefix("neg ")
        params = self.table["params"]
        self.names = candidate_names(params, search.estimator, _LONGEST_NAME)
        #: The class of all candidates; empty if they have several.
        self.of_class = class_of_all(search.estimator, params)
        self.chosen: int | None = getattr(search, "best_index_", None)
        best = getattr(search, "best_estimator_", None)
        self.committee = best if isinstance(best, PACommittee) else None
        self._eligible = np.asarray(
            self.table.get("eligible", np.ones(len(self.names))), dtype=bool
        )
        self.expected = f"expected_{self.metric}"
        self.home = f"mean_test_{self.metric}"
        self.has_pairs = self.expected in self.table
        self.rule = rule_of(search, self.table)
        #: The column that decides, its error and its name.
        self.decides = self.rule.column(self.table)
        self.error = error_column(self.decides)
        self.by_expected = self.decides == self.expected
        self.value = column_in_words(self.decides, scoring_of(search)).replace("neg ", "", 1)
        #: The eligible candidates that are as good, as far as can be told, if that matters.
        self.indistinguishable = self.table.get(
            "not_told_apart", np.zeros(len(self.names), dtype=bool)
        )
        self.order = by_what_decides(search)
        self.n_indistinguishable = int(np.sum(self.indistinguishable))
        n_others = len(self.names) - 1
        # "None of the 4 others can be told" reads better than four names.
        names, can = self._some(self.indistinguishable), "cannot"
        self.all_indistinguishable = self.n_indistinguishable == n_others > 1
        if self.all_indistinguishable:
            names, can = f"none of the {n_others} others", "can"
        self.cannot_be_told = (
            f"{self.value} of {names} {can} be told from that of the chosen candidate"
        )
        #: The other eligible candidates whose value is the same, but for rounding.
        self.tied = np.zeros(len(self.names), dtype=bool)
        if self.chosen is not None:
            values = with_ties(self.table[self.decides])
            same = values == values[self.chosen]
            self.tied = self._eligible & same & ~self.indistinguishable
            self.tied[self.chosen] = False
        # They are said apart: no p-value is behind "the same".
        have = "has" if self.tied.sum() == 1 else "have"
        self.have_the_same = f"{self._some(self.tied)} {have} the same"
        start = f"{self.home}_environment_"
        self.environments = [x.removeprefix(start) for x in self.table if x.startswith(start)]
        self.relies_on = "the predicted probabilities"
        if is_regressor(search.estimator):
            self.relies_on = "the predictions at the first site"
        self.where = "the other sites" if "worst_site" in self.table else "the other site"

    def page(self) -> str:
        title = f"Which model for {self.where}?" if self.has_pairs else "Which model?"
        sentence, points = self._answer()
        kind = "choice" if self.committee is None else "best single candidate"
        first = f'<p class="answer">{sentence}</p>{bullets(points[:_FIRST])}'
        parts = [
            ("", first + self._picture() + self._picture_of_weights()),
            (f"More about the {kind}", bullets(points[_FIRST:])),
            ("What was asked", self._question()),
            ("The candidates", self._candidates()),
            ("What to be careful about", self._warnings()),
            ("What to do next", items([*self._advice(), *self._keep_several()])),
            ("How to read the numbers", definitions(self._words())),
        ]
        # A part that has nothing to say is left out, with its head.
        body = "".join((f"<h2>{head}</h2>" if head else "") + text for head, text in parts if text)
        return (
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>{body}"
            f"<footer>{date.today().isoformat()}, pa_select {__version__}</footer></body></html>"
        )

    def _some(self, candidates: Mask) -> str:
        """Name some candidates, the best ones first."""
        return some_names([self.names[i] for i in self.order if candidates[i]])

    def _number(self, column: str, candidate: int) -> float:
        return float(self.table[column][candidate]) if column in self.table else np.nan

    def _score(self, column: str, candidate: int) -> float:
        return self.sign * self._number(column, candidate)

    def _with_error(self, column: str, error: str, candidate: int) -> str:
        sign = 1 if column == "agreement" else self.sign
        return _strong(sign * self._number(column, candidate), self._number(error, candidate))

    def _interval(self, column: str, candidate: int) -> tuple[float, float]:
        low, high = sorted(self._score(f"{column}_{end}", candidate) for end in ("low", "high"))
        return low, high

    def _answer(self) -> tuple[str, list[str]]:
        """Return a sentence that says what to use, and what is known of it, in HTML."""
        if self.chosen is None:
            return "With several metrics and <code>refit=False</code> nothing is chosen.", []
        points = list(self._of_chosen(self.chosen))
        sentence = self._use(self.chosen)
        if self.committee is not None:
            best, sentence = sentence, self._who_votes(self.committee)
            if len(self.names) > 1:
                points[0] = f"{best} {points[0]}"
            points = [*self._of_committee(self.committee), *points]
        n, planned = len(self.names), self.search._n_planned
        # All that follows holds for the finished candidates alone.
        if n < planned:
            points.insert(0, f"Interrupted after {n} of {planned} candidates.")
        # Wrong pairs make all numbers wrong, so that this is not left for the end.
        if warned := len(getattr(self.search, "warnings_", ())):
            what = "a warning" if warned == 1 else f"{warned} warnings"
            points.insert(0, f"The search gave {what}: first read what to be careful about.")
        return sentence, points

    def _use(self, chosen: int) -> str:
        """Return a sentence that names the chosen candidate."""
        name = self.names[chosen]
        # "max_depth=3" alone does not say what was fitted.
        if not name.startswith(self.of_class):
            name = f"{self.of_class} with {name}"
        name = f"<strong>{escape(name)}</strong>"
        if not self._eligible.any():
            return f"No candidate is good enough; {name} is the best."
        return (
            f"Use {name}." if self.committee is None else f"The best single candidate is {name}."
        )

    def _who_votes(self, committee: PACommittee) -> str:
        """Return a sentence that says who predicts."""
        members, n = committee._members.candidates, committee.posterior_.n_candidates
        # One member does not vote: say why it is alone instead.
        if len(members) == 1:
            name = f"<strong>{escape(self.names[members[0]])}</strong>"
            if len(self.names) == 1:
                return f"Use {name}, the only candidate."
            why = "the parts of the data agree that it is the best"
            if n == 1:
                why = "no other candidate has all scores"
            return f"Only {name} remains in the committee: {why}."
        return (
            f"A <strong>committee of {len(members)} candidates</strong> predicts: parts of "
            "the data differ about which of them is the best, so that they vote."
        )

    def _of_committee(self, committee: PACommittee) -> Iterator[str]:
        """Say how well the committee predicts, and what to call."""
        search, words = self.search, escape(self.words)
        # Without its votes in every split the search's attributes describe the chosen candidate.
        known = np.isfinite(search.committee_score_)
        if known and self.has_pairs:
            where = "the worst of the other sites" if "worst_site" in self.table else self.where
            score, error = self.sign * search.expected_score_, search.expected_score_se_
            said = f"At {where} its {words} is expected to be {_strong(score, error)}."
            ends = search.expected_interval_ or (np.nan, np.nan)
            sure = self._how_sure(score, error, *sorted(self.sign * end for end in ends))
            yield " ".join([said, *sure])
        if known:
            score = _strong(self.sign * search.committee_score_)
            home = " at the site of the labelled rows" if self.has_pairs else ""
            yield f"Its cross-validated {words}{home} is {score}."
        call = "Call <code>predict</code> of the search for new rows."
        adapted = np.asarray(self.table.get("adapted", np.zeros(len(self.names))))
        if np.any(adapted[committee._members.candidates]):
            call += f" For rows of {self.where} call that of <code>best_adapted_</code>."
        yield call

    def _of_chosen(self, chosen: int) -> Iterator[str]:
        """Say what is known of the chosen candidate, what matters most first."""
        # Rounding is no reason to name another candidate than the chosen one.
        at_home = self._with_error(self.home, f"se_test_{self.metric}", chosen)
        scores = with_ties(self.table[self.home])
        usual = int(np.nanargmax(scores)) if np.isfinite(scores).any() else chosen
        usual = usual if scores[usual] > scores[chosen] else chosen
        if self.has_pairs:
            yield from self._at_the_other_site(chosen, at_home)
            # A better score at home is no reason to take another one for elsewhere.
            better = {}
        else:
            better = self._better_of_the_indistinguishable(chosen)
            at_home = f"Its cross-validated {escape(self.words)} is {at_home}."
            yield " ".join([at_home, *self._elsewhere(chosen)])
            yield self._at_a_new_place(chosen)
        if alike := [*better.values(), *self._say_indistinguishable(better)]:
            yield " ".join(alike)
        if not self.has_pairs:
            yield from self._how_stable(chosen)
        if usual not in {chosen, *better}:
            there = (
                f"which is expected to have {in_digits(self._score(self.expected, usual))} there"
                if self.has_pairs
                else f"whose {escape(self.words)} is {in_digits(self._score(self.home, usual))}"
            )
            yield f"Cross-validation alone would choose {escape(self.names[usual])}, {there}."

    def _at_the_other_site(self, chosen: int, at_home: str) -> Iterator[str]:
        """Say what is expected there, whether to adapt rows, and what is at home."""
        words = escape(self.words)
        expected = self._with_error(self.expected, f"{self.expected}_se", chosen)
        where = "the other site"
        if "worst_site" in self.table:
            where = f"the worst site, {escape(str(self.table['worst_site'][chosen]))},"
        said = f"At {where} its {words} is expected to be {expected}."
        value, ends = self._score(self.expected, chosen), self._interval(self.expected, chosen)
        error = self._number(f"{self.expected}_se", chosen)
        # A committee has said that of itself.
        sure = self._how_sure(value, error, *ends) if self.committee is None else ()
        yield " ".join([said, *sure, *self._at_new_site(chosen)])
        if self._number("adapted", chosen) == 1:
            yield (
                f"Rows of {self.where} must first be adapted, as <code>best_adapted_</code> does."
                f"{self._without_adapter()}"
            )
        said = f"At the site of the labelled rows its {words} is {at_home}."
        yield " ".join([said, *self._seems_better(chosen)])

    def _better_of_the_indistinguishable(self, chosen: int) -> dict[int, str]:
        """Say which candidate agrees as well and has the best score, if it is not the chosen."""
        views = "_views" if f"{self.home}_views" in self.table else ""
        scores = with_ties(self.table[f"{self.home}{views}"])
        best = int(np.argmax(np.where(self.indistinguishable, scores, -np.inf)))
        if not self.indistinguishable[best] or not scores[best] > scores[chosen]:
            return {}
        value = self._with_error(f"{self.home}{views}", f"se_test_{self.metric}{views}", best)
        words = escape(self.words + (" on the views" if views else ""))
        return {
            best: f"{escape(self.names[best])} agrees as well, as far as can be told, and its "
            f"{words} is {value}: take it if the {escape(self.words)} matters more to you."
        }

    def _say_indistinguishable(self, named: Collection[int] = ()) -> Iterator[str]:
        """Say how many candidates are as good, but for one that is named already."""
        if self.tied.any():
            yield f"{escape(self.have_the_same)} {escape(self.value)}."
        if self.n_indistinguishable > len(named):
            whose = "this candidate"
            whose += " by their agreement" if self.rule.by_agreement else ""
            if self.all_indistinguishable:
                yield f"None of the {self.n_indistinguishable} others can be told from {whose}."
            elif self.n_indistinguishable > 1:
                yield f"{self.n_indistinguishable} others cannot be told from {whose}."
            else:
                yield f"{escape(self._some(self.indistinguishable))} cannot be told from {whose}."

    def _how_sure(self, expected: float, error: float, low: float, high: float) -> Iterator[str]:
        """Say where the score is, first if the posteriors are right, and then if they are not."""
        least, most = self._likely(expected, error)
        if np.isfinite([least, most]).all():
            yield (
                f"If {self.relies_on} are right, it is probably between {in_digits(least)} and "
                f"{in_digits(most)} (1.96 standard errors)."
            )
        if np.isfinite([low, high]).all():
            bound = f"at most {in_digits(high)}" if self.sign < 0 else f"at least {in_digits(low)}"
            yield f"Even if {self.relies_on} are wrong, it is {bound} (95 % interval)."

    def _likely(self, expected: float, error: float) -> tuple[float, float]:
        """Return the expected score less and plus 1.96 standard errors, cut where scores end."""
        least, most = expected - 1.96 * error, expected + 1.96 * error
        # No error is below 0, and no accuracy above 1.
        if self.words == "accuracy" or self.sign < 0:
            least = max(least, 0.0)
        if self.words == "accuracy":
            most = min(most, 1.0)
        return least, most

    def _seems_better(self, chosen: int) -> Iterator[str]:
        """Say that the other site is not better if it only seems so."""
        there, here = (self._number(name, chosen) for name in (self.expected, self.home))
        error = self._number(f"{self.expected}_se", chosen)
        # What looks the same on the page needs no warning.
        if in_digits(there) != in_digits(here) and 0 < there - here <= 1.96 * error:
            yield (
                f"Do not expect {self.where} to be better: the difference is within its "
                "error, and may come from shrinkage (see below)."
            )

    def _without_adapter(self) -> str:
        """Say what the best candidate is expected to have if rows of one site are not adapted."""
        # At several sites another one may be the worst as measured: the two do not compare.
        measured = np.asarray(self.table[f"{self.expected}_as_measured"], dtype=np.float64)
        if "worst_site" in self.table:
            return ""
        if not np.isfinite(measured).any():
            return " The columns there are others: no candidate could predict rows as measured."
        best = self.sign * np.nanmax(measured)
        return f" On rows as measured the best expected {escape(self.words)} is {in_digits(best)}."

    def _elsewhere(self, chosen: int) -> Iterator[str]:
        """Say what the score is on views and in the worst environment."""
        worst = self.table.get(f"worst_environment_{self.metric}", [None] * (chosen + 1))[chosen]
        places = {
            "views": "On the views",
            "worst_environment": f"In the worst environment, {escape(str(worst))},",
        }
        for suffix, where in places.items():
            column = f"{self.home}_{suffix}"
            if np.isfinite(self._number(column, chosen)):
                error = f"se_test_{self.metric}_{suffix}"
                yield f"{where} it is {self._with_error(column, error, chosen)}."

    def _how_stable(self, chosen: int) -> Iterator[str]:
        if np.isfinite(self._number("agreement", chosen)):
            agreement = self._with_error("agreement", "agreement_se", chosen)
            only = escape(self.search._only_class)
            yield (
                f"Its agreement says nothing: only rows of class {only} are compared."
                if only
                else f"Its agreement is {agreement} nats per pair; more is more stable."
            )

    def _at_a_new_place(self, chosen: int) -> str:
        """Say what is known of other sites without pairs."""
        # Splits that mix environments say nothing of a new one.
        unseen, words = self.search._held_out, escape(self.words)
        if not unseen:
            return f"Its {words} at another site is not known."
        start, n = f"{self.home}_environment_", len(unseen)
        scores = [self._score(f"{start}{name}", chosen) for name in unseen]
        lowest, highest = in_digits(np.nanmin(scores)), in_digits(np.nanmax(scores))
        said = [
            f"Over the {n} environments, which the fits had not seen, its {words} ranged from "
            f"{lowest} to {highest}."
        ]
        if n < FEWEST_SITES:
            said.append("What it will be at a new site is not known: three are needed.")
        return " ".join([*said, *self._at_new_site(chosen)])

    def _at_new_site(self, chosen: int) -> Iterator[str]:
        """Say what is expected at a site that nobody has seen."""
        ends = new_site_interval_of(self.table, self.metric, chosen)
        # A minus sign swaps the ends.
        low, high = sorted(self.sign * end for end in ends)
        if not np.isfinite([low, high]).all():
            return
        yield (
            f"At a new site like these it is probably {in_digits(low)} to {in_digits(high)} (95 % "
            "interval)."
        )
        by_these = (
            "because this candidate was chosen by these sites, and " if len(self.names) > 1 else ""
        )
        yield f"It may be worse {by_these}if sites drift, as years do."

    def _question(self) -> str:
        search, n = self.search, len(self.names)
        asked, compared, _ = search._said
        if self.by_expected:
            asked = f"has the best {self.words} at {self.where}, where nothing is labelled"
        elif not self.rule.by_agreement:
            asked = self.rule.claim.format(value=self.value)
        said = {
            "Question": f"Which candidate {asked}?",
            "Candidates": f"{n}" + (f" of {self.of_class}" if self.of_class else ""),
            "Labelled rows": f"{search._n_labelled}; each candidate was fitted {search.n_splits_} "
            "times, and scored on rows that the fit had not seen",
            "Compared": compared,
        }
        if self.environments:
            names = [*self.environments[:_LISTED], *["…"] * (len(self.environments) > _LISTED)]
            said["Environments"] = f"{len(self.environments)}: {', '.join(names)}"
        objects = getattr(search, "n_objects_", None)
        if isinstance(objects, dict):
            said["Objects"] = ", ".join(f"{n} at {site}" for site, n in objects.items())
        elif objects is not None:
            said["Objects"] = f"{objects}, measured at both sites"
        if self.chosen is not None:
            said["Why this one"] = self._why(self.chosen)
        # It is the same for all candidates; nan if no constant prediction can be scored.
        chance = np.ravel(self.table.get(f"chance_test_{self.metric}", np.nan))[0]
        if np.isfinite(chance):
            said["To beat"] = (
                f"{in_digits(self.sign * chance)}, the best {self.words} of predictions that "
                "ignore the features"
            )
        return definitions(said)

    def _why(self, chosen: int) -> str:
        """Say what the chosen candidate is among the eligible ones, and the reason."""
        reason = self._reason(chosen)
        if self.indistinguishable.any():  # the column has no names
            reason = f"{reason.partition('; chosen, ')[0]}; the {self.cannot_be_told}"
        if not self._eligible.any():
            return f"no candidate is eligible: {reason}"
        n, n_all = int(self._eligible.sum()), len(self.names)
        # To be the best of one says nothing: what excluded the others does.
        if n == 1:
            return f"no other candidate is eligible{self._why_no_other(chosen)}"
        claim, values = f"it {self.rule.claim.format(value=self.value)}", self.table[self.decides]
        is_best = values[chosen] >= np.nanmax(values[self._eligible], initial=-np.inf)
        if self.rule.tie_tol and not is_best:
            claim += f", to within {self.rule.tie_tol:g},"
        among = f"{claim} among {f'the {n}' if n == n_all else f'{n} eligible'} candidates"
        if self.tied.any():
            among += f"; {self.have_the_same}"
        return among if self.by_expected or reason == "eligible" else f"{among}: {reason}"

    def _why_no_other(self, chosen: int) -> str:
        """Say why the best of the others by its score is not eligible."""
        scores = np.nan_to_num(self.table[self.home], nan=-np.inf)
        others = np.flatnonzero(np.arange(len(scores)) != chosen)
        if not len(others):
            return ""
        best = int(others[scores[others].argmax()])
        return f"; the best of the others, {self.names[best]}: {self._reason(best)}"

    def _reason(self, candidate: int) -> str:
        reason = str(self.table["reason"][candidate]).removeprefix("not ")
        # The score has the name that the page gives it.
        return re.sub(r"\bscore\b", self.words, reason.removeprefix("eligible: "))

    def _picture(self) -> str:
        """Draw what decides for the best candidates, with standard errors and intervals."""
        # One without a value has no place on the axis.
        values = np.asarray(self.table[self.decides], dtype=np.float64)[self.order]
        shown = self.order[np.isfinite(values)][:_DRAWN].tolist()
        if not shown:
            return ""
        marks = [self._marks(candidate) for candidate in shown]
        ends = np.array([list(row.values()) for row in marks])
        low, high = float(np.nanmin(ends)), float(np.nanmax(ends))
        axis = Axis.of_nats(low, high) if self.rule.by_agreement else Axis.around(low, high)
        rows = [
            (self.names[candidate], self._row(candidate, row, axis))
            for candidate, row in zip(shown, marks, strict=True)
        ]
        if self.by_expected:
            where = "the worst site" if "worst_site" in self.table else self.where
            legend = (
                f"Circle and thick line: {self.value} at {where}, with 1.96 standard errors. "
                "Thin line: 95 % interval. Tick: cross-validated where the labelled rows come "
                "from."
            )
        else:
            unit = " in nats per pair" if self.rule.by_agreement else ""
            legend = f"Circle: {self.value}{unit}."
            if np.isfinite([self._number(self.error, candidate) for candidate in shown]).any():
                legend = f"Circle and line: {self.value}{unit}, with standard error."
        return drawn("picture", rows, axis, legend, self._key(shown))

    def _picture_of_weights(self) -> str:
        """Draw how the weights are shared, after what remains by them."""
        said = self._remaining()
        if not said or "weight" not in self.table:
            return said
        weights = np.asarray(self.table["weight"])
        order = np.argsort(-weights, kind="stable")
        shown = order[_kept(weights, self.committee)[order]][:_DRAWN].tolist()
        axis = Axis(0.0, 1.05 * max(float(weights[shown[0]]), _LEAST_WEIGHT))
        rows = [
            (
                self.names[candidate],
                f'<rect width="{axis(weights[candidate])}" y="15%" height="70%" '
                f'fill="{COLOURS[self._colour(candidate)]}"/>',
            )
            for candidate in shown
        ]
        legend = "Bar: the weight of a candidate."
        if others := len(order) - len(shown):
            # Rounding may bring the sum above 1.
            rest = max(0.0, 1 - float(np.sum(weights[shown])))
            who = "The other one has" if others == 1 else f"The {others} others together have"
            legend += f" {who} {rest:.2f}."
        return said + drawn("picture weights", rows, axis, legend, self._key(shown))

    def _colour(self, candidate: int) -> str:
        if candidate == self.chosen:
            return "Orange"
        return "Blue" if self._eligible[candidate] else "Grey"

    def _key(self, shown: Sequence[int]) -> dict[str, str]:
        """Return what the colours mean that some of the candidates have."""
        single = self.committee is not None
        means = {
            "Orange": "the best single candidate" if single else "the chosen candidate",
            "Blue": "others that could be chosen",
            "Grey": "not eligible",
        }
        there = set(map(self._colour, shown))
        return {colour: words for colour, words in means.items() if colour in there}

    def _marks(self, candidate: int) -> dict[str, float]:
        """Return the numbers that a row of the picture shows; nan are not drawn."""
        # Agreement is never an error, whatever the sign of the score.
        sign = 1 if self.rule.by_agreement else self.sign
        centre, error = (
            sign * self._number(self.decides, candidate),
            self._number(self.error, candidate),
        )
        low, high, home = np.nan, np.nan, np.nan
        first, last = centre - np.nan_to_num(error), centre + np.nan_to_num(error)
        if self.by_expected:
            home = self._score(self.home, candidate)
            low, high = self._interval(self.decides, candidate)
            first, last = self._likely(centre, error)
        ends = {"low": low, "high": high, "first": first, "last": last}
        return {"centre": centre, "home": home} | ends

    def _row(self, candidate: int, marks: dict[str, float], x: Axis) -> str:
        colour = COLOURS[self._colour(candidate)]
        drawn = ""
        for start, end, width in (("low", "high", 1), ("first", "last", 4)):
            # A value may have no error, and no interval.
            if np.isfinite([marks[start], marks[end]]).all():
                drawn += (
                    f'<line x1="{x(marks[start])}" x2="{x(marks[end])}" y1="50%" y2="50%" '
                    f'stroke="{colour}" stroke-width="{width}"/>'
                )
        drawn += f'<circle cx="{x(marks["centre"])}" cy="50%" r="5" fill="{colour}"/>'
        if np.isfinite(marks["home"]):
            home = x(marks["home"])
            drawn += (
                f'<line x1="{home}" x2="{home}" y1="20%" y2="80%" stroke="currentColor" '
                'stroke-width="2"/>'
            )
        return drawn

    def _candidates(self) -> str:
        table = f'<div class="wide">{table_of_candidates(self.search, _LONGEST_NAME)}</div>'
        return table + self._environments()

    def _remaining(self) -> str:
        """Say how many candidates remain by their weights."""
        posterior = getattr(self.search, "posterior_", None)
        if posterior is None or posterior.n_candidates == 1:
            return ""
        n, known = posterior.n_candidates, ""
        if n < len(self.names):
            known = " that have all scores"
        # "Can tell apart 1.0 candidates" would sound like a finding.
        if posterior.score == 0:
            return f"<p>The data cannot tell the {n} candidates{known} apart; all remain.</p>"
        left, but = f"{posterior.n_effective:.1f}", ""
        if self.by_expected and self.n_indistinguishable + 1 > np.ceil(posterior.n_effective):
            but = (
                " The weights count the labelled rows only as far as the expected scores do; "
                "standard errors count them in full, and tell fewer candidates apart."
            )
        return (
            f"<p>By their weights {left} of {n} candidates{known} "
            f"remain{'s' if left == '1.0' else ''}: "
            f"the weights are spread as over so many equal ones.{but}</p>"
        )

    def _environments(self) -> str:
        """Say what the chosen candidate scores in each environment, the worst first."""
        chosen = self.chosen
        if chosen is None or not self.environments:
            return ""
        start = f"{self.home}_environment_"
        scores = {name: self._number(f"{start}{name}", chosen) for name in self.environments}
        # A metric may not be defined in an environment, as that of one class.
        tested = [name for name in self.environments if np.isfinite(scores[name])]
        worst_first = sorted(tested, key=lambda name: scores[name])
        shown = worst_first[:_LISTED]
        texts = [f"{in_digits(self.sign * scores[name])} ({name})" for name in shown]
        more = len(worst_first) - len(texts)
        end = f" and {more} more" if more else ""
        return (
            f"<p>The {escape(self.words)} of {escape(self.names[chosen])} in each environment, "
            f"the worst first: {escape(', '.join(texts))}{end}.</p>"
        )

    def _warnings(self) -> str:
        said = list(getattr(self.search, "warnings_", ()))
        # The last item says whether the data show another site, time or instrument.
        if not self.search._said[2]:
            said.append(
                "The search saw no rows from elsewhere. Expect a model about as good as the one "
                "of the best score, but not a better one where the data differ."
            )
        if self.environments:
            said.append(
                "The scores are those of these environments; a new one may be worse than the "
                "worst of them."
            )
        failed = int(np.count_nonzero(self.table["n_failed_splits"]))
        if failed:
            said.append(f"{failed} of {len(self.names)} candidates failed in some fit.")
        if self.has_pairs:
            said.append(
                f"The expected {self.words}, its error and its interval assume that the labelled "
                "rows, the objects measured at both sites and those to come are random draws from "
                "one population."
            )
        return items(said) if said else "<p>The search gave no warning.</p>"

    def _advice(self) -> Iterator[str]:
        """Say what would make the choice or its score more certain."""
        if self.chosen is None:
            return
        chosen = self.chosen
        if not self.has_pairs:
            if self.indistinguishable.any():
                yield (
                    f"The {self.cannot_be_told}: of all these take the one of the best score or "
                    "the simplest one, if that matters more to you. More labelled rows make the "
                    "difference clearer."
                )
            yield (
                "If the model will be used elsewhere, measure some forty objects at both "
                "places. They need no labels, and show how accurate each candidate will be "
                "there. If there are no such objects, as in another year, score the chosen "
                "model on the first labelled rows from there."
            )
            return
        if self.indistinguishable.any():
            yield f"The {self.cannot_be_told}. Among them take what suits you best."
        error, of_pairs = (
            self._number(f"{self.expected}_se{part}", chosen) for part in ("", "_pairs")
        )
        # Variances add up: advise on the part that makes up more than half of it.
        if of_pairs**2 > error**2 / 2:
            n, both = objects_of_choice(self.search), "at both sites"
            if "worst_site" in self.table:
                both = f"at {self.table['worst_site'][chosen]}, too,"
            twice, four = self.search.plan_pairs([2 * n, 4 * n]).values()
            yield (
                f"More objects make the expected {self.words} more exact: with {2 * n} measured "
                f"{both} its standard error would be about {in_digits(twice)} instead of "
                f"{in_digits(error)}, and with {4 * n} about {in_digits(four)}."
            )
        else:
            yield (
                f"Most of the standard error, {in_digits(error)}, comes from the labelled rows. "
                "More of them, where the present ones come from, would make the expected "
                f"{self.words} more exact."
            )
        yield f"Label some rows of {self.where} if you can, and score the chosen model on them."

    def _keep_several(self) -> Iterator[str]:
        """Say that a committee would keep several candidates."""
        n_kept = int(np.sum(_kept(self.table.get("weight", np.ones(1)), self.committee)))
        if self.committee is None and n_kept > 1:
            yield (
                f"Parts of the data differ about which of {n_kept} candidates is the best. A "
                'search with refit="committee" keeps them all, and they vote.'
            )

    def _words(self) -> dict[str, str]:
        """Return what the numbers of this page mean."""
        # Only words that this page uses are explained.
        means = {"Standard error": "after ±; a number is usually wrong by less than twice this"}
        if self.search._held_out:
            means["Standard error"] += " in these environments; a new one differs more"
        if self.words == "accuracy":
            means = {"Accuracy": "the share of rows that are predicted correctly"} | means
        if not self._eligible.all():
            near = ""
            if np.isfinite(self.rule.threshold(self.table)):
                near = "a score within some standard errors of the best, and "
            means["Eligible"] = (
                f"good enough to be chosen: usually {near}better than predictions that "
                "ignore the features by two standard errors. Others need not be clearly worse"
            )
        if "weight" in self.table:
            means["Weight"] = (
                "how probable it is that the candidate is the best one, as finely as parts of the "
                "data agree on it; the weights sum to 1. Candidates that the data cannot tell "
                "apart share them. The largest weight is no better a reason to choose one "
                "candidate than the best score: the weights are for keeping several"
            )
        if self.rule.by_agreement or not self.has_pairs:
            means["Agreement"] = (
                "how much the two compared predictions say about each other, in nats; 0 is nothing"
            )
            classes = getattr(self.search, "classes_", ())
            if len(classes):
                means["Agreement"] += f", {np.log(len(classes)):.2f} the most for these classes"
        if self.has_pairs:
            means["Expected"] = (
                f"the score on labelled rows, shrunk towards what {self.relies_on} let expect, "
                "and corrected for the objects whose predictions differ between the sites. For "
                "the best of many candidates it tends to be somewhat too good"
            )
            if np.any(self.table.get("adapted", False)):
                means["Adapted"] = (
                    f"rows of {self.where} are first mapped to what would have been measured "
                    "where the labelled rows come from"
                )
            if f"{self.expected}_low" in self.table:
                means["Interval"] = (
                    f"holds even if {self.relies_on} are wrong. It does not count that the "
                    "candidate is the best of several, and is approximate if rows are adapted"
                )
        return means


def _kept(weights: Floats, committee: PACommittee | None) -> Mask:
    """Return which candidates a committee keeps."""
    # Without a committee: those that one with the usual options would keep.
    kept: Mask = weights >= (committee or PACommittee()).min_weight * np.max(weights)
    return kept


def _strong(value: float, error: float = np.nan) -> str:
    return f'<strong class="number">{with_error(value, error)}</strong>'
