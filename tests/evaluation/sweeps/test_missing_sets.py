"""A sweep over the sets whose files are there, without the questions that shipped models have seen."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from okralong.lab.datasets.base import DataSet
from okralong.lab.datasets.split import Split
from okralong.lab.datasets.split_build import build_split
from okralong.lab.datasets.wiki import read_hotpotqa
from okralong.lab.sweeps.config import Sweep
from okralong.lab.sweeps.engine import Expanded, expand_sweep
from okralong.pipelines.core.config import parse_config
from okralong.pipelines.core.types import InputError
from tests.evaluation.evidence.town import rows
from tests.evaluation.split.invented import rule, rules

CATALOG = """sources:
  - {name: town, part: dev, format: hotpotqa, path: town.json}
  - name: village
    part: dev
    format: hotpotqa
    path: village.json
    origin: {title: The village, address: https://example.org/village, licence: MIT, size: 1 MB}
"""
SWEEP = """
title: A test
words: Words of the sweep.
side: all
catalog: {folder}/catalog.yaml
split: {folder}/manifest.parquet
sets:
  - {{name: village, part: dev}}
  - {{name: town, part: dev}}
methods: {{std_rag: {{}}}}
"""


def expanded(folder: Path, console: Console) -> Expanded:
    sweep = parse_config(Sweep, SWEEP.format(folder=folder), "sweep.yaml")
    return expand_sweep(sweep, folder, folder / "out", folder / "work", console)


def data_of(folder: Path, split: Split | None = None) -> DataSet:
    (folder / "catalog.yaml").write_text(CATALOG, encoding="utf-8")
    (folder / "town.json").write_text(json.dumps(rows()), encoding="utf-8")
    (split or Split({}, {})).write(folder / "manifest.parquet")
    return read_hotpotqa(folder / "town.json", "dev")


def test_a_missing_set_is_left_out_and_said_in_the_results(tmp_path: Path) -> None:
    data, said = data_of(tmp_path), io.StringIO()
    found = expanded(tmp_path, Console(file=said, width=1000))
    assert [plan.named.set for plan in found.plans] == ["town dev"]
    assert [chosen.named for chosen in found.sweep.sets] == ["town dev"]
    assert found.sweep.words == "Words of the sweep. Left out, because their files are missing: village dev."
    assert f"village dev is left out of the sweep: {tmp_path}/village.json does not exist. Get" in said.getvalue()
    assert "https://example.org/village" in said.getvalue()
    assert len(found.material.pooled["town dev"].questions) == len(data.items)


def test_without_any_set_the_error_lists_where_to_get_them(tmp_path: Path) -> None:
    data_of(tmp_path)
    (tmp_path / "town.json").unlink()
    with pytest.raises(InputError, match=r"(?s)None of the sweep's sets.*https://example.org/village.*town dev: "):
        expanded(tmp_path, Console(file=io.StringIO()))


def test_questions_of_training_and_tuning_are_left_out_and_counted(tmp_path: Path) -> None:
    data = data_of(tmp_path)
    taught = DataSet("lessons", "train", data.texts, data.items[:1])
    split, _ = build_split([taught], rules(rule(["lessons"], train=1.0)))
    kept = {item.gold.question.query_id for item in split.unseen(data).items}
    touched = set(data.items[0].documents)
    assert kept == {item.gold.question.query_id for item in data.items if not touched & set(item.documents)}
    assert 0 < len(kept) < len(data.items)
    data_of(tmp_path, split)
    said = io.StringIO()
    found = expanded(tmp_path, Console(file=said, width=1000))
    assert {q.item.gold.question.query_id for q in found.material.pooled["town dev"].questions} == kept
    assert f"{len(data.items) - len(kept)} of {len(data.items)} questions are left out" in said.getvalue()
    assert split.unseen(taught).items == ()
    assert Split({}, {}).unseen(data) is data
