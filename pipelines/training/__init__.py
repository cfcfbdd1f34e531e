"""Training the analyzer: rows from data sets, the training job, the trained heads, and what they are worth."""
