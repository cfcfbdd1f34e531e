"""The rows that models learn from: what they hold, and how data sets and a generator give them."""
