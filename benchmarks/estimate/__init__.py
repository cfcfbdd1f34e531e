"""Check whether the range of `okralong estimate` contains the actual cost."""
