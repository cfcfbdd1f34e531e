"""Serving a local model at an OpenAI-compatible address, as a process that ends with its driver."""
