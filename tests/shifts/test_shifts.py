"""Shifts of numbers, and what all shifts have in common."""

import inspect
import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.ndimage import shift as ndimage_shift
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

import papers.shifts
from pa_select import shifts as room
from pa_select.shifts import (
    FGSM,
    PGD,
    Blur,
    Dim,
    Drift,
    FeatureFailure,
    GaussianNoise,
    Shift,
    TransformShift,
    Translate,
)
from pa_select.shifts.transform import as_shift
from papers.shifts import FMN, CharacterEdits, Corruption, ImpulseNoise, ShotNoise, WordEdits

DIGITS = load_digits().data[:600] / 16
TEXTS = ["a film with heart", "dull", "", "one  of\nthe best "] * 5
POINTWISE = [
    GaussianNoise(0.2),
    GaussianNoise(0.2, relative=True, random_state=3),
    FeatureFailure(2),
    FeatureFailure(3, value="mean", random_state=2),
    Drift(0.2),
    Dim(0.4),
    ImpulseNoise(0.3, bounds=(-9, 9)),
    ShotNoise(0.25, bounds=(-9, 9)),
]
SPATIAL = [Blur(0.7, shape=(8, 8)), Translate(1.5, shape=(8, 8)), Translate(2, shape=(1, 8, 8))]
NUMERIC = POINTWISE + SPATIAL
TEXTUAL = [CharacterEdits(5), WordEdits(["good", "bad"], 3), WordEdits(["so"], mode="replace")]
ROWS = dict.fromkeys(map(repr, NUMERIC), DIGITS[:150]) | dict.fromkeys(map(repr, TEXTUAL), TEXTS)


@pytest.mark.parametrize("shift", NUMERIC + TEXTUAL, ids=repr)
def test_what_every_shift_does(shift):
    X = ROWS[repr(shift)]
    stored = pickle.dumps(X)
    states = np.random.get_state()[1].copy(), torch.random.get_rng_state()  # noqa: NPY002
    shifted = shift(X)
    assert pickle.dumps(X) == stored
    assert_array_equal(np.random.get_state()[1], states[0])  # noqa: NPY002
    assert torch.equal(torch.random.get_rng_state(), states[1])

    assert type(shifted.X) is type(X)
    assert shifted.norm.shape == (len(X),)
    assert shifted.norm.max() > 0
    assert shifted.success is None
    for same in (shift, clone(shift), pickle.loads(pickle.dumps(shift))):
        assert same.get_params() == shift.get_params()
        again = same(X)
        assert_array_equal(again.X, shifted.X)
        assert_array_equal(again.norm, shifted.norm)

    none = shift(X, power=0)
    assert_array_equal(none.X, X)
    assert none.X is not X
    assert not none.norm.any()
    if "random_state" in shift.get_params():
        other = clone(shift).set_params(random_state=7)
        assert (np.asarray(other(X).X) != np.asarray(shifted.X)).any()
        other.random_state = np.random.RandomState(7)
        assert (np.asarray(other(X).X) != np.asarray(other(X).X)).any()
    stronger = 1.0 if getattr(shift, "_most", 0) == 1 else 4
    by_power = shift(X, power=stronger)
    by_parameter = clone(shift).set_params(**{shift._power: stronger})(X)
    assert_array_equal(by_power.X, by_parameter.X)
    assert (by_power.norm != shifted.norm).any()
    if isinstance(shift, (GaussianNoise, Drift)):  # powers scale one draw
        change = shifted.X - X
        assert_allclose(
            by_power.X - X, stronger / getattr(shift, shift._power) * change, atol=1e-9
        )


@pytest.mark.parametrize("shift", NUMERIC, ids=repr)
def test_types_of_rows(shift):
    # The same numbers, whatever they come in.
    X = np.round(4 * DIGITS[:30])
    expected = shift(X)
    for dtype in (np.float16, np.float32, np.int64, np.uint8):
        shifted = shift(X.astype(dtype))
        floating = np.issubdtype(dtype, np.floating)
        assert shifted.X.dtype == (dtype if floating else np.float64)
        assert_allclose(shifted.X, expected.X, atol=2e-3 if dtype == np.float16 else 1e-6)
        assert_allclose(shifted.norm, expected.norm, rtol=1e-12, atol=1e-12)
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.int64):
        tensor = torch.tensor(X, dtype=dtype)
        shifted = shift(tensor.requires_grad_(dtype == torch.float32))
        assert shifted.X.dtype == (dtype if dtype.is_floating_point else torch.float32)
        assert not shifted.X.requires_grad
        tolerance = 0.02 if dtype == torch.bfloat16 else 1e-6
        assert_allclose(shifted.X.double().numpy(), expected.X, atol=tolerance)
    assert_allclose(shift(X.tolist()).X, expected.X)
    frame = pd.DataFrame(X, index=np.arange(30)[::-1]).astype({0: np.float32, 1: np.int16})
    shifted = shift(frame)
    assert shifted.X.index.equals(frame.index)
    assert shifted.X.columns.equals(frame.columns)
    assert shifted.X.dtypes.tolist() == [np.float32] + [np.float64] * 63
    assert_allclose(shifted.X.to_numpy(), expected.X, atol=1e-6)


def test_only_numeric_columns_of_a_frame_change():
    frame = pd.DataFrame(
        {
            "name": ["a", "b", None],
            "x": [1.0, np.nan, 3.0],
            "smokes": [True, False, True],
            "age": pd.array([30, None, 50], dtype="Int64"),
            "ratio": pd.array([0.5, None, 1.5], dtype="Float32"),
            "group": pd.Categorical([1, 2, 1]),
            "day": pd.date_range("2024-01-01", periods=3),
        },
        index=["u", "v", "u"],
    ).rename(columns={"ratio": "x"})
    before = frame.copy()
    shifted = GaussianNoise(1.0)(frame)
    pd.testing.assert_frame_equal(frame, before)
    same = [0, 2, 5, 6]
    pd.testing.assert_frame_equal(shifted.X.iloc[:, same], frame.iloc[:, same])
    assert shifted.X.columns.equals(frame.columns)
    assert shifted.X.dtypes.astype(str).tolist()[3:5] == ["float64", "Float32"]
    # Missing values stay missing and count nothing.
    numbers = [1, 3, 4]
    assert_array_equal(shifted.X.iloc[:, numbers].isna(), frame.iloc[:, numbers].isna())
    both = (x.iloc[:, numbers].to_numpy(float, na_value=np.nan) for x in (shifted.X, frame))
    change = np.subtract(*both)
    assert_allclose(shifted.norm, np.sqrt(np.nansum(change**2, axis=1)), rtol=1e-6)
    assert shifted.norm[1] == 0


@settings(deadline=None, max_examples=60)
@given(
    X=hnp.arrays(
        st.sampled_from([np.float64, np.float32, np.int32]),
        hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5),
        elements=st.integers(-9, 9),
    ),
    power=st.floats(0, 1),
    shift=st.sampled_from(POINTWISE),
)
def test_any_shape(X, power, shift):
    if isinstance(shift, FeatureFailure):  # a number of features
        power = min(round(power), int(np.prod(X.shape[1:])))
    shifted = shift(X, power=power)
    assert shifted.X.shape == X.shape
    change = (shifted.X.astype(float) - X).reshape(len(X), int(np.prod(X.shape[1:])))
    assert_allclose(shifted.norm, np.linalg.norm(change, axis=1), atol=1e-5)


def test_the_contract_runs_on_every_shift():
    tested = {type(shift) for shift in NUMERIC + TEXTUAL}
    # These have tests of their own.
    tested |= {FGSM, PGD, FMN, TransformShift, Corruption}
    named = [*vars(room).values(), *vars(papers.shifts).values()]
    assert tested == {s for s in named if inspect.isclass(s) and issubclass(s, Shift)} - {Shift}


@pytest.mark.parametrize("shift", POINTWISE, ids=repr)
def test_missing_and_infinite_numbers_stay_or_are_replaced_or_refused(shift):
    X = DIGITS[:20].copy()
    X[0, 3], X[1, 5], X[2, 5] = np.nan, np.inf, -np.inf
    if isinstance(shift, (ImpulseNoise, ShotNoise)):
        with pytest.raises(ValueError, match="^X: expected numbers within"):
            shift(X)
        return
    shifted = shift(X).X
    assert np.isfinite(shifted[np.isfinite(X)]).all()
    odd = ~np.isfinite(X)
    assert (np.isfinite(shifted[odd]) | np.isclose(shifted[odd], X[odd], equal_nan=True)).all()


def test_scale_of_noise():
    X = np.zeros((4000, 3)) + [[0, 5, -5]]
    normal = GaussianNoise(0.2)(X).X - X
    assert_allclose(normal.std(0), 0.2, rtol=0.05)
    assert_allclose(normal.mean(0), 0, atol=0.01)
    assert np.abs(np.corrcoef(normal.T) - np.eye(3)).max() < 0.05
    assert_allclose((np.abs(normal) < 0.2).mean(), 0.6827, atol=0.01)
    units = np.random.default_rng(0).normal(size=(4000, 3)) * [1, 100, 0.01] + [0, 1e4, 3]
    relative = GaussianNoise(0.5, relative=True)(units).X - units
    assert_allclose(relative.std(0), 0.5 * units.std(0), rtol=0.05)
    # A missing value tells nothing of the spread, a feature without values has none.
    units[0] = np.nan
    units[:, 1] = np.nan
    units[1, 2] = np.inf
    relative = GaussianNoise(0.5, relative=True)(units)
    assert np.isnan(relative.X).sum() == np.isnan(units).sum()
    for rows, j in ((slice(1, None), 0), (slice(2, None), 2)):
        change = relative.X[rows, j] - units[rows, j]
        assert_allclose(change.std(), 0.5 * units[rows, j].std(), rtol=0.05)
    assert np.isfinite(relative.norm).all()


def test_bounds():
    low, high = np.zeros(64), np.linspace(1, 2, 64)
    X = DIGITS.copy()
    X[:, 3] = 5  # out of bounds already
    for shift in (GaussianNoise(1.0), Drift(2.0)):
        shifted = shift.set_params(bounds=(low, high))(X)
        assert (shifted.X >= 0).all()
        inside = np.arange(64) != 3
        assert (shifted.X <= high)[:, inside].all()
        assert (shifted.X == high)[:, inside].any()
        assert shifted.X[:, 3].max() == 5
        assert_allclose(shifted.norm, np.linalg.norm(shifted.X - X, axis=1))
        assert_array_equal(shift(X, power=0).X, X)


@pytest.mark.parametrize("shape", [(50, 6), (50, 2, 3)])
def test_failed_features_fail_in_all_rows_and_with_every_higher_number(shape):
    X = np.random.default_rng(0).normal(3, 1, size=shape)
    flat = X.reshape(50, 6)
    before = np.zeros(6, dtype=bool)
    for n in range(7):
        shifted = FeatureFailure()(X, power=n)
        failed = shifted.X.reshape(50, 6) == 0
        assert (failed == failed[0]).all()
        assert failed[0].sum() == n
        assert not (before & ~failed[0]).any()
        assert_allclose(shifted.norm, np.linalg.norm(flat * failed, axis=1))
        before = failed[0]
    means = FeatureFailure(6, value="mean")(X).X.reshape(50, 6)
    assert_allclose(means, np.broadcast_to(flat.mean(0), (50, 6)))
    draws = [FeatureFailure(1, random_state=seed)(X).X.reshape(50, 6)[0] for seed in range(60)]
    assert {int((draw == 0).argmax()) for draw in draws} == set(range(6))
    missing = FeatureFailure(2, value=np.nan)(pd.DataFrame(flat, columns=list("abcdef")))
    assert missing.X.isna().all().sum() == missing.X.isna().any().sum() == 2


def test_drift_is_one_line_for_each_feature():
    X = np.random.default_rng(0).normal(size=(300, 4)) * [1, 10, 100, 0.1]
    drifts = [Drift(0.1, random_state=seed)(X).X for seed in range(200)]
    lines = np.array([[np.polyfit(X[:, j], drift[:, j], 1) for j in range(4)] for drift in drifts])
    gain, offset = lines[..., 0] - 1, lines[..., 1] / X.std(0)
    assert_allclose(gain.std(), 0.1, rtol=0.1)
    assert_allclose(offset.std(), 0.1, rtol=0.1)
    j = 2
    assert_allclose(np.polyval(lines[0, j], X[:, j]), drifts[0][:, j])


def test_dim():
    X = np.array([[0.0, 0.24, 0.26, 1.0, np.nan, -np.inf]])
    dim = Dim(0.25)(X)
    assert_array_equal(dim.X, 0.75 * X)
    assert_allclose(dim.norm, 0.25 * np.linalg.norm(X[:, :4]))


def test_images_of_every_layout():
    flat = DIGITS[:40]
    images = flat.reshape(40, 8, 8)
    colours = np.stack([images, images[::-1], 0 * images], axis=1)
    for make in (lambda shape: Blur(0.8, shape=shape), lambda shape: Translate(1.5, shape=shape)):
        shifted = make(None)(images)
        assert_array_equal(make((8, 8))(flat).X, shifted.X.reshape(40, 64))
        assert_allclose(make((8, 8))(flat).norm, shifted.norm)
        # Channels do not mix.
        in_colour = make(None)(colours)
        assert_array_equal(in_colour.X[:, 0], shifted.X)
        assert not in_colour.X[:, 2].any()
        of_rows = make((3, 8, 8))(colours.reshape(40, -1)).X
        assert_array_equal(of_rows.reshape(colours.shape), in_colour.X)
        # Neither do rows.
        assert_array_equal(make(None)(images[:7]).X, shifted.X[:7])
        assert make(None)(images[:0]).X.shape == (0, 8, 8)


def test_blur():
    spark = np.zeros((1, 41, 41))
    spark[0, 20, 20] = 1
    blurred = Blur(2.0)(spark).X[0]
    assert blurred.sum() == pytest.approx(1)
    distance = np.arange(41) - 20
    for axis in (0, 1):
        assert (blurred.sum(axis) * distance**2).sum() == pytest.approx(4, rel=0.01)
    assert_allclose(Blur(3.0)(np.ones((2, 5, 6))).X, 1)


@pytest.mark.parametrize("pixels", [0.3, 1, 2.5, 7, 30])
def test_translation_to_random_sides_as_scipy_does_it(pixels):
    images = np.random.default_rng(0).random((100, 6, 5))
    moved = Translate(pixels)(images).X
    sides = [
        ndimage_shift(images, (0, *(pixels * np.array(side))), order=1, mode="nearest")
        for side in ((-1, 0), (1, 0), (0, -1), (0, 1))
    ]
    chosen = np.isclose(sides, moved, atol=1e-12).all((2, 3))
    assert_array_equal(chosen.sum(0), 1)
    assert chosen.sum(1).min() > 10


def dim(X, power=0.5):
    return X * (1 - power)


def test_transforms():
    shift = TransformShift(dim, power=0.5)
    X = DIGITS[:10].copy()
    assert_array_equal(shift(X).X, 0.5 * X)
    assert_allclose(shift(X, power=0.25).norm, 0.25 * np.linalg.norm(X, axis=1))
    assert_array_equal(shift(X, power=0).X, X)
    assert_array_equal(pickle.loads(pickle.dumps(shift))(X).X, 0.5 * X)

    scaler = StandardScaler().fit(DIGITS)
    scaled = clone(as_shift(scaler))(X)  # stays fitted
    assert_array_equal(scaled.X, scaler.transform(X))
    assert_allclose(scaled.norm, np.linalg.norm(scaler.transform(X) - X, axis=1))
    assert np.isnan(as_shift(PCA(2).fit(DIGITS))(X).norm).all()
    assert np.isnan(as_shift(lambda texts: [text.upper() for text in texts])(TEXTS).norm).all()
    assert as_shift(lambda texts: [text.upper() for text in texts])(["a"]).X == ["A"]

    def in_place(X):
        X *= 0
        return X

    before = X.copy()
    assert not as_shift(in_place)(X).X.any()
    assert_array_equal(X, before)

    frame = pd.DataFrame(X)
    rows = as_shift((frame + 1).iloc[::-1])
    pd.testing.assert_frame_equal(rows(frame).X, frame + 1)
    assert_allclose(rows(frame).norm, 8)
    noise = GaussianNoise()
    assert as_shift(noise) is noise
    assert_array_equal(as_shift(np.negative)(X, power=0).X, X)
    assert_allclose(as_shift(torch.neg)(torch.ones(2, 4)).norm, 4)


def test_a_function_keeps_the_strength_that_it_has_by_default():
    X = DIGITS[:10]
    assert as_shift(dim).power == 0.5
    assert_array_equal(as_shift(dim)(X).X, dim(X))
    assert_array_equal(as_shift(partial(dim, power=0.25))(X).X, dim(X, 0.25))
    assert_array_equal(as_shift(dim)(X, power=0.25).X, dim(X, 0.25))
    assert_array_equal(as_shift(lambda X, power=None: dim(X, power))(X).X, 0 * X)


X = DIGITS[:4]


@pytest.mark.parametrize(
    ("shift", "rows", "message"),
    [
        (FeatureFailure(65), X, "n_features: expected a whole number of at most 64, .* got 65"),
        (GaussianNoise(-1), X, "scale: expected a finite number of at least 0"),
        (Dim(1.5), X, "strength: expected a number of at most 1, got 1.5"),
        (Blur(), X, r"X: expected images of shape .*, got \(4, 64\); flat rows need .* shape"),
        (ImpulseNoise(), 16 * X, r"X: expected numbers within the bounds \(0, 1\), got 5"),
        (TransformShift(np.negative, power=0.5), X, "power: expected 0 or 1"),
        (TransformShift(lambda rows: rows[:2]), X, "shift: expected a view of each of 4 rows"),
    ],
)
def test_bad_input(shift, rows, message):
    with pytest.raises((TypeError, ValueError), match=message):
        shift(rows)


def test_a_shift_of_your_own():
    class Mirror(Shift):
        _power = "times"

        def __init__(self, times=1):
            self.times = times

        def _shift(self, X, y, estimator, power):
            return TransformShift(lambda rows: (-1) ** power * rows)(X)

    assert_array_equal(Mirror()(X).X, -X)
    assert_array_equal(Mirror()(X, power=2).X, X)
