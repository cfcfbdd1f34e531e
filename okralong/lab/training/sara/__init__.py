"""SARA's training, stage by stage: its examples, its learner, and the figures of the result."""
