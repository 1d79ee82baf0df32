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
# `PASearchCV` scores every candidate by cross-validation, and adds the change of the error that
# the pairs lead one to expect. The candidate of the smallest expected error is refitted.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import KFold
from spectrometers import GRID, MODEL, RMSE, read

from pa_select import PASearchCV, expected_score

(first, second), _, _, content = read("tablets")
order = np.random.default_rng(0).permutation(len(content))
labelled, kept, pairs, test = np.split(order, [250, 310, 370])

both = first[pairs], second[pairs]
folds = KFold(5, shuffle=True, random_state=0)
search = PASearchCV(MODEL, GRID, scoring=RMSE, cv=folds)
search.fit(first[labelled], content[labelled], paired=both)


def error_of(model, rows):
    return root_mean_squared_error(content[test], model.predict(rows))


table = search.cv_results_
models = [clone(MODEL).set_params(**clone(params, safe=False)) for params in table["params"]]
truth = np.array(
    [error_of(m.fit(first[labelled], content[labelled]), second[test]) for m in models]
)
usual = table["mean_test_score"].argmax()
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
ax.plot(truth, -table["mean_test_score"], "x", color="0.5", label="cross-validation")
ax.plot(truth, -table["expected_score"], "o", color="C0", label="expected from sixty pairs")
best = search.best_index_
ax.plot(truth[best], -search.expected_score_, "o", ms=14, mfc="none", color="C3", label="chosen")
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
# search has not seen give another estimate, with one standard error behind +-, and with an
# interval that assumes nothing of the predictions.
found = expected_score(search, *both, first[kept], content[kept], scoring=RMSE)
print(f"expected: {-found.score:.1f} +- {found.standard_error:.1f} mg")
print(f"95 % in {-found.high:.1f} to {-found.low:.1f} mg")

# %%
# Direct standardisation
# ----------------------
# A regression on the pairs can map the second instrument's spectra to those of the first one.
# With an adapter the search judges each candidate with and without it, and `best_adapted_` is what
# to use at the second instrument.
search = PASearchCV(MODEL, GRID, scoring=RMSE, cv=folds, adapter="ridge")
search.fit(first[labelled], content[labelled], paired=both)
print(f"expected with an adapter: {-search.expected_score_:.1f} mg")
print(f"in truth: {error_of(search.best_adapted_, second[test]):.1f} mg")
