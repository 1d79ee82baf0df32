"""The subcommand ``pa-select expect``: the accuracy at another site, from saved scores."""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pa_select.command_line.labels import label_columns
from pa_select.command_line.reading import InputError, Table, check_same_names, read_table
from pa_select.command_line.shared import (
    DONE,
    FAILED,
    check_names,
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

several models:
  Give --model NAME a b val for each, instead of a, b and --validation. The rows are the same
  for all models. The most accurate models stand in for the labels of the pairs, and the
  validation accuracies are shrunk towards what they say. The model with the highest expected
  accuracy comes first.

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
  missing values are null. With --model there is such an object for each name.

exit status:
  0 done, 1 the computation failed, 2 wrong usage or input, 130 interrupted.

examples:
  pa-select expect a.npy b.npy --validation val.npy --labels y.npy
  pa-select expect p.npz:a p.npz:b --validation p.npz:val --labels p.npz:y --probabilities
  pa-select expect --model svm a.npy b.npy val.npy --model forest a2.npy b2.npy val2.npy \\
      --labels y.npy
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
    parser.add_argument(
        "a", nargs="?", help="scores of the objects, as measured where the labels are"
    )
    parser.add_argument(
        "b", nargs="?", help="scores of the same objects at the other site, row by row"
    )
    parser.add_argument("--validation", metavar="val", help="scores of labelled rows of a's site")
    parser.add_argument(
        "--model",
        nargs=4,
        action="append",
        metavar=("NAME", "a", "b", "val"),
        help="the three files of one of several models",
    )
    parser.add_argument(
        "--labels",
        metavar="y",
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


class _Scores(NamedTuple):
    """The scores of one model: of the pairs at both sites, and of the validation rows."""

    a: NDArray[np.float64]
    b: NDArray[np.float64]
    val: NDArray[np.float64]


def run(options: argparse.Namespace, own_process: bool) -> int:
    """Run the subcommand and return the exit status."""
    files = _files_of_models(options)
    scores, labels, columns = _read(files, options)
    with quick_imports(own_process):
        from sklearn.metrics import accuracy_score, make_scorer

        from pa_select.command_line import printing
        from pa_select.scores.recorded import Recorded
        from pa_select.unlabelled.classification import Classification
        from pa_select.unlabelled.paired_rows import FEW_PAIRS
        from pa_select.unlabelled.trained import of_outputs

    (first, *_), (first_a, first_b, _) = scores.values(), next(iter(files.values()))
    n_pairs, n_classes = first.a.shape
    if n_pairs < FEW_PAIRS:
        warn(
            f"{first_a} and {first_b}: expected at least {FEW_PAIRS} pairs, got {n_pairs}. "
            "The expected accuracy says little; look at its standard error and at its interval."
        )
    for (file_a, file_b, _), of_model in zip(files.values(), scores.values(), strict=True):
        if np.array_equal(of_model.a, of_model.b):
            warn(
                f"{file_b}: expected scores of other measurements, got those of {file_a}. If the "
                "objects were measured only once, the expected accuracy says nothing about b."
            )
    classes = np.arange(n_classes)
    try:
        a, b, val = (
            [Recorded(classes, rows, rows.argmax(axis=1)) for rows in of_models]
            for of_models in zip(*scores.values(), strict=True)
        )
        scorer = make_scorer(accuracy_score)
        found = of_outputs(Classification(), list(scores), [val, a, b], labels, scorer)
    except (RuntimeError, MemoryError) as error:
        return complain(f"the computation failed: {str(error) or 'out of memory'}", FAILED)
    if options.model:
        text = printing.models_as_text(found, len(labels), n_classes, columns)
        as_json = {name: one._asdict() for name, one in found.items()}
    else:
        (one,) = found.values()
        text = printing.expected_as_text(one, len(labels), n_classes, columns)
        as_json = one._asdict()
    print_result(printing.json_of(as_json) if options.json else text)
    return DONE


def _files_of_models(options: argparse.Namespace) -> dict[str, list[str]]:
    """Return the names of each model's three files.

    Raises
    ------
    InputError
        If the files of one model and of several are mixed, or some are missing.
    """
    single = {"a": options.a, "b": options.b, "--validation": options.validation}
    needed = {**({} if options.model else single), "--labels": options.labels}
    missing = [name for name, file in needed.items() if file is None]
    if missing:
        raise InputError(
            f"{', '.join(missing)}: expected a file, got none. Give --labels with a, b and "
            "--validation, or with --model NAME a b val for each of several models."
        )
    if not options.model:
        return {"the model": list(single.values())}
    extra = [f"{name} {file}" for name, file in single.items() if file is not None]
    if extra:
        raise InputError(
            f"--model: expected all files behind --model NAME a b val, got also {extra[0]}."
        )
    files = {name: of_model for name, *of_model in options.model}
    if len(files) < len(options.model):
        raise InputError(
            "--model: expected different names of models, got "
            f"{', '.join(name for name, *_ in options.model)}."
        )
    return files


def _read(
    files: dict[str, list[str]], options: argparse.Namespace
) -> tuple[dict[str, _Scores], NDArray[np.int64], list[str] | None]:
    """Return the scores of each model, the labels, and the names of the columns."""
    check_names([*(file for of_model in files.values() for file in of_model), options.labels])
    scores: dict[str, _Scores] = {}
    tables: list[Table] = []
    (first, *_) = files.values()
    for name, names in files.items():
        of_model = [read_table(file, options.header) for file in names]
        scores[name] = _checked(of_model, names, options.probabilities)
        tables = tables or of_model
        if names != first:
            _check_same_rows(scores[name], names, next(iter(scores.values())), first)
            for one, other, ours, theirs in zip(tables, of_model, first, names, strict=True):
                check_same_names(one, other, ours, theirs)
    columns = next((table.columns for table in tables if table.columns is not None), None)
    return scores, *label_columns(options.labels, tables[2], first[2], columns, "rows")


def _checked(tables: list[Table], names: list[str], probabilities: bool) -> _Scores:
    """Check the three files of a model, and return their scores."""
    with input_errors():
        a, b, val = (
            np.asarray(checked_scores(table, name, probabilities), dtype=np.float64)
            for table, name in zip(tables, names, strict=True)
        )
        check_same_shape(a.shape, b.shape, names[0], names[1])
    if val.shape[1] != a.shape[1]:
        raise InputError(
            f"{names[2]}: expected the {a.shape[1]} columns of {names[0]}, got {val.shape[1]} "
            "columns."
        )
    check_same_names(tables[0], tables[1], names[0], names[1])
    first = next((i for i, table in enumerate(tables) if table.columns is not None), 0)
    named = tables[first]._replace(ids=None)  # rows of a are not those of the validation
    check_same_names(named, tables[2], names[first], names[2])
    return _Scores(a, b, val)


def _check_same_rows(
    scores: _Scores, names: list[str], first: _Scores, first_names: list[str]
) -> None:
    """Check that two models scored as many rows, and the same classes."""
    with input_errors():
        check_same_shape(first.a.shape, scores.a.shape, first_names[0], names[0])
        check_same_shape(first.val.shape, scores.val.shape, first_names[2], names[2])
