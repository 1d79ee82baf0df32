"""The report as Chromium shows it, where PySide6 is installed: `pip install PySide6`."""

import json
import os
import subprocess
import sys

import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

from pa_select import PASearchCV

WIDTHS = [375, 1280]  # of a telephone and of a screen
# Opens a page at several widths. Qt needs a process of its own, which may end without a browser.
PROGRAM = """
import json, sys
try:
    from PySide6.QtCore import QTimer, QUrl
    from PySide6.QtWebEngineWidgets import QWebEngineView
    from PySide6.QtWidgets import QApplication
except ImportError as error:
    sys.exit(f"no browser: {error}")

file, look, widths = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
app, said, seen = QApplication(["browser"]), [], []
view = QWebEngineView()
view.page().javaScriptConsoleMessage = lambda level, text, *_: said.append(text)

def open_next():
    if len(seen) == len(widths):
        print(json.dumps([said, seen]))
        app.quit()
        return
    view.resize(widths[len(seen)], 800)
    view.load(QUrl.fromLocalFile(file))

def keep(answer):
    seen.append(json.loads(answer))
    open_next()

view.loadFinished.connect(lambda _: view.page().runJavaScript(look, keep))
view.show()
open_next()
QTimer.singleShot(50_000, lambda: app.exit(1))
sys.exit(app.exec())
"""
# Where things are, in pixels.
LOOK = """
(() => {
    const all = name => [...document.querySelectorAll(name)];
    const ends = element => {
        const box = element.getBoundingClientRect();
        return [box.left, box.right];
    };
    return JSON.stringify({
        width: innerWidth,
        page: document.documentElement.scrollWidth,
        ran: "ran" in window,
        marks: all(".picture :is(circle, line, rect, text, div)").map(ends),
        names: all(".picture:not(.weights) div").filter(name => name.textContent).map(
            name => [name.textContent, name.scrollWidth - name.clientWidth]),
        letters: Math.min(...all(".picture div, .picture text, th, td, p, dd").map(
            element => parseFloat(getComputedStyle(element).fontSize))),
    });
})()
"""


class Named(DecisionTreeClassifier):
    """A tree with a parameter whose text is not safe in a page."""

    def __init__(self, name="", max_depth=None, random_state=None):
        super().__init__(max_depth=max_depth, random_state=random_state)
        self.name = name


TREE = Named(random_state=0)
LONG = make_pipeline(FunctionTransformer(), LogisticRegression())
SEARCHES = {
    "unsafe names": (TREE, {"name": ["</svg><script>ran=1</script>", '<b>&"', "W" * 60]}),
    "long names": (
        LONG,
        {
            "logisticregression__intercept_scaling": [1.0, 2.0],
            "logisticregression__C": [1e-3, 1e-2, 1e-1],
            "logisticregression__class_weight": [None, "balanced", {k: 1 for k in range(10)}],
        },
    ),
}


def opened(page, folder):
    """What the browser says at each width."""
    file = folder / "report.html"
    file.write_text(page, encoding="utf-8")
    environment = os.environ | {
        "QT_QPA_PLATFORM": "offscreen",
        "QTWEBENGINE_DISABLE_SANDBOX": "1",
        "QTWEBENGINE_CHROMIUM_FLAGS": "--no-sandbox --disable-gpu",
    }
    command = [sys.executable, "-c", PROGRAM, str(file), LOOK, json.dumps(WIDTHS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    last = done.stderr.strip().rpartition("\n")[2]
    if done.returncode and last.startswith("no browser: "):
        pytest.skip(last)
    assert done.returncode == 0, done.stderr
    said, seen = json.loads(done.stdout.strip().rpartition("\n")[2])
    assert said == []  # no errors
    return seen


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", SEARCHES)
def test_a_page_fits_a_telephone_and_a_screen(name, tmp_path):
    X, y = load_digits(return_X_y=True)
    search = PASearchCV(*SEARCHES[name], cv=2)
    search.fit(X[60:200], y[60:200], paired=(X[:60], 0.7 * X[:60]))
    for width, seen in zip(WIDTHS, opened(search.report(), tmp_path), strict=True):
        assert seen["width"] == width
        assert seen["page"] <= width  # nothing to scroll sideways
        assert not seen["ran"]  # a script in a name
        n_shown = min(len(search.cv_results_["params"]), 12)
        assert len(seen["names"]) == n_shown
        assert all(hidden <= 0 for _, hidden in seen["names"])
        assert len({text for text, _ in seen["names"]}) == n_shown
        assert len(seen["marks"]) > 4 * n_shown
        assert all(0 <= left <= right <= width for left, right in seen["marks"])
        assert seen["letters"] >= 12
