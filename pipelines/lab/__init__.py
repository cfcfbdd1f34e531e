"""The laboratory, which proves the product and which nothing in the product imports.

Data sets, splits, metrics, the evidence bench, sweeps, training.
"""
