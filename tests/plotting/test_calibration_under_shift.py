"""Confidence against accuracy at several places, before and after a correction."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.utils import shuffle

from pa_select import AgreementCalibratedClassifier, CalibrationUnderShiftDisplay
from pa_select.calibration.reliability import reliability

RNG = np.random.default_rng(0)
SCORES = RNG.normal(size=(400, 3))
Y = np.array([RNG.choice(3, p=row) for row in softmax(SCORES, axis=1)])
RIGHT, TOO_SURE = softmax(SCORES, axis=1), softmax(3 * SCORES, axis=1)


@pytest.fixture(scope="module")
def digits():
    X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
    X = X[:800] / 16
    noisy = X[400:] + np.random.default_rng(0).normal(0, 0.4, X[400:].shape)
    return X[:400], y[:400] + 10, noisy, y[400:800] + 10


@pytest.fixture(scope="module")
def model(digits):
    X, y, noisy, _ = digits
    return AgreementCalibratedClassifier(LogisticRegression()).fit(X, y, target=noisy)


def drawn(container):
    return container.lines[0].get_data()


def labels_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.parametrize("n_bins", [1, 4, 10])
def test_bins_are_those_of_scikit_learn(n_bins):
    # Of a probability of one of two classes; here the edges are moved to [0, 1].
    found = reliability(TOO_SURE, Y, n_bins=n_bins)
    hits = TOO_SURE.argmax(1) == Y
    moved = (TOO_SURE.max(1) - 1 / 3) * 1.5
    accuracy, confidence = calibration_curve(hits, moved.clip(0, 1), n_bins=n_bins)
    some = found.share > 0
    assert_allclose(found.accuracy[some], accuracy)
    assert_allclose(found.confidence[some], confidence / 1.5 + 1 / 3)
    assert np.isnan(found.accuracy[~some]).all()
    counts, _ = np.histogram(TOO_SURE.max(1), bins=found.edges)
    assert_array_equal(found.in_bin, counts)
    assert_allclose(found.share, counts / 400)
    assert_allclose(found.mean_confidence, TOO_SURE.max(1).mean())
    assert_allclose(found.mean_accuracy, hits.mean())
    assert found.n_rows == 400


def test_probabilities_at_both_ends_are_in_a_bin():
    found = reliability(np.array([[0.5, 0.5], [1.0, 0.0]]), n_bins=5)
    assert_array_equal(found.in_bin, [1, 0, 0, 0, 1])
    assert found.accuracy is None
    assert found.error is None
    assert np.isnan(found.mean_accuracy)


def test_weights_count_like_rows_and_rows_scored_twice_count_once():
    once = reliability(RIGHT, Y, n_bins=5)
    twice = reliability(np.tile(RIGHT, (2, 1)), np.tile(Y, 2), n_bins=5, rows=np.arange(800) % 400)
    same = reliability(RIGHT, Y, n_bins=5, weight=np.full(400, 7.0))
    for other in (twice, same):
        for one, two in zip(once, other, strict=True):
            assert_allclose(one, two)
    weight = np.repeat([0.0, 3.0], [100, 300])
    left_out = reliability(RIGHT, Y, n_bins=5, weight=weight)
    for one, two in zip(reliability(RIGHT[100:], Y[100:], n_bins=5), left_out, strict=True):
        assert_allclose(one, two)
    # One row with nearly all of the weight says as much as one row.
    heavy = reliability(RIGHT, Y, n_bins=1, weight=np.r_[1e9, np.ones(399)])
    assert_allclose(heavy.in_bin, 1, rtol=1e-5)


def test_errors_are_those_of_a_rate_and_not_0_where_all_rows_are_right():
    sure = np.array([[0.9, 0.1]] * 30)
    (error,) = reliability(sure, np.zeros(30, int), n_bins=1).error
    assert 0 < error < 0.05
    found = reliability(RIGHT, Y, n_bins=1)
    rate = found.mean_accuracy
    assert_allclose(found.error, np.sqrt(rate * (1 - rate) / 400), rtol=0.01)


def test_curves_and_histograms_of_predictions(ax):
    display = CalibrationUnderShiftDisplay.from_result((TOO_SURE, RIGHT), Y, n_bins=6, ax=ax)
    keys = [("target", "before"), ("target", "after")]
    assert list(display.curves_) == list(display.histograms_) == keys
    for key, matrix, word in zip(
        keys, (TOO_SURE, RIGHT), ("not corrected", "corrected"), strict=True
    ):
        expected = reliability(matrix, Y, n_bins=6)
        enough = expected.in_bin >= 5
        assert enough.sum() >= 4
        x, y = drawn(display.curves_[key])
        assert_array_equal(x, expected.confidence[enough])
        assert_array_equal(y, expected.accuracy[enough])
        (bars,) = display.curves_[key].lines[2]
        lengths = [np.diff(segment[:, 1])[0] / 2 for segment in bars.get_segments()]
        assert_allclose(lengths, expected.error[enough])
        shares, edges, _ = display.histograms_[key].get_data()
        assert_array_equal(shares, expected.share)
        assert_array_equal(edges, expected.edges)
        confidence, accuracy = expected.mean_confidence, expected.mean_accuracy
        assert labels_of(ax)[keys.index(key)] == (
            f"target (n = 400), {word}: mean confidence {confidence:.2f}, accuracy {accuracy:.2f}"
        )
    marks = [display.curves_[key].lines[0] for key in keys]
    assert [mark.get_markerfacecolor() == mark.get_color() for mark in marks] == [False, True]
    assert_allclose(display.diagonal_.get_data(), [[1 / 3, 1]] * 2)
    # Labels that say what the probabilities say lie on the diagonal, the others below it.
    x, y = drawn(display.curves_[keys[1]])
    assert np.abs(x - y).max() < 0.15
    x, y = drawn(display.curves_[keys[0]])
    assert (x - y)[-1] > 0.1


def test_bins_of_few_rows_have_no_point(ax):
    display = CalibrationUnderShiftDisplay.from_result((TOO_SURE, RIGHT), Y, n_bins=20, ax=ax)
    for (_, when), curve in display.curves_.items():
        in_bin = getattr(display, when)["target"].in_bin
        assert ((0 < in_bin) & (in_bin < 5)).any()
        assert len(drawn(curve)[0]) == (in_bin >= 5).sum()


def test_the_curves_are_above_the_histograms(ax):
    display = CalibrationUnderShiftDisplay.from_result((TOO_SURE, RIGHT), Y, ax=ax)
    below = display.ax_histograms_
    assert below in ax.child_axes
    zero = ax.transData.transform((0.5, 0))[1]
    assert below.get_window_extent().y1 < zero
    assert below.get_xlim() == ax.get_xlim()
    assert [one.get_label() for one in ax.child_axes] == [below.get_label()]
    display.plot(ax)
    assert display.ax_histograms_ is below
    assert ax.child_axes == [below]


def test_without_labels_there_are_histograms_alone(ax):
    display = CalibrationUnderShiftDisplay.from_result((TOO_SURE, RIGHT), ax=ax)
    assert display.curves_ == {}
    assert display.diagonal_ is None
    assert display.ax_histograms_ is ax
    assert len(display.histograms_) == 2
    assert ax.get_ylabel() == "share of rows"
    assert labels_of(ax)[0].endswith(f"mean confidence {TOO_SURE.max(1).mean():.2f}")


def test_several_places(ax):
    tables = [
        {name: reliability(rows, columns, n_bins=10) for name, rows, columns in places}
        for places in (
            [("here", RIGHT[:200], None), ("there", RIGHT[200:], Y[200:])],
            [("there", RIGHT[200:], Y[200:]), ("here", RIGHT[:200], None)],
        )
    ]
    display = CalibrationUnderShiftDisplay(before=tables[0], after=tables[1]).plot(ax)
    assert list(display.curves_) == [("there", "before"), ("there", "after")]
    assert list(display.histograms_)[::2] == [("here", "before"), ("there", "before")]
    colors = {one.get_edgecolor() for one in display.histograms_.values()}
    assert len(colors) == 2


def test_of_a_calibrated_classifier(model, digits, ax):
    _, _, noisy, y = digits
    display = CalibrationUnderShiftDisplay.from_estimator(model, noisy, y, ax=ax, elinewidth=3)
    assert len(display.curves_) == len(display.histograms_) == 4
    after = reliability(model.predict_proba(noisy), y - 10, n_bins=10)
    uncorrected = copy.copy(model)
    uncorrected.inverse_temperature_ = model.source_inverse_temperature_
    before = reliability(uncorrected.predict_proba(noisy), y - 10, n_bins=10)
    for found, expected in ((display.before, before), (display.after, after)):
        for one, other in zip(found["target"], expected, strict=True):
            assert_allclose(one, other)
    held_out = display.before["labelled rows"]
    assert held_out.n_rows == 400
    # Temperature scaling is nearly right where it was fitted, but not on the target.
    assert abs(held_out.mean_confidence - held_out.mean_accuracy) < 0.05
    gaps = [
        abs(table["target"].mean_confidence - after.mean_accuracy)
        for table in (display.before, display.after)
    ]
    assert gaps[0] > 0.07
    assert gaps[1] < gaps[0] - 0.03
    assert ax.get_legend().get_title().get_text() == (
        f"corrected: inverse temperature times {model.ratio_:#.3g}"
    )
    assert display.ratio == model.ratio_
    unlabelled = CalibrationUnderShiftDisplay.from_estimator(model, noisy, ax=ax)
    assert {place for place, _ in unlabelled.curves_} == {"labelled rows"}
    assert len(unlabelled.histograms_) == 4


def test_held_out_rows_are_weighted_and_counted_once(digits):
    X, y, noisy, _ = digits
    weight = np.repeat([0.0, 1.0], [50, 350])
    folds = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    naive = GaussianNB(var_smoothing=0.1)
    model = AgreementCalibratedClassifier(naive, cv=folds).fit(X, y, weight, target=noisy)
    display = CalibrationUnderShiftDisplay.from_estimator(model, noisy)
    found = display.before["labelled rows"]
    assert found.n_rows == 350
    assert_allclose(found.in_bin.sum(), 350)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda d, m, X: d.from_estimator(GaussianNB(), X), TypeError, "estimator: expected an A"),
        (
            lambda d, m, X: d.from_estimator(AgreementCalibratedClassifier(GaussianNB()), X),
            NotFittedError,
            "not fitted",
        ),
        (lambda d, m, X: d.from_estimator(m, X, Y[:3]), ValueError, r"y: expected shape \(400,\)"),
        (
            lambda d, m, X: d.from_estimator(m, X, Y[:400]),
            ValueError,
            "y: expected classes of the columns, .*, got ",
        ),
        (
            lambda d, m, X: d.from_estimator(m, X, n_bins=0),
            ValueError,
            "n_bins: expected a positive number of bins, got 0",
        ),
        (
            lambda d, m, X: d.from_result((RIGHT, RIGHT), n_bins=2.5),
            TypeError,
            "n_bins: expected a whole number of bins, got 2.5",
        ),
        (
            lambda d, m, X: d.from_result((SCORES, RIGHT)),
            ValueError,
            r"before: expected probabilities, which sum to 1, got \[.*\] in row 0\.",
        ),
        (
            lambda d, m, X: d.from_result((RIGHT, np.full((400, 3), np.nan))),
            ValueError,
            "after: expected probabilities",
        ),
        (
            lambda d, m, X: d.from_result((RIGHT, RIGHT[:, 0])),
            ValueError,
            r"after: expected scores of shape .*, got shape \(400,\)",
        ),
        (
            lambda d, m, X: d.from_result((RIGHT, RIGHT[:9])),
            ValueError,
            r"after: expected shape \(400, 3\), got \(9, 3\)",
        ),
        (
            lambda d, m, X: d.from_result(("here", RIGHT)),
            TypeError,
            "before: expected a matrix of numbers",
        ),
        (
            lambda d, m, X: d.from_result((RIGHT, RIGHT), Y[1:]),
            ValueError,
            r"y: expected shape \(400,\)",
        ),
        (
            lambda d, m, X: d.from_result((RIGHT, RIGHT), Y + 1),
            ValueError,
            r"y: expected classes of the columns, \[0, 1, 2\], got 3 in row",
        ),
        (
            lambda d, m, X: d(before={"a": 1}, after={}).plot(),
            ValueError,
            r"after: expected the places \['a'\], got \[\]",
        ),
    ],
)
def test_errors(call, error, message, model, digits):
    with pytest.raises(error, match=message):
        call(CalibrationUnderShiftDisplay, model, digits[2])


def test_a_classifier_that_has_seen_no_target_is_refused(digits):
    X, y, noisy, _ = digits
    model = AgreementCalibratedClassifier(GaussianNB(var_smoothing=0.1)).fit(X, y)
    with pytest.raises(ValueError, match="estimator: expected .* got one that has seen no target"):
        CalibrationUnderShiftDisplay.from_estimator(model, noisy)
