"""The contract of all displays: how they are made, drawn and read."""

import dataclasses
import inspect
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

from pa_select import plotting, posterior_agreement
from pa_select.plotting.axes import Display, number

RNG = np.random.default_rng(0)
LONG = "a classifier with a rather long name, of sixty characters 1"
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
        x=[0.1, 1],
        values=[[[0.3, np.inf]]],
        names=[LONG],
        panels=[0.2],
    ),
    "search": drawn(
        plotting.PASearchDisplay,
        score=[0.8, 0.9],
        score_error=[0.1, 0.1],
        value=[0.3, 0.4],
        eligible=[False, True],
        weights=[0.3, 0.7],
        best_index=1,
        names=["a", LONG],
    ),
    "expected": drawn(
        plotting.ExpectedScoreDisplay,
        score=[0.7, 0.8],
        standard_error=[0.1, 0.05],
        low=[0.5, 0.6],
        high=[0.9, 0.9],
        claimed=[0.9, 0.95],
        names=[LONG, "b"],
        best_index=1,
        adapted=[True, False],
        true_scores=[0.6, 0.75],
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
def test_a_new_figure_in_which_no_label_is_cut_off_and_given_axes(make, ax):
    display = make()
    figure = display.figure_
    assert display.ax_ in figure.axes
    assert plt.get_fignums() == [figure.number]
    figure.draw_without_rendering()
    left, low, width, height = figure.get_tightbbox().bounds
    assert min(left, low) >= -0.01
    assert ([left + width, low + height] <= figure.get_size_inches() + 0.01).all()
    first = {name for name in vars(display) if name.endswith("_")}
    # Again, elsewhere, and twice there.
    assert display.plot(ax) is display
    assert display.plot(ax=ax) is display
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert {name for name in vars(display) if name.endswith("_")} == first
    ax.figure.draw_without_rendering()
    assert len(plt.get_fignums()) == 1
    assert ax.get_title() == ""
    assert ax.get_legend() is not None or display.ax_right_.get_legend() is not None


def test_matplotlib_is_imported_when_something_is_drawn():
    code = (
        "import sys, pa_select.plotting as p\n"
        "assert not {'matplotlib', 'torch', 'skorch'} & set(sys.modules)\n"
        "sys.modules['matplotlib'] = None\n"
        "sys.modules['matplotlib.pyplot'] = None\n"
        "makers = [cls.from_result for cls in map(p.__dict__.get, p.__all__)]\n"
        "for make in (\n"
        "    *(lambda make=make: make(None) for make in makers),\n"
        "    lambda: p.EpochsDisplay(epochs=[1], agreement=[0.1]).plot(),\n"
        "):\n"
        "    try:\n"
        "        make()\n"
        "    except ImportError as error:\n"
        "        assert 'pip install \"pa-select[plot]\"' in str(error), error\n"
        "    else:\n"
        "        raise AssertionError\n"
        "assert 'torch' not in sys.modules  # before any work\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_numbers_in_labels():
    values = 0.114493, 0, 2.281e5, np.inf, -np.inf
    texts = ["0.1145", "0", "2.281e+05", r"$\infty$", "-inf"]
    assert [number(value) for value in values] == texts
