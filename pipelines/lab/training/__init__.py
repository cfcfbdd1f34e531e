"""pipelines/lab/training."""
