"""Running the command line in this process."""

import pytest

from pa_select.command_line.command import main


@pytest.fixture
def run(capsys):
    """Run a command, and return its exit status, its output and its errors."""

    def run(*arguments):
        status = main(list(arguments))
        return (status, *capsys.readouterr())

    return run


@pytest.fixture
def refused(run):
    """Run a command that must be refused in one line, and return what is said."""

    def refused(*arguments):
        try:
            status, out, error = run(*arguments)
        except SystemExit as stop:
            pytest.fail(f"exit {stop.code}")
        assert (status, out) == (2, "")
        assert error.startswith("pa-select: error: ")
        assert error.count("\n") == 1
        return error.removeprefix("pa-select: error: ").rstrip()

    return refused
