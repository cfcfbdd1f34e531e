"""Call the generator: requests, rate limits, budget, journal, ledger, batches, prices."""
