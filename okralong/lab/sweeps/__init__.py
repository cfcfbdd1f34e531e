"""Sweeps: run methods, sets, variants and seeds under one budget, and report intervals and paired tests."""
