"""An estimator that counts its fits, in a module that every process finds by the same name."""

import os
from pathlib import Path

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.naive_bayes import GaussianNB


class Counting(ClassifierMixin, BaseEstimator):
    """Naive Bayes that leaves a mark for each fit."""

    def __init__(self, folder=None, var_smoothing=1e-9, stop_at=None):
        self.folder = folder
        self.var_smoothing = var_smoothing
        self.stop_at = stop_at

    def fit(self, X, y, sample_weight=None):
        marks = len(os.listdir(self.folder))
        if marks == self.stop_at:
            raise KeyboardInterrupt
        (Path(self.folder) / f"{os.getpid()}_{marks}").touch()
        self.inner_ = GaussianNB(var_smoothing=self.var_smoothing).fit(X, y, sample_weight)
        self.classes_ = self.inner_.classes_
        return self

    def predict(self, X):
        return self.inner_.predict(X)

    def predict_proba(self, X):
        return self.inner_.predict_proba(X)
