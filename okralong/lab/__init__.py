"""The laboratory: data sets, splits, the evidence bench, sweeps and training.

The product never imports it; its commands reach the command line by entry point (``okralong.jobs.plugins``).
"""
