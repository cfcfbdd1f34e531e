"""Analyzers (rules, heads, adapter, LLM): a question's type, its evidence pattern, whether the passages hold it."""
