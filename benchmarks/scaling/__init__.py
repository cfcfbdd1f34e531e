"""Measure how the costs of an archive grow, and calculate what a night costs."""
