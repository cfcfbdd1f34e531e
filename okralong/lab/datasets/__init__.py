"""Read public data sets, in their published formats, into one form."""
