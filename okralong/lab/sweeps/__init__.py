"""Sweeps: methods, sets, policy variants and seeds under one budget, with intervals and paired tests."""
