"""The analyzers: readable rules, and a causal language model that scores the allowed labels."""
