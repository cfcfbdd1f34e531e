"""Fit and measure models of confidence from runs whose questions have gold answers."""
