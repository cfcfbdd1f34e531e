"""Benchmarks of okralong; each prints a ratio or a share, and ``results/`` contains what was measured."""
