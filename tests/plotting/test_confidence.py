"""Confidence as trained and at the optimum."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from pa_select import class_scores, posterior_agreement
from pa_select.plotting import ConfidenceDisplay
from pa_select.plotting.axes import number
from pa_select.shifts import GaussianNoise

X, Y = load_digits(return_X_y=True)
X = X / 16
TEST = slice(600, 900)
MODELS = {
    "linear": LogisticRegression(max_iter=200).fit(X[:600], Y[:600]),
    "naive": GaussianNB(var_smoothing=0.1).fit(X[:600], Y[:600]),
}
WEIGHT = np.random.default_rng(0).integers(0, 3, 300).astype(float)


def result_of(name, power=0.4, **options):
    samples = X[TEST], GaussianNoise()(X[TEST], power=power).X
    scores = [class_scores(MODELS[name], rows)[0] for rows in samples]
    return posterior_agreement(*scores, **options)


RESULTS = {name: result_of(name) for name in MODELS}


def drawn(container):
    return container.lines[0].get_data()


def half_lengths(container):
    (bars,) = container.lines[2]
    return [np.diff(segment[:, 1])[0] / 2 for segment in bars.get_segments()]


def expected(result, y, beta):
    groups = result.confidence(y, beta=beta)
    values, errors = [], []
    for name, group in groups.items():
        values.append(group.second if name == "disagree" else group.first)
        errors.append(group.standard_errors[int(name == "disagree")])
    return values, errors


def test_the_groups_of_the_thesis(ax):
    result = RESULTS["linear"]
    display = ConfidenceDisplay.from_result(result, Y[TEST], misled=True, ax=ax)
    found = result.confidence(Y[TEST], misled=True)
    means = [found["right"].first, found["wrong"].first, found["misled"].second]
    assert_array_equal(drawn(display.best_[0])[1], means)
    ticks = [label.get_text().split("\n")[0] for label in ax.get_xticklabels()]
    assert ticks == ["right before", "wrong before", "misled"]


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
def test_marks_are_the_average_posteriors(weight, ax):
    result = result_of("linear", sample_weight=weight)
    display = ConfidenceDisplay.from_result(result, Y[TEST], ax=ax)
    (trained,), (best,) = display.trained_, display.best_
    for container, beta in ((trained, 1.0), (best, result.beta)):
        values, errors = expected(result, Y[TEST], beta)
        assert_array_equal(drawn(container)[1], values)
        assert_allclose(half_lengths(container), errors, atol=1e-12)
    # The line goes from the one to the other, within each group.
    lines = np.array([line.get_data() for line in display.lines_])
    assert_array_equal(lines, np.transpose([drawn(trained), drawn(best)]))
    assert_array_equal(np.round(lines[:, 0]), [[0, 0], [1, 1], [2, 2]])
    ticks = [label.get_text() for label in ax.get_xticklabels()]
    counts = [group.n_pairs for group in result.confidence(Y[TEST]).values()]
    words = ("agree, right", "agree, wrong", "disagree")
    assert ticks == [f"{word}\n{n} pairs" for word, n in zip(words, counts, strict=True)]
    assert_array_equal(display.uniform_.get_ydata(), [0.1, 0.1])
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == [
        rf"at $\beta^*$ = {number(result.beta)}",
        r"at $\beta = 1$, as trained",
        "uniform posterior",
    ]
    assert trained.lines[0].get_markerfacecolor() == ax.get_facecolor()
    assert best.lines[0].get_markerfacecolor() == best.lines[0].get_color()


def test_several_models_side_by_side(ax):
    display = ConfidenceDisplay.from_result(RESULTS, Y[TEST], ax=ax, markersize=3)
    for i, result in enumerate(RESULTS.values()):
        assert_array_equal(drawn(display.trained_[i])[1], expected(result, Y[TEST], 1.0)[0])
        assert_array_equal(drawn(display.best_[i])[1], expected(result, Y[TEST], None)[0])
        assert display.best_[i].lines[0].get_markersize() == 3
    marks = [*display.trained_, *display.best_]
    x = np.concatenate([drawn(container)[0] for container in marks])
    assert np.diff(np.sort(x)).min() > 0.1
    assert_array_equal(np.round(np.sort(x)), np.repeat([0, 1, 2], 4))
    betas = [number(result.beta) for result in RESULTS.values()]
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[:2] == [rf"linear: $\beta^*$ = {betas[0]}", rf"naive: $\beta^*$ = {betas[1]}"]
    assert ax.get_xticklabels()[0].get_text() == "agree, right"
    assert len({container.lines[0].get_marker() for container in display.best_}) == 2


def test_without_labels(ax):
    display = ConfidenceDisplay.from_result(RESULTS["linear"], ax=ax)
    assert display.groups == ["agree", "disagree"]
    assert_array_equal(drawn(display.best_[0])[1], expected(RESULTS["linear"], None, None)[0])


@pytest.mark.filterwarnings("error")
def test_no_pairs_certain_and_uniform_posteriors(ax):
    logits = 3 * np.random.default_rng(0).normal(size=(20, 3))
    certain = ConfidenceDisplay.from_result(posterior_agreement(logits, logits), ax=ax)
    assert certain.betas == [np.inf]
    assert_allclose(drawn(certain.best_[0])[1], [1, np.nan], rtol=1e-12)
    uniform = ConfidenceDisplay.from_result(posterior_agreement(logits, -logits), ax=ax)
    assert uniform.betas == [0]
    assert_allclose(drawn(uniform.best_[0])[1][1], 1 / 3)
    ax.figure.canvas.draw()
    assert uniform.best_[0].get_label() == r"at $\beta^*$ = 0"
    assert certain.best_[0].get_label().endswith(r"= $\infty$")
