"""Results as notebooks show them."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

from pa_select import PASearchCV
from pa_select.utils.html import bar_cell

RNG = np.random.default_rng(0)
SCORES = 3 * RNG.normal(size=(60, 3))
NOISY = SCORES + RNG.normal(size=SCORES.shape)


def text_of(html):
    """The text of a table, all tags of which match."""
    return " ".join(ElementTree.fromstring(html[: html.rindex("</table>") + 8]).itertext())


def percents(html):
    return [float(p) for p in re.findall(r"0\.35\) (\d+\.\d)%", html)]


@given(st.floats(), st.floats())
@example(-0.0, 1.0)
def test_bars_stay_in_their_cells(value, largest):
    (percent,) = percents(bar_cell(value, largest, "x"))
    assert 0 <= percent <= 100
    assert percents(bar_cell(0.5, 2, "")) == [25]
    assert percents(bar_cell(np.nan, 2, "")) == [0]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("given", "columns"),
    [
        ({"paired": (SCORES, NOISY)}, ["expected accuracy", "accuracy at the labelled site"]),
        ({"views": NOISY}, ["agreement (nats)", "accuracy", "accuracy on the views"]),
        ({}, ["agreement (nats)", "accuracy"]),
    ],
)
def test_a_search(given, columns):
    y, grid = SCORES.argmax(1), {"max_depth": [1, 2, 3]}
    search = PASearchCV(DecisionTreeClassifier(random_state=0), grid, scoring="accuracy", cv=2)
    if "paired" in given:
        given = {"paired": tuple(rows + 0.01 for rows in given["paired"])}  # no rows of X
    shown = search.fit(SCORES, y, **given)._repr_html_()
    of_search = shown[shown.rindex("<table>") :]
    columns = [*columns, "weight"]
    assert text_of(of_search).startswith(f"3 candidates candidate {' '.join(columns)} max_depth=")
    # The bar of a weight of 1 would fill the cell; the chosen candidate is the first.
    weight = 100 * search.cv_results_["weight"][search.best_index_]
    assert percents(of_search)[len(columns) - 1] == pytest.approx(weight, abs=0.06)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_search_with_many_candidates_of_which_some_fail():
    grid = [{"max_depth": list(range(1, 22))}, {"max_depth": [-1]}]
    search = PASearchCV(DecisionTreeClassifier(random_state=0), grid, cv=2)
    shown = search.fit(SCORES, SCORES.argmax(1))._repr_html_()
    assert "adapted" not in shown[shown.rindex("<table>") :]
    of_search = text_of(shown[shown.rindex("<table>") :])
    assert of_search.startswith("22 candidates, of which 20 are shown")
    assert "nan" not in of_search  # candidates that failed come last
