"""The command ``pa-select``: its arguments, its errors, and ``pa-select score``."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from pa_select._version import __version__
from pa_select.command_line import expect
from pa_select.command_line.labels import label_columns
from pa_select.command_line.reading import InputError, check_same_names, read_table
from pa_select.command_line.shared import (
    BROKEN_PIPE,
    DONE,
    FAILED,
    INTERRUPTED,
    WRONG_INPUT,
    check_names,
    checked_scores,
    complain,
    input_errors,
    print_result,
    printable,
    quick_imports,
    warn,
)
from pa_select.utils.score_checks import check_same_shape, check_tol

_SCORE = """\
Print the posterior agreement of two samples: how much a classifier's posteriors agree on
the same objects seen twice, in nats per pair, with its standard error and the contributions
of pairs with equal and with different predictions.
"""

_SCORE_DETAILS = """\
files:
  Each file holds a matrix with a row for each pair and a column for each class, in the
  same order in both: logits, log-probabilities, or (with --probabilities) probabilities.
  The formats are npy, npz, csv and (with pandas and pyarrow) Parquet; the content decides,
  not the name. "-" is standard input. To choose one of several arrays in an npz file,
  write scores.npz:today. The first line of a csv file may hold names of classes. A first
  column without a name, as pandas writes it, holds names of rows, not a class.
  Labels that are strings are names of classes. If the columns have no names, the sorted
  labels are the names of the columns.

reading the result:
  agreement        0: no better than uniform posteriors. log(classes): all pairs agree.
                   It measures stability, not truth. Rank models by the agreement with
                   the marginal prior, with which a constant classifier has 0.
  beta             the inverse temperature at which the posteriors agree best.
  same prediction  the share of pairs whose largest scores are in the same class.
  nats             the contribution of a part's pairs to the sum over all pairs;
                   disagreeing pairs lower the sum.

JSON:
  The fields are those of pa_select.PosteriorAgreement without the arrays, and
  "decomposition", with the prior of --prior. Infinity is written "Infinity", and missing
  values are null.

exit status:
  0 done, 1 the computation failed, 2 wrong usage or input, 130 interrupted.

examples:
  pa-select score today.npy tomorrow.npy
  pa-select score scores.npz:today scores.npz:tomorrow --labels scores.npz:y
  pa-select score site_a.csv site_b.csv --probabilities --json
  make_scores | pa-select score today.npy -
"""


class _Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_INPUT, printable(f"pa-select: error: {message} (see --help)") + "\n")

    def _parse_optional(self, arg_string: str) -> Any:
        # An array of standard input, -:name, is a file and no option.
        return None if arg_string.startswith("-:") else super()._parse_optional(arg_string)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status.

    Parameters
    ----------
    arguments : sequence of str, default=None
        The arguments after the command's name. None: those of the process.
    """
    try:
        try:
            options = _parser().parse_args(arguments)
            return int(options.run(options, own_process=arguments is None))
        finally:
            sys.stdout.flush()
    except InputError as error:
        return complain(str(error), WRONG_INPUT)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has closed the pipe. Flushing the rest at exit must not fail again.
        _discard_output()
        return BROKEN_PIPE
    except OSError as error:
        _discard_output()
        return complain(str(error), FAILED)


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="pa-select",
        description="Model selection by posterior agreement, from saved scores.",
        epilog="See pa-select score --help and pa-select expect --help for details.",
    )
    parser.add_argument("--version", action="version", version=f"pa-select {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    score = commands.add_parser(
        "score",
        help="the agreement of two saved score matrices",
        description=_SCORE,
        epilog=_SCORE_DETAILS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    score.add_argument("a", help="scores of the first sample")
    score.add_argument("b", help="scores of the second sample, in the row order of the first")
    score.add_argument(
        "--labels",
        metavar="y",
        help="true classes, as column numbers from 0 or as names of classes; agreeing pairs are "
        "then split into those that are right and those that are wrong in the first sample",
    )
    score.add_argument(
        "--prior",
        choices=("uniform", "marginal"),
        default="marginal",
        help="marginal (default) is for ranking models: a constant classifier has agreement 0; "
        "uniform is the papers' metric. The text has both, and all else with this one",
    )
    score.add_argument(
        "--tol",
        type=float,
        metavar="nats",
        help="largest certified gap (default 1e-5, with the uniform prior 1e-6)",
    )
    expect.add_options_of_files(score)
    score.set_defaults(run=_score)
    expect.add_parser(commands)
    return parser


def _score(options: argparse.Namespace, own_process: bool) -> int:
    names = [options.a, options.b] + ([] if options.labels is None else [options.labels])
    check_names(names)
    # The input is checked before torch is imported, because the import takes seconds.
    tables = [read_table(name, options.header) for name in names[:2]]
    with input_errors():
        check_tol(options.tol, 1e-6, "--tol")
        values = [
            checked_scores(table, name, options.probabilities)
            for table, name in zip(tables, names, strict=False)
        ]
        check_same_shape(values[0].shape, values[1].shape, names[0], names[1])
    check_same_names(tables[0], tables[1], names[0], names[1])
    columns, labels = tables[0].columns or tables[1].columns, None
    if options.labels is not None:
        labels, columns = label_columns(options.labels, tables[0], names[0], columns)

    agreements, share_of_one_class = _import_agreement(own_process)
    from pa_select.command_line.printing import as_json, as_text

    try:
        result = agreements(values[0], values[1], prior=options.prior, tol=options.tol)
        other: Any = None
        if not options.json:
            other_prior = "uniform" if options.prior == "marginal" else "marginal"
            other = agreements(*values, prior=other_prior, certify=False)
    except (RuntimeError, MemoryError) as error:
        message = str(error).replace("tol, or for certify=False", "--tol") or "out of memory"
        return complain(f"the computation failed: {message}", FAILED)
    share = share_of_one_class(result.source) if options.prior == "uniform" else None
    if share is not None:
        warn(
            f"{names[0]} and {names[1]}: {math.floor(100 * share)} % of the predictions are of "
            "one class. With the uniform prior a classifier that always predicts the same class "
            "has the highest possible score; rank models by the marginal one."
        )
    parts = result.decompose(labels)
    text = as_json(result, parts) if options.json else None
    print_result(text or as_text(result, other, parts, options.prior, columns))
    return DONE


def _import_agreement(own_process: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Import the functions that need torch."""
    with quick_imports(own_process):
        from pa_select.agreement.inputs.suspicious_scores import share_of_one_class
        from pa_select.agreement.posterior_agreement import agreements
    return agreements, share_of_one_class
