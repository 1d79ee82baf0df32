"""Fitted searches and scorers saved and loaded with skops, with the documented trust only."""

import numpy as np
import pytest
import torch
from helpers.search_tables import same_tables
from scipy.stats import loguniform
from sklearn.datasets import load_wine
from sklearn.metrics import fbeta_score, make_scorer
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier

from pa_select import (
    PACommittee,
    PAEarlyStopping,
    PARandomizedSearchCV,
    PAScorer,
    PASearchCV,
    pa_scorer,
    shifts,
)
from pa_select import pairing as pairings
from pa_select.interop.skops import NET_TYPES, TRUSTED_TYPES
from pa_select.model_selection import GuardedSelection, within_one_standard_error

sio = pytest.importorskip("skops.io")

X, Y = load_wine(return_X_y=True)
FRAME, SERIES = load_wine(return_X_y=True, as_frame=True)
GRID = {"var_smoothing": [1e-9, 1e-2]}
ENVIRONMENTS = np.arange(len(Y)) % 2
FAST = {"cv": 2}

METRICS = {"pa": pa_scorer, "accuracy": "accuracy"}
SPLITTERS = [StratifiedKFold(2, shuffle=True, random_state=s) for s in (0, 1)]
NEAREST = pairings.NearestPairing(within_label=True)


def drift(rows):
    return 1.1 * rows


def search(**options):
    return PASearchCV(GaussianNB(), GRID, **FAST | options)


SEARCHES = {
    "frames, a metric": lambda: search(scoring="f1_macro").fit(FRAME, SERIES),
    "views by a lambda": lambda: search().fit(X, Y, views=lambda x: 2 * x),
    "nearest rows": lambda: search(pairing=NEAREST).fit(X, Y, environments=ENVIRONMENTS),
    "splitters": lambda: search(cv=SPLITTERS).fit(X, Y),
    "a rule": lambda: search(
        refit=within_one_standard_error("var_smoothing"),
        cv=RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0),
        scoring=make_scorer(fbeta_score, beta=2, average="macro"),
    ).fit(X, Y),
    "random": lambda: PARandomizedSearchCV(
        GaussianNB(), {"var_smoothing": loguniform(1e-9, 1)}, 2, random_state=0, **FAST
    ).fit(X, Y),
    "a committee": lambda: PACommittee(GridSearchCV(GaussianNB(), GRID, cv=3)).fit(X, Y),
    "scikit-learn's with rule and floor": lambda: GridSearchCV(
        GaussianNB(), GRID, scoring=METRICS, refit=GuardedSelection("pa", "accuracy"), **FAST
    ).fit(X, Y),
    "scikit-learn's with a shift": lambda: GridSearchCV(
        GaussianNB(), GRID, scoring=PAScorer("views", views=shifts.Drift(0.1)), **FAST
    ).fit(X, Y),
}


@pytest.fixture(scope="module")
def saved():
    fitted = {name: make() for name, make in SEARCHES.items()}
    return {name: (search, sio.dumps(search)) for name, search in fitted.items()}


@pytest.mark.parametrize("name", SEARCHES)
def test_searches(saved, name):
    search, data = saved[name]
    loaded = sio.loads(data, trusted=TRUSTED_TYPES)
    assert type(loaded) is type(search)
    rows = FRAME if name.startswith("frames") else X
    for method in ("predict", "predict_proba"):
        found, expected = (getattr(one, method)(rows) for one in (loaded, search))
        np.testing.assert_allclose(found, expected)
    if name == "a committee":
        np.testing.assert_array_equal(loaded.posterior_.weights, search.posterior_.weights)
        loaded, search = loaded.search_, search.search_
    assert loaded.best_params_ == search.best_params_
    assert loaded.best_index_ == search.best_index_
    same_tables(loaded.cv_results_, search.cv_results_)
    if isinstance(search, PASearchCV):
        assert loaded.score(rows, Y) == pytest.approx(search.score(rows, Y))
        assert loaded.compare(0, 1) == search.compare(0, 1)
        assert loaded.pairing_ == search.pairing_ or name.startswith("nearest")
        # The views or environments are given to fit, and are no part of the search.
        if name == "splitters":
            again = loaded.fit(X, Y).cv_results_["agreement"]
            np.testing.assert_allclose(again, search.cv_results_["agreement"], atol=1e-9)


# What shifts without defaults are given.
SCALER = StandardScaler().fit(X)
GIVEN = {"TransformShift": (SCALER,)}
# What a scorer cannot hold: the base class, results, and attacks, which need a fitted model.
NOT_HELD = {"Shift", "Shifted", "Pairs", "FGSM", "PGD", "RobustnessCurve"}
HELD = [
    kind(*GIVEN.get(name, ()))
    for room in (shifts, pairings)
    for name, kind in vars(room).items()
    if name in room.__all__ and isinstance(kind, type) and name not in NOT_HELD
]


@pytest.mark.parametrize("held", HELD, ids=lambda held: type(held).__name__)
def test_every_public_shift_and_pairing(held):
    scorer = PAScorer("views", views=held) if isinstance(held, shifts.Shift) else PAScorer(held)
    loaded = sio.loads(sio.dumps(scorer), trusted=TRUSTED_TYPES)
    assert repr(loaded) == repr(scorer)


def test_every_trusted_type_of_our_own_is_needed(saved):
    needed = set()
    held = [sio.dumps(one) for one in HELD]
    for data in [data for _, data in saved.values()] + held:
        needed |= set(sio.get_untrusted_types(data=data))
    assert needed <= set(TRUSTED_TYPES)
    own = {name for name in TRUSTED_TYPES if name.startswith("pa_select.")}
    assert own <= needed


def linear():
    return torch.nn.Linear(13, 3)


@pytest.mark.parametrize("module", [linear, torch.nn.Linear])
def test_nets_need_a_list_of_their_own_since_they_hold_a_pickle(module):
    rows = StandardScaler().fit_transform(X).astype(np.float32)
    sizes = {} if module is linear else {"module__in_features": 13, "module__out_features": 3}
    stopping = PAEarlyStopping((rows[::2], rows[::2] + 0.5))
    net = NeuralNetClassifier(
        module, criterion=torch.nn.CrossEntropyLoss, verbose=0, callbacks=[stopping], **sizes
    )
    fitted = PASearchCV(net, {"lr": [0.1, 1.0]}, cv=2).fit(rows, Y, views=rows + 0.5)
    data = sio.dumps(fitted)
    with pytest.raises(sio.exceptions.UntrustedTypesFoundException, match="NeuralNetClassifier"):
        sio.loads(data, trusted=TRUSTED_TYPES)
    own = [f"{__name__}.linear"] if module is linear else []
    loaded = sio.loads(data, trusted=[*TRUSTED_TYPES, *NET_TYPES, *own])
    np.testing.assert_allclose(loaded.predict_proba(rows), fitted.predict_proba(rows), rtol=1e-5)


@pytest.mark.parametrize("held", [PAScorer("views", views=drift), search(refit=drift)])
def test_functions_of_the_user_are_not_trusted(held):
    data = sio.dumps(held)
    with pytest.raises(sio.exceptions.UntrustedTypesFoundException, match="drift"):
        sio.loads(data, trusted=TRUSTED_TYPES)
