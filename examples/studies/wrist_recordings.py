"""
Recordings of a watch at the wrist
==================================

Time series of ten persons who did seven shoulder exercises with the left and with the right arm,
from the package ``seglearn`` (``pip install seglearn``), which has them as a pickle: reading it
may run code of that package. The watch measured three accelerations and three angular velocities,
50 times a second.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

LENGTH = 200  # measurements in a window: four seconds


def features_of(window):
    """Return mean, standard deviation and two quantiles of each of the six channels."""
    low, high = np.quantile(window, [0.1, 0.9], axis=0)
    return np.concatenate([window.mean(axis=0), window.std(axis=0), low, high])


def windows():
    """Return features, exercise, person and arm of windows that do not overlap, as a table."""
    folder = find_spec("seglearn").submodule_search_locations[0]
    file = Path(folder, "data", "watch_dataset.npy")
    recordings = np.load(file, allow_pickle=True).item()
    rows = [
        (*features_of(series[start : start + LENGTH]), exercise, person, arm)
        for series, exercise, person, arm in zip(
            *(recordings[what] for what in ("X", "y", "subject", "side")), strict=True
        )
        for start in range(0, len(series) - LENGTH + 1, LENGTH)
    ]
    features = [
        f"{what} of {channel}"
        for what in ("mean", "deviation", "low", "high")
        for channel in recordings["X_labels"]
    ]
    return pd.DataFrame(rows, columns=[*features, "exercise", "person", "arm"])
