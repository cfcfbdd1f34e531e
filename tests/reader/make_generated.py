"""Made-up prompts with gold replies for the test of the shipped reader: ``python -m tests.reader.make_generated``.

They are of the sample archive's kind, with a seed that neither training nor validation has. Run it again only when the
prompts or the retrieval change; the figures in ``test_shipped_reader.py`` hold for what stands in the file.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Final

from okralong.lab.datasets.catalog import load_catalog
from okralong.lab.datasets.encoder import cached_encoder
from okralong.lab.datasets.pooling import Span, whole
from okralong.lab.datasets.split import MANIFEST, Split
from okralong.lab.evidence.config import SetChoice
from okralong.lab.evidence.sets import DataSetStore
from okralong.lab.training.rows.reader_rows import Collector, ReadingConfig, chosen
from okralong.lab.training.rows.sources import SampleRows, sample_set
from okralong.lab.training.rows.tables import ReadingRow
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.types import Passage
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.methods.registry import FullPolicy

FILE: Final = Path(__file__).parent / "generated.jsonl"
SEED: Final = 3001
CHOICE: Final = SampleRows(reports=4, questions=48, words=1500)
ROWS: Final = 24


def read_generated() -> list[ReadingRow]:
    """The rows of the file."""
    found = []
    for line in FILE.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        row["passages"] = tuple(Passage(**each) for each in row["passages"])
        row["evidence"] = tuple(Span(**each) for each in row["evidence"])
        found.append(ReadingRow(**{**row, "documents": tuple(row["documents"]), "answers": tuple(row["answers"])}))
    return found


def main() -> None:
    config = load_config(ReadingConfig, "training/reading.yaml")
    policy = load_config(FullPolicy, config.policy)
    with tempfile.TemporaryDirectory() as work:
        root = Path(work)
        store = DataSetStore(
            load_catalog(config.catalog), Split.load(MANIFEST), root, root, "test", SEED, cached_encoder(root), print
        )
        index = IndexConfig(granularities=policy.granularities())
        bench = store.bench(SetChoice(name="sample", part=str(SEED)), whole(sample_set(CHOICE, SEED)), index)
        rows = chosen(asyncio.run(Collector(bench, policy, config).rows()), config, capped=True)
    some = [row for row in rows if row.role == "generate"][:ROWS]
    FILE.write_text("".join(f"{json.dumps(asdict(row))}\n" for row in some), encoding="utf-8")


if __name__ == "__main__":
    main()
