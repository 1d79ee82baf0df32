"""Pickles: loaded with the versions that they were saved with, refused with a clear error."""

import pickle
from copy import deepcopy

import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.naive_bayes import GaussianNB

from pa_select import PASearchCV

X, Y = load_wine(return_X_y=True)
GRID = {"var_smoothing": [1e-9, 1e-2]}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")
def test_pickles_of_other_versions_are_refused(monkeypatch):
    fitted = PASearchCV(GaussianNB(), GRID, cv=2).fit(X, Y)
    data = pickle.dumps(fitted)
    loaded = pickle.loads(data)
    for other in (loaded, deepcopy(fitted), clone(fitted)):
        assert not hasattr(other, "_saved_with")
        assert repr(other) == repr(fitted)
    monkeypatch.setattr(sklearn, "__version__", sklearn.__version__ + ".post1")
    pickle.loads(data)
    monkeypatch.setattr(sklearn, "__version__", "1.3.0")
    with pytest.raises(pickle.UnpicklingError, match="was saved with scikit-learn .* and cannot"):
        pickle.loads(data)
    monkeypatch.undo()
    monkeypatch.setattr("pa_select.utils.estimators.__version__", "0.0.1")
    with pytest.raises(pickle.UnpicklingError, match="was saved with pa_select .* loaded with 0"):
        pickle.loads(data)
