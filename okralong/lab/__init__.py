"""Experiments: data sets, splits, metrics, the evidence bench, sweeps, training.

Of the product only ``jobs/cli.py`` (command names and options) and ``jobs/report.py`` (when called) import them.
"""
