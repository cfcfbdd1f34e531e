"""The evidence bench: how much of the gold evidence a policy shows for how many tokens, without any generator."""
