"""The contract of all displays: how they are made, drawn and read."""

import dataclasses
import inspect
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

from pa_select import plotting, posterior_agreement
from pa_select.plotting.axes import Display

RNG = np.random.default_rng(0)
LOGITS = 3 * RNG.normal(size=(100, 10))  # ten classes
NOISY = LOGITS + RNG.normal(size=(100, 10))
RESULT = posterior_agreement(LOGITS, NOISY)
HISTORY = [{"pa": 0.1, "valid_acc": 0.7}, {"pa": 0.4, "valid_acc": 0.6, "pa_kept": 2}]


def drawn(cls, **given):
    """Return a function that draws a display of these parameters."""
    return lambda ax=None, **kwargs: cls(**given).plot(ax, **kwargs)


def made(draw, *args, **given):
    """Return a function that calls a constructor."""
    return lambda ax=None, **kwargs: draw(*args, **given, ax=ax, **kwargs)


MAKERS = {
    "curve": made(plotting.AgreementCurveDisplay.from_result, RESULT, name="a"),
    "robustness": drawn(
        plotting.RobustnessCurveDisplay,
        **{"x": [0.1, 1], "values": [[[0.3, np.inf]]], "names": ["a"], "panels": [0.2]},
    ),
    "search": drawn(
        plotting.PASearchDisplay,
        **{"score": [0.8, 0.9], "score_error": [0.1, 0.1], "value": [0.3, 0.4]},
        **{"eligible": [False, True], "weights": [0.3, 0.7], "best_index": 1},
    ),
    "expected": drawn(
        plotting.ExpectedScoreDisplay,
        **{"score": [0.7, 0.8], "standard_error": [0.1, 0.05], "claimed": [0.9, 0.95]},
        **{"low": [0.5, 0.6], "high": [0.9, 0.9], "names": ["a", "b"], "best_index": 1},
        **{"adapted": [True, False], "true_scores": [0.6, 0.75]},
    ),
    "epochs": made(plotting.EpochsDisplay.from_result, HISTORY),
}
CLASSES = [getattr(plotting, name) for name in plotting.__all__]


@pytest.mark.parametrize("cls", CLASSES)
def test_every_display_has_the_same_methods_and_says_what_it_has(cls):
    assert issubclass(cls, Display)
    assert dataclasses.is_dataclass(cls)
    # `plot` is the base class's, but for options of its own.
    ax, *options, keywords = list(inspect.signature(cls.plot).parameters.values())[1:]
    assert (ax.name, ax.default, keywords.kind) == ("ax", None, inspect.Parameter.VAR_KEYWORD)
    assert all(option.kind is inspect.Parameter.KEYWORD_ONLY for option in options)
    assert [name for name in dir(cls) if name.startswith("from_")] == ["from_result"]
    result, *_, ax, keywords = inspect.signature(cls.from_result).parameters.values()
    assert (result.name, ax.name) == ("result", "ax")
    assert keywords.kind is inspect.Parameter.VAR_KEYWORD
    assert "`from_result`" in cls.__doc__
    for field in dataclasses.fields(cls):
        assert field.name in cls.__doc__
    assert "Keywords of `plot` go to" in " ".join(cls.__doc__.split())


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_attributes_are_those_of_the_docstring(make, ax):
    display = make(ax)
    text = type(display).__doc__
    written = text[text.index("Attributes\n") :].split("\n\n")[0]
    named = {
        name.strip(" ")
        for line in written.splitlines()[2:]
        if line.startswith("    ") and line[4] != " "
        for name in line.split(" : ")[0].split(",")
    }
    assert {name for name in vars(display) if name.endswith("_")} == named


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_new_figure_and_given_axes(make, ax):
    display = make()
    assert display.ax_ in display.figure_.axes
    assert plt.get_fignums() == [display.figure_.number]
    # Again, elsewhere, and twice there.
    assert display.plot(ax) is display
    assert display.plot(ax=ax) is display
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    ax.figure.draw_without_rendering()
    assert len(plt.get_fignums()) == 1


def test_matplotlib_is_imported_when_something_is_drawn():
    code = (
        "import sys, pa_select.plotting as p\n"
        "assert not {'matplotlib', 'torch', 'skorch'} & set(sys.modules)\n"
        "sys.modules['matplotlib'] = None\n"
        "sys.modules['matplotlib.pyplot'] = None\n"
        "for name in p.__all__:\n"
        "    try:\n"
        "        getattr(p, name).from_result(None)\n"
        "    except ImportError as error:\n"
        "        assert 'pip install \"pa-select[plot]\"' in str(error), error\n"
        "    else:\n"
        "        raise AssertionError\n"
        "assert 'torch' not in sys.modules  # before any work\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
