"""Gold answers, and how answers and contexts are held against them."""
