"""
How many labels a choice by unlabelled pairs needs
==================================================

The expected score starts from a cross-validated accuracy, and labels calibrate the posteriors that
stand in for the labels of the pairs. This script repeats ``study_unlabelled_pairs.py`` with fewer
labelled rows and 40 pairs: what the expected score gains over the choice by
cross-validated accuracy, and how far it is from the truth.

``--table FILE`` writes the table that docs/measured.md shows.
"""

import argparse
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # modules of examples/

import joblib
import numpy as np
import pandas as pd
from pair_problems import GRID, MODEL, PROBLEMS, rows_of
from pair_rules import RULES, choice, choices, measure, over_problems, with_error

N_LABELS, N_PAIRS = (60, 120, 300), 40
DEFAULT = next(iter(RULES))
KEYS = ["pairs", "problem", "seed"]


def measure_problem(name, seed, n_labels):
    """Return what is known of each candidate of a problem with so many labelled rows."""
    found = measure(rows_of(name, seed, n_labels), MODEL, GRID, (N_PAIRS,))
    return found.assign(problem=name, seed=seed)


def line_of(data):
    """Return the means over the problems, and their standard errors."""
    units = data.groupby(KEYS, sort=False)
    levels = units.apply(choices)
    chosen = units.apply(choice)
    numbers = {"accuracy of the choice by accuracy": levels["accuracy"]}
    for words, end in (("", ""), (", with adapter", " adapted")):
        rule = f"with adapter: {DEFAULT}" if end else DEFAULT
        away = 100 * (chosen[f"expected{end}"] - chosen[f"truth{end}"])
        # The truth was measured in some rows.
        reach = 196 * np.hypot(chosen[f"expected_se{end}"], chosen[f"truth_se{end}"])
        numbers |= {
            f"gain of the expected score{words}": levels[rule] - levels["accuracy"],
            f"its error for the choice{words}": away.abs(),
            f"mean of this error with its sign{words}": away,
            f"truth within 1.96 SE [%]{words}": 100.0 * (away.abs() <= reach),
        }
    labelled = levels["labels of the pairs"] - levels["accuracy"]
    numbers["gain of labels of the pairs"] = labelled
    mean, error = over_problems(pd.DataFrame(numbers))
    return {name: with_error(mean[name].item(), error[name].item()) for name in numbers}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="How many labels a choice by pairs needs")
    parser.add_argument("--seeds", type=int, default=1, help="seeds of every problem")
    parser.add_argument("--memory", metavar="FOLDER", help="keep finished problems there")
    parser.add_argument("--table", metavar="FILE", help="write the table there")
    options = parser.parse_args()
    kept = joblib.Memory(options.memory, verbose=0).cache(measure_problem)
    # Data sets with fewer rows cannot give the largest number of labels.
    sizes = {name: len(rows_of(name, 0, N_LABELS[-1]).y) for name in PROBLEMS}
    names = [name for name, size in sizes.items() if size > N_LABELS[-2]]
    lines = {}
    for n in N_LABELS:
        with warnings.catch_warnings():
            # Folds have few rows of a class.
            warnings.simplefilter("ignore")
            units = [kept(name, seed, n) for name in names for seed in range(options.seeds)]
        lines[f"{n} labels"] = line_of(pd.concat(units))
    table = pd.DataFrame(lines).rename_axis("number")
    print(f"{len(names)} problems, {N_PAIRS} pairs\n{table.to_string()}")
    if options.table:
        table.to_csv(options.table)
