"""Make the rows that models learn from, out of data sets and a generator's replies."""
