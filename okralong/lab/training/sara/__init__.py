"""SARA's training, stage after stage: its examples, its learner, and the figures of what was trained."""
