"""A fit can be followed: files and functions of the package, and calls from file to file."""

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB

import pa_select
from pa_select import PASearchCV

PACKAGE = str(Path(pa_select.__file__).parent)
X, Y = load_iris(return_X_y=True)


def calls_of(call):
    """The file and function of each call of the package's code, and the file that it came from."""
    calls = []

    def enter(frame, event, _):
        code, caller = frame.f_code, frame.f_back
        if event == "call" and code.co_filename.startswith(PACKAGE):
            # What other packages call was passed to them by a file of this one.
            while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
                caller = caller.f_back
            before = caller.f_code.co_filename if caller else None
            calls.append((code.co_filename, code.co_qualname, before))

    call()  # what is imported, or done once, is no part of a fit
    sys.setprofile(enter)
    try:
        call()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("given", "most"), [("nothing", (36, 425, 1080)), ("pairs", (38, 600, 1000))]
)
def test_a_fit_can_be_followed(given, most):
    rows, pairs = np.arange(150) % 5 > 0, X[::5]
    data = {"paired": (pairs, pairs + 0.3)} if given == "pairs" else {}
    search = PASearchCV(GaussianNB(), {"var_smoothing": [1e-9, 0.1]})
    calls = calls_of(lambda: search.fit(X[rows], Y[rows], **data))
    files = sorted({Path(file).relative_to(PACKAGE).as_posix() for file, *_ in calls})
    functions = {(file, function) for file, function, _ in calls}
    n_crossings = sum(before not in (None, file) for file, _, before in calls)
    assert 10 < len(files) <= most[0], files
    assert 100 < len(functions) <= most[1]
    assert 100 < n_crossings <= most[2]
