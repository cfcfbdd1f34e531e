"""The training loop, and a learner for each kind of model."""
