"""The laboratory's README names every table and figure of the papers, and its commands run."""

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import pa_select

PAPERS = Path(__file__).parents[2] / "examples" / "papers"
README = (PAPERS / "README.md").read_text()
FASTEST, FAST = 10, 20  # seconds of one core
# The same command with less work, so that its test takes seconds; other scripts have no options.
LESS = {
    "distances_under_attack.py": "--seeds 2 --epochs 1",
    "epoch_selection_under_shift.py": "--seeds 1 --epochs 3",
    "ladder_of_shifts.py": "--seeds 2 --epochs 8 --draws 1",
    "measures_of_small_nets.py": "--nets 8",
    "selection_with_many_environments.py": "--collections cameras",
}
# The numbers in the papers; "1.1-8" stands for 1.1 to 1.8.
NUMBERS = {
    ("The thesis", "Figure"): "1.1-8 2.1-2 4.1-17 5.1-2 B.1-15",
    ("The thesis", "Table"): "4.1-10 5.1-12 B.1-4 C.1-6",
    ("The paper", "Figure"): "1-13",
    ("The paper", "Table"): "1-3",
    ("The study of robustness measures", "Figure"): "1-19",
}


def rows(text):
    """Return the cells of the rows of all tables, without their heads."""
    lines = [line for line in text.split("\n") if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[1] != "command" and set(row[0]) != {"-"}]


ROWS = rows(README)
COMMANDS = {row[1].strip("`"): row[2] for row in ROWS if row[1]}
SECONDS = {command: float(time) for command, time in COMMANDS.items() if time.isdecimal()}


def numbered(first, last):
    """Return the numbers from 1.1 to 1.8, or to 8."""
    *before, number = first.split(".")
    end = (last or first).split(".")[-1]
    return {".".join([*before, str(k)]) for k in range(int(number), int(end) + 1)}


@pytest.mark.parametrize(("paper", "kind"), NUMBERS)
def test_every_table_and_figure_has_a_line(paper, kind):
    [section] = re.findall(rf"^## {paper}\n(.*?)(?=^## |\Z)", README, re.M | re.S)
    heads = [row[0] for row in rows(section)]
    found = set()
    for head in heads:
        if head.startswith(kind):
            for first, last in re.findall(r"([ABC\d.]*\d)(?: (?:to|and) ([ABC\d.]*\d))?", head):
                found |= numbered(first, last)
    expected = [part.partition("-") for part in NUMBERS[paper, kind].split()]
    assert found == set().union(*(numbered(first, last) for first, _, last in expected))


def options_of(script):
    """Return the options that a script takes."""
    return {
        node.args[0].value
        for node in ast.walk(ast.parse(script.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument"
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_name_scripts_and_options_that_there_are(command):
    python, path, *options = shlex.split(command)
    script = PAPERS / Path(path).name
    assert (python, path) == ("python", f"examples/papers/{script.name}")
    assert script.is_file()
    given = {option for option in options if option.startswith("--")}
    assert given <= options_of(script)
    assert set(re.findall(r"--\S+", LESS.get(script.name, ""))) <= options_of(script)


def test_every_script_is_in_the_readme():
    scripts = {
        path.name
        for path in PAPERS.glob("*.py")
        if re.search(r"^(plt\.show|print)\(|__main__", path.read_text(), re.M)
    }
    assert len(scripts) > 14
    assert scripts == {Path(command.split()[1]).name for command in COMMANDS}


def runs():
    """Yield each command that has a time, in as little time as its options allow."""
    for command, seconds in SECONDS.items():
        name = Path(command.split()[1]).name
        less = LESS.get(name, "") if seconds > FAST else ""
        marks = [pytest.mark.slow] if seconds > FASTEST else []
        yield pytest.param(f"{command} {less}", marks=marks, id=command.split("/")[-1])


@pytest.mark.parametrize("command", list(runs()))
def test_commands_run_from_any_folder(command, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("pandas")
    if "epoch_selection" in command:
        pytest.importorskip("mlxtend")
    _, path, *options = shlex.split(command)
    package = str(Path(pa_select.__file__).parents[1])
    there = {"MPLBACKEND": "agg", "PYTHONPATH": package, "OMP_NUM_THREADS": "1"}
    how = {"cwd": tmp_path, "env": os.environ | there, "capture_output": True, "text": True}
    found = subprocess.run([sys.executable, str(PAPERS / Path(path).name), *options], **how)
    assert found.returncode == 0, found.stderr
    assert found.stdout.count("\n") >= 3
    assert list(tmp_path.iterdir()) == []
