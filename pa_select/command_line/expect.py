"""The subcommand ``pa-select expect``: the accuracy at another site, from saved scores."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from pa_select.command_line import files, output
from pa_select.command_line.files import InputError

SUMMARY = "which of several models is best at another site, and its accuracy there"
DESCRIPTION = """\
Print the accuracy that a classifier is expected to have at another site (b), from objects
that were measured at both sites and labelled at neither, and from labelled rows of the
first site (a). The classifier was not fitted to any of these rows.

Of several models give --model NAME a b val for each, instead of a, b and --validation; the
rows are the same for all. The model with the highest expected accuracy comes first. The last
line names those that cannot be told from it: they are at most 1.96 standard errors of the
difference below it. The weights are the probabilities that a model is the best of all.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the subcommand ``expect``."""
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
        required=True,
        metavar="y",
        help="true classes of the validation rows, as column numbers from 0 or as names of "
        "classes",
    )


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


def run(options: argparse.Namespace, own_process: bool) -> None:
    """Run the subcommand."""
    models = files.read_scores(_files_of_models(options), options)
    (first_a, first_b, first_val), *_ = models.values()
    columns = files.column_names(models)
    labels, columns = files.read_labels(options.labels, first_val, columns, options.header)
    with quick_imports(own_process):
        from sklearn.metrics import accuracy_score, make_scorer

        from pa_select.scores.precomputed import RecordedClassifier
        from pa_select.two_sites.classification import Classification
        from pa_select.two_sites.paired_rows import FEW_PAIRS
        from pa_select.two_sites.trained import of_outputs

    n_pairs, n_classes = first_a.values.shape
    if n_pairs < FEW_PAIRS:
        output.warn(
            f"{first_a.name} and {first_b.name}: expected at least {FEW_PAIRS} pairs, got "
            f"{n_pairs}. The expected accuracy says little; look at its standard error and at "
            "its interval."
        )
    if all(np.array_equal(a.values, b.values) for a, b, _ in models.values()):
        output.warn(
            f"{first_b.name}: expected scores of other measurements, got those of {first_a.name}. "
            "If the objects were measured only once, the expected accuracy says nothing about b."
        )
    samples = list(zip(*models.values(), strict=True))
    of_a, of_b, of_val = (
        [
            RecordedClassifier(np.arange(n_classes), scores, scores.argmax(axis=1))
            for scores in (np.asarray(table.values, dtype=np.float64) for table in sample)
        ]
        for sample in samples
    )
    outputs, metric = [of_val, of_a, of_b], make_scorer(accuracy_score)
    found = of_outputs(Classification(), list(models), outputs, labels, metric)
    posterior = found.posterior() if len(models) > 1 else None
    expected = found.by_name
    for message in (
        *found.doubts_of_labels(first_val.name, options.labels),
        *found.doubts_of_scores([val.name for _, _, val in models.values()]),
    ):
        output.warn(message)
    weights: dict[str, float] = {}
    if posterior is not None:
        weights = dict(zip(expected, posterior.weights.tolist(), strict=True))
    sizes = len(labels), n_classes, columns
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


def _files_of_models(options: argparse.Namespace) -> dict[str, list[str]]:
    """Return the names of each model's three files."""
    single = [options.a, options.b, options.validation]
    if all(single) and not options.model:
        return {"the model": single}
    if not options.model or any(single):
        raise InputError(
            "expect: expected a, b and --validation of one model, or --model NAME a b val for "
            f"each of several, got {'both' if options.model else 'neither'}."
        )
    names = [name for name, *_ in options.model]
    if len(set(names)) < len(names):
        raise InputError(f"--model: expected different names of models, got {', '.join(names)}.")
    return {name: of_model for name, *of_model in options.model}
