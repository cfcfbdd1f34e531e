"""How each model learns from its rows: the one training stack, and a learner for each kind of model."""
