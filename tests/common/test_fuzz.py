"""Whatever comes in: the result of plain arrays, or an error that names the argument.

``PA_SELECT_FUZZ=20`` in the environment tries 20 times as many examples.
"""

import os
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from pa_select import class_scores, pa_kernel, posterior_agreement
from pa_select.agreement import agreement_of_chunks

TIMES = int(os.environ.get("PA_SELECT_FUZZ", "1"))


def examples(n):
    return settings(
        max_examples=n * TIMES,
        suppress_health_check=list(HealthCheck),
    )


# Real types, and the largest size that is tried of each.
REAL = {
    "?": 1, "i1": 127, "i2": 9999, "i4": 10**9, "i8": 2**62, "u1": 255, "u2": 9999, "u4": 10**9,
    "u8": 2**63, "f2": 65504, "f4": 2.0**127, "f8": 2.0**300, ">f8": 2.0**300, ">f4": 2.0**127,
    ">i2": 9999, "g": 2.0**300,
}  # fmt: skip


def spread(x, step):
    """The same values, some elements apart in memory."""
    room = np.zeros([n * step for n in x.shape], x.dtype)
    view = room[(slice(None, None, step),) * x.ndim]
    view[...] = x
    return view


def reverse(x):
    return np.flip(np.flip(x).copy())


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


def native(x):
    """What any library takes."""
    return x.astype(np.float64 if x.dtype.char == "g" else x.dtype.newbyteorder("="))


def as_tensor(x):
    return torch.from_numpy(native(x).copy())


def as_frame(x):
    if x.ndim == 1:
        return pd.Series(native(x))
    return pd.DataFrame(native(x), columns=list("uvwx")[: x.shape[1]])


LAYOUTS = [
    lambda x: x,
    np.asfortranarray,
    lambda x: spread(x, 2),
    reverse,
    read_only,
]
CONTAINERS = [
    lambda x: x,
    lambda x: x.tolist(),
    lambda x: tuple(map(tuple, x.tolist())) if x.ndim == 2 else tuple(x.tolist()),
    lambda x: list(x),
    as_tensor,
    lambda x: as_tensor(x.T.copy()).mT if x.ndim == 2 else as_tensor(x),
    lambda x: as_tensor(x).requires_grad_() if x.dtype.kind == "f" else as_tensor(x),
    lambda x: as_frame(x),
    lambda x: as_frame(x).convert_dtypes(),
]


def plain(x):
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(np.asarray(x), dtype=np.float64)


def frozen(x):
    """What must not change."""
    if isinstance(x, torch.Tensor):
        return x.detach().numpy().tobytes(), x.requires_grad, x.stride()
    flags = (x.flags.writeable, x.strides, x.dtype) if isinstance(x, np.ndarray) else ()
    # As float64: an extended float has bytes without meaning.
    return None if x is None else plain(x).tobytes(), *flags


def equal(found, expected):
    """As close as sums in another order are, in nats; beta at a flat maximum is not checked."""
    for name in ("score", "agreement_rate", "standard_error"):
        one, other = getattr(found, name), getattr(expected, name)
        assert one == pytest.approx(other, abs=1e-9, nan_ok=True), name
    assert np.isinf(found.beta) == np.isinf(expected.beta)
    np.testing.assert_allclose(found.terms, expected.terms, rtol=1e-6, atol=1e-8)
    for one, other in zip(found.posteriors(1.0), expected.posteriors(1.0), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)


A = np.arange(12.0).reshape(4, 3) % 5
WEIGHT = np.arange(1.0, 5.0)
BETAS = [0, 0.3, 2, np.inf]


GUISES = [("f8", present) for present in (*LAYOUTS, *CONTAINERS)]
GUISES += [(dtype, present) for dtype in REAL for present in (reverse, as_tensor)]


@pytest.mark.parametrize(("dtype", "present"), GUISES)
def test_every_layout_and_container_is_read(dtype, present):
    a, b, weight = (x.astype(dtype) for x in (A, A[::-1], WEIGHT))
    a[2, 2] = REAL[dtype]
    if a.dtype.kind == "f":
        b[0, 1] = -np.inf
    x, y, w = map(plain, (a, b, weight))
    expected = posterior_agreement(x, y, sample_weight=w, certify=False)
    a, b, weight = given = tuple(map(present, (a, b, weight)))
    before = list(map(frozen, given))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        equal(posterior_agreement(a, b, sample_weight=weight, certify=False), expected)
        equal(posterior_agreement(a, y, sample_weight=w, certify=False), expected)
        equal(agreement_of_chunks([given], certify=False), expected)
        at = pa_kernel(a, b, BETAS, sample_weight=weight)
    np.testing.assert_allclose(at, pa_kernel(x, y, BETAS, sample_weight=w), atol=1e-9)
    assert list(map(frozen, given)) == before


NAMES = "scores_a|scores_b|sample_weight|prior|beta|groups|chunks"
BAD_VALUES = [np.nan, np.inf, -np.inf, 1e200, -1e308, 1e-320, 2**70, 10**400, True, None, "1", 1j]
ODD = [
    None, "uniform", 3, np.nan, {"a": [1, 2]}, range(4), [], [[]], [[1], [2, 3], [4], [5]],
    [np.zeros(2), np.zeros(3)], np.full((4, 3), 1, object), np.zeros((2, 0, 3)),
    np.zeros((0, 4, 3)), np.zeros((1, 2, 4, 3)), sparse.csr_matrix(A), torch.eye(4) + 1j,
    pd.DataFrame(), pd.DataFrame({"u": [1, 2, 3, 4], "v": list("abcd")}), pd.Series(["a"] * 4),
]  # fmt: skip


def outcome(call, *errors):
    """What a call returns, without a warning, or what its error says."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return call(), None
        except errors as error:
            return None, str(error)


@st.composite
def anything(draw):
    """What is no good, or may be."""
    if draw(st.booleans()):
        return draw(st.sampled_from(ODD))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    shape = draw(st.sampled_from([shape, (4, 3), (4,), (3,)]))
    x = np.ones(shape).astype(draw(st.sampled_from(["f8", "f8", "f2", "i8", "c8", "O", "U3"])))
    if x.size and draw(st.booleans()):
        value = draw(st.sampled_from(BAD_VALUES))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                x.flat[draw(st.integers(0, x.size - 1))] = value
        except (TypeError, ValueError, OverflowError):
            pass
    return draw(st.sampled_from([lambda x: x, np.ndarray.tolist, read_only]))(x)


LOGISTIC = LogisticRegression().fit([[0, 1], [2, 0], [1, 5]], [0, 1, 2])


@pytest.mark.parametrize("estimator", [torch.nn.Linear(2, 3, dtype=torch.float64), LOGISTIC])
@pytest.mark.parametrize(
    "present", [*LAYOUTS, as_frame, torch.tensor, np.ndarray.tolist, lambda x: x.astype(">f8")]
)
def test_class_scores_are_those_of_plain_arrays(present, estimator):
    X = present(np.array([[0.5, -2], [3, 1e6], [-1, 0]], np.float32))
    before = frozen(X)
    found, classes = class_scores(estimator, X)
    np.testing.assert_allclose(found, class_scores(estimator, plain(X))[0], rtol=1e-5, atol=1e-5)
    assert classes.tolist() == [0, 1, 2]
    assert frozen(X) == before


SLOTS = {
    "scores_a": lambda x: posterior_agreement(x, A, certify=False),
    "scores_b": lambda x: posterior_agreement(A, x, prior="marginal", certify=False),
    "weights": lambda x: posterior_agreement([A], [A[::-1]], sample_weight=[x], certify=False),
    "groups": lambda x: posterior_agreement(A, A[::-1], groups=x, certify=False),
    "both": lambda x: posterior_agreement(x, x, certify=False),
    "sample_weight": lambda x: posterior_agreement(A, A[::-1], sample_weight=x, certify=False),
    "prior": lambda x: posterior_agreement(A, A[::-1], prior=x, certify=False),
    "beta": lambda x: pa_kernel(A, A[::-1], x),
    "kernel": lambda x: pa_kernel(x, A, 1.0),
    "chunks": lambda x: agreement_of_chunks([(A, A), (A, x)], certify=False),
}


@pytest.mark.parametrize("slot", SLOTS)
def test_what_is_no_good_is_named(slot):
    @examples(20)
    @given(x=anything())
    def check(x):
        found, said = outcome(lambda: SLOTS[slot](x), TypeError, ValueError)
        if said is not None:
            assert re.match(rf"({NAMES})\b.*(expected|got)", said), said
        for result in found if isinstance(found, list) else [found]:
            assert not np.isnan(getattr(result, "score", 0.0))

    check()
