"""Images with set factors, and subsets of WILDS."""

from papers.datasets.co_occurrence import co_occurrence as co_occurrence
from papers.datasets.factor_images import factor_images as factor_images
from papers.datasets.levels import FACTOR_LADDERS as FACTOR_LADDERS
from papers.datasets.levels import FACTOR_LEVELS as FACTOR_LEVELS
from papers.datasets.levels import SHORTCUT_LEVELS as SHORTCUT_LEVELS
from papers.datasets.levels import factor_combinations as factor_combinations
from papers.datasets.wilds import WILDSData as WILDSData
