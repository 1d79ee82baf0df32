"""
Other tools: what nannyml, evidently and MAPIE say
==================================================

What ``study_other_tools.py`` asks the three packages. They are not among the requirements of the
examples, since evidently 0.7 needs pandas below 3. ``make figures`` installs them in an
environment of their own.
"""

import os

import numpy as np
import pandas as pd

# Two of them would report their use.
os.environ["NML_DISABLE_USAGE_LOGGING"] = os.environ["DO_NOT_TRACK"] = "1"


def estimated_by_cbpe(model, X_labelled, y_labelled, X_new):
    """Return the accuracy on new rows that nannyml estimates of calibrated probabilities."""
    from nannyml import CBPE

    def predictions(X):
        posterior = pd.DataFrame(model.predict_proba(X), columns=names)
        return posterior.assign(predicted=model.predict(X))

    names = [f"class {k}" for k in model.classes_]
    binary = len(names) == 2
    estimator = CBPE(
        problem_type="classification_binary" if binary else "classification_multiclass",
        y_pred_proba=names[1] if binary else dict(zip(model.classes_, names, strict=True)),
        y_pred="predicted",
        y_true="label",
        metrics=["accuracy"],
        chunk_number=1,
    )
    estimator.fit(predictions(X_labelled).assign(label=y_labelled))
    found = estimator.estimate(predictions(X_new)).filter(period="analysis").to_df()
    return float(found["accuracy", "value"].iloc[0])


def estimated_by_dle(model, X_labelled, y_labelled, X_new):
    """Return the root mean squared error on new rows by nannyml's model of the errors."""
    from nannyml import DLE

    def predictions(X):
        return pd.DataFrame(X, columns=names).assign(predicted=np.ravel(model.predict(X)))

    names = [f"column {i}" for i in range(X_labelled.shape[1])]
    estimator = DLE(
        feature_column_names=names,
        y_pred="predicted",
        y_true="label",
        metrics=["rmse"],
        chunk_number=1,
    )
    estimator.fit(predictions(X_labelled).assign(label=y_labelled))
    found = estimator.estimate(predictions(X_new)).filter(period="analysis").to_df()
    return float(found["rmse", "value"].iloc[0])


def share_of_drifted_columns(X_old, X_new):
    """Return the share of columns whose values evidently finds drifted."""
    from evidently import DataDefinition, Dataset, Report
    from evidently.presets import DataDriftPreset

    names = [f"column {i}" for i in range(X_old.shape[1])]
    definition = DataDefinition(numerical_columns=names)
    new, old = (
        Dataset.from_pandas(pd.DataFrame(X, columns=names), definition) for X in (X_new, X_old)
    )
    (first, *_) = Report([DataDriftPreset()]).run(new, old).dict()["metrics"]
    return float(first["value"]["share"])


def prediction_sets(model, X_labelled, y_labelled, *of_rows, confidence_level=0.9):
    """Return MAPIE's sets of classes for each of several arrays of rows: (rows, classes)."""
    from mapie.classification import SplitConformalClassifier

    mapie = SplitConformalClassifier(model, confidence_level=confidence_level, prefit=True)
    mapie.conformalize(X_labelled, y_labelled)
    return [mapie.predict_set(X)[1][:, :, 0] for X in of_rows]


def covered(sets, y, classes):
    """Return whether each set has the label."""
    return sets[np.arange(len(y)), np.searchsorted(classes, y)]
