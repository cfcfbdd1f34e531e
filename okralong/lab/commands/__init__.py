"""The commands of experiments: sweeps, tuning, comparison, the evidence bench, training."""
