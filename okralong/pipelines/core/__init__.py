"""Shared by all packages: values and errors, table schemas, storage, settings, tokens, logs."""
