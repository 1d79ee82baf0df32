"""The command ``pa-select``: its arguments, its errors, and ``pa-select score``."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from pa_select._version import __version__
from pa_select.command_line import expect, files, output
from pa_select.command_line.files import InputError
from pa_select.utils.arrays import check_tol

_SCORE = """\
Print the posterior agreement of two samples: how much a classifier's posteriors agree on
the same objects seen twice, in nats per pair, with its standard error and the contributions
of pairs with equal and with different predictions.
"""

_SCORE_DETAILS = """\
what is printed:
  agreement        0: no better than uniform posteriors. log(classes): all pairs agree.
                   It measures stability, not truth. Rank models by the agreement with
                   the marginal prior, with which a constant classifier has 0.
  beta             the inverse temperature at which the posteriors agree best.
  same prediction  the share of pairs whose largest scores are in the same class.
  nats             the contribution of a part's pairs to the sum over all pairs;
                   disagreeing pairs lower the sum.

examples:
  pa-select score today.npy tomorrow.npy
  pa-select score scores.npz:today scores.npz:tomorrow --labels scores.npz:y
  pa-select score site_a.csv site_b.csv --probabilities --json
  make_scores | pa-select score today.npy -
"""


class _Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line."""

    def error(self, message: str) -> NoReturn:
        message = message.replace(
            "argument --model: expected 4 arguments",
            "--model: expected NAME a b val for each model, got fewer",
        )
        self.exit(output.complain(f"{message} (see --help)", output.WRONG_INPUT))

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
            parser = _parser()
            options, unknown = parser.parse_known_args(arguments)
            if unknown:
                parser.error(f"unrecognized arguments: {' '.join(unknown)}{_advice(options)}")
            return int(options.run(options, own_process=arguments is None))
        finally:
            if sys.stdout is not None:  # None: it was closed before the command began
                sys.stdout.flush()
    except InputError as error:
        return output.complain(str(error), output.WRONG_INPUT)
    except KeyboardInterrupt:
        return output.INTERRUPTED
    except BrokenPipeError:
        # The reader has closed the pipe. Flushing the rest at exit must not fail again.
        _discard_output()
        return output.BROKEN_PIPE
    except OSError as error:
        _discard_output()
        return output.complain(str(error), output.FAILED)
    except MemoryError:
        return output.complain("the computation failed: out of memory", output.FAILED)


def _advice(options: argparse.Namespace) -> str:
    """Say what may be missing before arguments that are too many."""
    if options.command == "expect" and options.model:
        return "; write --model before each model's name"
    if options.command == "expect" and options.validation is None:
        return "; write --validation before the third file"
    return ""


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
    score = expect.add_command(
        commands, "score", "how stable one model is", _SCORE, _SCORE_DETAILS
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
        default=1e-6,
        metavar="nats",
        help="largest certified gap (default %(default)s)",
    )
    score.set_defaults(run=_score)
    expect.add_parser(commands)
    return parser


def _score(options: argparse.Namespace, own_process: bool) -> int:
    files.check_names([options.a, options.b, options.labels or ""])
    # The input is checked before torch is imported, because the import takes seconds.
    with files.input_errors():
        check_tol(options.tol, "--tol")
    (a, b) = files.read_scores({"": [options.a, options.b]}, options)[""]
    columns, labels = files.column_names([a, b]), None
    if options.labels is not None:
        labels, columns = files.read_labels(options.labels, a, columns)

    agreements = _import_agreement(own_process)
    try:
        result = agreements(a.values, b.values, prior=options.prior, tol=options.tol)
        other: Any = None
        if not options.json:
            other_prior = "uniform" if options.prior == "marginal" else "marginal"
            other = agreements(a.values, b.values, prior=other_prior, certify=False)
    except RuntimeError as error:
        message = str(error).replace("tol, or for certify=False", "--tol")
        return output.complain(f"the computation failed: {message}", output.FAILED)
    parts = _parts(result, labels)
    if options.json:
        output.print_result(output.agreement_as_json(result, parts))
    else:
        output.print_result(output.agreement_as_text(result, other, parts, options.prior, columns))
    return output.DONE


def _parts(result: Any, labels: Any) -> dict[str, output.Part]:
    """Split the sum of the terms by whether pairs agree and, with labels, are right."""
    first, second = (x.argmax(1).cpu().numpy() for x in (result.source.a, result.source.b))
    agree = first == second
    groups = {"agree": agree}
    if labels is not None:
        groups = {
            "agree_right": agree & (first == labels),
            "agree_wrong": agree & (first != labels),
        }
    total = float(result.terms.sum())
    return {
        name: output.Part(
            int(group.sum()),
            part := float(result.terms[group].sum()),
            part / total if total else math.nan,
        )
        for name, group in (groups | {"disagree": ~agree}).items()
    }


def _import_agreement(own_process: bool) -> Callable[..., Any]:
    """Import what needs torch."""
    with expect.quick_imports(own_process):
        from pa_select.agreement.posterior_agreement import agreements
    return agreements
