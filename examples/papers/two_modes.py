"""
A kernel with two maxima
========================

The agreement of a classifier is the maximum of its kernel over the inverse temperature. The
papers take the kernel to be concave [1]_ [2]_. This example has a small problem with two classes
whose kernel has two maxima. It explains why, and shows the bound that finds the higher one.

.. [1] V. Jiménez Rodríguez, "Improved robustness of deep learning models through posterior
   agreement based model selection", Master's thesis, ETH Zurich, 2024, Theorem 3.6.3.
.. [2] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach", Theorem 3.
"""

# %%
# Three kinds of pairs
# --------------------
# With two classes only the margin matters, which is the difference of their scores. Most pairs
# agree with a small margin, some agree with a large one, and a few disagree.
import warnings

import matplotlib.pyplot as plt
import numpy as np

from pa_select import AgreementCurveDisplay, pa_kernel, posterior_agreement

# The library warns that nearly all predictions are of one class, which is intended here.
warnings.filterwarnings("ignore", message=".*of the predictions are of one class")

kinds = {  # number of pairs, margin in the first sample, in the second
    "292 agree, large margins": (292, 44.0475, 44.0475),
    "863 agree, small margins": (863, 0.10787, 0.10787),
    "15 disagree": (15, 1.10364, -1.10364),
}


def scores(number, margin):
    return np.column_stack([np.full(number, margin), np.zeros(number)])


groups = {name: (scores(n, a), scores(n, b)) for name, (n, a, b) in kinds.items()}
a, b = (np.concatenate(side) for side in zip(*groups.values(), strict=True))
result = posterior_agreement(a, b)
print(result)

# %%
# Even the kernel of one pair is not concave. For a pair with the scores (1, 0) in both samples,
# the numerical second derivative at 0 is 1/2, as theory predicts.
step = 1e-3
one = np.array([[1.0, 0.0]])
k0, k1, k2 = pa_kernel(one, one, step * np.arange(3))
print(f"second derivative at 0: {(k2 - 2 * k1 + k0) / step**2:.3f}")

# %%
# The local maximum, where an ascent from beta = 1 ends, is much lower.
betas = np.geomspace(1e-3, 1e3, 4001)
kernel = pa_kernel(a, b, betas)
peaks = 1 + np.flatnonzero((kernel[1:-1] > kernel[:-2]) & (kernel[1:-1] > kernel[2:]))
for peak in peaks:
    print(f"maximum of {kernel[peak]:.4f} nats at beta = {betas[peak]:.3f}")


# %%
# An upper bound from a few evaluations
# -------------------------------------
# The kernel is a difference of two convex functions, :math:`L_1 - L_2`, which are means over pairs
# of log-sum-exps. Between two evaluated temperatures :math:`L_1` lies below its chord and
# :math:`L_2` above both tangents, so chord minus tangents is an upper bound. Each evaluation
# lowers the bound nearby; the solver evaluates where the bound is highest.
def log_sum_exp(x, beta):
    """Return the mean over rows of log sum exp(beta x), and its derivative."""
    top = x.max(1, keepdims=True)  # subtracted in the exponent, so that nothing underflows
    weights = np.exp(beta * (x - top))
    total = weights.sum(1, keepdims=True)
    return (beta * top + np.log(total)).mean(), (weights * x / total).sum(1).mean()


def parts(beta):
    below_a, below_b = (x - x.max(1, keepdims=True) for x in (a, b))
    l1, _ = log_sum_exp(below_a + below_b, beta)
    l2, slope = np.add(log_sum_exp(below_a, beta), log_sum_exp(below_b, beta))
    return l1, l2, slope


def bound(knots, n=80):
    """Return chord minus the higher tangent between knots, plus the uniform prior's log 2."""
    found = [], []
    for left, right in zip(knots[:-1], knots[1:], strict=True):
        (l1, l2, slope), (r1, r2, steep) = parts(left), parts(right)
        t = np.geomspace(left, right, n)
        chord = l1 + (r1 - l1) * (t - left) / (right - left)
        tangent = np.maximum(l2 + slope * (t - left), r2 + steep * (t - right))
        found[0].extend(t)
        found[1].extend(chord - tangent + np.log(2))
    return np.array(found[0]), np.array(found[1])


coarse, fine = np.geomspace(1e-2, 1e3, 9), np.geomspace(1e-2, 1e3, 33)
for knots in (coarse, fine):
    t, upper = bound(knots)
    assert (upper >= pa_kernel(a, b, t) - 1e-12).all()
    print(f"{len(knots)} evaluations: at most {upper.max():.3f} nats, best {result.score:.3f}")

# %%
# What it looks like
# ------------------
# The upper panel shows the contribution of each kind of pairs to the kernel. Large margins
# contribute already at low inverse temperatures. Then the disagreeing pairs lower the kernel, and
# only at much higher ones do the small margins outweigh that. The lower panel shows the sum with
# its bounds.
figure, (above, below) = plt.subplots(
    2, 1, figsize=(8, 7), sharex=True, height_ratios=[2, 3], layout="constrained"
)
styles = [("#0072B2", "-"), ("#009E73", "--"), ("#D55E00", ":")]  # safe for colour-blind readers
for (name, group), (colour, line) in zip(groups.items(), styles, strict=True):
    share = len(group[0]) / len(a) * pa_kernel(*group, betas)
    above.plot(betas, share, line, color=colour, lw=2, label=name)
above.axhline(0, color="grey", lw=0.8)
above.set(ylim=(-0.45, 0.6), ylabel="part of the agreement (nats)")
above.legend(loc="upper left")

for knots, alpha in ((coarse, 0.3), (fine, 0.9)):
    t, upper = bound(knots)
    below.fill_between(
        t,
        pa_kernel(a, b, t),
        upper,
        color="#56B4E9",
        alpha=alpha,
        lw=0,
        label=f"still possible after {len(knots)} evaluations",
    )
display = AgreementCurveDisplay.from_result(
    result, betas=betas, ax=below, name="certified maximum", color="#0072B2"
)
low = peaks[0]
below.plot(betas[low], kernel[low], "X", ms=9, color="#D55E00", label="local maximum")
below.set(xlim=(1e-2, 1e3), ylim=(0, 0.6))
below.legend(loc="upper left", fontsize="small")
above.set_title("Two maxima: three kinds of pairs, each with its own scale")
plt.show()
