"""The laboratory's commands: sweeps, tuning, comparison, the evidence bench, training."""
