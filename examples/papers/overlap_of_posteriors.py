"""
The overlap of two posteriors
=============================

Figure 2.2 of the thesis and Figure 2 of the paper are drawings of two posteriors over a parameter,
at low, optimal and high inverse temperatures. Here they are computed on a grid: the values of the
parameter are the classes of a single pair, and both costs are squares, with minima at a distance
of 1. (On the whole line the best inverse temperature would be 1.)
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import softmax

from pa_select import pa_kernel, posterior_agreement

theta = np.linspace(-3, 3, 601)
first, second = -((theta - 0.5) ** 2), -((theta + 0.5) ** 2)
best = posterior_agreement([first], [second])
print(f"{best.score:.2f} nats at beta = {best.beta:.2f}")

figure, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
for ax, beta in zip(axes, (0.1, best.beta, 10), strict=True):
    agreement = float(pa_kernel([first], [second], [beta])[0])
    print(f"beta = {beta:5.2f}: agreement {agreement:6.2f} nats")
    for scores, colour in ((first, "#0072B2"), (second, "#D55E00")):
        ax.fill_between(theta, softmax(beta * scores), color=colour, alpha=0.5)
    ax.set(title=f"beta = {beta:.2g}, {agreement:.2f} nats", xlabel="parameter", yticks=[])
plt.show()
