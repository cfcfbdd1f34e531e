"""The sample archive: made-up annual reports with questions whose answers and evidence are known to the character.

The demo, the tests and the scale benchmarks generate it in the size that they need.
"""
