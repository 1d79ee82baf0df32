"""The command ``pa-select``: its arguments, its errors, and ``pa-select score``."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from pa_select._version import __version__
from pa_select.command_line import expect, files, output
from pa_select.command_line.files import InputError
from pa_select.utils.arrays import check_tol

_SCORE = """\
Print the posterior agreement of two samples: how much a classifier's posteriors agree on
the same objects seen twice, in nats per pair, with its standard error. It measures
stability, not truth. Rank models by the agreement with the marginal prior.
"""

# Fields of a result that are as long as the data, or not numbers.
_LEFT_OUT = ("terms", "source", "failure", "path")

# The end of the help of both subcommands.
_FILES_AND_RESULTS = """
files:
  A row for each object and a column for each class, in the same order in all files: logits,
  log-probabilities or probabilities. Names of rows and columns, where files have them, must
  be the same. numpy reads .npy, and the arrays of .npz (scores.npz:today). pandas reads all
  others, as csv or .parquet: pip install "pa-select[command-line]". Line 1 of a csv file
  names the classes; a first column without a name names the rows.
  Labels that are numbers are column numbers, from 0; others are names of classes.

results:
  Warnings and errors are lines on standard error. Behind +- is one standard error, which
  assumes independent rows. JSON has the fields of pa_select.PosteriorAgreement without the
  arrays (score), or those of pa_select.two_sites.ExpectedScore (expect; with --model an object
  for each name, and of several its "weight"). Infinity is "Infinity", and missing values are null.

exit status:
  0 done, 1 the computation failed, 2 wrong usage or input, 130 interrupted, 141 the reader
  of the output has ended.
"""


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
            options.run(options, own_process=arguments is None)
        finally:
            sys.stdout.flush()
    except InputError as error:
        return output.complain(str(error), output.WRONG_INPUT)
    except RuntimeError as error:
        message = str(error).replace("tol, or for certify=False", "--tol")
        return output.complain(f"the computation failed: {message}", output.FAILED)
    except KeyboardInterrupt:
        return output.INTERRUPTED
    except BrokenPipeError:
        # The reader has closed the pipe. Flushing the rest at exit must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return output.BROKEN_PIPE
    return output.DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pa-select",
        description="Model selection by posterior agreement, from saved scores.",
        epilog="See pa-select score --help and pa-select expect --help for details.",
    )
    parser.add_argument("--version", action="version", version=f"pa-select {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    # The options that say how files are read and results written.
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--probabilities",
        action="store_true",
        help="all files hold probabilities (without this option: those of the models whose rows "
        "all sum to 1); values below 1e-8 are raised to it before the log",
    )
    shared.add_argument(
        "--header",
        action=argparse.BooleanOptionalAction,
        help="whether line 1 of csv files has names (default: it has, and numbers are an error)",
    )
    shared.add_argument("--json", action="store_true", help="print one JSON object")
    for name, run, summary, description in (
        ("score", _score, "how stable one model is", _SCORE),
        ("expect", expect.run, expect.SUMMARY, expect.DESCRIPTION),
    ):
        command = commands.add_parser(
            name,
            parents=[shared],
            help=summary,
            description=description,
            epilog=_FILES_AND_RESULTS,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.set_defaults(run=run)
        (_add_score_arguments if name == "score" else expect.add_arguments)(command)
    return parser


def _add_score_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", help="scores of the first sample")
    parser.add_argument("b", help="scores of the second sample, in the row order of the first")
    parser.add_argument(
        "--prior",
        choices=("uniform", "marginal"),
        default="marginal",
        help="marginal (default) is for ranking models: a constant classifier has agreement 0; "
        "uniform is the papers' metric. The text has both, and all else with this one",
    )
    parser.add_argument(
        "--tol",
        type=float,
        default=1e-6,
        metavar="nats",
        help="largest certified gap (default %(default)s)",
    )


def _score(options: argparse.Namespace, own_process: bool) -> None:
    # The input is checked before torch is imported, because the import takes seconds.
    with files.input_errors():
        check_tol(options.tol, "--tol")
    models = files.read_scores({"": [options.a, options.b]}, options)
    a, b = models[""]
    with expect.quick_imports(own_process):
        from pa_select.agreement.posterior_agreement import posterior_agreement
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = posterior_agreement(a.values, b.values, prior=options.prior, tol=options.tol)
    for warning in caught:
        message = str(warning.message).replace("scores_a", a.name).replace("scores_b", b.name)
        output.warn(message)
    if options.json:
        names = [one.name for one in fields(result) if one.name not in _LEFT_OUT]
        output.print_result(output.as_json({name: getattr(result, name) for name in names}))
        return
    other_prior: Any = "uniform" if options.prior == "marginal" else "marginal"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = posterior_agreement(a.values, b.values, prior=other_prior, certify=False)
    columns = files.column_names(models)
    output.print_result(output.agreement_as_text(result, other, options.prior, columns))
