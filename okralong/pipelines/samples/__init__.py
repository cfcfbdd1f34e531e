"""The sample archive: invented annual reports with questions whose answers and evidence are known to the character.

The demo, the tests and the scale benchmarks draw on it at whatever size they need. It is kept as code, not as files.
"""
