"""What a search with agreement, pairs or sites costs beside GridSearchCV, where fits are cheap.

The ratios are of CPU time in one run; both searches have the same candidates. The peak of memory
is what numpy and Python hold beyond the data.
"""

import time
import tracemalloc

import numpy as np
import pytest
from scipy.sparse import random as random_sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier

from pa_select import PACommittee, PASearchCV, pa_scorer


def sparse(n):
    X = random_sparse(n, 900, density=0.005, format="csr", random_state=0)
    X.data = np.ceil(3 * X.data)
    pairs = X[:100] * 2, X[:100] * 3
    return X, (X @ np.random.default_rng(0).normal(size=900) > 0) * 1, {"paired": pairs}


def normal(n, n_sites=0):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 10))
    y = (X[:, 0] + rng.normal(size=n) > 0) * 1
    return X, y, {"environments": np.arange(n) % n_sites} if n_sites else {}


def images(n, **given):
    X, y = load_digits(return_X_y=True)
    return X[:n], y[:n], given


def points(n, kind=None):
    X, y = make_classification(n, 30, n_informative=8, n_classes=3, random_state=0)
    if kind == "paired":
        rows = X[: n // 10]
        return X[n // 10 :], y[n // 10 :], {"paired": (rows, rows + 0.1)}
    return X, y, {"environments": np.arange(n) % 4} if kind else {}


BAYES = GaussianNB(), {"var_smoothing": [1e-9, 1e-3, 0.1]}
NEIGHBOURS = KNeighborsClassifier(), {"n_neighbors": [3, 9, 21]}
COUNTS = MultinomialNB(), {"alpha": [0.1, 1, 10]}
LEAVE_ONE = {"cv": LeaveOneGroupOut()}
#: What is searched: the model, the data at full size and small, and options of both searches.
ROWS = {
    "sparse rows, 100 pairs": (COUNTS, sparse, 200_000, 2000, {}, {}),
    "100 sites, leave one out": (BAYES, normal, 10_000, 400, {"n_sites": 100}, LEAVE_ONE),
    "neighbours": (NEIGHBOURS, points, 5000, 300, {}, {}),
    "neighbours, environments": (NEIGHBOURS, points, 5000, 300, {"kind": "environments"}, {}),
    "neighbours, pairs": (NEIGHBOURS, points, 5000, 300, {"kind": "paired"}, {}),
    "naive Bayes, digits": (BAYES, images, 1797, 300, {}, {}),
    "naive Bayes, a million rows": (BAYES, normal, 1_000_000, 1000, {}, {}),
    "naive Bayes, digits, pa_scorer": (BAYES, images, 1797, 300, {}, {"scoring": pa_scorer}),
    "naive Bayes, digits, committee": (BAYES, images, 1797, 300, {}, {}),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ROWS)
def test_beside_grid_search(name, benchmark, figures, one_thread):
    (model, grid), data, full, small, options, both = ROWS[name]
    X, y, given = data(full if benchmark.enabled else small, **options)
    plain = GridSearchCV(model, grid, **both)
    groups = {"groups": given["environments"]} if both is LEAVE_ONE else {}
    ours = PASearchCV(model, grid, **both)
    if "committee" in name:
        ours = PACommittee(plain)
    elif "scoring" in both:
        ours, plain = plain, GridSearchCV(model, grid)

    def seconds(search, arguments):
        start = time.process_time()
        clone(search).fit(X, y, **arguments)
        return time.process_time() - start

    seconds(ours, given)  # what is imported once
    times = [(seconds(ours, given), seconds(plain, groups)) for _ in range(3)]
    benchmark.pedantic(clone(ours).fit, (X, y), given)
    tracemalloc.start()
    clone(ours).fit(X, y, **given)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    ratio = min(one for one, _ in times) / min(other for _, other in times)
    row = {"search": name, "CPU time, GridSearchCV = 1": f"{ratio:.1f}"}
    figures("beside_grid_search", row | {"peak of memory, MB": f"{peak / 1e6:.0f}"})
    assert ratio > 0
