"""Checked problems: one set of pairs, or many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from pa_select.agreement.inputs.validation import (
    CheckedPrior,
    as_floats,
    as_scores,
    as_tensor,
    check_frames,
    check_order,
    check_prior,
    check_scores,
    check_weight,
    indexed,
)
from pa_select.utils.arrays import check_same_shape, check_values, look_like_probabilities, n_axes
from pa_select.utils.messages import warn_caller
from pa_select.utils.typing import Floats, Prior, Scores, Weights


class Problem(NamedTuple):
    """The checked scores, weights and prior of one set of pairs."""

    #: (n_pairs, n_classes) scores of the first and of the second sample.
    a: torch.Tensor
    b: torch.Tensor
    #: (n_pairs,) weights of the pairs.
    weight: Floats
    prior: CheckedPrior = CheckedPrior()
    #: The pandas index of the rows, if the scores came with one.
    index: Any = None

    @property
    def n_classes(self) -> int:
        return int(self.a.shape[1])


def is_batch(scores: object) -> bool:
    """Whether scores hold many problems: three axes, or a list of matrices."""
    if isinstance(scores, (list, tuple)):
        return len(scores) > 0 and n_axes(scores[0]) >= 2
    return n_axes(scores) == 3


def check_problem(
    scores_a: Scores, scores_b: Scores, sample_weight: Weights | None, prior: Prior
) -> Problem:
    return check_one_problem(scores_a, scores_b, sample_weight, prior)[0]


def check_one_problem(
    scores_a: Scores,
    scores_b: Scores,
    sample_weight: Weights | None,
    prior: Prior,
    *,
    shard: bool = False,
    failures: dict[int, str] | None = None,
) -> dict[int, Problem]:
    """Check one problem, of number 0; see `check_problems`."""
    try:
        a, b = check_pair(scores_a, scores_b, shard=shard)
    except (TypeError, ValueError) as error:
        if failures is None:
            raise
        failures[0] = str(error)
        return {}
    rows = indexed(scores_a, scores_b)
    weight = check_weight(sample_weight, len(a), rows=rows, shard=shard)
    checked = _check_prior(prior, a.shape[1])
    return {0: Problem(a, b, weight, checked, getattr(rows, "index", None))}


def check_problems(
    scores_a: Any,
    scores_b: Any,
    sample_weight: Weights | None,
    prior: Prior,
    *,
    shard: bool = False,
    failures: dict[int, str] | None = None,
) -> dict[int, Problem]:
    """Check many problems; with `shard` they may have no rows.

    Returns them by number, without those whose scores are wrong. `failures` gets the error of
    these, by number; if it is None, the error is raised.
    """
    pairs = _check_pairs(scores_a, scores_b, shard=shard, failures=failures)
    rows: list[Any] = [None] * len(scores_a)
    # One array of many problems has no index.
    if isinstance(scores_a, (list, tuple)) or isinstance(scores_b, (list, tuple)):
        rows = list(map(indexed, scores_a, scores_b))
    counts = {i: len(a) for i, (a, _) in pairs.items()}
    weights = _check_weights(sample_weight, counts, rows, shard)
    priors = {k: _check_prior(prior, k) for k in {a.shape[1] for a, _ in pairs.values()}}
    return {
        i: Problem(a, b, weights[i], priors[a.shape[1]], getattr(rows[i], "index", None))
        for i, (a, b) in pairs.items()
    }


def _check_prior(prior: Prior, n_classes: int) -> CheckedPrior:
    """Check the prior of a problem; a shard without columns leaves its length to the others."""
    if not n_classes and not isinstance(prior, str):
        n_classes = as_floats(prior, "prior").size
    return check_prior(prior, n_classes)


def check_pair(
    scores_a: Scores, scores_b: Scores, suffix: str = "", *, shard: bool = False
) -> tuple[torch.Tensor, ...]:
    """Check both score matrices of one problem, which must have the same shape."""
    names = f"scores_a{suffix}", f"scores_b{suffix}"
    check_frames(scores_b, scores_a, names[1], names[0])
    a, b = (
        check_scores(scores, name, shard=shard)
        for scores, name in zip((scores_a, scores_b), names, strict=True)
    )
    check_same_shape(tuple(a.shape), tuple(b.shape), *names)
    return a, b


def _check_pairs(
    scores_a: Any, scores_b: Any, *, shard: bool, failures: dict[int, str] | None
) -> dict[int, tuple[torch.Tensor, ...]]:
    """Check the score matrices of many problems: two arrays (p, n, K), or two lists."""
    for name, scores, other in (("scores_a", scores_a, "b"), ("scores_b", scores_b, "a")):
        if not is_batch(scores):
            raise ValueError(
                f"{name}: expected many problems, like scores_{other}, got a single matrix."
            )
    lists = [isinstance(scores, (list, tuple)) for scores in (scores_a, scores_b)]
    scores_a = scores_a if lists[0] else as_scores(scores_a, "scores_a")
    scores_b = scores_b if lists[1] else as_scores(scores_b, "scores_b")
    if len(scores_a) != len(scores_b):
        raise ValueError(
            f"scores_b: expected as many problems as scores_a, {len(scores_a)}, got "
            f"{len(scores_b)}."
        )
    if shard or any(lists) or failures is not None:
        pairs = {}
        for i, (a, b) in enumerate(zip(scores_a, scores_b, strict=True)):
            try:
                pairs[i] = check_pair(a, b, f"[{i}]", shard=shard)
            except (TypeError, ValueError) as error:
                if failures is None:
                    raise
                failures[i] = str(error)
        return pairs
    a, b = _check_stack(scores_a, "scores_a"), _check_stack(scores_b, "scores_b")
    check_same_shape(tuple(a.shape), tuple(b.shape), "scores_a", "scores_b")
    return dict(enumerate(zip(a, b, strict=True)))


def _check_stack(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """Check the score matrices of many problems in one tensor (p, n, K)."""
    if tensor.ndim != 3 or 0 in tensor.shape or tensor.shape[2] < 2:
        raise ValueError(
            f"{name}: expected scores of shape (n_problems, n_pairs, n_classes) with at least "
            f"one problem, one pair and 2 classes, got shape {tuple(tensor.shape)}."
        )
    check_values(tensor.reshape(-1, tensor.shape[2]), name, tensor.shape[1])
    return tensor


def _check_weights(
    sample_weight: Any, counts: dict[int, int], rows: list[Any], shard: bool
) -> dict[int, Floats]:
    """Check the weights of many problems: None, one array for all, or one for each."""
    if sample_weight is None or not counts:
        return {i: check_weight(None, n) for i, n in counts.items()}
    if isinstance(sample_weight, (list, tuple)):
        one_for_each = any(w is None or n_axes(w) for w in sample_weight)
    else:
        one_for_each = n_axes(sample_weight) == 2
    if not one_for_each:
        if len(set(counts.values())) > 1:
            raise ValueError(
                "sample_weight: expected one array for each problem, since they have "
                "different numbers of pairs, got a single one."
            )
        for row in rows:
            check_order(sample_weight, row, "sample_weight")
        weight = check_weight(sample_weight, next(iter(counts.values())), shard=shard)
        return dict.fromkeys(counts, weight)
    if not isinstance(sample_weight, (list, tuple)):
        sample_weight = as_tensor(sample_weight, "sample_weight")
    if len(sample_weight) != len(rows):
        raise ValueError(
            f"sample_weight: expected one array for each of {len(rows)} problems, got "
            f"{len(sample_weight)}."
        )
    return {
        i: check_weight(sample_weight[i], n, f"sample_weight[{i}]", rows=rows[i], shard=shard)
        for i, n in counts.items()
    }


def warn_of_probabilities(problems: Sequence[Problem]) -> None:
    """Warn once if, in some problems, scores_a or scores_b look like probabilities."""
    marks = [[look_like_probabilities(x)[0] for x in problem[:2]] for problem in problems]
    names = [
        name
        for name, some in zip(("scores_a", "scores_b"), zip(*marks, strict=True), strict=False)
        if any(some)
    ]
    if not names:
        return
    where = ""
    if len(marks) > 1:
        where = f" in {sum(map(any, marks))} of {len(marks)} problems"
    warn_caller(
        f"{' and '.join(names)}: expected logits or log-probabilities, got rows of "
        f"non-negative numbers that sum to 1{where}. They look like probabilities, but are "
        "read as logits. Convert probabilities with pa_select.scores.log_probabilities."
    )
