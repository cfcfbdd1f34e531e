"""pipelines/run."""
