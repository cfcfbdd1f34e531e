"""The training stack, and a learner for each kind of model."""
