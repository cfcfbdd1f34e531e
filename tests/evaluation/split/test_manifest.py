from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okralong.lab.datasets.catalog import load_catalog
from okralong.lab.datasets.split import MANIFEST, SIDES, SPLIT, Split
from okralong.lab.datasets.split_build import LEFT_OUT, RULES, build_split
from okralong.lab.datasets.split_components import SplitRules
from okralong.pipelines.core.config import load_config, parse_config
from okralong.pipelines.core.types import ConfigError
from tests.evaluation.split.invented import TEST_FIRST, data_set

SWEEP_ONLY = {"reports", "longbench", "hotpotqa_pooled", "loong_finance"}


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    lessons = data_set("lessons", "train", [("a?", ["Oak"], ["Moss"]), ("b?", ["Fir"], [])])
    exam = data_set("exam", "all", [("c?", ["Elm"], ["Moss"])])
    split, _ = build_split([lessons, exam], TEST_FIRST)
    for name in ("one", "two"):
        split.write(tmp_path / name / "manifest.parquet")
    assert Split.load(tmp_path / "one" / "manifest.parquet") == split
    one, two = ((tmp_path / name / "manifest.parquet").read_bytes() for name in ("one", "two"))
    assert one == two


def test_the_shipped_manifest_is_made_by_the_shipped_rules_and_agrees_with_itself() -> None:
    split, rules = Split.load(), load_config(SplitRules, RULES)
    assert split.about["rules"] == rules.fingerprint()
    assert split.about["seed"] == str(rules.seed)
    counts: dict[str, dict[str, int]] = json.loads(split.about["counts"])
    assert set(counts) == {f"{source.name}/{source.part}" for source in load_catalog().sources}
    for source, by_side in counts.items():
        assert set(by_side) == {*SIDES, LEFT_OUT}
        if source.split("/")[0] in SWEEP_ONLY:
            assert by_side["test"] == sum(by_side.values()) > 0
    # Questions are fewer than items, as several items ask the same; but no side is without, and none has more.
    for side in SIDES:
        held = sum(each == side for each in split.questions.values())
        assert 0 < held <= sum(by_side[side] for by_side in counts.values())
        assert side in split.documents.values()


def test_every_catalogued_source_has_a_rule() -> None:
    rules = load_config(SplitRules, RULES)
    assert [source for source in load_catalog().sources if rules.rule_of(source.name, source.part) is None] == []


def test_the_shipped_manifest_is_small_and_has_a_card() -> None:
    folder = resources.files("okralong.configs").joinpath("split")
    assert len(folder.joinpath("manifest.parquet").read_bytes()) < 400_000
    card = folder.joinpath("card.md").read_text(encoding="utf-8")
    assert load_config(SplitRules, RULES).fingerprint() in card
    assert folder.joinpath("manifest.parquet").name == Path(MANIFEST).name


def test_bad_manifests_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no split manifest nowhere"):
        Split.load("nowhere.parquet")
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(b"not parquet")
    with pytest.raises(ConfigError, match="not a Parquet file"):
        Split.load(bad)
    twice = tmp_path / "twice.parquet"
    rows = [["question"] * 2, ["train", "test"], [b"12345"] * 2]
    pq.write_table(pa.table(rows, schema=SPLIT), twice)
    with pytest.raises(ConfigError, match="the question 3132333435 is on two sides"):
        Split.load(twice)
    pq.write_table(pa.table(rows, schema=SPLIT.remove_metadata()), twice)
    with pytest.raises(ConfigError, match="not a split manifest of this version"):
        Split.load(twice)


@pytest.mark.parametrize("shares", ["{train: 0.5, test: 0.4}", "{train: 1.5, test: -0.5}", "{}", "{exam: 1.0}"])
def test_shares_must_be_whole(shares: str) -> None:
    with pytest.raises(ConfigError, match="shares"):
        parse_config(SplitRules, f"seed: 1\nrules: [{{sources: [a], shares: {shares}, why: no}}]", "rules.yaml")
