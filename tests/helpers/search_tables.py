"""Whether two searches found the same, but for the times that they took."""

import numpy as np


def same_tables(one, other, names=None):
    """Assert that columns of two tables are equal: those of these names, or all but the times."""
    assert set(one) == set(other)
    for name, values in one.items():
        if name != "params" and (name in names if names else not name.endswith("_time")):
            both = np.ma.asarray(values), np.ma.asarray(other[name])
            close = both[0].dtype.kind == "f"
            compare = np.testing.assert_allclose if close else np.testing.assert_array_equal
            compare(*both, err_msg=name)
