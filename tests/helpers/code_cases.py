"""Code of the user's own, by case, with an edit of each that changes a search's results.

The text of a case begins with its name and the edit. A line with dashes begins a module.
"""

CASES = """
=== estimator class: * 1 -> * 0
class Own(GaussianNB):
    def predict(self, X):
        return super().predict(X) * 1
model = Own()
=== base class in a module: * 1 -> * 0
from own_base import Base
class Own(Base):
    pass
model = Own()
--- own_base
from sklearn.naive_bayes import GaussianNB
class Base(GaussianNB):
    def predict(self, X):
        return super().predict(X) * 1
=== class attribute: n = 1 -> n = 2
class Own(GaussianNB):
    n = 1
    def fit(self, X, y, sample_weight=None):
        return super().fit(X[:, :self.n], y, sample_weight)
    def _joint_log_likelihood(self, X):
        return super()._joint_log_likelihood(X[:, :self.n])
    def _check_X(self, X):
        return X
model = Own()
=== property: return 1 -> return 2
class Step:
    @property
    def n(self):
        return 1
    def __call__(self, X):
        return first(X, self.n)
model = shown(Step())
=== static method: return 1 -> return 2
class Step:
    @staticmethod
    def n():
        return 1
    def __call__(self, X):
        return first(X, self.n())
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
    def __init__(self, n):
        self.n = n
    def shown(self, X):
        return first(X, self.n)
model = shown(Step(1).shown)
=== dataclass with a default: n: int = 1 -> n: int = 2
@dataclass
class Step:
    n: int = 1
    others: list = field(default_factory=list)
    def __call__(self, X):
        return first(X, self.n)
def f(X):
    return Step()(X)
model = shown(f)
=== make_scorer: * 1.0 -> * 0.5
def f(y, p):
    return accuracy_score(y, p) * 1.0
options = {"scoring": make_scorer(f)}
=== scorers of several metrics: * 1.0 -> * 0.5
def f(estimator, X, y):
    return estimator.score(X, y) * 1.0
options = {"scoring": {"score": f, "accuracy": "accuracy"}}
=== partial: + 0 -> + 1
def f(X, k):
    return first(X, k + 0)
model = shown(partial(f, k=1))
=== kw_args: [:, :1] -> [:, :2]
def g(X):
    return X[:, :1]
def f(X, h):
    return h(X)
model = shown(f, kw_args={"h": g})
=== method of an object in a container: [:, :1] -> [:, :2]
class Step:
    def shown(self, X):
        return X[:, :1]
def f(X, steps):
    for step in steps:
        X = step.shown(X)
    return X
model = shown(f, kw_args={"steps": [Step()]})
=== set of functions: [:, :1] -> [:, :2]
def g(X):
    return X[:, :1]
def same(X):
    return X
def f(X, steps):
    for step in steps:
        X = step(X)
    return X
model = shown(f, kw_args={"steps": frozenset({g, same})})
=== order of a dict: "a": narrow, "b": turn -> "b": turn, "a": narrow
def narrow(X):
    return X[:, :2]
def turn(X):
    return X[:, ::-1]
def f(X, steps):
    for step in steps.values():
        X = step(X)
    return X
model = shown(f, kw_args={"steps": {"a": narrow, "b": turn}})
=== submodule imported inside of a function: return 1 -> return 2
def f(X):
    from own_folder import inner
    return first(X, inner.g())
model = shown(f)
--- own_folder.inner
def g():
    return 1
=== helper: return 1 -> return 2
def g():
    return 1
def h():
    return g()
def f(X):
    return first(X, h())
model = shown(f)
=== functions that call each other: else 1 -> else 2
def even(n):
    return odd(n - 1) if n else 1
def odd(n):
    return even(n - 1) if n else even(n)
def f(X):
    return first(X, odd(3))
model = shown(f)
=== helper in another module: return 1 -> return 2
from own_user import f
model = shown(f)
--- own_helpers
def g():
    return 1
--- own_user
from own_helpers import g
def f(X):
    return X[:, :g()]
=== attribute of a module: return 1 -> return 2
import own_package.part
def f(X):
    return first(X, own_package.part.g())
model = shown(f)
--- own_package.part
def g():
    return 1
=== name of a module's function: return 1 -> return 2
import own_looked_up
def f(X):
    return first(X, getattr(own_looked_up, "".join("g"))())
model = shown(f)
--- own_looked_up
def g():
    return 1
=== import inside of a function: return 1 -> return 2
def f(X):
    from own_imported import g
    return first(X, g())
model = shown(f)
--- own_imported
def g():
    return 1
=== constant of a module: N = 1 -> N = 2
from own_constant import f
model = shown(f)
--- own_constant
N = 1
def f(X):
    return X[:, :N]
=== constant of the notebook: N = 1 -> N = 2
N = 1
def f(X):
    return first(X, N)
model = shown(f)
=== array of the notebook: [1.0, 0.0] -> [1.0, 1.0]
import numpy as np
KEPT = np.array([1.0, 0.0])
def f(X):
    return X[:, :2] * KEPT + 1e-3 * X[:, 2:]
model = shown(f)
=== closure: make(1) -> make(2)
def make(n):
    def f(X):
        return first(X, n)
    return f
model = shown(make(1))
=== default argument: n=1 -> n=2
def f(X, n=1):
    return first(X, n)
model = shown(f)
=== keyword default: n=1 -> n=2
def f(X, *, n=1):
    return first(X, n)
model = shown(f)
=== lambda: X[:, :1] -> X[:, :2]
model = shown(lambda X: X[:, :1])
=== function inside: i < 1 -> i < 2
def f(X):
    return X[:, [i for i in range(4) if (lambda i: i < 1)(i)]]
model = shown(f)
=== decorated function: return 1 -> return 2
def with_n(f):
    @wraps(f)
    def wrapped(X):
        return first(X, f(X))
    return wrapped
@with_n
def f(X):
    return 1
model = shown(f)
=== decorator: [:, :1] -> [:, :2]
def narrow(f):
    @wraps(f)
    def wrapped(X):
        return f(X)[:, :1]
    return wrapped
@narrow
def f(X):
    return X
model = shown(f)
=== cached function: return 1 -> return 2
@lru_cache
def n():
    return 1
def f(X):
    return first(X, n())
model = shown(f)
=== function in the grid: [:, :1] -> [:, :2]
def f(X):
    return X[:, :1]
model = shown()
options = {"param_grid": {"functiontransformer__func": [f]}}
=== pairing: test[:10] -> test[:12]
class Own:
    def pairs(self, splits, X, y, *, environments, groups):
        for i, (train, test) in enumerate(splits):
            yield i, test[:10], i, test[:10][::-1]
options = {"pairing": Own(), "cv": StratifiedKFold(2)}
=== views: * 1.1 -> * 0.9
def view(X):
    return X * 1.1
fit = {"views": view}
options = {"cv": 2}
=== splitter: random_state=0 -> random_state=1
class Own:
    def split(self, X, y, groups=None):
        yield from StratifiedKFold(2, shuffle=True, random_state=0).split(X, y)
    def get_n_splits(self, X=None, y=None, groups=None):
        return 2
options = {"cv": Own()}
"""

# Nothing is kept for these.
OPAQUE = """
=== code made of text:
def f(X):
    return eval("first(X, 1)")
model = shown(f)
=== import by name:
import importlib
def f(X):
    return X / importlib.import_module("math").pi
model = shown(f)
=== import by name inside of a function:
def f(X):
    from importlib import import_module
    return X / import_module("math").pi
model = shown(f)
=== module for imports inside of a function:
def f(X):
    import importlib
    return X / importlib.import_module("math").pi
model = shown(f)
=== generator:
def f(X, columns):
    return X
model = shown(f, kw_args={"columns": (i for i in range(2))})
from sklearn.base import BaseEstimator
class Own(GaussianNB):
    columns = (i for i in range(2))
model = Own()
=== scorer that runs anything:
def f(estimator, X, y):
    return __import__("math").sqrt(estimator.score(X, y))
options = {"scoring": f}
"""
