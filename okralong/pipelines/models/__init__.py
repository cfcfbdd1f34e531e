"""Local models: where their weights come from and how to run them on this machine."""
