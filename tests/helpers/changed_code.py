"""Searches with code of the user's own, run before and after an edit of this code.

The searches run with the first code, and then with the edited one, as in a notebook, and keep
their results in a folder. As a program, with the arguments of `run`, this file prints what they
found, as JSON.
"""

import importlib
import json
import linecache
import sys
import warnings
from pathlib import Path

import joblib
import pandas as pd
import torch
from scipy.stats import loguniform
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from skorch import NeuralNetClassifier

from helpers.code_cases import CASES, OPAQUE
from pa_select import PASearchCV
from pa_select.model_selection.checkpoint import fingerprint

X, Y = load_iris(return_X_y=True)

# What is in front of each case, as in the first cell of a notebook.
FIRST_CELL = """
from dataclasses import dataclass, field
from functools import lru_cache, partial, wraps
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
def first(X, n=2):
    return X[:, :n]
def shown(*args, **params):
    return make_pipeline(FunctionTransformer(*args, **params), GaussianNB())
model, options, fit = GaussianNB(), {}, {}
"""


def cases(text):
    """Yield the name, the edit, the code and the modules of each case."""
    for case in text.split("=== ")[1:]:
        head, _, code = case.partition("\n")
        name, _, edit = head.partition(":")
        code, *modules = code.split("--- ")
        yield name, edit, code, dict(module.split("\n", 1) for module in modules)


def n_kept(folder):
    """Count the results in a folder."""
    return len(list(Path(folder).rglob("output.pkl")))


class Search(PASearchCV):
    """A search that ends after its fits: what it computes of their results takes longer."""

    def _conclude(self, candidates, outcomes, problem):
        self.found_ = [
            [outcome.test_scores, *(float(m.sum()) for m in outcome.matrices.values())]
            for outcome in outcomes[0]
        ]


def search(name, source, modules, folder):
    """Run the search of a case, and return its scores and how many results it added."""
    place = Path(folder) / "modules"
    for module, text in modules.items():
        path = place / (module.replace(".", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for loaded in [*sys.modules]:
            if loaded.split(".")[0] == module.split(".")[0]:
                del sys.modules[loaded]
    importlib.invalidate_caches()
    # As IPython does it: a cell is a file that only linecache knows, by the hash of its content.
    cell = f"<cell {joblib.hash(source)}>"
    linecache.cache[cell] = (len(source), None, source.splitlines(keepends=True), cell)
    namespace = sys.modules["__main__"].__dict__
    exec(compile(FIRST_CELL, "<first cell>", "exec"), namespace)
    exec(compile(source, cell, "exec"), namespace)
    options = {"param_grid": {}, "cv": 2, "refit": False, "tol": 0.1} | namespace["options"]
    memory = Path(folder) / name.replace(" ", "_").replace("'", "")
    before = n_kept(memory)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = Search(namespace["model"], memory=memory, **options)
        found.fit(X[::3], Y[::3], **namespace["fit"])
    said = [str(w.message) for w in caught if str(w.message).startswith("memory:")]
    return {"found": found.found_, "added": n_kept(memory) - before, "warnings": said}


def fingerprints():
    """Return fingerprints of objects whose parts have no order, or an address in their names."""

    def f(x):
        return x in {"a", "b", "c", "d"}

    objects = {
        "set of texts": {"a", "b", "c", "d"},
        "set of unlike things": frozenset({"a", None, 1, ("b",), 2.5}),
        "dict of unlike keys": {"a": 1, None: 2, ("b", 3): 4},
        "set in code": f,
        "object without state": object(),
        "method": object().__repr__,
        "frame": pd.DataFrame({"a": ["x", None], "b": pd.Categorical(["u", "v"])}),
        "net": NeuralNetClassifier(torch.nn.Linear, module__in_features=torch.zeros(2)),
        "frozen distribution": loguniform(1, 2),
        "unlike classifiers": [
            LogisticRegression(),
            RandomForestClassifier(),
            VotingClassifier([]),
        ],
    }
    return {name: fingerprint(value, name, {}) for name, value in objects.items()}


def run(folder, *which):
    """Run the cases with their "first" code or the "edited" one, or the "opaque" cases.

    Returns what they found, and the fingerprints of objects.
    """
    results = {"both": {}, "opaque": {}, "objects": fingerprints()}
    versions_run = [version for version in which if version != "opaque"]
    for name, edit, code, modules in cases(CASES) if versions_run else ():
        old, new = edit.strip().split(" -> ")
        assert old in code + "".join(modules.values()), name
        edited = {module: text.replace(old, new) for module, text in modules.items()}
        versions = {"first": (code, modules), "edited": (code.replace(old, new), edited)}
        results["both"][name] = {
            version: search(name, *versions[version], folder) for version in versions_run
        }
    if "opaque" in which:
        results["opaque"] = {
            name: search(name, code, {}, folder) for name, _, code, _ in cases(OPAQUE)
        }
    return results


if __name__ == "__main__":
    sys.path.insert(0, str(Path(sys.argv[1]) / "modules"))
    sys.dont_write_bytecode = True  # bytecode of the same second would hide an edit
    print(json.dumps(run(*sys.argv[1:])))
