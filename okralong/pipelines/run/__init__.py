"""Runs before they start: config, questions and checks, cost estimates, matrices and nights."""
