"""The pictures, lists and style of a report: HTML and SVG that need no script and no network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Self

import numpy as np

from pa_select.model_selection.results_table import LEAST_NATS

# Colours that can be told apart by everybody, on light and on dark paper.
_BLUE, _ORANGE, _GREY = "#0072b2", "#d55e00", "#888"
COLOURS = {"Orange": _ORANGE, "Blue": _BLUE, "Grey": _GREY}
#: The length of an axis of scores is at least this share of them, so that no small difference
#: fills it.
_LEAST_SHARE = 0.05
# On a telephone the name of a candidate is above its marks and not beside them.
STYLE = f"""
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 46em; margin: 2em auto; padding: 0 1em;
  overflow-wrap: break-word; }}
h1 {{ line-height: 1.2; }} h2 {{ margin-top: 2em; }}
.answer {{ font-size: 1.2em; border-left: 0.3em solid {_BLUE}; padding-left: 1em; }}
.number {{ white-space: nowrap; }}
dt {{ font-weight: bold; }} dd {{ margin: 0 0 0.6em; }}
.wide {{ overflow-x: auto; }}
.picture {{ display: grid; grid-template-columns: 2fr 3fr; grid-auto-rows: minmax(1.9em, auto);
  column-gap: 1.2em; font-size: 0.85em; line-height: 1.3; }}
.picture div {{ align-self: center; min-width: 0; padding: 0.2em 0; text-align: right; }}
.picture svg {{ height: 0; min-height: 100%; overflow: visible; width: 100%; }}
table {{ border-collapse: collapse; font-size: 0.85em; }} caption {{ text-align: left; }}
th {{ text-align: left; padding: 0.3em 1em 0.3em 0; }} tr {{ border-bottom: 1px solid {_GREY}; }}
.key span {{ border-radius: 50%; display: inline-block; height: 0.7em; margin-right: 0.3em;
  width: 0.7em; }}
footer {{ margin-top: 3em; font-size: 0.85em; }}
@media (max-width: 40em) {{
  .picture {{ display: block; }} .picture div {{ padding: 0.4em 0 0; text-align: left; }}
  .picture svg {{ display: block; height: 1.7em; min-height: 0; }}
  table {{ font-size: 0.8em; }} th {{ padding-right: 0.5em; }}
  td {{ min-width: 0 !important; white-space: nowrap; }}
}}
@page {{ margin: 1.5cm; }}
@media print {{
  body {{ margin: 0; max-width: none; font-size: 13px; }}
  h2 {{ margin-top: 1.2em; }} h2, dt {{ break-after: avoid; }}
  tr, .picture, li, dd {{ break-inside: avoid; }} table {{ font-size: 0.75em; }}
}}
"""


@dataclass(frozen=True)
class Axis:
    """The numbers from the left to the right of a picture; places are in per cent of it."""

    low: float
    high: float

    @classmethod
    def around(cls, low: float, high: float) -> Self:
        """Return an axis with some room beside two numbers, long enough for what they measure."""
        missing = max(0.0, _LEAST_SHARE * max(abs(low), abs(high)) - (high - low))
        # All values may be 0.
        room = 0.05 * (high - low) + missing / 2 or 0.05
        return cls(low - room, high + room)

    @classmethod
    def of_nats(cls, low: float, high: float) -> Self:
        """Return an axis from 0 on, on which next to no agreement looks like it."""
        high = max(high, LEAST_NATS)
        return cls(min(low, 0.0), high + 0.05 * high)

    def __call__(self, value: float) -> str:
        """Return the place of a number."""
        return f"{100 * (value - self.low) / (self.high - self.low):.2f}%"


def drawn(
    kind: str, rows: Sequence[tuple[str, str]], axis: Axis, legend: str, key: dict[str, str]
) -> str:
    """Return a picture with a row for each name, and below it what marks and colours mean."""
    ticks = {tick: axis(tick) for tick in _ticks(axis.low, axis.high)}
    grid = "".join(
        f'<line x1="{at}" x2="{at}" y1="0" y2="100%" stroke="{_GREY}" opacity="0.2"/>'
        for at in ticks.values()
    )
    drawn = "".join(f"<div>{escape(name)}</div><svg>{grid}{marks}</svg>" for name, marks in rows)
    numbers = "".join(
        f'<text x="{at}" y="1.2em" text-anchor="middle">{tick:g}</text>'
        for tick, at in ticks.items()
    )
    colours = "".join(
        f' <span style="background: {COLOURS[colour]}"></span>{colour}: {escape(words)}.'
        for colour, words in key.items()
    )
    said = " ".join([legend, *(f"{colour}: {words}." for colour, words in key.items())])
    return (
        f'<div class="{kind}" role="img" aria-label="{escape(said)}">{drawn}<div></div>'
        f'<svg fill="currentColor">{numbers}</svg></div>'
        f'<p class="key">{escape(legend)}{colours}</p>'
    )


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two others, three to seven of them."""
    step = 10 ** np.floor(np.log10((high - low) / 3))
    # The largest round step that leaves three numbers.
    step *= next(factor for factor in (5, 2, 1) if (high - low) / (factor * step) >= 3)
    first, last = np.ceil(low / step), np.floor(high / step)
    return [round(float(k * step), 12) + 0.0 for k in np.arange(first, last + 1)]  # no -0


def items(texts: Sequence[str] | Iterator[str]) -> str:
    """Return a list of texts, which are escaped here."""
    return bullets([escape(text) for text in texts])


def bullets(lines: Sequence[str]) -> str:
    """Return a list of lines, which are HTML."""
    return f"<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>" if lines else ""


def definitions(texts: dict[str, str]) -> str:
    """Return a list of words with their meanings, which are escaped here."""
    lines = (f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in texts.items())
    return f"<dl>{''.join(lines)}</dl>"
