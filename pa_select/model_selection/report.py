"""A fitted search as a page of HTML for readers who do not program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from html import escape
from typing import TypeAlias

import numpy as np
from sklearn.base import is_regressor

from pa_select._version import __version__
from pa_select.model_selection.rules import cv_results_of, decides, first_metric, new_site_names
from pa_select.model_selection.summary import (
    LEAST_NATS,
    class_name,
    column_in_words,
    error_column,
    in_digits,
    metric_in_words,
    scoring_of,
    some_names,
    table_of_candidates,
    with_error,
)
from pa_select.model_selection.work import with_parameters
from pa_select.utils.html import visible
from pa_select.utils.typing import Mask, Search

#: A dot, and lines from one number to another, each with its width.
_Marks: TypeAlias = tuple[float, list[tuple[float, float, int]]]
#: Candidates in a picture, and environments in a list.
_DRAWN, _LISTED = 12, 20
#: An axis of scores is at least this share of them long, so that no small difference fills it.
_LEAST_SHARE = 0.05
# Colours that can be told apart by everybody, on light and on dark paper.
_ORANGE, _BLUE, _GREY = "#d55e00", "#0072b2", "#888"

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>{style}</style></head><body>
<h1>{title}</h1>
<p class="answer">{answer}</p>
{points}
{pictures}
<h2>The candidates</h2>
<div class="wide">{table}</div>
<h2>What to be careful about</h2>
{cautions}
<h2>How to read the numbers</h2>
<dl>{words}</dl>
<footer>{footer}</footer></body></html>
"""
# On a telephone the name of a candidate is above its marks and not beside them.
_STYLE = f"""
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 46em;
  overflow-wrap: break-word; padding: 0 1em; }}
.answer {{ border-left: 0.3em solid {_BLUE}; font-size: 1.2em; padding-left: 1em; }}
.picture {{ column-gap: 1.2em; display: grid; font-size: 0.85em; line-height: 1.3;
  grid-auto-rows: minmax(1.9em, auto); grid-template-columns: 2fr 3fr; }}
.picture div {{ align-self: center; min-width: 0; padding: 0.2em 0; text-align: right; }}
.picture svg {{ height: 0; min-height: 100%; overflow: visible; width: 100%; }}
.key span {{ border-radius: 50%; display: inline-block; height: 0.7em; margin: 0 0.3em;
  width: 0.7em; }}
.wide {{ overflow-x: auto; }} table {{ border-collapse: collapse; font-size: 0.85em; }}
th {{ padding: 0.3em 1em 0.3em 0; text-align: left; }} tr {{ border-bottom: 1px solid {_GREY}; }}
@media (max-width: 40em) {{
  .picture {{ display: block; }} .picture div {{ text-align: left; }}
  .picture svg {{ display: block; height: 1.7em; min-height: 0; }}
}}
"""

_WORDS = {
    "±": "A number is usually wrong by less than twice the standard error after it.",
    "Eligible": "Good enough to be chosen, by its score and by that of predictions which ignore "
    "the features. In a committee others may vote, too.",
    "Weight": "About how probable it is that the candidate is the best one, and its share of the "
    "vote in a committee. Candidates that cannot be told apart have similar weights.",
    "Agreement": "How much the two compared predictions say about each other, in nats; 0 is "
    "nothing, and the logarithm of the number of classes the most.",
    "Expected": "The score on labelled rows, corrected for the objects whose predictions differ "
    "between the sites. That of the best of many candidates tends to be too good.",
}


def report(search: Search) -> str:
    """Return a page that says what was chosen, how sure it is, and what was warned of."""
    return visible(_Page(search).filled())


class _Page:
    """What the page says of a search; sentences are texts, which are escaped at last."""

    def __init__(self, search: Search) -> None:
        self.search, self.table = search, cv_results_of(search)
        self.summary = search.summary()  # the chosen candidate is first
        self.names = self.summary.sort_values("index").index.tolist()
        self.metric = first_metric(search, self.table)
        words = metric_in_words(self.metric, scoring_of(search))
        # Errors are recorded with a minus sign, since larger scores are better.
        self.sign, self.words = -1 if words.startswith("neg ") else 1, words.removeprefix("neg ")
        self.home, self.expected = f"mean_test_{self.metric}", f"expected_{self.metric}"
        self.has_pairs = self.expected in self.table
        self.where = f"the {'worst ' * ('worst_site' in self.table)}other site"
        self.at_home = " at the site of the labelled rows" if self.has_pairs else ""
        self.decides = decides(search)
        self.by_agreement = self.decides.startswith("agreement")
        n = len(self.names)
        self.eligible: Mask = np.asarray(self.table.get("eligible", np.ones(n)), dtype=bool)
        self.chosen: int | None = getattr(search, "best_index_", None)
        best = getattr(search, "best_estimator_", None)
        self.committee = best if hasattr(best, "posterior_") else None

    def filled(self) -> str:
        title = f"Which model for {self.where}?" if self.has_pairs else "Which model?"
        points, table = _items(self._points()), table_of_candidates(self.search)
        used = [word for word in _WORDS if word.lower() in points + table]
        return _PAGE.format(
            title=title,
            style=_STYLE,
            answer=self._answer(),
            points=points,
            pictures=self._picture() + self._picture_of_weights(),
            table=table,
            cautions=_items(self._cautions()) or "<p>The search gave no warning.</p>",
            words="".join(f"<dt>{word}</dt><dd>{_WORDS[word]}</dd>" for word in used),
            footer=f"{date.today().isoformat()}, pa_select {__version__}",
        )

    def _number(self, column: str, candidate: int) -> float:
        return float(self.table[column][candidate]) if column in self.table else np.nan

    def _answer(self) -> str:
        """Return a sentence of HTML that says what to use."""
        search = self.search
        if self.chosen is None:
            return "With several metrics and <code>refit=False</code> nothing is chosen."
        name = self.names[self.chosen]
        # "max_depth=3" alone does not say what was fitted; the model itself may be a parameter.
        of_class = class_name(with_parameters(search.estimator, search.best_params_))
        name = name if name.startswith(of_class) else f"{of_class} with {name}"
        name = f"<strong>{escape(name)}</strong>"
        if self.committee is None:
            good = self.eligible.any()
            return f"Use {name}." if good else f"No candidate is good enough; {name} is the best."
        candidates, shares, *_ = self.committee._members
        members = [self.names[i] for i in candidates[np.argsort(-shares, kind="stable")]]
        if len(members) > 1:
            who = f"<strong>committee of {len(members)} candidates</strong>"
            return f"Use the {who}, in which {escape(some_names(members))} vote."
        return f"Use <strong>{escape(members[0])}</strong>, which alone is in the committee."

    def _points(self) -> Iterator[str]:
        """Say what is known of the choice, what matters most first."""
        if self.chosen is None:
            return
        search = self.search
        # Wrong pairs make all numbers wrong, so that this is not left for the end.
        if warned := len(search.warnings_):
            what = "a warning" if warned == 1 else f"{warned} warnings"
            yield f"The search gave {what}: first read what to be careful about."
        if self.committee is not None:
            # Without votes in every split the attributes describe the chosen candidate.
            if np.isfinite(search.committee_score_):
                if self.has_pairs:
                    value, error = search.expected_score_, search.expected_score_se_
                    yield self._expected(value, error, search.expected_interval_)
                score = in_digits(self.sign * search.committee_score_)
                yield f"Its cross-validated {self.words}{self.at_home} is {score}."
            yield (
                f"Of single candidates {self.names[self.chosen]} would be chosen. Scores of what "
                "was chosen are a little too good:"
            )
        yield from self._of_chosen(self.chosen)

    def _of_chosen(self, chosen: int) -> Iterator[str]:
        if self.has_pairs:
            ends = [self._number(f"{self.expected}_{x}", chosen) for x in ("low", "high")]
            value, error = (self._number(f"{self.expected}{x}", chosen) for x in ("", "_se"))
            yield self._expected(value, error, ends)
            if self._number("adapted", chosen) == 1:
                yield f"Rows of {self.where} must first be adapted, as best_adapted_ does."
        worst = self.table.get(f"worst_environment_{self.metric}", {chosen: None})[chosen]
        places = {
            "": f"{self.at_home}, cross-validated,",
            "_views": " on the views",
            "_worst_environment": f" in the worst environment, {worst},",
        }
        for suffix, where in places.items():
            score = self._number(f"{self.home}{suffix}", chosen)
            error = self._number(f"se_test_{self.metric}{suffix}", chosen)
            if np.isfinite(score):
                yield f"Its {self.words}{where} is {with_error(self.sign * score, error)}."
        yield from self._elsewhere(chosen)
        agreement, error = (self._number(f"agreement{x}", chosen) for x in ("", "_se"))
        if not self.has_pairs and np.isfinite(agreement):
            said = f"is {with_error(agreement, error)} nats per pair; more is more stable"
            yield f"Its agreement {said}."

    def _expected(self, value: float, error: float, ends: Sequence[float] | None) -> str:
        """Say what a score is expected to be, and where it is if the posteriors are wrong."""
        # No error is below 0, and no accuracy above 1.
        most = 0 if self.sign < 0 else 1 if self.words == "accuracy" else np.inf
        least = 0 if self.words == "accuracy" else -np.inf
        low, high = np.clip([value - 1.96 * error, value + 1.96 * error], least, most)
        said = f"At {self.where} its {self.words} is expected to be "
        said += f"{with_error(self.sign * value, error)}, {self._range(low, high, error)}."
        if ends is None or not np.isfinite(ends).all():
            return said
        bound, relies_on = "at least", "predicted probabilities"
        if is_regressor(self.search.estimator):
            bound, relies_on = "at most", "predictions at the first site"
        worst = in_digits(self.sign * min(ends), error)
        return f"{said} Even if the {relies_on} are wrong, it is {bound} {worst} (95 % interval)."

    def _range(self, low: float, high: float, error: float) -> str:
        low, high = sorted((self.sign * low, self.sign * high))
        return f"probably {in_digits(low, error)} to {in_digits(high, error)}"

    def _elsewhere(self, chosen: int) -> Iterator[str]:
        """Say what the score is in each environment, and what it may be at a new site."""
        start = f"{self.home}_environment_"
        scores = {x.removeprefix(start): self.table[x][chosen] for x in self.table if start in x}
        # A metric may not be defined in an environment, as that of one class.
        order = sorted((x for x in scores if np.isfinite(scores[x])), key=scores.__getitem__)
        if order:
            listed = [f"{x} {in_digits(self.sign * scores[x])}" for x in order[:_LISTED]]
            listed += [f"{len(order) - _LISTED} more"] * (len(order) > _LISTED)
            yield f"In each environment, the worst first: {', '.join(listed)}."
        low, high = (self._number(name, chosen) for name in new_site_names(self.metric))
        if np.isfinite([low, high]).all():
            ends = self._range(low, high, (high - low) / 3.92)
            yield f"At a new site like these it is {ends} (95 % interval)."
        elif not self.has_pairs:
            yield f"Its {self.words} at a new site is not known."

    def _cautions(self) -> Iterator[str]:
        yield from self.search.warnings_
        if self.search.pairing_ in ("repeated", "split-half"):
            yield "The search saw no rows from elsewhere, where the model may be worse."
        if "new_site_low" in self.table:
            yield "At a new site it may be below its interval if sites drift, as years do."
        if self.has_pairs:
            yield (
                f"The expected {self.words} assumes that the labelled rows, the objects measured "
                "at both sites and those to come are random draws from one population."
            )

    def _picture(self) -> str:
        """Draw what decides for the best candidates, with standard errors and intervals."""
        decides, by_expected = self.decides, self.decides == self.expected
        sign = 1 if self.by_agreement else self.sign
        rows = {}
        for i in self.summary["index"][:_DRAWN]:
            value, error = self._number(decides, i), self._number(error_column(decides), i)
            error *= 1.96 if by_expected else 1
            low, high = (self._number(f"{decides}_{end}", i) for end in ("low", "high"))
            lines = [(value - error, value + error, 4), (low, high, 1)]
            rows[i] = sign * value, [(sign * a, sign * b, width) for a, b, width in lines]
        words = column_in_words(decides, scoring_of(self.search)).replace("neg ", "", 1)
        legend = f"Circle and line: {words}{' in nats' * self.by_agreement}, with standard error."
        if by_expected:
            legend = f"Circle and line: {words}, with 1.96 standard errors; thin: 95 % interval."
        return self._drawn("picture", rows, legend, from_zero=self.by_agreement)

    def _picture_of_weights(self) -> str:
        """Draw how the weights are shared."""
        posterior = getattr(self.search, "posterior_", None)
        if posterior is None:
            return ""
        weights = np.asarray(self.table["weight"])
        order = np.argsort(-weights, kind="stable")[:_DRAWN].tolist()
        rows = {i: (np.nan, [(0.0, weights[i], 14)]) for i in order}
        remain = f"{posterior.n_effective:.1f} of {posterior.n_candidates}"
        legend = f"Bar: the weight of a candidate. By their weights {remain} remain."
        return self._drawn("picture weights", rows, legend, from_zero=True)

    def _drawn(self, kind: str, rows: Mapping[int, _Marks], legend: str, from_zero: bool) -> str:
        """Return a picture with a row of marks for each candidate, and what they mean."""
        numbers = [x for dot, lines in rows.values() for y in ((dot,), *lines) for x in y[:2]]
        if not np.isfinite(numbers).any():
            return ""
        axis, ticks = _axis(numbers, from_zero)
        means = {
            _ORANGE: "the best single candidate" if self.committee else "the chosen candidate",
            _BLUE: "others that could be chosen",
            _GREY: "not eligible",
        }
        colours = {i: _BLUE if self.eligible[i] else _GREY for i in rows}
        colours |= {i: _ORANGE for i in rows if i == self.chosen}
        drawn, grid = "", "".join(_line(x, x, "0", "100%", "#8884", 1) for x in map(axis, ticks))
        for i, (dot, lines) in rows.items():
            marks = "".join(
                _line(axis(a), axis(b), "50%", "50%", colours[i], width)
                for a, b, width in lines
                if np.isfinite(a + b)  # a candidate may have no interval
            )
            if np.isfinite(dot):
                marks += f'<circle cx="{axis(dot)}" cy="50%" r="5" fill="{colours[i]}"/>'
            drawn += f"<div>{escape(self.names[i])}</div><svg>{grid}{marks}</svg>"
        texts = (f'<text x="{axis(x)}" y="1.2em" text-anchor="middle">{x:g}</text>' for x in ticks)
        key = (
            f' <span style="background: {colour}"></span>{means[colour]}'
            for colour in means
            if colour in colours.values()
        )
        return (
            f'<div class="{kind}" role="img" aria-label="{escape(legend)}">{drawn}<div></div>'
            f'<svg fill="currentColor">{"".join(texts)}</svg></div>'
            f'<p class="key">{escape(legend)}{"".join(key)}</p>'
        )


def _axis(numbers: Sequence[float], from_zero: bool) -> tuple[Callable[[float], str], list[float]]:
    """Return a function from a number to its place, in per cent, and three to seven ticks."""
    low, high = float(np.nanmin(numbers)), float(np.nanmax(numbers))
    if from_zero:  # next to no agreement looks like it
        low, high = min(low, 0.0), max(high, LEAST_NATS)
    missing = max(0.0, _LEAST_SHARE * max(abs(low), abs(high)) - (high - low))
    room = 0.05 * (high - low) + missing / 2 or 0.05
    low, high = low - room * (not from_zero), high + room
    step = 10 ** np.floor(np.log10((high - low) / 3))
    # The largest round step that leaves three numbers.
    step *= next(factor for factor in (5, 2, 1) if (high - low) / (factor * step) >= 3)
    ticks = step * np.arange(np.ceil(low / step), np.floor(high / step) + 1)
    ticks = [round(float(tick), 12) + 0.0 for tick in ticks]  # no -0
    return lambda value: f"{100 * (value - low) / (high - low):.2f}%", ticks


def _line(x1: str, x2: str, y1: str, y2: str, colour: str, width: int) -> str:
    ends = f'x1="{x1}" x2="{x2}" y1="{y1}" y2="{y2}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width}"/>'


def _items(texts: Iterable[str]) -> str:
    lines = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f"<ul>{lines}</ul>" if lines else ""
