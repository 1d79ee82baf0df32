"""Checks of scores, weights and priors, and their conversion to tensors."""
