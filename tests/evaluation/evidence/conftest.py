"""The invented town as a bench, embedded by the real encoder."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from okralong.lab.datasets.encoder import CachedEncoder
from okralong.lab.datasets.pooling import pool
from okralong.lab.datasets.wiki import read_hotpotqa
from okralong.lab.evidence.bench import Bench
from okralong.lab.evidence.retrievals import Retrievals
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.documents import RawDocument
from okralong.pipelines.indexing.job import Encoder, index_here
from okralong.pipelines.models.weights import resolve_embedding_model
from tests.evaluation.evidence.town import rows


@pytest.fixture(scope="session")
def town(minilm: Callable[[list[str]], npt.NDArray[np.float32]], tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Six questions over one document of the town's nine paragraphs, at 64, 150, 256 and 400 tokens."""
    folder = tmp_path_factory.mktemp("town")
    (folder / "questions.json").write_text(json.dumps(rows()), encoding="utf-8")
    data = read_hotpotqa(folder / "questions.json", "all")
    pooled = pool(data.items, data.texts, 900, 7, name="town")
    encoder = CachedEncoder(Folder.of(folder / "vectors"), resolve_embedding_model("embedded"), lambda: minilm)
    archive = index_here(
        str(folder / "archive"),
        [RawDocument(document.doc_id, document.text, "questions.json") for document in pooled.documents],
        IndexConfig(granularities=[64, 150, 256, 400]),
        Encoder(encoder.encode, encoder.model, lambda: "float32", lambda texts: [False] * len(texts)),
    )
    texts = {document.doc_id: document.text for document in pooled.documents}
    return Bench("town all", pooled, Retrievals(archive, encoder), texts)
