"""The subcommand ``pa-select expect``: the accuracy at another site, from saved scores."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pa_select.command_line.labels import columns_of_labels
from pa_select.command_line.reading import InputError, read_labels, read_table
from pa_select.command_line.shared import (
    DONE,
    FAILED,
    check_names,
    check_same_names,
    checked_scores,
    complain,
    input_errors,
    print_result,
    quick_imports,
    warn,
)
from pa_select.utils.score_checks import check_same_shape

_EXPECT = """\
Print the accuracy that a classifier is expected to have at another site (b), from objects
that were measured at both sites and labelled at neither, and from labelled rows of the
first site (a).
"""

_EXPECT_DETAILS = """\
files:
  a, b and the validation rows are matrices of the scores of one classifier, with a column
  for each class: logits, log-probabilities, or (with --probabilities) probabilities. Row i
  of a and b is the same object. The classifier was not fitted to any of these rows. The
  formats are those of pa-select score.

reading the result:
  expected accuracy    the validation accuracy and the change to expect: the mean posterior,
                       on the row of a, of the class predicted for the row of b, less that of
                       the class predicted for the row of a. The labels calibrate them.
  interval             95 %, also if the posteriors are not calibrated: the validation
                       accuracy minus and plus the disagreement and 1.96 standard errors.
  validation accuracy  the accuracy on the labelled rows.
  disagreement         the share of pairs whose largest scores are in different classes.
  beta                 the inverse temperature that calibrates the posteriors.

JSON:
  The fields are those of pa_select.ExpectedScore. Infinity is written "Infinity", and
  missing values are null.

exit status:
  0 done, 1 the computation failed, 2 wrong usage or input, 130 interrupted.

examples:
  pa-select expect a.npy b.npy --validation val.npy --labels y.npy
  pa-select expect p.npz:a p.npz:b --validation p.npz:val --labels p.npz:y --probabilities
"""


def add_parser(commands: Any) -> None:
    """Add the subcommand."""
    parser = commands.add_parser(
        "expect",
        help="the accuracy that is expected at another site",
        description=_EXPECT,
        epilog=_EXPECT_DETAILS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("a", help="scores of the objects, as measured where the labels are")
    parser.add_argument("b", help="scores of the same objects at the other site, row by row")
    parser.add_argument(
        "--validation", metavar="val", required=True, help="scores of labelled rows of a's site"
    )
    parser.add_argument(
        "--labels",
        metavar="y",
        required=True,
        help="true classes of the validation rows, as column numbers from 0 or as names of "
        "classes",
    )
    add_options_of_files(parser)
    parser.set_defaults(run=run)


def add_options_of_files(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how files are read, and how the result is written."""
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="the files hold probabilities; values below 1e-8 are raised to it before the log",
    )
    parser.add_argument(
        "--header",
        action=argparse.BooleanOptionalAction,
        help="whether line 1 of the csv files of scores holds names (default: it does if it has "
        "no numbers)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace, own_process: bool) -> int:
    """Run the subcommand and return the exit status."""
    scores, labels, columns = _read(options)
    with quick_imports(own_process):
        from sklearn.metrics import accuracy_score, make_scorer

        from pa_select.command_line.printing import expected_as_json, expected_as_text
        from pa_select.scores.recorded import Recorded
        from pa_select.unlabelled.expected_score import expected_of_recorded
        from pa_select.unlabelled.paired_rows import FEW_PAIRS

    n_pairs, n_classes = scores[0].shape
    if n_pairs < FEW_PAIRS:
        warn(
            f"{options.a} and {options.b}: expected at least {FEW_PAIRS} pairs, got {n_pairs}. "
            "The expected accuracy says little; look at its standard error and at its interval."
        )
    if np.array_equal(scores[0], scores[1]):
        warn(
            f"{options.b}: expected scores of other measurements, got those of {options.a}. If "
            "the objects were measured only once, the expected accuracy says nothing about b."
        )
    classes = np.arange(n_classes)
    try:
        a, b, val = (
            {"the files": Recorded(classes, rows, rows.argmax(axis=1))} for rows in scores
        )
        of_files = expected_of_recorded(a, b, val, labels, make_scorer(accuracy_score))
        found = of_files["the files"]
    except (RuntimeError, MemoryError) as error:
        return complain(f"the computation failed: {str(error) or 'out of memory'}", FAILED)
    text = expected_as_json(found) if options.json else None
    print_result(text or expected_as_text(found, len(labels), n_classes, columns))
    return DONE


def _read(
    options: argparse.Namespace,
) -> tuple[list[NDArray[np.float64]], NDArray[np.int64], list[str] | None]:
    """Return the scores of a, b and the validation rows, the labels, and names of columns."""
    names = [options.a, options.b, options.validation]
    check_names([*names, options.labels])
    tables = [read_table(name, options.header) for name in names]
    with input_errors():
        values = [
            checked_scores(table, name, options.probabilities)
            for table, name in zip(tables, names, strict=True)
        ]
        check_same_shape(values[0].shape, values[1].shape, names[0], names[1])
    n_classes, n_columns = values[0].shape[1], values[2].shape[1]
    if n_columns != n_classes:
        raise InputError(
            f"{names[2]}: expected the {n_classes} columns of {names[0]}, got {n_columns} columns."
        )
    check_same_names(tables[0], tables[1], names[0], names[1])
    first = next((i for i, table in enumerate(tables) if table.columns is not None), 0)
    named = tables[first]._replace(ids=None)  # rows of a are not those of the validation
    check_same_names(named, tables[2], names[first], names[2])
    labels = read_labels(options.labels, len(values[2]), "rows")
    check_same_names(tables[2], labels._replace(columns=None), names[2], options.labels)
    found, columns = columns_of_labels(
        labels.values, options.labels, values[2].shape, named.columns, "rows"
    )
    return [np.asarray(x, dtype=np.float64) for x in values], found, columns
