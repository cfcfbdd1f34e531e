"""pipelines/lab/datasets."""
