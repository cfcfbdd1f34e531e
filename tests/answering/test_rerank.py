"""Ranking by a cross-encoder: what is read, in which order it comes back, and that a resumed question reads nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

from okralong.pipelines.answering.question_tools import QuestionTools
from okralong.pipelines.answering.rerank import (
    RerankerConfig,
    followed,
    heading_names,
    load_reranker,
    rerank,
    stretched,
)
from okralong.pipelines.core.types import Chunk, ConfigError, Hit, Question, Reading
from okralong.pipelines.models.weights import resolve_embedding_model
from tests.answering.test_choice_kept import KeptLog, fan_out, ports
from tests.fakes.tools import paper_policy


def hits(count: int) -> list[Hit]:
    chunks = [Chunk(f"d:{n}", "d", 150, n, n * 10, n * 10 + 9, 5, f"passage {n}") for n in range(count)]
    return [Hit(each, 1.0 - n / 10) for n, each in enumerate(chunks)]


async def test_the_first_candidates_are_ordered_anew_and_the_others_stand_behind(tmp_path: Path) -> None:
    asked: list[list[str]] = []

    async def read(query: str, passages: list[str]) -> list[Reading]:
        asked.append(passages)
        return [Reading(float(text.split()[1])) for text in passages]  # the last is the best

    policy = paper_policy(rerank__candidates=4)
    shared, log = replace(ports(tmp_path, read=read), policy=policy), KeptLog()
    tools = QuestionTools(shared, Question("q1", "q"), (), log, fan_out)
    found = await rerank(tools, "rerank", "q", hits(6))
    assert [hit.chunk.ordinal for hit in found] == [3, 2, 1, 0, 4, 5]
    assert [hit.score for hit in found] == pytest.approx([2.0, 5 / 3, 4 / 3, 1.0, 0.5, 0.0])
    # Read before by the same question: not again. Journaled: a resumed question reads nothing at all.
    await rerank(tools, "again", "q", hits(5))
    resumed = QuestionTools(
        replace(shared, models=shared.models.having(read=None)), Question("q1", "q"), (), log, fan_out
    )
    assert await rerank(resumed, "rerank", "q", hits(6)) == found
    assert asked == [["passage 0", "passage 1", "passage 2", "passage 3"]]
    assert [kind for _, kind in log.rows] == ["readings", "readings"]


async def test_the_fused_score_has_its_weight(tmp_path: Path) -> None:
    async def read(query: str, passages: list[str]) -> list[Reading]:
        return [Reading(float(n)) for n in range(len(passages))]

    shared = replace(ports(tmp_path, read=read), policy=paper_policy(rerank__candidates=3, rerank__weight=0.4))
    tools = QuestionTools(shared, Question("q1", "q"), (), KeptLog(), fan_out)
    assert [hit.chunk.ordinal for hit in await rerank(tools, "rerank", "q", hits(3))] == [0, 1, 2]


def named(*texts: str) -> list[Hit]:
    chunks = [Chunk(f"d:{n}", "d", 150, n, n * 100, n * 100 + 99, 5, text) for n, text in enumerate(texts)]
    return [Hit(each, 2.0 - n / 10) for n, each in enumerate(chunks)]


def test_a_passage_that_the_first_ones_name_by_its_heading_follows_them() -> None:
    found = named(
        "Alder Hill (film)\nAlder Hill is a film by Vera Crowhurst, and see Note 7.",
        "The hill is high.",
        "Tom Birch\nTom Birch was a wright.",
        "Alder Hill\nSheep graze there.",
        "Vera Crowhurst (director)\nShe was born in Leeds.",
        "Note 7\nSegments.",
        "vera crowhurst\nA mill.",
    )
    ordered = followed("Where was the director of Alder Hill born?", found, 2)
    assert [hit.chunk.ordinal for hit in ordered] == [0, 1, 4, 5, 2, 3, 6]
    scores = [hit.score for hit in ordered]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == len(scores)
    assert [hit.chunk.ordinal for hit in followed("Who made Alder Hill?", found, 1)] == [0, 4, 1, 2, 3, 5, 6]
    assert followed("Who?", found, 0) == found
    assert followed("Who?", [], 2) == []


def test_of_another_document_only_its_beginning_follows() -> None:
    texts = ("By Tom Birch, see Note 7.", "One.", "Note 7\nLeases.", "Tom Birch\nA wright.", "Note 7\nSegments.")
    places = (("a", 900), ("a", 0), ("b", 300), ("c", 0), ("a", 1800))
    found = [
        replace(hit, chunk=replace(hit.chunk, doc_id=doc_id, start_char=start))
        for hit, (doc_id, start) in zip(named(*texts), places, strict=True)
    ]
    assert [hit.chunk.text for hit in followed("Who?", found, 2)] == [texts[n] for n in (0, 1, 3, 4, 2)]


def test_equal_scores_keep_the_new_order() -> None:
    texts = ("By Tom Birch.", "One.", "Two.", "Tom Birch\nA wright.")
    found = [replace(hit, score=score) for hit, score in zip(named(*texts), (2.0, 2.0, 2.0, 1.2), strict=True)]
    ordered = followed("Who?", found, 1)
    assert [hit.chunk.ordinal for hit in ordered] == [0, 3, 1, 2]
    assert sorted(ordered, key=lambda hit: (-hit.score, hit.chunk.chunk_id)) == ordered


def test_names_are_headings_of_two_words_that_begin_large() -> None:
    text = "Bank of the West (2019)\n\nNote 12\nRevenue\nNet sales by segment\nThe Board met.\nTom Birch\nIt ends\n"
    text += "2019 2018\n1,234 1,100\n| Year | Sales |\nSales $ 12\nMargin 10% 12%\n"
    assert heading_names(text) == ["Bank of the West", "Note 12", "Tom Birch"]


async def test_the_policy_says_how_many_follow(tmp_path: Path) -> None:
    async def read(query: str, passages: list[str]) -> list[Reading]:
        return [Reading(-float(n)) for n in range(len(passages))]

    found = named("A film by Tom Birch.", "One hill.", "Another.", "Tom Birch\nA wright.")
    for follow, order in ((0, [0, 1, 2, 3]), (1, [0, 3, 1, 2])):
        policy = paper_policy(rerank__candidates=2, rerank__follow=follow)
        tools = QuestionTools(
            replace(ports(tmp_path, read=read), policy=policy), Question("q", "q"), (), KeptLog(), fan_out
        )
        assert [hit.chunk.ordinal for hit in await rerank(tools, "rerank", "q", found)] == order


async def test_nothing_is_read_where_the_policy_says_none_or_the_run_has_no_model(tmp_path: Path) -> None:
    plain = QuestionTools(replace(ports(tmp_path), policy=paper_policy()), Question("q1", "q"), (), KeptLog(), fan_out)
    assert await rerank(plain, "rerank", "q", hits(3)) == hits(3)
    shared = replace(ports(tmp_path), policy=paper_policy(rerank__candidates=3))
    with pytest.raises(ConfigError, match=r"rerank\.candidates.*reranker in the answer config"):
        await rerank(QuestionTools(shared, Question("q2", "q"), (), KeptLog(), fan_out), "rerank", "q", hits(3))


def test_scores_are_stretched() -> None:
    assert stretched([2.0, 4.0, 3.0]) == [0.0, 1.0, 0.5]
    assert stretched([2.0, 2.0]) == [1.0, 1.0]
    assert stretched([]) == []


def sentence_transformers_folder(folder: Path, labels: int = 1) -> Path:
    """A small cross-encoder as sentence-transformers keeps it."""
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=30522, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64
    )
    config.num_labels = labels
    BertForSequenceClassification(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(resolve_embedding_model("embedded").path).save_pretrained(folder)
    return folder


def test_any_cross_encoder_of_sentence_transformers_is_one_line(tmp_path: Path) -> None:
    folder = sentence_transformers_folder(tmp_path / "theirs")
    model = load_reranker(RerankerConfig(model=str(folder), precision="float32"))
    read = model.read(["bread", "bread"], ["Bread was sold.", "Rails of steel."])
    assert len({each.relevance for each in read}) == 2
    assert not model.reads_spans
    assert {each.answerable for each in read} == {None}
    with pytest.raises(ConfigError, match="has 2 outputs"):
        load_reranker(RerankerConfig(model=str(sentence_transformers_folder(tmp_path / "two", 2))))
    with pytest.raises(ConfigError, match="cannot be loaded"):
        load_reranker(RerankerConfig(model=str(tmp_path / "nothing")))
