"""The rows that models learn from, made from data sets and by a generator."""
