"""What a search costs beside GridSearchCV, where fits are cheap: CPU time, memory, messages."""

import time
import tracemalloc

import joblib
import numpy as np
import pytest
from scipy.sparse import random as random_sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier

from pa_select import PACommittee, PASearchCV, pa_scorer


def counts(n):
    X = random_sparse(n, 900, density=0.005, format="csr", random_state=0)
    X.data = np.ceil(3 * X.data)
    return X, (X @ np.random.default_rng(0).normal(size=900) > 0) * 1


def normal(n, n_columns=10):
    rng = np.random.default_rng(0)
    X, noise = np.split(rng.normal(size=(n, n_columns + 1)), [n_columns], axis=1)
    return X, (X[:, 0] + noise[:, 0] > 0) * 1


def images(n):
    return tuple(values[:n] for values in load_digits(return_X_y=True))


def points(n):
    return make_classification(n, 30, n_informative=8, n_classes=3, random_state=0)


COUNTS = MultinomialNB(), {"alpha": [0.1, 1, 10]}
BAYES = GaussianNB(), {"var_smoothing": [1e-9, 1e-3, 0.1]}
NEIGHBOURS = KNeighborsClassifier(), {"n_neighbors": [3, 9, 21]}
#: The candidates, the data at full size and small, and what takes most of the time.
ROWS = {
    "sparse rows, 100 pairs": ((*COUNTS, counts, 200_000, 2000), "calibration by all labels"),
    "100 sites, leave one out": ((*BAYES, normal, 10_000, 400), "470 000 pairs of rows"),
    "neighbours": ((*NEIGHBOURS, points, 5000, 300), "ten splits"),
    "neighbours, environments": ((*NEIGHBOURS, points, 5000, 300), "probabilities"),
    "neighbours, 100 pairs": ((*NEIGHBOURS, points, 5000, 300), "probabilities"),
    "naive Bayes, digits": ((*BAYES, images, 1797, 300), "ten splits"),
    "naive Bayes, a million rows": ((*BAYES, normal, 1_000_000, 1000), "agreement, ten splits"),
    "naive Bayes, digits, pa_scorer": ((*BAYES, images, 1797, 300), "a solve for each fit"),
    "naive Bayes, digits, 100 pairs": ((*BAYES, images, 1797, 300), "solves and calibration"),
    "naive Bayes, digits, committee": ((*BAYES, images, 1797, 300), "fits"),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ROWS)
def test_beside_grid_search(name, benchmark, figures, one_thread):
    (model, grid, data, full, small), most = ROWS[name]
    X, y = data(full if benchmark.enabled else small)
    given, groups, cv = {}, {}, LeaveOneGroupOut() if "sites" in name else None
    plain, ours = GridSearchCV(model, grid, cv=cv), PASearchCV(model, grid, cv=cv)
    if "pairs" in name:
        given, X, y = {"paired": (X[:100] * 2, X[:100] * 3)}, X[100:], y[100:]
    if "sites" in name or "environments" in name:
        given = {"environments": np.arange(len(y)) % (100 if cv else 4)}
        groups = {"groups": given["environments"]} if cv else {}
    if "committee" in name:
        ours = PACommittee(plain)
    if "scorer" in name:
        ours = clone(plain).set_params(scoring=pa_scorer)

    def seconds(search, arguments):
        start = time.process_time()
        clone(search).fit(X, y, **arguments)
        return time.process_time() - start

    seconds(ours, given)  # what is imported once
    times = [(seconds(ours, given), seconds(plain, groups)) for _ in range(3)]
    benchmark.pedantic(clone(ours).fit, (X, y), given)
    tracemalloc.start()
    fitted = clone(ours).fit(X, y, **given)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    ratio = min(one for one, _ in times) / min(other for _, other in times)
    row = {"search": name, "CPU time, GridSearchCV = 1": f"{ratio:.1f}"}
    row |= {"memory besides the data, MB": f"{peak / 1e6:.0f}", "most of the time": most}
    figures("beside_grid_search", row)
    assert fitted.score(X, y) > 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_wire(benchmark, figures):
    distributed, psutil = map(pytest.importorskip, ("distributed", "psutil"))
    X, y = normal(100_000 if benchmark.enabled else 20_000, 20)
    searches = {
        "GridSearchCV, 5 splits": GridSearchCV(*BAYES),
        "GridSearchCV, 10 splits": GridSearchCV(*BAYES, cv=10),
        "PASearchCV, 10 splits": PASearchCV(*BAYES),
    }
    sent = {}

    def fit(name):
        before = psutil.net_io_counters().bytes_sent
        clone(searches[name]).fit(X, y)
        sent[name] = (psutil.net_io_counters().bytes_sent - before) / 1e6

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as of,
        distributed.Client(of),
        joblib.parallel_config(backend="dask"),
    ):
        benchmark.pedantic(lambda: [*map(fit, searches)])
    for name, megabytes in sent.items():
        row = {"search": name, "rows": len(X), "classes": 2, "X, MB": f"{X.nbytes / 1e6:.0f}"}
        figures("wire", row | {"sent, MB": f"{megabytes:.0f}"})
    _, grid, ours = sent.values()
    assert X.nbytes / 1e6 < ours < 1.3 * grid
