"""The evidence bench: measure how much marked evidence a policy shows and with how many tokens, without a generator."""
