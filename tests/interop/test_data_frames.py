"""pandas and polars in, the same numbers out; what transforms gives frames when asked."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_selection import SelectKBest
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pa_select import PAScorer, PASearchCV, pa_scorer, robustness_curve
from pa_select.pairing import NearestPairing
from pa_select.shifts import GaussianNoise

FRAME, SERIES = load_wine(return_X_y=True, as_frame=True)
X, Y = FRAME.to_numpy(), SERIES.to_numpy()
ENVIRONMENTS = np.arange(len(Y)) % 2
GRID = {"var_smoothing": [1e-2]}
KINDS = ["pandas", "polars"]

# A frame is not to be turned into an array on the way to the estimator.
pytestmark = pytest.mark.filterwarnings("error:X (does not have valid|has) feature names")


def frame(kind, rows=X):
    if kind == "pandas":
        # An index of its own, that is no row number.
        return pd.DataFrame(rows, columns=FRAME.columns, index=np.arange(len(rows))[::-1] + 500)
    return pytest.importorskip("polars").DataFrame(rows, schema=list(FRAME.columns))


def column(kind, values, rows=None):
    if kind == "pandas":
        return pd.Series(values, index=None if rows is None else rows.index)
    return pytest.importorskip("polars").Series(values)


def drift(rows):
    return 1.1 * rows


def scaled(kind="default"):
    return StandardScaler().set_output(transform=kind).fit(frame(kind) if kind in KINDS else X)


def agreements(rows, y, **given):
    pairing = given.pop("pairing", "repeated")
    model = given.pop("estimator", GaussianNB())
    grid = given.pop("param_grid", GRID)
    search = PASearchCV(model, grid, cv=2, pairing=pairing).fit(rows, y, **given)
    assert search.predict(rows).shape == (len(Y),)
    if hasattr(rows, "columns"):
        assert list(search.feature_names_in_) == list(FRAME.columns)
    return search.cv_results_["agreement"]


NEAREST = NearestPairing(within_label=True)
GIVEN = {
    "repeated": lambda kind, rows: {},
    "views by a function": lambda kind, rows: {"views": drift},
    "views by a transformer": lambda kind, rows: {"views": scaled(kind)},
    "views": lambda kind, rows: {"views": [drift(rows), drift(drift(rows))]},
    "views in arrays": lambda kind, rows: {"views": drift(X)},
    "environments": lambda kind, rows: {"environments": column(kind, ENVIRONMENTS, rows)},
    "nearest": lambda kind, rows: {"environments": ENVIRONMENTS, "pairing": NEAREST},
    "weights": lambda kind, rows: {"sample_weight": column(kind, 1.0 + ENVIRONMENTS, rows)},
    "groups": lambda kind, rows: {"groups": column(kind, np.arange(len(Y)) // 2, rows)},
}


@cache
def expected_agreements(name):
    """What arrays give."""
    given = GIVEN[name]("pandas", frame("pandas")) | GIVEN[name]("default", X)
    arrays = {k: v.to_numpy() if hasattr(v, "to_numpy") else v for k, v in given.items()}
    return agreements(X, Y, **arrays)


@pytest.mark.filterwarnings("ignore:No candidate with:UserWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", GIVEN)
def test_searches(kind, name):
    rows = frame(kind)
    found = agreements(rows, column(kind, Y, rows), **GIVEN[name](kind, rows))
    np.testing.assert_allclose(found, expected_agreements(name), atol=1e-9)


def test_views_of_frames_are_aligned_by_their_index():
    rows = frame("pandas")
    views = drift(rows).sample(frac=1, random_state=0)
    expected = expected_agreements("views by a function")
    np.testing.assert_allclose(agreements(rows, Y, views=views), expected, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_found_by_name(kind):
    names = list(FRAME.columns)
    grid, found = {f"gaussiannb__{name}": values for name, values in GRID.items()}, []
    for rows, columns in ((frame(kind), names), (X, range(len(names)))):
        steps = (StandardScaler(), list(columns[:5])), ("passthrough", list(columns[5:7]))
        model = make_pipeline(make_column_transformer(*steps), GaussianNB())
        how = {"estimator": model, "param_grid": grid, "views": drift(rows)}
        found.append(agreements(rows, Y, **how))
    np.testing.assert_allclose(*found, atol=1e-9)


SCORERS = {
    "label": lambda kind: (pa_scorer, {}),
    "views by a function": lambda kind: (PAScorer("views", views=drift), {}),
    "views by a transformer": lambda kind: (PAScorer("views", views=[scaled(kind), drift]), {}),
    "environments": lambda kind: (PAScorer("environments"), {"environments": ENVIRONMENTS}),
    "nearest": lambda kind: (PAScorer(NearestPairing()), {"environments": ENVIRONMENTS}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SCORERS)
def test_scorers(kind, name):
    rows = frame(kind)
    scorer, metadata = SCORERS[name](kind)
    given = {key: column(kind, value, rows) for key, value in metadata.items()}
    found = scorer(GaussianNB().fit(rows, Y), rows, column(kind, Y, rows), **given)
    scorer, metadata = SCORERS[name]("default")
    expected = scorer(GaussianNB().fit(X, Y), X, Y, **metadata)
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_robustness_curves(kind):
    rows = frame(kind)
    shift = drift if kind == "polars" else GaussianNoise()
    powers = None if kind == "polars" else [0.1, 0.5]
    how = {"shift": shift, "powers": powers}
    curves = [
        robustness_curve(GaussianNB().fit(*data), *data, **how)
        for data in ((rows, column(kind, Y, rows)), (X, Y))
    ]
    np.testing.assert_allclose(*(curve.table["pa"] for curve in curves), atol=1e-9)


# -- set_output --------------------------------------------------------------------------

LDA_GRID = {"lineardiscriminantanalysis__solver": ["svd"]}


@pytest.mark.parametrize("kind", ["default", "pandas", "polars"])
@pytest.mark.parametrize("by", ["set_output", "config"])
def test_transforms_as_its_estimator_is_set(kind, by):
    rows = frame(kind if kind in KINDS else "pandas")
    model = make_pipeline(SelectKBest(k=3), LinearDiscriminantAnalysis())
    if by == "set_output":
        model.set_output(transform=kind)
    with config_context(transform_output=kind if by == "config" else "default"):
        search = PASearchCV(model, LDA_GRID, cv=2).fit(rows, Y, views=drift(rows))
        grid = GridSearchCV(model, LDA_GRID, cv=2).fit(rows, Y)
        found, expected = search.transform(rows), grid.transform(rows)
    assert type(found) is type(expected)
    assert type(found).__module__.split(".")[0] == ("numpy" if kind == "default" else kind)
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected))
    if kind != "default":
        assert list(found.columns) == list(expected.columns)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_that_give_frames(kind):
    model = make_pipeline(StandardScaler().set_output(transform=kind), GaussianNB())
    plain = make_pipeline(StandardScaler(), GaussianNB())
    grid = {f"gaussiannb__{name}": values for name, values in GRID.items()}
    frame(kind)
    how = {"param_grid": grid, "views": drift}
    found = [agreements(X, Y, estimator=estimator, **how) for estimator in (model, plain)]
    np.testing.assert_allclose(*found, atol=1e-9)
