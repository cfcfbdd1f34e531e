"""``okralong train-data`` over a set of one's own: rows for each side, and a card that counts them."""

from __future__ import annotations

from pathlib import Path

import pytest

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.lab.training.rows.tables import ANALYZER_ROWS
from tests.evaluation.evidence.town import write_town
from tests.jobs.conftest import call

pytestmark = pytest.mark.slow

CONFIG = """
policy: policy/paper.yaml
catalog: {data}/catalog.yaml
split: {data}/split/manifest.parquet
sets:
  - {{name: town, part: all, pool_tokens: 1000}}
questions_only:
  - {{name: town, part: all, limit: 2}}
sample: {{reports: 2, questions: 12, words: 1500}}
per_type: 5
"""


def test_rows_of_a_set_and_of_the_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_town(tmp_path / "data")
    (data / "rules.yaml").write_text(
        "seed: 1\nrules:\n  - {sources: [town], shares: {train: 1.0}, why: invented}\n", encoding="utf-8"
    )
    options = ["--catalog", data / "catalog.yaml", "--rules", data / "rules.yaml"]
    code, said = call(monkeypatch, capsys, "split", data, "--out", data / "split", *options)
    assert code == 0, said
    (tmp_path / "rows.yaml").write_text(CONFIG.format(data=data), encoding="utf-8")
    arguments = ["train-data", data, "--config", tmp_path / "rows.yaml", "--work", tmp_path / "work", "--out"]
    code, said = call(monkeypatch, capsys, *arguments, tmp_path / "rows")
    assert code == 0, said
    train = ANALYZER_ROWS.read(Folder.of(tmp_path / "rows"), "train")
    town = [row for row in train if row.source == "town all"]
    assert len(town) == 6  # and not 8: a question that also comes without its document is there once
    assert {row.type for row in town} == {"multi-bridge", "multi-source"}
    invented = [row for row in train if row.source == "sample 1000"]
    assert {row.type for row in invented} == {"extractive", "abstractive", "arithmetic", "multi-source", "multi-bridge"}
    assert all(row.passages and row.pattern and row.evidence is not None for row in [*town, *invented])
    validation = ANALYZER_ROWS.read(Folder.of(tmp_path / "rows"), "validation")
    assert {row.source for row in validation} == {"sample 1001"}
    assert not {row.question for row in validation} & {row.question for row in train}
    card = (tmp_path / "rows" / "card.md").read_text(encoding="utf-8")
    assert f"## train: {len(train)} rows" in card
    assert "## test: 0 rows" in card

    kept = {path: path.read_bytes() for path in (tmp_path / "rows").rglob("*.parquet")}
    code, said = call(monkeypatch, capsys, *arguments, tmp_path / "again")
    assert code == 0, said
    assert [path.read_bytes() for path in sorted((tmp_path / "again").rglob("*.parquet"))] == [
        kept[path] for path in sorted(kept)
    ]
