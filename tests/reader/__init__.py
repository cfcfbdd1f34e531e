"""Tests of what the reader learns from, how, and how its replies are marked."""
