"""Prepare runs: config, questions, checks, cost estimates, matrices and nightly runs."""
