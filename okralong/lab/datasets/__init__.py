"""The public data sets in their published formats, read into one form."""
