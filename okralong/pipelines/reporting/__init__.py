"""A run or a sweep as one page, with its pictures and tables in a folder next to it."""
