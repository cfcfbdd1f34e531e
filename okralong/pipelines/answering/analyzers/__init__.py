"""Analyzers (rules, heads, adapter, LLM), which label a question's type, pattern and evidence."""
