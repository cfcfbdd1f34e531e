"""Other frameworks' ingestion, run by another Python that has them: `python frameworks.py NAME MODEL`.

Reads one JSON list of texts a line, embeds them, writes the seconds by the clock and of the processor. Knows
`llama_index` (IngestionPipeline with HuggingFaceEmbedding) and `haystack` (SentenceTransformersDocumentEmbedder and
DocumentWriter in a Pipeline). No import of okralong: that Python need not have it.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable

LIMIT = 512
BATCH = 32


def main() -> None:
    name, model = sys.argv[1:]
    ingest = {"llama_index": _llama_index, "haystack": _haystack}[name](model)
    ingest(["warm up"])
    print(json.dumps({"ready": name}), flush=True)
    for line in sys.stdin:
        texts = json.loads(line)
        started, spent = time.perf_counter(), time.process_time()
        found = ingest(texts)
        seconds, spent = time.perf_counter() - started, time.process_time() - spent
        if found != len(texts):
            raise SystemExit(f"{found} of {len(texts)} texts were embedded")
        print(json.dumps({"clock": seconds, "processor": spent}), flush=True)


def _llama_index(model: str) -> Callable[[list[str]], int]:
    from llama_index.core.ingestion import IngestionPipeline
    from llama_index.core.schema import TextNode
    from llama_index.embeddings.huggingface import HuggingFaceEmbedding

    embedding = HuggingFaceEmbedding(model_name=model, embed_batch_size=BATCH, max_length=LIMIT, device="cpu")

    def ingest(texts: list[str]) -> int:
        pipeline = IngestionPipeline(transformations=[embedding], disable_cache=True)
        nodes = pipeline.run(nodes=[TextNode(text=text) for text in texts])
        return sum(node.embedding is not None for node in nodes)

    return ingest


def _haystack(model: str) -> Callable[[list[str]], int]:
    from haystack import Document, Pipeline
    from haystack.components.writers import DocumentWriter
    from haystack.document_stores.in_memory import InMemoryDocumentStore
    from haystack.document_stores.types import DuplicatePolicy
    from haystack.utils import ComponentDevice

    place = importlib.import_module("haystack_integrations.components.embedders.sentence_transformers")
    embedder = place.SentenceTransformersDocumentEmbedder(
        model=model, batch_size=BATCH, progress_bar=False, device=ComponentDevice.from_str("cpu")
    )
    store = InMemoryDocumentStore()
    pipeline = Pipeline()
    pipeline.add_component("embedder", embedder)
    pipeline.add_component("writer", DocumentWriter(store, policy=DuplicatePolicy.OVERWRITE))
    pipeline.connect("embedder.documents", "writer.documents")
    embedder.warm_up()
    embedder.embedding_backend.model.max_seq_length = LIMIT

    def ingest(texts: list[str]) -> int:
        return int(
            pipeline.run({"embedder": {"documents": [Document(content=text) for text in texts]}})["writer"][
                "documents_written"
            ]
        )

    return ingest


if __name__ == "__main__":
    main()
