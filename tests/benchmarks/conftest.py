"""Tables of ratios, written where the documentation shows them."""

import csv
from pathlib import Path

import pytest
import torch

FIGURES = Path(__file__).parents[2] / "docs" / "figures"


@pytest.fixture(scope="session")
def figures(pytestconfig):
    """Collects rows (dicts) of a table by its name; written when benchmarks are on."""
    tables = {}
    yield lambda name, row: tables.setdefault(name, []).append(row)
    if pytestconfig.getoption("benchmark_enable"):
        for name, rows in tables.items():
            with open(FIGURES / f"{name}.csv", "w", newline="") as file:
                writer = csv.DictWriter(file, rows[0], lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)


@pytest.fixture
def one_thread():
    """What is compared is work, not cores."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)
