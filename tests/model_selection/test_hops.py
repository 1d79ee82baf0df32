"""A fit can be followed: how many files of the package it enters."""

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


def files_entered(call):
    """Return the files of the package whose functions a call enters."""
    files = set()

    def enter(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            files.add(frame.f_code.co_filename)

    call()  # what is imported, or done once, is no part of a fit
    sys.setprofile(enter)
    try:
        call()
    finally:
        sys.setprofile(None)
    return files


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("given", "most"), [("nothing", 39), ("pairs", 46)])
def test_a_fit_enters_few_files(given, most):
    rows, pairs = np.arange(150) % 5 > 0, X[::5]
    data = {"paired": (pairs, pairs + 0.3)} if given == "pairs" else {}
    search = PASearchCV(GaussianNB(), {"var_smoothing": [1e-9, 0.1]})
    files = files_entered(lambda: search.fit(X[rows], Y[rows], **data))
    names = sorted(Path(file).relative_to(PACKAGE).as_posix() for file in files)
    assert 10 < len(names) <= most, names
