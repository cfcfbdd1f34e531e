"""pipelines/lab/sweeps."""
