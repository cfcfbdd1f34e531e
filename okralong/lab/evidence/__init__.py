"""The evidence bench.

What a retrieval policy shows of the marked evidence, for how many tokens, without a generator.
"""
