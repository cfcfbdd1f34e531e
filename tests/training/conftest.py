"""The invented town of the evidence bench serves here, too."""

from tests.evaluation.evidence.conftest import town

__all__ = ["town"]
