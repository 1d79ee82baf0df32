"""Run the command line: ``python -m pa_select``."""

import sys

from pa_select.command_line.command import main

if __name__ == "__main__":
    sys.exit(main())
