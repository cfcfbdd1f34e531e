"""From a question to a cited answer and its bill."""
