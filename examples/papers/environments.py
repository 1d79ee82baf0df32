"""
The environments of the papers, as tables
=========================================

Prints the level of each factor in each environment of Experiments 5 to 7, with the number of the
table in the thesis and in the paper that has it, and the levels that are tied to digits in
Experiment 7. ``factor_images.py`` draws images of them.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # modules of examples/

import pandas as pd

from papers.datasets import FACTOR_LADDERS, SHORTCUT_LEVELS

# The names of the ladders of each table.
TABLES = {
    "Tables 4.6 and C.1, the paper's Table 2 (Experiments 5a, 5b and 5c)": ["discriminability"],
    "Tables 5.1 and C.4, the paper's Table 3 (Experiment 6, training and validation, hue)": [
        f"hue {name}" for name in ("training", "SD", "ID", "1F-MD", "5F-MD", "OOD")
    ],
    "Tables 5.2 and C.2 (Experiment 6, tests, hue)": ["hue"],
    "Table C.5 (Experiment 6, training and validation, position)": [
        f"position {name}" for name in ("training", "SD", "ID", "1F-MD", "5F-MD", "OOD")
    ],
    "Table C.3 (Experiment 6, tests, position)": ["position"],
    "Table C.6 (Experiment 7, tests)": ["hue shortcut", "position shortcut"],
}

for title, names in TABLES.items():
    ladders = {name: pd.DataFrame(FACTOR_LADDERS[name]) for name in names}
    print(title, pd.concat(ladders).fillna("").to_string(), sep="\n", end="\n\n")
print("Figure 5.1, the paper's Figure 12 (Experiment 7): levels by digit, in both sources")
for factor, sources in SHORTCUT_LEVELS.items():
    print(pd.DataFrame(sources, index=[f"{factor}, source {k}" for k in (1, 2)]).to_string())
