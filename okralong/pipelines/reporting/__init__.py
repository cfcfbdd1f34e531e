"""A run or a sweep as one page to look at, with its pictures and tables beside it."""
