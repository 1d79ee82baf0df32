"""The subcommand ``pa-select expect``: the accuracy at another site, from saved scores."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from pa_select.command_line import files, output
from pa_select.command_line.files import InputError, Table
from pa_select.utils.typing import Ints

_EXPECT = """\
Print the accuracy that a classifier is expected to have at another site (b), from objects
that were measured at both sites and labelled at neither, and from labelled rows of the
first site (a). The classifier was not fitted to any of these rows.
"""

_EXPECT_DETAILS = """\
several models:
  Give --model NAME a b val for each, instead of a, b and --validation. The rows are the same
  for all models. The most accurate models stand in for the labels of the pairs. The model with
  the highest expected accuracy comes first. The last line names those that cannot be told from
  it: they are at most 1.96 standard errors of the difference below it.

what is printed:
  expected accuracy    the validation accuracy and the change to expect: the mean posterior,
                       on the row of a, of the class predicted for the row of b, less that of
                       the class predicted for the row of a. The labels calibrate them.
                       With several models the validation accuracies are first shrunk.
  interval             95 %, also if the posteriors are not calibrated: the validation
                       accuracy minus and plus the disagreement, widened by the exact
                       intervals of both.
  validation accuracy  the accuracy on the labelled rows.
  disagreement         the share of pairs whose largest scores are in different classes.
  weight               how probable it is that the model is the best of several, as finely as
                       parts of the data agree on it. The weights sum to 1. They are for models
                       that predict together, not for choosing one.
  beta                 the inverse temperature that calibrates the posteriors.

examples:
  pa-select expect a.npy b.npy --validation val.npy --labels y.npy
  pa-select expect p.npz:a p.npz:b --validation p.npz:val --labels p.npz:y --probabilities
  pa-select expect --model svm a.npy b.npy val.npy --model forest a2.npy b2.npy val2.npy \\
      --labels y.npy
"""

# The end of the help of both subcommands.
_FILES_AND_RESULTS = """
files:
  Each file of scores holds a matrix with a row for each object and a column for each class:
  logits, log-probabilities or probabilities. The columns are in the same order in all files.
  Row i of a and row i of b are the same object.
  The formats are npy, npz, csv (also R's) and, with pandas and pyarrow, Parquet; the content
  decides, not the name. "-" is standard input. To choose one of several arrays in an npz
  file, write scores.npz:today, or -:today for standard input. The first line of a csv file
  may hold names of classes. A first column without a name, as R and pandas write it, holds
  names of rows, not a class; files that have such names must have the same.
  A csv of labels has one column, and may have a header and unnamed row names.
  Labels that are strings are names of classes. Columns without names have those of the first
  file that has names; if none has, they are the sorted labels.
  A forest predicts exact zeros without being certain: instead of its probabilities save
  log(max(p, 1 / (2 * n_trees))).

results:
  The result is printed to standard output, each warning and error to standard error in one
  line that names the file, or all models that it is about; rows and columns count from 0.
  Behind +- is one standard error, which assumes independent rows.

JSON:
  The fields are those of pa_select.PosteriorAgreement without the arrays, with the prior of
  --prior, and "decomposition" (score); or those of pa_select.ExpectedScore (expect), with
  --model an object for each name, in the order given, and of several its "weight". Infinity
  is written "Infinity", and missing values are null.

exit status:
  0 done, 1 the computation failed, 2 wrong usage or input, 130 interrupted, 141 the reader
  of the output has ended.
"""


def add_command(
    commands: Any, name: str, summary: str, description: str, details: str
) -> argparse.ArgumentParser:
    """Add a subcommand, with the options that say how files are read and results written."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=details + _FILES_AND_RESULTS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="all files hold probabilities (without this option: those of the models whose rows "
        "all sum to 1); values below 1e-8 are raised to it before the log",
    )
    parser.add_argument(
        "--header",
        action=argparse.BooleanOptionalAction,
        help="whether line 1 of the csv files of scores holds names (default: it does if it has "
        "no numbers)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def add_parser(commands: Any) -> None:
    """Add the subcommand ``expect``."""
    summary = "which of several models is best at another site, and its accuracy there"
    parser = add_command(commands, "expect", summary, _EXPECT, _EXPECT_DETAILS)
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
    parser.set_defaults(run=run)


@contextmanager
def quick_imports(own_process: bool) -> Iterator[None]:
    """Import without garbage collection in a process of its own.

    The imported objects live as long as the process. Searching them for garbage would take half
    as long again as the import.
    """
    if own_process:
        gc.disable()
    yield
    if own_process:
        gc.freeze()
        gc.enable()


def run(options: argparse.Namespace, own_process: bool) -> int:
    """Run the subcommand and return the exit status."""
    tables, labels, columns = _read(_files_of_models(options), options)
    with quick_imports(own_process):
        from sklearn.metrics import accuracy_score, make_scorer

        from pa_select.scores.precomputed import RecordedClassifier
        from pa_select.two_sites.classification import Classification
        from pa_select.two_sites.paired_rows import FEW_PAIRS, doubts_of_pairing
        from pa_select.two_sites.trained import doubts_of_labels, of_outputs

    (first_a, first_b, first_val), *_ = tables.values()
    n_pairs, n_classes = first_a.values.shape
    if n_pairs < FEW_PAIRS:
        output.warn(
            f"{first_a.name} and {first_b.name}: expected at least {FEW_PAIRS} pairs, got "
            f"{n_pairs}. The expected accuracy says little; look at its standard error and at "
            "its interval."
        )
    same = [(a.name, b.name) for a, b, _ in tables.values() if np.array_equal(a.values, b.values)]
    if same:
        names_a, names_b = map(files.listed, zip(*same, strict=True))
        output.warn(
            f"{names_b}: expected scores of other measurements, got those of {names_a}. If the "
            "objects were measured only once, the expected accuracy says nothing about b."
        )
    # All models together say most of which object a row is.
    all_a, all_b = (np.hstack([x[side].values for x in tables.values()]) for side in (0, 1))
    for message in doubts_of_pairing(all_a, all_b, first_a.name, first_b.name):
        output.warn(message)
    classes = np.arange(n_classes)
    of_a, of_b, of_val = (
        [
            RecordedClassifier(classes, table.values, table.values.argmax(axis=1))
            for table in of_models
        ]
        for of_models in zip(*tables.values(), strict=True)
    )
    outputs, metric = [of_val, of_a, of_b], make_scorer(accuracy_score)
    try:
        found = of_outputs(Classification(), list(tables), outputs, labels, metric)
        posterior = found.posterior() if len(tables) > 1 else None
    except RuntimeError as error:
        return output.complain(f"the computation failed: {error}", output.FAILED)
    expected = found.by_name
    for message in (
        *doubts_of_labels(expected, first_val.name, options.labels),
        *found.doubts_of_scores([val.name for _, _, val in tables.values()]),
    ):
        output.warn(message)
    sizes = len(labels), n_classes, columns
    weights: dict[str, float] = {}
    if posterior is not None:
        weights = dict(zip(expected, posterior.weights.tolist(), strict=True))
    (one, *_) = expected.values()
    if options.json:
        of_models = {name: of_model._asdict() for name, of_model in expected.items()}
        for name, weight in weights.items():
            of_models[name]["weight"] = weight
        output.print_result(output.as_json(of_models if options.model else one._asdict()))
    elif options.model:
        alike = found.not_told_from_best()
        output.print_result(output.models_as_text(expected, alike, weights, *sizes))
    else:
        output.print_result(output.expected_as_text(one, *sizes))
    return output.DONE


def _files_of_models(options: argparse.Namespace) -> dict[str, list[str]]:
    """Return the names of each model's three files.

    Raises `InputError` if the files of one model and of several are mixed, or some are missing.
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
    names = [name for name, *_ in options.model]
    if len(set(names)) < len(names):
        raise InputError(f"--model: expected different names of models, got {', '.join(names)}.")
    return {name: of_model for name, *of_model in options.model}


def _read(
    names: dict[str, list[str]], options: argparse.Namespace
) -> tuple[dict[str, list[Table]], Ints, list[str] | None]:
    """Return the scores of each model, the labels, and the names of the columns."""
    files.check_names(
        [*(name for of_model in names.values() for name in of_model), options.labels]
    )
    tables = {
        model: [x._replace(values=np.asarray(x.values, dtype=np.float64)) for x in of_model]
        for model, of_model in files.read_scores(names, options).items()
    }
    (first, *others) = tables.values()
    for of_model in others:
        for one, other in zip(first, of_model, strict=True):
            files.check_alike(one, other)
    columns = files.column_names([table for of_model in tables.values() for table in of_model])
    without = [model for model, read in tables.items() if files.column_names(read) is None]
    if columns and without:
        output.warn(
            f"{', '.join(without)}: expected columns with names, as other models have, got none; "
            f"taken to be in the same order, {files.quoted(columns)}."
        )
    return tables, *files.read_labels(options.labels, first[2], columns, "rows")
