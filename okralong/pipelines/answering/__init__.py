"""From a question to a plan, its context, and a cited answer."""
