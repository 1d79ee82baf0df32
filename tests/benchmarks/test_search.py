"""What a search costs beyond its fits, as ratios measured in the same run.

`PASearchCV` against GridSearchCV on the same splits: measuring accuracy only, and also
computing the class scores of the test rows, without which there is no agreement.
"""

import subprocess
import sys
from time import perf_counter

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from pa_select import PASearchCV, class_scores
from pa_select.model_selection import plan

CV = RepeatedStratifiedKFold(n_splits=5, n_repeats=2, random_state=0)


def seconds(search, X, y):
    start = perf_counter()
    search.fit(X, y)
    return perf_counter() - start


def scored(estimator, X, y):
    return class_scores(estimator, X)[0].mean()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (LogisticRegression(max_iter=500), {"C": [0.1, 1, 10]}),
        (RandomForestClassifier(50, random_state=0), {"max_depth": [5, 10, None]}),
        (SVC(), {"C": [1, 10, 100]}),
        (KNeighborsClassifier(), {"n_neighbors": [1, 5, 10]}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_overhead(benchmark, monkeypatch, model, grid):
    X, y = load_digits(return_X_y=True)
    X = X / 16
    cv = CV
    if not benchmark.enabled:  # fewer fits of fewer rows show that it runs
        X, y = X[:400], y[:400]
        cv = RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0)
    solving = []
    table = plan.agreements_of

    def timed(*args, **kwargs):
        start = perf_counter()
        found = table(*args, **kwargs)
        solving.append(perf_counter() - start)
        return found

    monkeypatch.setattr(plan, "agreements_of", timed)
    search = PASearchCV(model, grid, cv=cv)
    assert benchmark.pedantic(search.fit, (X, y), rounds=1).best_score_ > 0.9
    if not benchmark.enabled:
        return
    theirs = {
        "accuracy": GridSearchCV(model, grid, cv=CV),
        "accuracy and class scores": GridSearchCV(
            model,
            grid,
            cv=CV,
            scoring={"accuracy": "accuracy", "scores": scored},
            refit="accuracy",
        ),
    }
    # The best of several rounds, all in turn: what is left is the work, not the machine.
    best = dict.fromkeys((*theirs, "search", "solve"), np.inf)
    for _ in range(5):
        ours = seconds(search, X, y)
        best["search"] = min(best["search"], ours - solving[-1])
        best["solve"] = min(best["solve"], solving[-1])
        for name, other in theirs.items():
            best[name] = min(best[name], seconds(other, X, y))
    told = ", ".join(f"{best['search'] / best[name] - 1:+.0%} over {name}" for name in theirs)
    print(
        f"\n{type(model).__name__}: {told}, and a solve that takes "
        f"{best['solve'] / best['search']:.0%} of that time"
    )


# Times of two searches in a new process, whose workers import torch too if the argument says so.
TWO_SEARCHES = """
import sys, warnings
from time import perf_counter
import sklearn.utils.parallel
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
import pa_select.model_selection.evaluation
from pa_select import PASearchCV

warnings.simplefilter("ignore")
if sys.argv[1] == "with torch":
    import torch.jit
    warnings.simplefilter("ignore", torch.jit.TracerWarning)  # torch's filter is the last one
    pa_select.model_selection.evaluation.Parallel = sklearn.utils.parallel.Parallel
X, y = load_digits(return_X_y=True)
for _ in range(2):
    start = perf_counter()
    PASearchCV(LogisticRegression(max_iter=50), {"C": [0.1, 1]}, n_jobs=2).fit(X[:200], y[:200])
    print(perf_counter() - start)
"""


@pytest.mark.slow
def test_first_search(benchmark, figures):
    def seconds(workers):
        run = [sys.executable, "-c", TWO_SEARCHES, workers]
        said = subprocess.run(run, capture_output=True, text=True, check=True).stdout
        return [float(line) for line in said.split()]

    first, second = benchmark.pedantic(seconds, ("without torch",), rounds=1)
    assert first > 0 < second
    if not benchmark.enabled:
        return
    kinds = ("without torch", "with torch")
    found = [[seconds(kind) for kind in kinds] for _ in range(3)]  # in turns
    best = np.min(found, axis=0)
    for kind, (first, second) in zip(kinds, best, strict=True):
        row = {
            "workers": kind,
            "first search": f"{first / best[0, 0]:.2f}",
            "second search": f"{second / best[0, 0]:.2f}",
        }
        figures("first_search", row)
        print(row)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("scoring", ["f1_macro", "neg_log_loss", "roc_auc_ovr"])
def test_metrics_of_pairs(benchmark, scoring):
    """What other metrics than the accuracy cost in a search with pairs."""
    X, y = load_digits(return_X_y=True)
    n, grid = (600, {"var_smoothing": np.logspace(-9, 0, 12)})
    if not benchmark.enabled:
        n, grid = 300, {"var_smoothing": [1e-9, 1e-3]}
    a, y_labelled, X = X[n : n + 60], y[:n], X[:n]
    pairs = a, 0.6 * a + np.random.default_rng(0).normal(size=a.shape)

    def search(scoring):
        return PASearchCV(GaussianNB(), grid, scoring=scoring, refit=False)

    benchmark.pedantic(search(scoring).fit, (X, y_labelled), {"paired": pairs}, rounds=1)
    if not benchmark.enabled:
        return
    best = dict.fromkeys(("accuracy", scoring), np.inf)
    for _ in range(3):
        for name in best:
            start = perf_counter()
            search(name).fit(X, y_labelled, paired=pairs)
            best[name] = min(best[name], perf_counter() - start)
    print(f"\n{scoring}: {best[scoring] / best['accuracy']:.2f} times the accuracy's time")
