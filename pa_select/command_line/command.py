"""The command ``pa-select``: its arguments, its errors, and what it does."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from pa_select import __version__
from pa_select.command_line.probabilities import log_probabilities, look_like_probabilities
from pa_select.command_line.reading import InputError, Table, read_table

_DONE, _FAILED, _WRONG_INPUT, _INTERRUPTED, _BROKEN_PIPE = 0, 1, 2, 130, 141

_SCORE = """\
Print the posterior agreement of two samples: how much a classifier's posteriors agree on
the same things seen twice, in nats per pair, with its standard error and what pairs with
the same and with different predictions contribute.
"""

_SCORE_DETAILS = """\
files:
  Both hold a matrix with a row for each pair and a column for each class, rows and
  columns in the same order: logits or log-probabilities, or with --probabilities
  probabilities. They are npy, npz, csv or (if pyarrow is installed) Parquet, told apart
  by their content. "-" is standard input. Of several arrays in an npz file one is named:
  scores.npz:today. A csv file may have names of classes in its first line; a first column
  without a name, as pandas writes it, holds names of rows and is no class.

reading the result:
  agreement        0: no better than uniform posteriors. log(classes): all pairs agree.
                   It measures stability, not truth.
  beta             the inverse temperature at which the posteriors agree best.
  same prediction  the share of pairs whose largest scores are of the same class.
  nats             what a part's pairs add to the sum of all; disagreeing pairs lower it.

JSON:
  Fields are those of pa_select.PosteriorAgreement, but for the arrays of pairs, and
  "decomposition". Infinity is "Infinity", what has no value is null.

exit status:
  0 done, 1 the computation failed, 2 wrong usage or input, 130 interrupted.

examples:
  pa-select score today.npy tomorrow.npy
  pa-select score scores.npz:today scores.npz:tomorrow --labels scores.npz:y
  pa-select score site_a.csv site_b.csv --probabilities --prior marginal --json
  make_scores | pa-select score today.npy -
"""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(_WRONG_INPUT, f"pa-select: error: {message} (--help tells more)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status.

    Parameters
    ----------
    arguments : sequence of str, default=None
        What follows the command's name. None: those of the process.
    """
    try:
        try:
            return _run(_parser().parse_args(arguments))
        finally:
            sys.stdout.flush()
    except InputError as error:
        return _complain(str(error), _WRONG_INPUT)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # Nobody reads on; what is left in the buffer must not complain when Python ends.
        _discard_output()
        return _BROKEN_PIPE
    except OSError as error:
        _discard_output()
        return _complain(str(error), _FAILED)


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="pa-select",
        description="Model selection by posterior agreement, from saved scores.",
        epilog="pa-select score --help tells all.",
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
    score.add_argument("b", help="scores of the second sample, row by row of the same things")
    score.add_argument(
        "--labels",
        metavar="y",
        help="true classes as numbers of columns, from 0: agreeing pairs are then split into "
        "those that are right and wrong in the first sample",
    )
    score.add_argument(
        "--probabilities",
        action="store_true",
        help="the files hold probabilities; their logs are taken, of at least 1e-8",
    )
    score.add_argument(
        "--prior",
        choices=("uniform", "marginal"),
        default="uniform",
        help="uniform (default) is the papers' metric; marginal gives a constant classifier 0: "
        "take it to choose among models",
    )
    score.add_argument(
        "--tol",
        type=float,
        metavar="nats",
        help="largest certified gap (default 1e-6, with the marginal prior 1e-5)",
    )
    score.add_argument(
        "--header",
        action=argparse.BooleanOptionalAction,
        help="line 1 of the csv files of scores holds names, or a row (default: names if it has "
        "no numbers)",
    )
    score.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _run(options: argparse.Namespace) -> int:
    names = [options.a, options.b] + ([] if options.labels is None else [options.labels])
    if sum(name == "-" or name.startswith("-:") for name in names) > 1:
        raise InputError("-: expected once, since standard input can be read only once.")
    tables = [read_table(name, options.header) for name in names[:2]]
    values = [_scores(t, name, options) for t, name in zip(tables, names, strict=False)]
    _check_same_names(tables[0], tables[1], names[0], names[1])
    labels = None
    if options.labels is not None:
        table = read_table(options.labels)
        _check_same_names(tables[0], table._replace(columns=None), names[0], options.labels)
        labels = _labels(table.values, options.labels, values[0].shape)

    # Imports torch: only for input that was read.
    from pa_select.agreement import posterior_agreement
    from pa_select.command_line.printing import as_json, as_text

    try:
        result = posterior_agreement(values[0], values[1], prior=options.prior, tol=options.tol)
    except (TypeError, ValueError) as error:
        said = {"scores_a": names[0], "scores_b": names[1], "tol": "--tol"}
        if not re.match(rf"({'|'.join(said)})\b", str(error)):
            raise
        message = re.sub(rf"\b({'|'.join(said)})\b", lambda found: said[found[0]], str(error))
        raise InputError(message) from error
    except (RuntimeError, MemoryError) as error:
        message = str(error).replace("tol, or for certify=False", "--tol") or "out of memory"
        return _complain(f"the computation failed: {message}", _FAILED)
    parts = result.decompose(labels)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of classes in any script
    if options.json:
        print(as_json(result, parts))
    else:
        print(as_text(result, parts, options.prior, tables[0].columns))
    return _DONE


def _scores(table: Table, name: str, options: argparse.Namespace) -> NDArray[Any]:
    """The scores in a file, or made of its probabilities."""
    values = table.values
    if values.dtype.kind not in "biuf":
        raise InputError(f"{name}: expected real numbers, got dtype {values.dtype}.")
    if values.ndim != 2:
        raise InputError(
            f"{name}: expected a matrix of shape (n_pairs, n_classes), got shape {values.shape}."
        )
    if options.probabilities:
        from pa_select.scores.class_scores import DEFAULT_CLIP

        values, raised = log_probabilities(values, name, DEFAULT_CLIP)
        if raised:
            _warn(f"{name}: {raised} probabilities below {DEFAULT_CLIP:g} are taken as that.")
    elif look_like_probabilities(values):
        _warn(
            f"{name}: all rows are non-negative and sum to 1, but are read as logits; if they "
            "are probabilities, say --probabilities."
        )
    return values


def _check_same_names(one: Table, other: Table, first: str, second: str) -> None:
    """Names of rows and columns, where both files have them, are in the same order."""
    # Rows of different things may be paired by intent, the same ones in another order not.
    ids = {repr(i) for i in one.ids or ()}
    permuted = ids == {repr(i) for i in other.ids or ()} and len(ids) == len(other.ids or ())
    for what, wanted, got in (
        ("column", one.columns, other.columns),
        ("row", one.ids if permuted else None, other.ids),
    ):
        if wanted is None or got is None or len(wanted) != len(got):
            continue
        for number, (a, b) in enumerate(zip(wanted, got, strict=True)):
            if a != b:
                raise InputError(
                    f"{second}: expected the {what}s of {first} in the same order, got {b!r} "
                    f"instead of {a!r} as {what} {number}."
                )


def _labels(values: NDArray[Any], name: str, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Numbers of columns, one for each row of scores of this shape."""
    n, n_classes = shape
    labels = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if labels.shape != (n,):
        raise InputError(
            f"{name}: expected one label for each of {n} pairs, got shape {values.shape}."
        )
    wanted = f"{name}: expected numbers of columns, 0 to {n_classes - 1}, got"
    if labels.dtype.kind not in "iuf":
        raise InputError(f"{wanted} dtype {labels.dtype}.")
    wrong = ~((labels >= 0) & (labels < n_classes) & (labels == np.floor(labels)))
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(f"{wanted} {labels[row]} in row {row}.")
    return labels.astype(np.int64)


def _warn(message: str) -> None:
    print(f"pa-select: warning: {message}", file=sys.stderr)


def _complain(message: str, status: int) -> int:
    print(f"pa-select: error: {' '.join(message.split())}", file=sys.stderr)
    return status
