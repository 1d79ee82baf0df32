"""Figures are drawn without a screen, and closed after each test."""

import matplotlib
import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _no_figure_stays_open():
    yield
    plt.close("all")


@pytest.fixture
def ax():
    return Figure().subplots()
