"""Certified maxima over the inverse temperature, in numpy; the kernels are in ``agreement``."""
