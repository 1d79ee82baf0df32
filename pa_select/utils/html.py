"""Tables with bars, as notebooks show results."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from html import escape

# Control characters but the line feed, and marks that turn the direction of a text.
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# Half transparent, so that the text can be read on it on light and on dark pages.
_BAR = "rgba(0, 114, 178, 0.35)"
_LEFT = "text-align: left"
_CELL = f"{_LEFT}; min-width: 9em; padding: 0.3em"


def visible(text: str) -> str:
    """Escape the control characters in a text, which terminals and browsers would obey."""
    return _CONTROL.sub(lambda match: match.group().encode("unicode_escape").decode(), text)


def bar_cell(value: float, largest: float, text: str) -> str:
    """Return a cell of a table whose background is a bar, with a text, which is escaped here.

    A bar of the length `largest` fills the cell; nan has no bar.
    """
    share = value / largest if largest > 0 else math.nan
    percent = 100 * min(share, 1.0) if 0 < share < math.inf else 0.0
    fill = f"linear-gradient(to right, {_BAR} {percent:.1f}%, transparent {percent:.1f}%)"
    return f'<td style="{_CELL}; background: {fill}">{escape(text)}</td>'


def html_table(
    caption: str, header: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]
) -> str:
    """Return a table, whose caption, header and names of rows are escaped here.

    The header begins with the head of the rows' names. The cells are as `bar_cell` makes them.
    """
    names = "".join(f'<th scope="col" style="{_LEFT}">{escape(name)}</th>' for name in header)
    lines = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(cells)}</tr>' for name, cells in rows
    )
    head = f"<thead><tr>{names}</tr></thead>" if header else ""
    return f"<table><caption>{escape(caption)}</caption>{head}<tbody>{lines}</tbody></table>"
