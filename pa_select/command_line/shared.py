"""What the subcommands share: checks of what was read, messages, and imports."""

from __future__ import annotations

import gc
import io
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pa_select.command_line.reading import InputError, Table
from pa_select.scores.probabilities import scores_of_probabilities
from pa_select.utils.score_checks import (
    DEFAULT_CLIP,
    check_shape,
    check_values,
    look_like_probabilities,
)

# Control characters but the line feed, and marks that turn the direction of a text.
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
#: Exit statuses.
DONE, FAILED, WRONG_INPUT, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141


def check_names(names: Sequence[str]) -> None:
    """Check that standard input is named once at most.

    Raises
    ------
    InputError
        If it is not.
    """
    if sum(name == "-" or name.startswith("-:") for name in names) > 1:
        raise InputError("-: expected once, since standard input can be read only once.")


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


def printable(text: str) -> str:
    """Return a text whose control characters, which a terminal would obey, are escaped."""
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def print_result(text: str) -> None:
    """Print to standard output; class names may be in any script."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    print(printable(text))


@contextmanager
def input_errors() -> Iterator[None]:
    """Turn an error that a check raises into an `InputError`."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise InputError(str(error)) from error


def checked_scores(table: Table, name: str, probabilities: bool) -> NDArray[Any]:
    """Return the scores in a table, or convert its probabilities to scores."""
    values = table.values
    check_shape(values, name)
    if probabilities:
        # As a scalar, the clip would be rounded to 0 in half precision.
        raised = np.count_nonzero(values < np.array([DEFAULT_CLIP]))
        values = scores_of_probabilities(values, name, DEFAULT_CLIP)
        if raised:
            warn(f"{name}: {raised} probabilities below {DEFAULT_CLIP:g} are raised to it.")
        return values
    check_values(values, name)
    if look_like_probabilities(values)[0]:
        warn(
            f"{name}: all rows are non-negative and sum to 1, but are read as logits; if they "
            "are probabilities, use --probabilities."
        )
    return values


def warn(message: str) -> None:
    """Write a warning to standard error."""
    print(printable(f"pa-select: warning: {message}"), file=sys.stderr)


def complain(message: str, status: int) -> int:
    """Write an error to standard error, in one line, and return the exit status."""
    print(printable(f"pa-select: error: {' '.join(message.split())}"), file=sys.stderr)
    return status
