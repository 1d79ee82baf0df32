"""
Published language identifiers under typing errors
==================================================

Which of three published models identifies languages best when texts have typing errors? Does the
agreement of its predictions with and without the errors, which needs no labels, give the same
answer as the accuracy? The texts are messages of Django in ten languages
(``published_identifiers.py``). Each text is edited several times. The texts that translate one
message are not independent, so all errors are over messages.

``make figures`` installs the packages of the models and texts, and writes both tables to
docs/figures.
"""

import argparse
import sys
from itertools import combinations, product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # modules of examples/

import numpy as np
import pandas as pd
from published_identifiers import load_identifiers, load_messages

from pa_select import compare_agreement, confidence_interval, robustness_curve
from papers.shifts import CharacterEdits

EDITS = (1, 2, 4, 8, 16)


def with_error(values, groups):
    """Write the mean and its standard error, with all values of a group taken together."""
    codes = np.unique(groups, return_inverse=True)[1]
    sums = np.bincount(codes, values - np.mean(values))
    n = len(sums)
    error = np.sqrt(n / (n - 1) * np.sum(sums**2)) / len(values)
    return written(np.mean(values), error, 1)


def written(value, error, digits):
    return f"{round(value, digits) + 0.0:.{digits}f} +- {error:.{digits}f}"  # no minus zero


def measure(models, texts, labels, groups, edits=EDITS, n_draws=5):
    """Return a table of the models, and one of the differences between all pairs of models.

    Each text counts `n_draws` times, with edits of its own. The second table has what the first
    model of a pair has more than the second one. "Lost" is the accuracy without typing errors
    minus that with them, "unchanged" are predictions that the typing errors do not change, and
    "confidence" is the probability of the predicted language.
    """
    texts, labels, groups = (np.tile(values, n_draws) for values in (texts, labels, groups))
    shift, powers = CharacterEdits(), (0, *edits)
    curve = robustness_curve(models, texts, shift=shift, powers=powers, metrics=["agreement"])
    keys = list(product(models, powers))
    agreement = {key: curve.agreement(*key) for key in keys}
    edited = {n: shift(texts, power=n).X for n in powers}
    predicted = {(name, n): models[name].predict(edited[n]) for name, n in keys}
    highest = {(name, n): models[name].predict_proba(edited[n]).max(axis=1) for name, n in keys}

    def percent(name, n):
        before, after = predicted[name, 0], predicted[name, n]
        right = 100.0 * (after == labels)
        return {
            "right": right,
            "lost": 100.0 * (before == labels) - right,
            "unchanged": 100.0 * (after == before),
            "confidence": 100 * highest[name, n],
        }

    lines, pairs = [], []
    for name, n in keys:
        line = {"model": name, "typing errors": n}
        line |= {
            f"{what}, percent": with_error(values, groups)
            for what, values in percent(name, n).items()
        }
        result = agreement[name, n]
        low, high = confidence_interval(result, groups=groups)
        interval = f"{result.score:.3f} ({low:.3f} to {high:.3f})"
        lines.append(line | {"agreement, nats (95 % interval)": interval})
    for (a, b), n in product(combinations(models, 2), edits):
        line = {"models": f"{a} - {b}", "typing errors": n}
        first, second = percent(a, n), percent(b, n)
        line |= {
            f"{what}, points": with_error(first[what] - second[what], groups) for what in first
        }
        found = compare_agreement(agreement[a, n], agreement[b, n], groups=groups)
        difference = written(found.difference, found.standard_error, 3)
        pairs.append(line | {"agreement, nats": difference})
    return pd.DataFrame(lines), pd.DataFrame(pairs)


def main():
    parser = argparse.ArgumentParser(description="Language identifiers under typing errors")
    parser.add_argument("--draws", type=int, default=5, help="edited copies of each text")
    parser.add_argument("--table", metavar="FILE", help="write the results of the models there")
    parser.add_argument("--pairs", metavar="FILE", help="write the differences of models there")
    options = parser.parse_args()
    texts, labels, messages = load_messages()
    lengths = np.array([len(text) for text in texts])
    print(f"{len(texts)} texts, {len(np.unique(messages))} messages, {np.median(lengths)} letters")
    found = measure(load_identifiers(), texts, labels, messages, n_draws=options.draws)
    for table, file in zip(found, (options.table, options.pairs), strict=True):
        print(f"\n{table.to_string(index=False)}")
        if file:
            table.to_csv(file, index=False)


if __name__ == "__main__":
    main()
