"""Does the range that `okralong estimate` prints hold what a run then costs?"""
