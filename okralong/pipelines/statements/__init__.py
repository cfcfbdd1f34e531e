"""Read numbers, dates and tables of financial statements, and calculate with them, without a model."""
