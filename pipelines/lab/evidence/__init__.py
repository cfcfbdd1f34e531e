"""pipelines/lab/evidence."""
