"""
Why the maximum is certified
============================

Posterior agreement is the maximum of a kernel over the inverse temperature. The papers that
introduced it take the kernel to be concave and maximise it with Adam, from beta = 1. But the
kernel is not concave: it can have several maxima, its slope at 0 is always 0, and often its
supremum lies at infinity, which an optimiser does not reach. This example shows problems
where Adam stops below the maximum, and the bound that certifies the maximum instead.
"""

# %%
# The problems
# ------------
# Three real classifiers predict scikit-learn's digits and a noisier copy of them. The other
# problems are constructed to be hard, as their names say.
import warnings

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from pa_select import class_scores, pa_kernel, posterior_agreement

# The library warns if nearly all predictions are of one class.
warnings.filterwarnings("ignore", message=".*of the predictions are of one class")

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
noisier = X_test + np.random.default_rng(0).normal(scale=2, size=X_test.shape)


def scores_of(classifier):
    classifier.fit(X_train, y_train)
    return class_scores(classifier, X_test)[0], class_scores(classifier, noisier)[0]


def margins(*groups):
    """Two-class pairs from (number, margin in A, margin in B)."""
    number, a, b = zip(*groups, strict=True)
    return [np.column_stack([np.repeat(m, number), np.zeros(sum(number))]) for m in (a, b)]


neighbours = scores_of(KNeighborsClassifier(5))
problems = {
    "logistic regression": scores_of(LogisticRegression(max_iter=5000)),
    "naive Bayes, over-confident": scores_of(GaussianNB()),
    "five neighbours": neighbours,
    "a classifier and itself": (neighbours[0], neighbours[0]),
    "random, Table 4.1": margins((500, 1, 1), (500, 1, -1)),
    "perfect, Table 4.1": margins((1000, 1, 1)),
    "two modes": margins(
        (292, 44.0475, 44.0475), (863, 0.10787, 0.10787), (15, 1.10364, -1.10364)
    ),
    "tiny margins, 5 of 1000 disagree": margins((995, 1e-2, 1e-2), (5, 1e-2, -1e-2)),
}


# %%
# Adam as in the papers, and the certified maximum
# ------------------------------------------------
def adam(a, b, n_steps):
    """Adam on full batches, in double precision, with learning rate 0.1 from beta = 1."""
    a, b = torch.as_tensor(a), torch.as_tensor(b)
    beta = torch.ones((), dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([beta], lr=0.1)
    for _ in range(n_steps):
        optimiser.zero_grad()
        log_overlap = torch.logsumexp(
            torch.log_softmax(beta * a, 1) + torch.log_softmax(beta * b, 1), 1
        )
        (-log_overlap.mean()).backward()
        optimiser.step()
    return max(beta.item(), 0.0)


print("agreement in nats (at beta)          Adam, 500          Adam, 1000     certified maximum")
for name, (a, b) in problems.items():
    row = f"{name:34s}"
    for n_steps in (500, 1000):
        beta = adam(a, b, n_steps)
        row += f"{pa_kernel(a, b, beta):9.5f} ({beta:7.2f})"
    result = posterior_agreement(a, b)
    row += f"{result.score:11.5f} ({result.beta:7.2f}), gap {result.gap:.0e}"
    print(f"{row}, {result.n_evaluations} evaluations")

# %%
# Agreement is not accuracy, so here is the accuracy of the three classifiers. All classes of
# naive Bayes have probabilities near 0 or 1: wherever its predictions for the two samples
# differ, the agreement of the pair is very low.
print(f"{'accuracy on':34s}digits  noisier copy  agreement (nats per pair)")
for name, (a, b) in list(problems.items())[:3]:
    accuracy, noisy = (np.mean(scores.argmax(1) == y_test) for scores in (a, b))
    score = posterior_agreement(a, b).score
    print(f"{name:34s}{accuracy:6.3f}{noisy:14.3f}{score:27.3f}")

# %%
# The certificate, drawn
# ----------------------
# The kernel is a difference of two convex functions, L1 - L2. Between two evaluated
# temperatures L1 lies below its chord and L2 above its tangents. This gives an upper bound of
# the kernel, here from nine evaluations. Where the bound is above the best value found, the
# kernel may still have a higher value. The solver evaluates the kernel there next, until the
# bound is nowhere above the best value by more than the tolerance.
a, b = problems["two modes"]
knots = np.geomspace(0.01, 300, 9)


def convex_parts(beta, step=1e-6):
    def parts(beta):
        joint, one, other = (
            np.logaddexp.reduce(beta * (s - s.max(1, keepdims=True)), axis=1).mean()
            for s in (a + b, a, b)
        )
        peak = ((a + b).max(1) - a.max(1) - b.max(1)).mean()
        return np.array([joint + beta * peak, one + other])

    value = parts(beta)
    return *value, *((parts(beta * (1 + step)) - value) / (beta * step))


values = np.array([convex_parts(beta) for beta in knots])
fine, bound = [], []
for left, right, (l1, l2, _, d2), (r1, r2, _, e2) in zip(
    knots[:-1], knots[1:], values[:-1], values[1:], strict=True
):
    t = np.geomspace(left, right, 60)
    chord = l1 + (r1 - l1) * (t - left) / (right - left)
    tangents = np.maximum(l2 + d2 * (t - left), r2 + e2 * (t - right))
    fine.append(t)
    bound.append(chord - tangents + np.log(2))
fine, bound = np.concatenate(fine), np.concatenate(bound)
result = posterior_agreement(a, b)
figure, axes = plt.subplots(figsize=(8, 4.6), layout="constrained")
ink = axes.xaxis.label.get_color()  # black on a light ground, white on a dark one
axes.fill_between(
    fine, pa_kernel(a, b, fine), bound, color="#56B4E9", alpha=0.4, lw=0, label="still possible"
)
axes.plot(fine, pa_kernel(a, b, fine), color="#0072B2", label="kernel")
axes.plot(knots, pa_kernel(a, b, knots), "o", color=ink, ms=4, label="nine evaluations")
axes.plot(
    result.beta,
    result.score,
    "*",
    color="#D55E00",
    markeredgecolor=ink,
    markersize=15,
    label="certified maximum",
)
started = [1.0, adam(a, b, 1000)]
for beta, marker, name in zip(started, "sX", ("start", "after 1000 steps"), strict=True):
    axes.plot(
        beta,
        pa_kernel(a, b, beta),
        marker,
        color="#009E73",
        markeredgecolor=ink,
        markersize=9,
        linestyle="none",
        label=f"Adam, {name}",
    )
axes.set(
    xscale="log",
    ylim=(0, 0.6),
    xlabel=r"inverse temperature $\beta$",
    ylabel="agreement (nats per pair)",
    title="Two modes, and the bound that tells them apart",
)
axes.legend()
plt.show()
