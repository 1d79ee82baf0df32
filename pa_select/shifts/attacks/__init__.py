"""Attacks: shifts that are chosen to change the decisions of a given classifier."""
