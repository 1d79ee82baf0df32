"""Pairs of scores in memory, in chunks or in several processes, read block by block."""
