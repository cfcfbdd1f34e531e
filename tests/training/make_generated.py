"""Made-up questions with labels for the test of the shipped adapters: ``python -m tests.training.make_generated``.

They are of the sample archive's kind, with a seed that neither training nor validation has. Run it again only when the
features or the primary retrieval change; the figures in ``test_shipped.py`` hold for what stands in the file.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from okralong.lab.datasets.catalog import load_catalog
from okralong.lab.datasets.encoder import cached_encoder
from okralong.lab.datasets.pooling import whole
from okralong.lab.datasets.split import MANIFEST, Split
from okralong.lab.evidence.config import SetChoice
from okralong.lab.evidence.sets import DataSetStore
from okralong.lab.training.recipe import write_examples
from okralong.lab.training.rows.analyzer_rows import primary_granularities, rows_of
from okralong.lab.training.rows.sources import SampleRows, sample_set
from okralong.pipelines.core.config import load_config
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.methods.registry import FullPolicy

FILE: Final = Path(__file__).parent / "generated.jsonl"
SEED: Final = 2001
CHOICE: Final = SampleRows(reports=8, questions=72, words=2500)


async def main() -> None:
    policy = load_config(FullPolicy, "policy/default.yaml")
    with tempfile.TemporaryDirectory() as work:
        store = DataSetStore(
            load_catalog("datasets.yaml"),
            Split.load(MANIFEST),
            Path(work),
            Path(work),
            "test",
            SEED,
            cached_encoder(Path(work)),
            print,
        )
        index = IndexConfig(granularities=primary_granularities(policy))
        bench = store.bench(SetChoice(name="sample", part=str(SEED)), whole(sample_set(CHOICE, SEED)), index)
        write_examples(FILE, [row.example for row in await rows_of(bench, policy)])


if __name__ == "__main__":
    import asyncio

    asyncio.run(main())
