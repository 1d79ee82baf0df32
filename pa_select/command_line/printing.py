"""Results as text and as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pa_select.agreement import Part, PosteriorAgreement
    from pa_select.unlabelled import ExpectedScore

# Fields that are as long as the data, or not numbers.
_LEFT_OUT = ("terms", "source", "failure")


def as_json(result: PosteriorAgreement, parts: dict[str, Part]) -> str:
    """Return a JSON object with the result's fields, and its parts in "decomposition".

    JSON has no infinity and no nan: they are written "Infinity" and null.
    """
    found = {f.name: getattr(result, f.name) for f in fields(result) if f.name not in _LEFT_OUT}
    found["decomposition"] = {name: part._asdict() for name, part in parts.items()}
    return json_of(found)


def json_of(fields: dict[str, Any]) -> str:
    """Return a JSON object with these fields; see `as_json`."""
    return json.dumps(_json_value(fields), allow_nan=False, indent=2)


def expected_as_text(
    found: ExpectedScore, n_labelled: int, n_classes: int, columns: list[str] | None
) -> str:
    """Return a few aligned lines about the accuracy that is expected at another site."""
    error = "" if math.isnan(found.standard_error) else f" +- {found.standard_error:.2g}"
    calibrates = "the inverse temperature that calibrates the posteriors"
    interval = f"{found.low:.4f} to {found.high:.4f}"
    lines = [
        ("expected accuracy", f"{found.score:.4f}{error} at the other site"),
        ("interval", f"{interval}, also if the posteriors are not calibrated"),
        ("validation accuracy", f"{found.validation_score:.4f} on {n_labelled} labelled rows"),
        ("disagreement", f"{found.disagreement:.2%} of {found.n_pairs} pairs"),
        ("beta", f"{found.beta:.4g}, {calibrates}"),
        ("classes", str(n_classes) + (f": {_names(columns)}" if columns else "")),
    ]
    return "\n".join(f"{name:<20}{value}" for name, value in lines)


def models_as_text(
    found: dict[str, ExpectedScore], n_labelled: int, n_classes: int, columns: list[str] | None
) -> str:
    """Return a table of the accuracies that are expected of several models, the best first."""
    ranked = sorted(found.items(), key=lambda item: (-item[1].score, -item[1].validation_score))
    width = max(len("model"), *map(len, found))
    lines = [
        f"{'model':<{width}}  {'expected accuracy':<17}  {'interval':<16}  {'validation':>10}"
        "  disagreement"
    ]
    for name, one in ranked:
        error = "" if math.isnan(one.standard_error) else f" +- {one.standard_error:.2g}"
        lines.append(
            f"{name:<{width}}  {f'{one.score:.4f}{error}':<17}  "
            f"{f'{one.low:.4f} to {one.high:.4f}':<16}  {one.validation_score:>10.4f}  "
            f"{one.disagreement:>12.2%}"
        )
    n_pairs = ranked[0][1].n_pairs
    classes = str(n_classes) + (f" ({_names(columns)})" if columns else "")
    lines.append(f"\n{n_pairs} pairs, {n_labelled} labelled rows, {classes} classes")
    return "\n".join(lines)


def _json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _json_value(part) for name, part in value.items()}
    if not isinstance(value, float) or math.isfinite(value):
        return value
    if math.isnan(value):
        return None
    return "Infinity" if value > 0 else "-Infinity"


# What the agreement with each prior is for.
_PURPOSES = {"marginal": "for ranking models", "uniform": "the papers' metric"}


def as_text(
    result: PosteriorAgreement,
    other: PosteriorAgreement,
    parts: dict[str, Part],
    prior: str,
    columns: list[str] | None,
) -> str:
    """Return a few aligned lines and a table of the parts; `other` has the other prior."""
    (other_prior,) = _PURPOSES.keys() - {prior}
    lines = [
        ("agreement", f"{_score(result)} ({prior} prior, {_PURPOSES[prior]})"),
        ("", f"{_score(other)} ({other_prior} prior, {_PURPOSES[other_prior]})"),
        ("certified", f"no inverse temperature gives more than {result.gap:.1g} nats above it"),
        ("beta", f"{result.beta:.4g}, {_reading(result.beta)}"),
        ("same prediction", f"{result.agreement_rate:.2%} of {result.n_pairs} pairs"),
        ("classes", str(result.n_classes) + (f": {_names(columns)}" if columns else "")),
    ]
    text = [f"{name:<16}{value}" for name, value in lines]
    width = max(map(len, parts))
    text += ["", f"{'part':<{width}}  {'pairs':>8}  {'nats':>12}  {'share':>7}"]
    for name, part in parts.items():
        share = "" if math.isnan(part.share) else f"{part.share:.1%}"
        text.append(
            f"{name:<{width}}  {part.n_pairs:>8}  {part.total:>12.4f}  {share:>7}".rstrip()
        )
    return "\n".join(text)


def _score(result: PosteriorAgreement) -> str:
    error = result.standard_error
    reach = "" if math.isnan(error) else f" +- {round(error, 12):.2g}"
    most = math.log(result.n_classes)
    return f"{result.score:.4f}{reach} nats per pair, of at most {most:.4f}"


def _reading(beta: float) -> str:
    """Describe an inverse temperature in words."""
    if beta == 0:
        return "nothing agrees better than uniform posteriors; the error is one-sided"
    if beta == math.inf:
        return "the more certain the posteriors the better; the error is one-sided"
    return "the inverse temperature" + (
        "; below 1 the scores are over-confident" if beta < 1 else ""
    )


def _names(columns: list[str]) -> str:
    shown = [" ".join(column.split()) for column in columns[:5]]
    return ", ".join(shown) + (", ..." if len(columns) > 5 else "")
