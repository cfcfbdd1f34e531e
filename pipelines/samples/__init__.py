"""The sample archive: invented annual reports with questions whose answers and evidence are known to the character.

The demo, the tests and the scale benchmarks draw on it at whatever size they need. It is kept as code, not as files.
"""

from okralong.pipelines.samples.questions import MINIMUM_WORDS, UNANSWERABLE, Sample, generate, write_sample

__all__ = ["MINIMUM_WORDS", "UNANSWERABLE", "Sample", "generate", "write_sample"]
