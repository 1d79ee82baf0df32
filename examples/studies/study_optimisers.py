"""
Experiment 6 with a grid of optimisers
======================================

The thesis trains the nets of Experiment 6 with SGD and with Adam, at four learning rates each. It
reports the training with the highest accuracy over all tests, whatever the rule that chose its
epoch. This choice needs the labels of the tests. Here are all trainings of such a grid:

- For each optimiser, the accuracy under shift of the epoch that validation accuracy keeps, and
  what the epochs of other rules gain over it.
- "highest in the tests": the optimiser whose accuracy over all tests is the highest, as in the
  thesis.
- "any": each rule chooses among the epochs of all optimisers. This is what a user would do who has
  no labels of the tests.

This is a miniature: an epoch has 9 batches, where the thesis has hundreds, and early nets are
hardly trained. So the rules that keep them, AFR_P and PA with the uniform prior, lose more than
they would in the thesis (``study_epochs.py``).

Rows are means over the five settings of the validation pairs (other digits of the same class),
with the standard error over the seeds. ``--table FILE`` writes them, and ``--memory FOLDER`` keeps
each seed, so that an interrupted run goes on.
"""

import argparse
import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # modules of examples/

import joblib
import numpy as np
import pandas as pd
import torch
from joblib import Parallel, delayed

from papers.epoch_selection import LEARNERS, PAIRINGS, RULES, choices, experiment_6, study, train

OPTIMISERS = {
    f"{name} {lr:g}": {"optimizer": kind, "lr": lr, **parameters}
    for name, kind, parameters, rates in (
        ("Adam", torch.optim.Adam, {}, (5e-4, 1e-3, 2e-3, 4e-3)),
        ("SGD", torch.optim.SGD, {"optimizer__momentum": 0.9}, (5e-3, 1e-2, 2e-2, 5e-2)),
    )
    for lr in rates
}
REPORTED, ANY = "highest in the tests", "any"
OF_THE_THESIS = ["accuracy", "AFR_P", "PA, uniform"]
N_ORDERS = 50
SHOWN = [rule for rule in RULES if rule != "last epoch"]


def kept(found):
    """Return the accuracy under shift of the epoch that each rule keeps."""
    return {rule: found["best epoch"][k] for rule, k in choices(found).items()}


def kept_of_any(course, rng):
    """Return the same for rules that choose among the epochs of all optimisers.

    Of equal epochs a random one is kept: optimisers have no order.
    """
    order = rng.permutation(sum(len(found["accuracy"]) for found in course))
    return kept({name: np.concatenate([x[name] for x in course])[order] for name in course[0]})


def highest(found):
    """Return the highest accuracy over all tests of the epochs that the thesis's rules keep."""
    epochs = choices(found)
    return max(found["tests"][epochs[rule]] for rule in OF_THE_THESIS)


def of_one_seed(factor, learner, seed, n_epochs):
    """Return the accuracy under shift of each rule, by optimiser; means over the settings."""
    problem = experiment_6(factor, seed)
    rows, courses = {}, {}
    for optimiser in OPTIMISERS.values():
        training = train(problem, learner, seed, n_epochs, optimiser)
        found, tests = study(6, problem, training)
        for (setting, pairing), (_, _, values) in found.items():
            if pairing == PAIRINGS[0]:
                courses.setdefault(setting, []).append(values | {"tests": tests.mean(0)})
    for k, name in enumerate(OPTIMISERS):
        rows[name] = [kept(course[k]) for course in courses.values()]
    rows[REPORTED] = [kept(max(course, key=highest)) for course in courses.values()]
    rng = np.random.default_rng(seed)
    rows[ANY] = [kept_of_any(x, rng) for x in courses.values() for _ in range(N_ORDERS)]
    return pd.DataFrame({name: pd.DataFrame(row).mean() for name, row in rows.items()}).T


def summary(seeds):
    """Return the accuracy of accuracy's choice, and what the others gain over it."""
    gains = seeds[SHOWN].sub(seeds["accuracy"], axis=0).groupby("optimiser", sort=False)
    lines = gains.mean().map("{:+.1f}".format) + " +- " + gains.sem().map("{:.1f}".format)
    level = seeds["accuracy"].groupby("optimiser", sort=False).mean()
    lines.insert(0, "accuracy", level.map("{:.1f}".format))
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--factors", nargs="+", default=["hue", "position"])
    parser.add_argument("--learners", nargs="+", default=list(LEARNERS), choices=LEARNERS)
    parser.add_argument("--memory", help="keep the seeds in this folder, to go on from there")
    parser.add_argument("--table", help="write the rows to this csv file")
    options = parser.parse_args()
    measure = joblib.Memory(options.memory, verbose=0).cache(of_one_seed)
    kinds = list(itertools.product(options.factors, options.learners))
    runs = [(*kind, seed) for seed in range(options.seeds) for kind in kinds]
    work = Parallel(n_jobs=-1, return_as="generator")(
        delayed(measure)(*run, options.epochs) for run in runs
    )
    found = {}
    for run, accuracies in zip(runs, work, strict=True):
        found[run] = accuracies
        print(f"{len(found)} of {len(runs)}: {run}", flush=True)
    found = pd.concat(found, names=["sources differ in", "learner", "seed", "optimiser"])
    lines = {kind: summary(found.xs(kind, level=[0, 1])) for kind in kinds}
    # The kinds share the digits of a seed, so the seeds are the units.
    lines["all", "all"] = summary(found.groupby(["seed", "optimiser"], sort=False).mean())
    lines = pd.concat(lines, names=["sources differ in", "learner"]).reset_index()
    print(lines.to_string(index=False))
    if options.table:
        lines.to_csv(options.table, index=False)


if __name__ == "__main__":
    main()
