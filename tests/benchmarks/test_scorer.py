"""The share of a search's time that `PAScorer` needs for the agreement.

Run it with ``make bench``, which writes the table of docs/performance.
"""

import numpy as np
import pytest
from helpers.scorer_share import MODELS, SCORERS, scorer_share


@pytest.mark.slow
@pytest.mark.parametrize("pairing", SCORERS)
@pytest.mark.parametrize("model", MODELS)
def test_share_of_a_search(benchmark, figures, one_thread, model, pairing):
    how = model, pairing, 900 if benchmark.enabled else 200
    share, search = benchmark.pedantic(scorer_share, how, rounds=1)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    if benchmark.enabled:
        row = {"classifier": model, "pairs": pairing, "share of the agreement": f"{share:.0%}"}
        figures("scorer_share", row)
        print(row)
