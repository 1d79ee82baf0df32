"""What the command line prints: results as text and as JSON, warnings and errors."""

from __future__ import annotations

import io
import json
import math
import sys
from typing import TYPE_CHECKING, Any

from pa_select.utils.html import visible

if TYPE_CHECKING:
    from pa_select.agreement import PosteriorAgreement
    from pa_select.two_sites import ExpectedScore

#: Exit statuses.
DONE, FAILED, WRONG_INPUT, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141

# What the agreement with each prior is for.
_PURPOSES = {"marginal": "for ranking models", "uniform": "the papers' metric"}


def warn(message: str) -> None:
    """Write a warning to standard error, in one line."""
    print(f"pa-select: warning: {visible(_one_line(message))}", file=sys.stderr)


def complain(message: str, status: int) -> int:
    """Write an error to standard error, in one line, and return the exit status."""
    print(f"pa-select: error: {visible(_one_line(message))}", file=sys.stderr)
    return status


def print_result(text: str) -> None:
    """Print to standard output; class names may be in any script."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    print(visible(text))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def as_json(values: dict[str, Any]) -> str:
    """Return a JSON object.

    JSON has no infinity and no nan: they are written "Infinity" and null.
    """
    return json.dumps(_json_value(values), allow_nan=False, indent=2)


def _json_value(value: object) -> Any:
    if isinstance(value, dict):
        return {name: _json_value(part) for name, part in value.items()}
    if not isinstance(value, float) or math.isfinite(value):
        return value
    if math.isnan(value):
        return None
    return "Infinity" if value > 0 else "-Infinity"


def agreement_as_text(
    result: PosteriorAgreement,
    other: PosteriorAgreement,
    prior: str,
    columns: list[str] | None,
) -> str:
    """Return a few aligned lines; `other` has the other prior."""
    (other_prior,) = _PURPOSES.keys() - {prior}
    lines = [
        ("agreement", f"{_agreement(result)} ({prior} prior, {_PURPOSES[prior]})"),
        ("", f"{_agreement(other)} ({other_prior} prior, {_PURPOSES[other_prior]})"),
        ("certified", f"no inverse temperature gives more than {result.gap:.1g} nats above it"),
        ("beta", f"{result.beta:.4g}, {_reading(result.beta, prior)}"),
        ("same prediction", f"{result.agreement_rate:.2%} of {result.n_pairs} pairs"),
        ("classes", f"{result.n_classes}{_names(columns, ': {}')}"),
    ]
    return "\n".join(f"{name:<16}{value}" for name, value in lines)


def _agreement(result: PosteriorAgreement) -> str:
    most = math.log(result.n_classes)
    # Rounding is no error of the agreement.
    error = _plus_minus(round(result.standard_error, 12))
    return f"{result.score:.4f}{error} nats per pair, of at most {most:.4f}"


def _reading(beta: float, prior: str) -> str:
    """Describe an inverse temperature in words."""
    if beta == 0:
        return "nothing agrees better than uniform posteriors; the error is one-sided"
    if beta == math.inf:
        return "the more certain the posteriors the better; the error is one-sided"
    return f"the inverse temperature with the {prior} prior" + (
        "; below 1 the scores are over-confident" if beta < 1 else ""
    )


def expected_as_text(
    expected: ExpectedScore, n_labelled: int, n_classes: int, columns: list[str] | None
) -> str:
    """Return a few aligned lines about the expected accuracy at another site."""
    calibrates = "the inverse temperature that calibrates the posteriors"
    lines = [
        ("expected accuracy", f"{_expected(expected)} at the other site"),
        ("interval", f"{_interval(expected)}, also if the posteriors are not calibrated"),
        ("validation accuracy", f"{expected.validation_score:.4f} on {n_labelled} labelled rows"),
        ("disagreement", f"{expected.disagreement:.2%} of {expected.n_pairs} pairs"),
        ("beta", f"{expected.beta:.4g}, {calibrates}"),
        ("classes", f"{n_classes}{_names(columns, ': {}')}"),
    ]
    return "\n".join(f"{name:<20}{value}" for name, value in lines)


def models_as_text(
    expected: dict[str, ExpectedScore],
    alike: list[str],
    weights: dict[str, float],
    n_labelled: int,
    n_classes: int,
    columns: list[str] | None,
) -> str:
    """Return a table of the expected accuracies of several models, the best first.

    The models that are `alike` cannot be told from the best one. Without `weights` there is no
    column of them.
    """
    by_rank = sorted(expected, key=lambda x: (-expected[x].score, -expected[x].validation_score))
    ranked = [(_one_line(name), expected[name]) for name in by_rank]
    width = max(len("model"), *(len(name) for name, _ in ranked))
    line = f"{{:<{width}}}  {{:<17}}  {{:<16}}  {{:>10}}  {{:>12}}".format
    lines = [line("model", "expected accuracy", "interval", "validation", "disagreement")]
    for name, one in ranked:
        rate, disagreement = f"{one.validation_score:.4f}", f"{one.disagreement:.2%}"
        lines.append(line(name, _expected(one), _interval(one), rate, disagreement))
    if weights:
        last = ["weight", *(f"{weights[name]:.2f}" for name in by_rank)]
        lines = [f"{line}  {weight:>6}" for line, weight in zip(lines, last, strict=True)]
    n_pairs, classes = ranked[0][1].n_pairs, f"{n_classes} classes{_names(columns, ' ({})')}"
    lines += ["", f"{n_pairs} pairs, {n_labelled} labelled rows, {classes}"]
    shown = [_one_line(name) for name in by_rank if name in alike]
    if shown:
        listed = " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))
        lines.append(f"{listed} cannot be told from {ranked[0][0]}")
    return "\n".join(lines)


def _expected(expected: ExpectedScore) -> str:
    return f"{expected.score:.4f}{_plus_minus(expected.standard_error)}"


def _interval(expected: ExpectedScore) -> str:
    return f"{expected.low:.4f} to {expected.high:.4f}"


def _plus_minus(error: float) -> str:
    return "" if math.isnan(error) else f" +- {error:.2g}"


def _names(columns: list[str] | None, pattern: str) -> str:
    """Return the names of the first columns in a pattern, or nothing without names."""
    if not columns:
        return ""
    shown = ", ".join(map(_one_line, columns[:5])) + (", ..." if len(columns) > 5 else "")
    return pattern.format(shown)
