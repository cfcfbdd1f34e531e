"""The rows that models learn from, and how data sets and a generator give them."""
