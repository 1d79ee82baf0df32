"""Warnings of scores that look like probabilities, and of constant predictions."""

import warnings

import numpy as np
import pytest
import torch

from pa_select import (
    agreement_matrix,
    agreement_of_chunks,
    log_probabilities,
    pa_kernel,
    posterior_agreement,
)
from pa_select.agreement.posterior_agreement import agreements
from pa_select.command_line.command import main
from pa_select.utils.arrays import look_like_probabilities

RNG = np.random.default_rng(0)
A = RNG.normal(size=(60, 3))
B = A + RNG.normal(size=(60, 3))
P, Q = (np.exp(x) / np.exp(x).sum(axis=1, keepdims=True) for x in (A, B))
DECISIONS = np.eye(3)[A.argmax(axis=1)]


def said(call, *arguments, **keywords):
    """The texts of the warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*arguments, **keywords)
    assert all(w.category is UserWarning and w.filename == __file__ for w in caught)
    return [str(w.message) for w in caught]


def test_probabilities_are_noticed():
    (text,) = said(posterior_agreement, P, Q)
    assert text == (
        "scores_a and scores_b: expected logits or log-probabilities, got rows of non-negative "
        "numbers that sum to 1. They look like probabilities, but are read as logits. Convert "
        "probabilities with pa_select.log_probabilities."
    )


@pytest.mark.parametrize(
    "convert",
    [
        lambda p: p.astype(np.float16),
        lambda p: np.round(p, 4),
        lambda p: p.tolist(),
        lambda p: torch.tensor(p),
        lambda p: torch.tensor(p, dtype=torch.float32),
        lambda p: torch.tensor(p, dtype=torch.float16),
    ],
)
def test_probabilities_of_every_type_are_noticed(convert):
    (text,) = said(posterior_agreement, convert(P), convert(Q), prior="marginal")
    assert text.startswith("scores_a and scores_b: expected logits")


def with_row(wrong):
    """Probabilities, but for one row."""
    return np.concatenate([P[:40], [wrong], P[41:]])


BOTH, LOGS = "scores_a and scores_b", log_probabilities(Q)


@pytest.mark.parametrize(
    ("a", "b", "named"),
    [
        (P, Q, BOTH),
        (A, B, None),
        (log_probabilities(P), LOGS, None),
        (P, LOGS, "scores_a"),
        (A, Q, "scores_b"),
        (DECISIONS, DECISIONS, None),
        (DECISIONS, B, None),
        (DECISIONS, Q, "scores_b"),
        (P, DECISIONS, "scores_a"),
        # One row that is not of probabilities tells logits.
        (with_row([0.5, 0.6, 0.0]), with_row([1.5, -0.5, 0.0]), None),
        (with_row([0.5, 0.6, 0.0]), Q, "scores_b"),
    ],
)
def test_the_sample_of_probabilities_is_named_whatever_reads_it(a, b, named):
    in_chunks = [[(a, b), (a, b)]]
    for call, given in ((posterior_agreement, [a, b]), (agreement_of_chunks, in_chunks)):
        texts = said(call, *given)
        assert [text.partition(": ")[0] for text in texts] == [named] * bool(named)
    assert len(said(pa_kernel, a, b, 1.0)) == bool(named)


def test_many_problems_are_told_of_once():
    (text,) = said(posterior_agreement, [A, P, Q, A], [B, Q, P, DECISIONS])
    assert "sum to 1 in 2 of 4 problems." in text
    (text,) = said(posterior_agreement, np.stack([P, Q]), np.stack([P, P]))
    assert "sum to 1 in 2 of 2 problems." in text


class Counted:
    """An array that knows how many of its rows were read."""

    def __init__(self, values):
        self.values, self.read = values, 0

    def __len__(self):
        return len(self.values)

    def __getitem__(self, rows):
        found = self.values[rows]
        self.read += len(found) if found.ndim == 2 else 1
        return found


def test_logits_are_told_apart_by_the_first_block():
    n = 300_000
    logits = Counted(RNG.normal(size=(n, 3)))
    assert look_like_probabilities(logits, logits) == [False, False]
    assert logits.read <= 10
    # Probabilities at first: no more is read than what tells them apart, block by block.
    late = np.tile(P, (n // len(P), 1))
    late[500] = 3
    counted = Counted(late)
    assert look_like_probabilities(counted) == [False]
    assert counted.read < 5000
    late[500] = P[0]
    assert look_like_probabilities(late, late) == [True, True]
    late[-1] = 3
    assert look_like_probabilities(late, late) == [False, False]


def constant(n, share, n_classes=3, rng=RNG):
    """Scores of which a share, in each of two samples, predict class 1."""
    scores = rng.normal(size=(n, n_classes))
    scores[:, 1] = -5
    scores[: round(n * share), 1] = 5
    rng.shuffle(scores)
    return scores


def test_a_constant_classifier_is_noticed_with_the_uniform_prior():
    scores = constant(100, 0.97)
    (text,) = said(posterior_agreement, scores, scores)
    assert text.startswith("scores_a and scores_b: 97 % of the predictions are of one class.")
    assert "Use prior='marginal'." in text
    for prior in ("marginal", [0.2, 0.5, 0.3]):
        assert said(posterior_agreement, scores, scores, prior=prior) == []
    assert said(agreements, scores, scores) == []
    assert agreements(scores, scores).score == pytest.approx(np.log(3))


@pytest.mark.parametrize(
    ("n", "share_a", "share_b", "noticed"),
    [
        (200, 0.95, 0.95, True),
        (200, 0.94, 0.94, False),
        (200, 1.0, 0.91, True),
        (200, 1.0, 0.88, False),
        (20, 1.0, 1.0, True),
        (19, 1.0, 1.0, False),  # few pairs are no sample
    ],
)
def test_the_share_is_that_of_both_samples(n, share_a, share_b, noticed):
    a, b = constant(n, share_a), constant(n, share_b)
    assert len(said(posterior_agreement, a, b)) == noticed
    # Pairs of weight 0 do not count, and of many problems those that are noticed are counted.
    more, weight = constant(30, 1), np.arange(n + 30) < n
    both = [np.concatenate([x, more]) for x in (a, b)]
    assert len(said(posterior_agreement, *both, sample_weight=weight)) == noticed
    many = said(posterior_agreement, [a, A, a], [b, B, b])
    assert ["in 2 of 3 problems." in text for text in many] == [True] * noticed


@pytest.mark.parametrize("row", [[0.0, 0.0, 0.0], [2.0, 2.0, 0.0]])
def test_classes_that_tie_are_not_one_class(row):
    assert said(posterior_agreement, *[np.tile(row, (50, 1))] * 2) == []


def test_predictions_weigh_what_their_pairs_do():
    scores = np.repeat([[0.0, 5, 0], [5, 0, 0]], [30, 30], axis=0)
    half = said(posterior_agreement, scores, scores)
    weighted = said(posterior_agreement, scores, scores, sample_weight=[99] * 30 + [1] * 30)
    assert (len(half), len(weighted)) == (0, 1)
    assert "99 %" in weighted[0]


@pytest.mark.parametrize(("share", "noticed"), [(0.955, True), (0.945, False), (0.5, False)])
def test_large_samples_are_counted_only_where_a_few_rows_do_not_tell(share, noticed, monkeypatch):
    from pa_select.agreement.inputs import suspicious_scores as notices

    counted = []

    def counting(a, b, weight, count=notices._largest_share):
        counted.append(len(a))
        return count(a, b, weight)

    monkeypatch.setattr(notices, "_largest_share", counting)
    scores = constant(100_000, share, rng=np.random.default_rng(1))
    assert len(said(posterior_agreement, scores, scores)) == noticed
    assert counted == ([] if share == 0.5 else [100_000])


def test_a_matrix_names_the_samples():
    (text,) = said(agreement_matrix, [P, DECISIONS, Q], prior="marginal")
    assert text.startswith("list_of_scores[0] and list_of_scores[2]: expected logits or log-prob")
    varied, certain = constant(60, 0.5), constant(60, 1)
    (text,) = said(agreement_matrix, [varied, certain, varied])
    assert text.startswith("list_of_scores[1]: at least 95 % of the predictions are of one class.")
    assert "Use prior='marginal'." in text
    assert said(agreement_matrix, [varied, certain], prior="marginal") == []
    assert said(agreement_matrix, [certain[:19]] * 2) == []


def top_five(n_disjoint, n=200, n_classes=20):
    """Pairs of the five largest log-probabilities, of which some share no class."""
    rng = np.random.default_rng(0)
    a = np.full((n, n_classes), -np.inf)
    for row in a:
        row[rng.permutation(n_classes)[:5]] = [4, 0, 0, -1, -1]
    b = a + 0.1
    for row in range(7, 7 + n_disjoint):
        b[row] = np.where(np.isneginf(a[row]), 0.0, -np.inf)
    return a, b


@pytest.mark.parametrize("prior", ["uniform", "marginal"])
@pytest.mark.parametrize("n_disjoint", [1, 3])
@pytest.mark.parametrize(("floor", "above"), [(-np.inf, ""), (-9999.0, " above"), (-200.0, "")])
def test_pairs_that_share_no_class_are_counted(prior, n_disjoint, floor, above):
    few, many = ([np.maximum(x, floor) for x in top_five(n)] for n in (n_disjoint, 0))
    share_none = f"got {n_disjoint} of 200 pairs that share none{above}.*, the first in row 7"
    with pytest.warns(UserWarning, match=share_none):
        found = posterior_agreement(*few, prior=prior)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # A high floor, and a weight of 0, leave the decision to the others.
        weight = np.arange(200) >= 7 + n_disjoint
        others = [posterior_agreement(*many, prior=prior)]
        others += [posterior_agreement(*few, prior=prior, sample_weight=weight)]
        others += [posterior_agreement(*(np.maximum(x, -6.0) for x in few), prior=prior)]
        # Decisions in any unit share no class where they differ.
        labels = np.random.default_rng(0).integers(0, 4, (2, 200))
        posterior_agreement(*(min(-floor, 1e9) * np.eye(4)[labels]), prior=prior)
    assert found.score < min(other.score for other in others) - 0.3


def test_a_matrix_counts_pairs_that_share_no_class():
    samples = [A, A + 0.1, A.copy()]
    samples[1][4], samples[2][4] = [0.0, -np.inf, -np.inf], [-np.inf, 0.0, 0.0]
    (text,) = said(agreement_matrix, samples)
    assert text.startswith("list_of_scores[1] and list_of_scores[2]: expected pairs of which both")
    assert "got 1 of 60 pairs that share none, the first in row 4." in text
    assert not said(agreement_matrix, samples, sample_weight=np.arange(60) != 4)
    assert not said(agreement_matrix, samples[:2])


def test_the_command_line_counts_them_too(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for floor, above in ((-np.inf, ""), (-9999, " above the floors")):
        for name, scores in zip("ab", top_five(2), strict=True):
            np.save(f"{name}.npy", np.maximum(scores, floor))
        assert main(["score", "a.npy", "b.npy", "--json"]) == 0
        error = capsys.readouterr().err
        assert error.startswith("pa-select: warning: a.npy and b.npy: expected pairs of which")
        assert f"got 2 of 200 pairs that share none{above}" in error
