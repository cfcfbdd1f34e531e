"""pipelines/lab."""
