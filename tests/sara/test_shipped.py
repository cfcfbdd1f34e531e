"""The compressors that ship: small enough, for the embedded models, and better read than a stranger's vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from okralong.lab.datasets.encoder import cached_encoder
from okralong.lab.training.rows.sources import SampleRows, sample_set
from okralong.lab.training.sara.config import SaraConfig
from okralong.lab.training.sara.examples import Material, alignment_examples
from okralong.lab.training.sara.report import compared
from okralong.lab.training.sara.train import TRAINED, Generator, SaraLearner, is_trained_by
from okralong.pipelines.core.config import load_config
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.models.weights import EMBEDDED, resolve_embedding_model
from okralong.pipelines.sara.artifact import MemoryShape, Shape, adapter_of, read_shape
from okralong.pipelines.sara.compressor import Compressor, load_compressor
from okralong.pipelines.sara.config import ICAE, XRAG, compressor_folder, incompatibility_reason, shipped_folder

MEGABYTES = 15
OF_SLOTS = 4
OF_ONE_VECTOR = 5


@pytest.fixture(scope="module")
def folder() -> Path:
    found = shipped_folder()
    assert found is not None
    return found


def test_it_is_small_and_fits_archives_as_they_are_made(folder: Path) -> None:
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) < MEGABYTES * 10**6
    assert adapter_of(folder) is not None
    shape, fingerprint = read_shape(folder)
    encoder = resolve_embedding_model(EMBEDDED)
    described = {"model": EMBEDDED, "sha256": encoder.sha256, "dimension": shape.inputs}
    assert incompatibility_reason(shape, described, load_config(IndexConfig, "index.yaml").granularities) is None
    assert shape.generator == EMBEDDED
    assert str(fingerprint) in (folder / "README.md").read_text(encoding="utf-8")


def test_the_config_that_lies_beside_it_is_one(folder: Path) -> None:
    """Whoever has only what ships can train it again, and is told so by --report."""
    kept = load_config(SaraConfig, folder / TRAINED)
    shipped = load_config(SaraConfig, "training/sara_small.yaml")
    assert kept.model_copy(update={"figures": shipped.figures}) == shipped
    assert is_trained_by(folder, shipped)


@pytest.mark.soak  # a minute of a real model
def test_true_vectors_make_texts_that_it_never_saw_likelier(folder: Path, tmp_path: Path) -> None:
    """Of made-up reports, of which it has learned none; the interval is over reports."""
    config = load_config(SaraConfig, "training/sara_small.yaml")
    reports = Material(config, [sample_set(SampleRows(reports=8, questions=8, words=1500), seed=3)])
    encode = cached_encoder(tmp_path, EMBEDDED).encode
    examples = alignment_examples(reports.documents, encode, 40, seed=3)
    generator = Generator.load(EMBEDDED)
    learner = SaraLearner(generator.model, generator.tokenizer, Compressor.load(folder), EMBEDDED, reply_tokens=40)
    found = compared(learner, examples, batch_size=8, seed=3)
    assert found.less_shuffled.high is not None
    assert found.less_shuffled.high < 0
    assert found.less_none.high is not None
    assert found.less_none.high < 0


@pytest.fixture(scope="module")
def slots() -> Path:
    found = shipped_folder(ICAE)
    assert found is not None
    return found


def test_memory_slots_are_small_and_fit_any_encoder(slots: Path) -> None:
    assert sum(file.stat().st_size for file in slots.rglob("*") if file.is_file()) < OF_SLOTS * 10**6
    assert adapter_of(slots) is None, "the generator that reads them is the model as it is"
    shape, fingerprint = read_shape(slots)
    assert isinstance(shape, MemoryShape)
    described = {"model": "other", "sha256": "0"}
    assert incompatibility_reason(shape, described, load_config(IndexConfig, "index.yaml").granularities) is None
    assert shape.generator == EMBEDDED
    assert str(fingerprint) in (slots / "README.md").read_text(encoding="utf-8")
    assert is_trained_by(slots, load_config(SaraConfig, "training/icae.yaml"))


def test_the_projector_of_one_vector_is_small_and_fits_archives_as_they_are_made() -> None:
    """xRAG's, by its name in a config; no adapter, the generator that reads it is the model as it is."""
    one_vector = compressor_folder(XRAG)
    assert sum(file.stat().st_size for file in one_vector.rglob("*") if file.is_file()) < OF_ONE_VECTOR * 10**6
    assert adapter_of(one_vector) is None
    shape, fingerprint = read_shape(one_vector)
    assert isinstance(shape, Shape)
    assert shape.vectors_per_chunk == 1
    described = {"model": EMBEDDED, "sha256": resolve_embedding_model(EMBEDDED).sha256, "dimension": shape.inputs}
    assert incompatibility_reason(shape, described, load_config(IndexConfig, "index.yaml").granularities) is None
    assert str(fingerprint) in (one_vector / "README.md").read_text(encoding="utf-8")
    assert is_trained_by(one_vector, load_config(SaraConfig, "training/xrag.yaml"))


@pytest.mark.soak  # a minute of a real model
def test_a_text_s_own_slots_make_it_likelier(slots: Path) -> None:
    """Of made-up reports, of which it has learned none; the interval is over reports."""
    config = load_config(SaraConfig, "training/icae.yaml")
    reports = Material(config, [sample_set(SampleRows(reports=8, questions=8, words=1500), seed=3)])
    examples = alignment_examples(
        reports.documents, lambda texts: np.zeros((len(texts), 0), dtype=np.float32), 32, seed=3
    )
    generator = Generator.load(EMBEDDED)
    learner = generator.learner(load_compressor(slots, EMBEDDED), 40)
    found = compared(learner, examples, batch_size=8, seed=3)
    assert found.less_shuffled.high is not None
    assert found.less_shuffled.high < 0
