"""Train SARA stage by stage: the examples, the learner, and the figures of the result."""
