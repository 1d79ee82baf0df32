"""Searches with code of the user's own, run before and after an edit of this code.

As a program, with a folder and "first" or "edited" as arguments, this file runs all cases, keeps
their results in the folder, and prints what was found as JSON. The text of a case begins with its
name and the edit, with "!" if nothing is kept. A line with dashes begins a module.
"""

import importlib
import json
import sys
import warnings
from pathlib import Path

import pandas as pd
import torch
from scipy.stats import loguniform
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from skorch import NeuralNetClassifier

from pa_select import PASearchCV
from pa_select.model_selection.checkpoint import fingerprint

# What is in front of each case, as in the first cell of a notebook.
FIRST_CELL = """
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial, wraps
import importlib
import numpy as np
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
def first(X, n=2): return X[:, :n]
def shown(*args, **params):
    return make_pipeline(FunctionTransformer(*args, **params), GaussianNB())
def in_turn(X, steps):
    for step in steps: X = step(X)
    return X
model, options, fit = GaussianNB(), {}, {}
"""

CASES = """
=== estimator class: * 1 -> * 0
class Own(GaussianNB):
    def predict(self, X): return super().predict(X) * 1
model = Own()
=== base class in a module: * 1 -> * 0
from own_base import Base
class Own(Base): pass
model = Own()
--- own_base
from sklearn.naive_bayes import GaussianNB
class Base(GaussianNB):
    def predict(self, X): return super().predict(X) * 1
=== class attribute: n = 1 -> n = 2
class Own(GaussianNB):
    n = 1
    def fit(self, X, y, sample_weight=None): return super().fit(X[:, :self.n], y, sample_weight)
    def _joint_log_likelihood(self, X): return super()._joint_log_likelihood(X[:, :self.n])
    def _check_X(self, X): return X
model = Own()
=== property: return 1 -> return 2
class Documented(property): pass
class Step:
    @Documented
    def n(self): return 1
    def __call__(self, X): return first(X, self.n)
model = shown(Step())
=== cached property: return 1 -> return 2
class Step:
    @cached_property
    def n(self): return 1
    def __call__(self, X): return first(X, self.n)
model = shown(Step())
=== static method: return 1 -> return 2
class Step:
    @staticmethod
    def n(): return 1
    def __call__(self, X): return first(X, self.n())
model = shown(Step())
=== class method: n = 1 -> n = 2
class Step:
    @classmethod
    def shown(cls, X):
        n = 1
        return first(X, n)
model = shown(Step.shown)
=== bound method: Step(1) -> Step(2)
class Step:
    def __init__(self, n): self.n = n
    def shown(self, X): return first(X, self.n)
model = shown(Step(1).shown)
=== dataclass with a default: n: int = 1 -> n: int = 2
@dataclass
class Step:
    n: int = 1
    others: list = field(default_factory=list)
    def __call__(self, X): return first(X, self.n)
model = shown(lambda X: Step()(X))
=== make_scorer: * 1.0 -> * 0.5
def f(y, p): return accuracy_score(y, p) * 1.0
options = {"scoring": make_scorer(f)}
=== scorers of several metrics: * 1.0 -> * 0.5
def f(estimator, X, y): return estimator.score(X, y) * 1.0
options = {"scoring": {"score": f, "accuracy": "accuracy"}}
=== partial: + 0 -> + 1
def f(X, k): return first(X, k + 0)
model = shown(partial(f, k=1))
=== kw_args: [:, :1] -> [:, :2]
def g(X): return X[:, :1]
def f(X, h): return h(X)
model = shown(f, kw_args={"h": g})
=== method of an object in a container: [:, :1] -> [:, :2]
class Step:
    def __call__(self, X): return X[:, :1]
model = shown(in_turn, kw_args={"steps": [Step()]})
=== set of functions: [:, :1] -> [:, :2]
def g(X): return X[:, :1]
def same(X): return X
model = shown(in_turn, kw_args={"steps": frozenset({g, same})})
=== order of a dict: "a": narrow, "b": turn -> "b": turn, "a": narrow
def narrow(X): return X[:, :2]
def turn(X): return X[:, ::-1]
def f(X, steps): return in_turn(X, steps.values())
model = shown(f, kw_args={"steps": {"a": narrow, "b": turn}})
=== helper: return 1 -> return 2
def g(): return 1
def h(): return g()
model = shown(lambda X: first(X, h()))
=== functions that call each other: else 1 -> else 2
def even(n): return odd(n - 1) if n else 1
def odd(n): return even(n - 1) if n else even(n)
model = shown(lambda X: first(X, odd(3)))
=== helper in another module: return 1 -> return 2
from own_user import f
model = shown(f)
--- own_helpers
def g(): return 1
--- own_user
from own_helpers import g
def f(X): return X[:, :g()]
=== attribute of a module: return 1 -> return 2
import own_package.part
def f(X): return first(X, own_package.part.g())
model = shown(f)
--- own_package.part
def g(): return 1
=== name of a module's function: return 1 -> return 2
import own_looked_up
def f(X): return first(X, getattr(own_looked_up, "".join("g"))())
model = shown(f)
--- own_looked_up
def g(): return 1
=== constant of a module: N = 1 -> N = 2
from own_constant import f
model = shown(f)
--- own_constant
N = 1
def f(X): return X[:, :N]
=== constant of a module set from outside: N = 1 -> N = 2
import own_settings
own_settings.N = 1
def f(X): return first(X, own_settings.N)
model = shown(f)
--- own_settings
N = 3
=== constant set from outside of a module imported in a function: N = 1 -> N = 2
import own_chosen
own_chosen.N = 1
def f(X):
    from own_chosen import N
    return first(X, N)
model = shown(f)
--- own_chosen
N = 3
=== import by name: return 1 -> return 2
import own_named
def f(X): return first(X, importlib.import_module("own_" + "named").g())
model = shown(f)
--- own_named
def g(): return 1
=== !module that builds code of text: return 1 -> return 2
import own_text
def f(X): return first(X, own_text.SPACE["g"]())
model = shown(f)
--- own_text
SPACE = {}
exec("def g(): return 1", SPACE)
=== !import inside of a function: return 1 -> return 2
def f(X):
    from own_imported import g
    return first(X, g())
model = shown(f)
--- own_imported
def g(): return 1
=== !submodule imported inside of a function: return 1 -> return 2
def f(X):
    from own_folder import inner
    return first(X, inner.g())
model = shown(f)
--- own_folder.inner
def g(): return 1
=== !module imported by name: return 1 -> return 2
def f(X): return first(X, importlib.import_module("own_late").g())
model = shown(f)
--- own_late
def g(): return 1
=== !import in a scorer: * 1.0 -> * 0.5
def f(estimator, X, y): return estimator.score(X, y) * __import__("own_factor").N
options = {"scoring": f}
--- own_factor
N = 1 * 1.0
=== !code made of text: return 1 -> return 2
def g(): return 1
def f(X): return eval("first(X, g())")
model = shown(f)
=== !scorer that runs text: return 1.0 -> return 0.5
def g(): return 1.0
def f(estimator, X, y): return eval("estimator.score(X, y) * g()", globals(), locals())
options = {"scoring": f}
=== !generator: [:, :1] -> [:, :2]
def f(X, columns): return X[:, :1]
model = shown(f, kw_args={"columns": (i for i in range(2))})
from sklearn.base import BaseEstimator
class Own(GaussianNB):
    columns = (i for i in range(2))
    def fit(self, X, y): return super().fit(X[:, :1], y)
    def _joint_log_likelihood(self, X): return super()._joint_log_likelihood(X[:, :1])
    def _check_X(self, X): return X
model = Own()
=== constant of the notebook: N = 1 -> N = 2
N = 1
model = shown(lambda X: first(X, N))
=== array of the notebook: [1.0, 0.0] -> [1.0, 1.0]
KEPT = np.array([1.0, 0.0])
model = shown(lambda X: X[:, :2] * KEPT + 1e-3 * X[:, 2:])
=== closure: make(1) -> make(2)
def make(n): return lambda X: first(X, n)
model = shown(make(1))
=== default argument: n=1 -> n=2
def f(X, n=1): return first(X, n)
model = shown(f)
=== keyword default: n=1 -> n=2
def f(X, *, n=1): return first(X, n)
model = shown(f)
=== lambda: X[:, :1] -> X[:, :2]
model = shown(lambda X: X[:, :1])
=== function inside: i < 1 -> i < 2
model = shown(lambda X: X[:, [i for i in range(4) if (lambda i: i < 1)(i)]])
=== decorated function: return 1 -> return 2
def with_n(f):
    @wraps(f)
    def wrapped(X): return first(X, f(X))
    return wrapped
@with_n
def f(X): return 1
model = shown(f)
=== decorator: [:, :1] -> [:, :2]
def narrow(f):
    @wraps(f)
    def wrapped(X): return f(X)[:, :1]
    return wrapped
@narrow
def f(X): return X
model = shown(f)
=== cached function: return 1 -> return 2
@lru_cache
def n(): return 1
model = shown(lambda X: first(X, n()))
=== function in the grid: [:, :1] -> [:, :2]
def f(X): return X[:, :1]
model = shown()
options = {"param_grid": {"functiontransformer__func": [f]}}
=== pairing: test[:10] -> test[:12]
class Own:
    def pairs(self, splits, X, y, *, environments, groups):
        for i, (train, test) in enumerate(splits): yield i, test[:10], i, test[:10][::-1]
options = {"pairing": Own(), "cv": StratifiedKFold(2)}
=== views: * 1.1 -> * 0.9
def view(X): return X * 1.1
fit = {"views": view}
=== splitter: random_state=0 -> random_state=1
class Own:
    def split(self, X, y, groups=None):
        yield from StratifiedKFold(2, shuffle=True, random_state=0).split(X, y)
    def get_n_splits(self, X=None, y=None, groups=None): return 2
options = {"cv": Own()}
"""


class Search(PASearchCV):
    """A search that ends after its fits: what it computes of their results takes longer."""

    def _conclude(self, candidates, outcomes, problem):
        self.found_ = [
            [outcome.test_scores, *(float(m.sum()) for m in outcome.matrices.values())]
            for outcome in outcomes[0]
        ]


def search(name, source, modules, folder):
    """Run the search of a case; return its scores, how many results it added, and warnings."""
    for module, text in modules.items():
        path = Path(folder, "modules", module.replace(".", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    importlib.invalidate_caches()
    namespace = sys.modules["__main__"].__dict__
    exec(FIRST_CELL + source, namespace)
    options = {"param_grid": {}, "cv": 2, "refit": False, "tol": 0.1} | namespace["options"]
    X, y = load_iris(return_X_y=True)
    memory = Path(folder) / "".join(filter(str.isalnum, name))
    before = len([*memory.rglob("output.pkl")])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = Search(namespace["model"], memory=memory, **options)
        found.fit(X[::3], y[::3], **namespace["fit"])
    for loaded in [x for x in sys.modules if x.startswith("own_")]:
        del sys.modules[loaded]
    return {
        "found": found.found_,
        "added": len([*memory.rglob("output.pkl")]) - before,
        "warned": any(str(w.message).startswith("memory:") for w in caught),
    }


def run(folder, *versions):
    """Run all cases with their "first" code, the "edited" one, or one after the other."""
    results = {}
    for case in CASES.split("=== ")[1:]:
        head, _, text = case.partition("\n")
        name, _, edit = head.partition(":")
        old, new = edit.strip().split(" -> ")
        assert old in text, name
        results[name] = {}
        for version, changed in {"first": text, "edited": text.replace(old, new)}.items():
            code, *modules = changed.split("--- ")
            modules = dict(module.split("\n", 1) for module in modules)
            if version in versions:
                results[name][version] = search(name, code, modules, folder)
    return results


def fingerprints():
    """Return fingerprints of objects whose parts have no order, or an address in their names."""
    objects = [
        {"a", "b", "c", "d"},
        frozenset({"a", None, 1, ("b",), 2.5}),
        {"a": 1, None: 2, ("b", 3): 4},
        lambda x: x in {"a", "b", "c", "d"},
        object(),
        object().__repr__,
        pd.DataFrame({"a": ["x", None], "b": pd.Categorical(["u", "v"])}),
        NeuralNetClassifier(torch.nn.Linear, module__in_features=torch.zeros(2)),
        loguniform(1, 2),
        [LogisticRegression(), RandomForestClassifier(), VotingClassifier([])],
    ]
    return [fingerprint(value, {}) for value in objects]


if __name__ == "__main__":
    sys.path.insert(0, str(Path(sys.argv[1]) / "modules"))
    sys.dont_write_bytecode = True  # bytecode of the same second would hide an edit
    print(json.dumps([run(*sys.argv[1:]), fingerprints()]))
