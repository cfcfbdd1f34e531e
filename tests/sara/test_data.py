"""What the stages are made of: held out by document, cut as an archive is, retrieved by BM25."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from okralong.lab.training.rows.tables import MODEL_SIDES
from okralong.lab.training.sara.config import InstructionConfig, SaraConfig
from okralong.lab.training.sara.examples import (
    Asked,
    Embeddings,
    Material,
    alignment_examples,
    dealt,
    instruction_examples,
    novel,
    reconstruction_examples,
)
from okralong.lab.training.sara.report import under
from okralong.lab.training.sara.train import stage_examples
from okralong.pipelines.core.config import load_config, parse_config
from okralong.pipelines.core.types import ConfigError, InputError
from okralong.pipelines.sara.artifact import Shape, sentences_in
from okralong.pipelines.sara.compressor import Compressor

CONFIG = """
chunk_tokens: 48
texts: {sample: {reports: 2, questions: 12, words: 1500}}
alignment: {examples: 20, learning_rate: 0.001, reply_tokens: 24}
instruction:
  {examples: 9, learning_rate: 0.001, reply_tokens: 16, retrieved: 4, as_text: {0: 1, 2: 1}, pool_tokens: 800}
"""


@pytest.fixture(scope="module")
def config() -> SaraConfig:
    return parse_config(SaraConfig, CONFIG, "a test")


@pytest.fixture(scope="module")
def test_side(config: SaraConfig) -> Material:
    return Material.read(config, None, "test")


def numbered(texts: list[str]) -> Embeddings:
    """A stand-in vector by text: no encoder is needed to see which vector belongs to which text."""
    return np.stack([np.random.default_rng(sum(map(ord, text))).normal(size=6) for text in texts]).astype(np.float32)


def test_no_text_stands_on_two_sides(config: SaraConfig) -> None:
    sides = [Material.read(config, None, side) for side in MODEL_SIDES]
    texts = [{identity for dataset in side.sets for identity in dataset.texts} for side in sides]
    assert all(texts)
    assert not texts[0] & texts[1] | texts[0] & texts[2] | texts[1] & texts[2]


def test_chunks_are_small_and_examples_follow_from_the_seed(config: SaraConfig, test_side: Material) -> None:
    documents = test_side.documents
    some = alignment_examples(documents, numbered, 10, seed=1)
    assert len(some) == 10
    assert [each.reply for each in some] == [each.reply for each in alignment_examples(documents, numbered, 10, seed=1)]
    assert [each.reply for each in some] != [each.reply for each in alignment_examples(documents, numbered, 10, seed=2)]
    for each in some:
        assert each.compressed == (each.reply,)
        assert any(each.reply in chunks for chunks in documents[each.document])
        np.testing.assert_array_equal(each.embeddings, numbered([each.reply]))


def test_a_document_is_rebuilt_from_successive_chunks(config: SaraConfig, test_side: Material) -> None:
    documents = test_side.documents
    for each in reconstruction_examples(documents, numbered, 6, most=3, seed=1):
        (chunks,) = (text for text in documents[each.document] if each.compressed[0] in text)
        start = chunks.index(each.compressed[0])
        assert tuple(chunks[start : start + len(each.compressed)]) == each.compressed
        assert 2 <= len(each.compressed) <= 3
        assert each.embeddings.shape == (len(each.compressed), 6)


def test_questions_come_with_chunks_that_hold_an_answer(config: SaraConfig, test_side: Material) -> None:
    assert config.instruction is not None
    asked = test_side.asked()
    assert len(asked) > 3
    for each in asked:
        assert len(each.chunks) == 4
        shown = " ".join(each.chunks).lower()
        assert any(answer.lower().strip(".") in shown for answer in each.answers) or len(each.answers[0]) > 20


def test_counts_are_dealt_in_turn_and_move_on_where_questions_are_asked_again() -> None:
    asked = [Asked(f"document {number}", f"{number}?", ("yes",), ("chunk",)) for number in range(4)]
    questions, as_text = dealt(asked, {0: 3, 5: 1}, 7)
    assert [each.question for each in questions] == [f"{number % 4}?" for number in range(7)]
    assert as_text == [0, 0, 0, 5, 0, 0, 5]
    assert dealt([], {0: 1}, 3) == ([], [])


@pytest.mark.parametrize("number", [1, 3, 7, 38, 39, 100])
def test_a_question_that_is_asked_again_meets_every_count(number: int) -> None:
    asked = [Asked(f"document {place}", f"{place}?", ("yes",), ("chunk",)) for place in range(number)]
    shares = {0: 1, 1: 1, 2: 1, 5: 1}
    questions, as_text = dealt(asked, shares, 10_000)
    assert len(questions) == number * len(shares), "and no oftener than there are counts"
    for each in asked:
        assert sorted(count for one, count in zip(questions, as_text, strict=True) if one == each) == sorted(shares)


def test_a_single_count_asks_nothing_twice() -> None:
    asked = [Asked("document", f"{place}?", ("yes",), ("chunk",)) for place in range(3)]
    assert dealt(asked, {5: 1}, 9) == (asked, [5, 5, 5])


@pytest.mark.parametrize(
    ("as_text", "said"),
    [
        ({5: 1}, "as_text shows 5 chunks, but 4 are retrieved"),
        ({0: 0}, "instruction.as_text.0"),
        ({0: 10_000_000}, "instruction.as_text.0"),
        ({}, "instruction.as_text"),
        ([0, 2], "instruction.as_text"),
        ({"some": 1}, "instruction.as_text.some"),
    ],
)
def test_counts_that_cannot_be_dealt_are_refused_with_their_key(as_text: object, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        parse_config(SaraConfig, CONFIG, "config.yaml", {"instruction.as_text": as_text})


def test_chunks_are_shown_or_compressed_and_none_is_lost(config: SaraConfig, test_side: Material) -> None:
    assert config.instruction is not None
    asked = test_side.asked()[:4]
    found = instruction_examples(asked, numbered, [0, 2, 0, 2], None)
    assert [len(each.passages) for each in found] == [0, 2, 0, 2]
    for each, one in zip(found, asked, strict=True):
        assert (*each.passages, *each.compressed) == one.chunks
        np.testing.assert_array_equal(each.embeddings, numbered(list(each.compressed)))
    without = instruction_examples(asked, numbered, [2] * 4, None, compression=False)
    assert [(len(each.passages), each.compressed, each.embeddings.shape) for each in without] == [(2, (), (0, 6))] * 4


def test_chunks_are_chosen_by_novelty_in_the_compressors_space() -> None:
    """Equations 4 and 5, worked out anew: the first chunk, then what brings the mean nearest to the target."""
    compressor = Compressor(Shape(inputs=6, width=8, hidden=5))
    vectors = numbered(["question", *(f"chunk {number}" for number in range(7))])
    chosen = novel(compressor, vectors[0], vectors[1:], 4)
    space = np.stack([compressor.pooled(each).numpy() for each in torch.from_numpy(vectors)])
    target, chunks = (space[0] + space[1]) / 2, space[1:]
    expected = [0]
    while len(expected) < 4:
        rest = [place for place in range(7) if place not in expected]
        expected.append(min(rest, key=lambda place: np.linalg.norm(target - chunks[[*expected, place]].mean(axis=0))))
    assert chosen == expected
    assert novel(compressor, vectors[0], vectors[1:], 0) == []
    assert sorted(novel(compressor, vectors[0], vectors[1:], 99)) == list(range(7))


def test_without_reranking_the_first_chunks_stand_as_text(config: SaraConfig, test_side: Material) -> None:
    """SARA-R (section 3.7)."""
    stage = config.instruction
    assert stage is not None
    torch.manual_seed(0)
    compressor = Compressor(Shape(inputs=6, width=8, hidden=5))
    asked, counts = dealt(test_side.asked(), stage.as_text, 9)
    first = [one.chunks[:count] for one, count in zip(asked, counts, strict=True)]
    for reranking in (True, False):
        given = config.model_copy(update={"reranking": reranking})
        found = stage_examples(stage, Material(given, test_side.sets), numbered, compressor, 9)
        assert [len(each.passages) for each in found] == counts
        assert ([each.passages for each in found] == first) is not reranking


def test_strangers_are_of_other_documents_and_none_is_none(config: SaraConfig, test_side: Material) -> None:
    some = alignment_examples(test_side.documents, numbered, 12, seed=1)
    owner = {each.embeddings.tobytes(): each.document for each in some}
    for each, other in zip(some, under("shuffled", some, seed=3), strict=True):
        assert owner[other.embeddings.tobytes()] != each.document
        assert other.reply == each.reply
    assert {each.embeddings.shape for each in under("none", some, seed=3)} == {(0, 6)}
    with pytest.raises(ValueError, match="two documents"):
        under("shuffled", [replace(each, document="one") for each in some], seed=3)


def test_by_sentence_an_example_has_a_vector_per_sentence(config: SaraConfig, test_side: Material) -> None:
    documents, most = test_side.documents, 3
    for each in alignment_examples(documents, numbered, 8, seed=1, sentences=most):
        assert each.compressed == (each.reply,)
        chunks = [chunk for text in documents[each.document] for chunk in text]
        assert any(each.reply in sentences_in(chunk, most) for chunk in chunks)
    rebuilt = reconstruction_examples(documents, numbered, 8, most=1, seed=1, sentences=most)
    asked = instruction_examples(test_side.asked()[:4], numbered, [0, 2, 0, 2], None, sentences=most)
    for one in (*rebuilt, *asked):
        parts = [sentences_in(chunk, most) for chunk in one.compressed]
        assert one.sizes == tuple(map(len, parts))
        np.testing.assert_array_equal(one.embeddings, numbered([part for each in parts for part in each]))
    assert {len(one.compressed) for one in rebuilt} == {1}
    assert [len(one.compressed) for one in asked] == [4, 2, 4, 2]
    for one, other in zip(rebuilt, under("shuffled", rebuilt, seed=3), strict=True):
        assert (other.sizes, other.embeddings.shape) == (one.sizes, one.embeddings.shape)
        own = {row.tobytes() for each in rebuilt if each.document == one.document for row in each.embeddings}
        assert not own & {row.tobytes() for row in other.embeddings}
    assert {(each.sizes, each.embeddings.shape) for each in under("none", asked, seed=3)} == {((), (0, 6))}


def test_units_that_do_not_fit_a_training_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"set reconstruction\.chunks to 2 or more"):
        load_config(SaraConfig, "training/sara.yaml", {"reconstruction.chunks": 1})
    assert load_config(SaraConfig, "training/sara.yaml", {"unit": "sentence", "reconstruction.chunks": 1}).unit
    with pytest.raises(ConfigError, match="set unit: chunk"):
        load_config(SaraConfig, "training/icae.yaml", {"unit": "sentence"})
    with pytest.raises(ConfigError, match="unit"):
        load_config(SaraConfig, "training/sara.yaml", {"unit": "word"})


def test_sets_need_a_folder_and_unknown_keys_are_told(config: SaraConfig) -> None:
    named = config.model_copy(update={"texts": load_config(SaraConfig, "training/sara.yaml").texts})
    with pytest.raises(InputError, match="--data"):
        Material.read(named, None, "train")
    with pytest.raises(ConfigError, match=r"instruction\.lora\.rnk is not a known key"):
        parse_config(SaraConfig, CONFIG.replace("retrieved: 4", "lora: {targets: [q_proj], rnk: 4}"), "a test")
    with pytest.raises(ConfigError, match="no training data"):
        parse_config(SaraConfig, CONFIG.replace("texts: {sample:", "texts: {} #"), "a test")
    with pytest.raises(ConfigError, match="give instruction"):
        parse_config(SaraConfig, CONFIG.replace("instruction:\n", "compression: false\n#"), "a test")


def test_xrag_is_two_stages_in_which_the_projector_alone_learns() -> None:
    config = load_config(SaraConfig, "training/xrag.yaml")
    assert [name for name, _ in config.stages()] == ["alignment", "instruction"]
    assert config.instruction is not None
    assert (config.instruction.lora, config.instruction.retrieved, config.instruction.as_text) == (None, 1, {0: 1})
    with pytest.raises(ConfigError, match="nothing to compress"):
        load_config(SaraConfig, "training/xrag.yaml", {"instruction.as_text": {1: 1}})


@pytest.mark.parametrize("name", ["sara", "sara_small", "sara_sentences"])
def test_shipped_configs_are_the_papers_where_it_says_something(name: str) -> None:
    config = load_config(SaraConfig, f"training/{name}.yaml")
    assert isinstance(stage := config.instruction, InstructionConfig)
    assert stage.lora is not None
    assert (stage.retrieved, stage.lora.rank, stage.lora.alpha, stage.lora.dropout) == (10, 16, 32, 0.1)
    assert [each for each, _ in config.stages()] == ["alignment", "reconstruction", "instruction"]
    if name == "sara":
        assert (config.chunk_tokens, stage.as_text) == (256, {5: 1})
