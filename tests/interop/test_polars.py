"""Shifts and shared environments of polars' frames: the numbers of pandas'."""

import numpy as np
import pandas as pd
import pytest

from pa_select.shifts import Drift, FeatureFailure, GaussianNoise
from pa_select.training import SharedEnvironment

pl = pytest.importorskip("polars")

RNG = np.random.default_rng(0)
Y = np.arange(60) % 3
ROWS = RNG.normal(size=(60, 2)) + Y[:, None]
COLUMNS = {"a": ROWS[:, 0], "site": ["x", "y"] * 30, "n": np.arange(60), "old": Y > 0}
POLARS = pl.DataFrame(COLUMNS).with_columns(b=pl.Series(ROWS[:, 1]).cast(pl.Float32))
PANDAS = pd.DataFrame(COLUMNS).assign(b=ROWS[:, 1].astype(np.float32))
NUMBERS = ["a", "n", "b"]


@pytest.mark.parametrize("shift", [GaussianNoise(), Drift(), FeatureFailure()])
def test_shifts(shift):
    found, expected = shift(POLARS), shift(PANDAS)
    assert isinstance(found.X, pl.DataFrame)
    assert found.X.columns == POLARS.columns
    assert found.X.select("site", "old").equals(POLARS.select("site", "old"))
    assert found.X.schema["b"] == pl.Float32
    assert found.X.schema["n"] == pl.Float64
    np.testing.assert_allclose(found.X.select(NUMBERS), expected.X[NUMBERS])
    np.testing.assert_allclose(found.norm, expected.norm)


def test_missing_numbers_stay_missing():
    rows = pl.DataFrame({"a": [1.0, None], "n": [None, 2]})
    shifted = GaussianNoise()(rows).X.to_numpy()
    np.testing.assert_array_equal(np.isnan(shifted), [[False, True], [True, False]])
    with pytest.raises(TypeError, match="X: expected at least one numeric column, got none"):
        GaussianNoise()(rows.select(pl.lit("a").alias("a")))


def test_rows_of_shared_environments():
    row, label = SharedEnvironment(POLARS.select(NUMBERS), Y)[4]
    np.testing.assert_array_equal(row, PANDAS[NUMBERS].iloc[4])
    assert label == 1
