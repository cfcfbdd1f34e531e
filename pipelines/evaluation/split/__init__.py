"""One split for training and evaluation: each question, document and paragraph of all data sets stands on one side."""
