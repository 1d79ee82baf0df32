"""One problem spread over the processes of a group, and the same in one process.

Each process has one thread. A machine with fewer idle cores than processes shows no gain.
"""

from statistics import median

import pytest
from helpers import processes


def test_processes(benchmark, figures, tmp_path):
    if not benchmark.enabled:
        pytest.skip("for the table only")

    def solved_by(n_ranks):
        folder = tmp_path / str(n_ranks)
        folder.mkdir()
        return processes.ask(n_ranks, folder, processes.times_of_solves)[0]

    alone, together = solved_by(1), benchmark.pedantic(solved_by, (2,))
    for prior in alone:
        row = {
            "pairs": processes.MANY,
            "classes": processes.CLASSES_OF_MANY,
            "prior": prior,
            "processes": 2,
            "speed, one process = 1": f"{median(alone[prior]) / median(together[prior]):.2f}",
        }
        figures("processes", row)
        print(row)
