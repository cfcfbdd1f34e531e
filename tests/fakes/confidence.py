"""A model of confidence that covers generators of tests."""

from __future__ import annotations

from pathlib import Path

from okralong.pipelines.answering.confidence_model import ConfidenceModel, load_confidence


def covering(*generators: str) -> ConfidenceModel:
    """Return the shipped model as if it had been fitted on answers of these generators."""
    shipped = load_confidence("shipped")
    assert shipped is not None
    generated = {f"{status}/generated": 1 for status in ("answered", "unanswerable")}
    return shipped.model_copy(update={"generators": generators, "fitted": {**shipped.fitted, **generated}})


def written(folder: Path, *generators: str) -> str:
    """Write such a model to a file in ``folder`` and return its path."""
    file = folder / "confidence.json"
    file.write_text(covering(*generators).model_dump_json())
    return str(file)
