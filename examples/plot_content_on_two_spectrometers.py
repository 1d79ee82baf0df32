"""
A content on two real spectrometers
===================================

A laboratory predicts the content of tablets from their spectra. A second spectrometer replaces
the first one. Sixty tablets were measured by both, and nobody assayed them. Which regressor, and
which way to prepare a spectrum, should be used at the second instrument, and how large will the
error be there?

The instruments, the tablets and the assays are real.
"""

# %%
# The search
# ----------
# The candidates are ten regressors after four ways to prepare a spectrum: as it is, standard
# normal variate, first derivative, and both. 250 tablets of the first instrument are assayed.
# Scikit-learn's `GridSearchCV` scores every candidate by cross-validation, and by the error that
# is expected at the second instrument, with and without an adapter (below). The candidate of the
# smallest expected error without one is refitted.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import GridSearchCV, KFold
from spectrometers import read
from study_regressors import GRID, MODEL, RMSE

from pa_select import SiteAdapter, expected_score, expected_scorer

(first, second), _, _, content = read("tablets")
order = np.random.default_rng(0).permutation(len(content))
labelled, kept, pairs, test = np.split(order, [250, 310, 370])

scoring = {
    "first": RMSE,
    "expected": expected_scorer(first[pairs], second[pairs], scoring=RMSE),
    "adapted": expected_scorer(first[pairs], second[pairs], scoring=RMSE, adapter="ridge"),
}
folds = KFold(5, shuffle=True, random_state=0)
search = GridSearchCV(MODEL, GRID, scoring=scoring, refit="expected", cv=folds)
search.fit(first[labelled], content[labelled])


def error_of(model, rows):
    return root_mean_squared_error(content[test], model.predict(rows))


table = search.cv_results_
models = [clone(MODEL).set_params(**clone(params, safe=False)) for params in table["params"]]
truth = np.array(
    [error_of(m.fit(first[labelled], content[labelled]), second[test]) for m in models]
)
usual = table["mean_test_first"].argmax()
print(f"standard deviation of the content: {content.std():.1f} mg")
print(f"error of the choice by cross-validation: {truth[usual]:.1f} mg at the second instrument")
print(f"error of the choice by pairs: {truth[search.best_index_]:.1f} mg")

# %%
# Each candidate
# --------------
# Cross-validation knows the first instrument only, and promises small errors for nearly all. At
# the second instrument some candidates are worse than the mean content, and the pairs show which.
# The expected errors are somewhat too large: both instruments have noise of their own, and the
# estimate assumes that the second one shows nothing that the first one hides.
figure, ax = plt.subplots(figsize=(6, 5), layout="constrained")
ax.plot(truth, -table["mean_test_first"], "x", color="0.5", label="cross-validation")
ax.plot(truth, -table["mean_test_expected"], "o", color="C0", label="expected from sixty pairs")
best = search.best_index_
ax.plot(truth[best], -search.best_score_, "o", ms=14, mfc="none", color="C3", label="chosen")
ax.plot([3, 40], [3, 40], color="0.6", lw=0.8)
ticks = [3, 5, 10, 20, 40]
ax.set(xlabel="error at the second instrument [mg]", ylabel="predicted error [mg]")
ax.set(xscale="log", xticks=ticks, xticklabels=ticks)
ax.set(yscale="log", yticks=ticks, yticklabels=ticks)
ax.minorticks_off()
ax.legend()
plt.show()

# %%
# What to report
# --------------
# The error of the chosen regressor is the best of forty estimates. Sixty assayed tablets that the
# search has not seen give another estimate, with its standard error and with an interval that
# assumes nothing of the predictions.
found = expected_score(
    search, first[pairs], second[pairs], first[kept], content[kept], scoring=RMSE
)
print(f"expected: {-found.score:.1f} +- {1.96 * found.standard_error:.1f} mg")
print(f"95 % in {-found.high:.1f} to {-found.low:.1f} mg")

# %%
# Direct standardisation
# ----------------------
# A regression on the pairs can map the second instrument's spectra to those of the first one. The
# third score expects the errors after that. The adapter is worth it if its smallest one is less.
best = table["mean_test_adapted"].argmax()
adapter = SiteAdapter().fit(second[pairs], first[pairs])
print(f"expected with an adapter: {-table['mean_test_adapted'][best]:.1f} mg")
print(f"in truth: {error_of(models[best], adapter.transform(second[test])):.1f} mg")
