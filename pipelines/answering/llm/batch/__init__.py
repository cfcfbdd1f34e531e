"""Batch mode: the same requests at the price of those who can wait."""
