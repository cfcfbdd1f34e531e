"""jobs/lab."""
