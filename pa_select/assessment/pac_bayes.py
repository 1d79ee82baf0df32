"""The PAC-Bayes bound from the sharpness of a network."""

from __future__ import annotations

import math

from pa_select.utils.estimators import module_of
from pa_select.utils.typing import Module


def pac_bayes_bound(module: Module, initial: Module, sigma: float, n_rows: int) -> float:
    r"""Compute the complexity term of the PAC-Bayes bound around the initial weights.

    Parameters
    ----------
    module : torch.nn.Module or fitted skorch net
        The trained network.
    initial : torch.nn.Module
        The same network before training.
    sigma : float
        The sharpness of `module`, from `sharpness` with ``kind="pac_bayes"``; positive.
    n_rows : int
        Number of rows that `module` was trained on.

    Returns
    -------
    float
        :math:`\|w - w^0\|^2 / \sigma^2 + \log(m / \sigma) + 10` over all parameters. Lower
        values are meant to go with better generalisation.

    Raises
    ------
    TypeError, ValueError
        If the modules have other parameters, or a number is not positive.

    References
    ----------
    .. [1] "Benchmarking Robustness Measures", appendix C.3 (equation 17).
    .. [2] Y. Jiang et al., "Fantastic generalization measures and where to find them", 2019,
       appendix C.4.

    Examples
    --------
    >>> import copy, torch
    >>> from pa_select.assessment import pac_bayes_bound
    >>> trained = torch.nn.Linear(3, 2)
    >>> initial = copy.deepcopy(trained)
    >>> with torch.no_grad():
    ...     _ = trained.bias.add_(1)
    >>> round(pac_bayes_bound(trained, initial, sigma=0.5, n_rows=100), 3)  # 8 + log(200) + 10
    23.298
    """
    for name, number in (("sigma", sigma), ("n_rows", n_rows)):
        if not 0 < number < math.inf:
            raise ValueError(f"{name}: expected a positive number, got {number!r}.")
    sides = []
    for name, network in (("module", module), ("initial", initial)):
        parameters = getattr(module_of(network), "named_parameters", None)
        if parameters is None:
            raise TypeError(f"{name}: expected a torch module, got {type(network).__name__}.")
        sides.append({key: values.detach().cpu().double() for key, values in parameters()})
    shapes = [{key: tuple(values.shape) for key, values in side.items()} for side in sides]
    if shapes[0] != shapes[1]:
        raise ValueError(f"initial: expected parameters {shapes[0]}, got {shapes[1]}.")
    trained, before = sides
    distance = sum(float((trained[key] - before[key]).square().sum()) for key in trained)
    return distance / sigma**2 + math.log(n_rows / sigma) + 10
