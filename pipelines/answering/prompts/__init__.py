"""The prompts, each with its contract and the parser of its reply beside it."""
