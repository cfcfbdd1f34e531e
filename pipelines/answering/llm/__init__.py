"""The money room: one way to the generator, with a limiter, a budget, a journal and a ledger around it."""
