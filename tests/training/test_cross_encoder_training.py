"""Training a cross-encoder for real: it learns, it is resumed, and what is written reads as what was trained."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from safetensors.numpy import load_file

from okralong.lab.datasets.pooling import Span
from okralong.lab.training.learners.cross_encoder import CrossEncoderLearner, calibrate
from okralong.lab.training.learners.fit import HISTORY, fit_recipe, prepared
from okralong.lab.training.learners.learner import evaluations_of
from okralong.lab.training.recipe import UNKNOWN, RankingExample, Recipe, export_files, read_examples
from okralong.lab.training.rows.cross_encoder_rows import covering_span, place_of, share_of
from okralong.lab.training.rows.tables import RankingRow
from okralong.pipelines.core.types import Chunk, ConfigError
from okralong.pipelines.models.cross_encoder import LONGEST_ANSWER, WEIGHTS, CrossEncoder, best_spans, read_shape
from okralong.pipelines.models.weights import CROSS_ENCODER, ResolvedModel, resolve_embedding_model

RECIPE = Recipe(
    kind="cross_encoder",
    first_block=4,
    learning_rate=0.0005,
    heads_learning_rate=0.002,
    epochs=8,
    batch_size=4,
    accumulation=1,
    dropout=0.0,
    max_tokens=128,
    patience=20,
)
FIRMS = ("Alder", "Birch", "Cedar", "Dogwood", "Elm", "Fir", "Ginkgo", "Hazel")


def example(number: int) -> RankingExample:
    firm, sum_ = FIRMS[number % len(FIRMS)], f"{number + 3},{number * 37 % 900 + 100}"
    holds = f"{firm} sold bread for {sum_} crowns in its bakeries."
    others = [f"{firm} keeps its bakeries clean and its bakers happy.", f"{FIRMS[number % 7]} runs on rails of steel."]
    start = holds.index(sum_)
    return RankingExample(
        f"For how much did {firm} sell bread?",
        (holds, *others),
        (1.0, 0.0, 0.0),
        (1, 0, 0),
        (start, -1, -1),
        (start + len(sum_), -1, -1),
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cross-encoder")
    fit_recipe(RECIPE, [example(n) for n in range(24)], [example(n) for n in range(24, 32)], base(), out)
    return out


def base() -> ResolvedModel:
    return resolve_embedding_model("embedded")


def test_it_learns_to_rank_to_point_and_to_say_whether_it_is_there(trained: Path) -> None:
    model = CrossEncoder.load(trained, precision="float32")
    for number in range(40, 44):
        unseen = example(number)
        read = model.read([unseen.question] * 3, unseen.passages)
        assert max(range(3), key=lambda n: read[n].relevance) == 0
        assert [each.answerable is not None and each.answerable > 0.5 for each in read] == [True, False, False]
        assert unseen.passages[0][read[0].start : read[0].end] == unseen.passages[0][unseen.starts[0] : unseen.ends[0]]
        assert 0 < (read[0].span or 0) <= 1
    last = [entry for entry in json.loads((trained / HISTORY).read_text())["history"] if "eval_loss" in entry][-1]
    assert last["eval_first_relevant"] == last["eval_answerable_accuracy"] == 1.0
    assert (trained / WEIGHTS).stat().st_size < 9_000_000


def test_it_goes_on_from_an_earlier_one(trained: Path, tmp_path: Path) -> None:
    begun = RECIPE.changed(start=str(trained), learning_rate=1e-7, heads_learning_rate=1e-7, epochs=1)
    fit_recipe(begun, [example(n) for n in range(4)], [example(n) for n in range(24, 32)], base(), tmp_path)
    before, after = (CrossEncoder.load(folder, precision="float32") for folder in (trained, tmp_path))
    asked = example(40)
    for one, other in zip(*(each.read([asked.question] * 3, asked.passages) for each in (before, after)), strict=True):
        assert one.relevance == pytest.approx(other.relevance, abs=0.01)


def test_blocks_that_learn_no_more_are_kept_as_they_were(trained: Path, tmp_path: Path) -> None:
    upper = RECIPE.changed(start=str(trained), first_block=5, epochs=1)
    fit_recipe(upper, [example(n) for n in range(8)], [example(n) for n in range(24, 32)], base(), tmp_path)
    assert read_shape(tmp_path).first_block == 4
    before, after = (load_file(folder / WEIGHTS) for folder in (trained, tmp_path))
    assert before.keys() == after.keys()
    changed = {name for name, value in before.items() if not np.array_equal(value, after[name])}
    assert any(".5." in name for name in changed)
    assert not any(".4." in name for name in changed)


def test_the_weights_can_be_averaged_with_those_that_it_started_from(trained: Path, tmp_path: Path) -> None:
    recipe = RECIPE.changed(start=str(trained), epochs=1, seed=3)
    rows, held = [example(n) for n in range(8, 16)], [example(n) for n in range(24, 32)]
    logs = {}
    for weight in (0.0, 0.25):
        out = tmp_path / str(weight)
        logs[weight] = evaluations_of(fit_recipe(recipe.changed(start_weight=weight), rows, held, base(), out))
    begun, learned, mean = (load_file(path / WEIGHTS) for path in (trained, tmp_path / "0.0", tmp_path / "0.25"))
    assert any(np.abs(begun[name] - learned[name]).max() > 1e-3 for name in begun)
    for name, value in mean.items():
        np.testing.assert_allclose(value, 0.25 * begun[name] + 0.75 * learned[name], atol=1e-3)
    assert len(logs[0.25]) == len(logs[0.0]) + 1
    assert logs[0.25][-1]["eval_loss"] != logs[0.25][-2]["eval_loss"]
    with pytest.raises(ValidationError, match="cross_encoder with a start"):
        RECIPE.changed(start_weight=0.5)


def test_batches_and_precision_change_little(trained: Path) -> None:
    pairs = [(each.question, text) for each in map(example, range(50, 54)) for text in each.passages]
    queries, passages = [query for query, _ in pairs], [text for _, text in pairs]
    plain = CrossEncoder.load(trained, precision="float32")
    together, alone = plain.read(queries, passages), plain.read(queries, passages, max_batch=1)
    small = CrossEncoder.load(trained, precision="int8").read(queries, passages)
    for one, other, int8 in zip(together, alone, small, strict=True):
        assert one.relevance == pytest.approx(other.relevance, abs=1e-3)
        assert (one.start, one.end) == (other.start, other.end)
        assert int8.relevance == pytest.approx(one.relevance, abs=1.5)


def test_generated_reports_do_not_decide_which_state_is_kept() -> None:
    sources = ["sample 3001", "squad dev", "sample 3001", "finqa train", "samples of mine"]
    rows = [
        RankingRow(query_id=f"q{n}", source=source, documents=("d",), **asdict(example(n)))
        for n, source in enumerate(sources)
    ]
    recipe = RECIPE.model_copy(update={"validation_rows": 2})
    train, validation = prepared(recipe, rows, rows)
    assert [row.source for row in train] == sources
    assert [row.source for row in validation] == ["squad dev", "finqa train"]
    assert [row.query_id for row in prepared(recipe, rows, [rows[0], rows[2]])[1]] == ["q0", "q2"]


def test_calibration_is_written_beside_the_weights(trained: Path) -> None:
    rows = [
        RankingRow(query_id=f"q{n}", source="made up", documents=("d",), **asdict(example(n))) for n in range(24, 32)
    ]
    shape = calibrate(trained, rows)
    assert shape == read_shape(trained)
    assert shape.scale > 0


def test_a_long_query_and_an_empty_passage_are_read(trained: Path) -> None:
    model = CrossEncoder.load(trained, precision="float32")
    read = model.read(["why " * 400, ""], ["", "Bread."])
    assert (read[0].start, read[0].end) == (0, 0)
    assert (read[1].start, read[1].end) != (0, 0)


@pytest.mark.parametrize("tokens", [1, LONGEST_ANSWER, LONGEST_ANSWER + 1, 130])
def test_the_best_span_is_the_best_of_all_that_an_answer_may_have(tokens: int) -> None:
    torch.manual_seed(tokens)
    logits, inside = torch.randn(4, tokens, 2), torch.rand(4, tokens) > 0.2
    inside[:, -1] = True
    logits[0, -1] = 9.0  # a span of the last token alone
    starts, ends, share = best_spans(logits, inside, 2)
    for row in range(4):
        scores = logits[row].masked_fill(~inside[row].unsqueeze(-1), float("-inf")).log_softmax(dim=0)
        spans = {
            (first, last): float(scores[first, 0] + scores[last, 1])
            for first in range(tokens)
            for last in range(first, min(tokens, first + LONGEST_ANSWER))
        }
        best = max(spans, key=lambda span: spans[span])
        every = torch.tensor(list(spans.values())).exp().sum()
        assert (int(starts[row, 0]), int(ends[row, 0])) == best
        assert float(share[row, 0]) == pytest.approx(math.exp(spans[best]) / float(every), rel=1e-4)
        apart = {span: score for span, score in spans.items() if span[1] < best[0] or span[0] > best[1]}
        other = max(apart, key=lambda span: apart[span], default=best)
        assert float(share[row, 1]) == pytest.approx(
            math.exp(apart[other]) / float(every) if other in apart else 0.0, rel=1e-4
        )


def test_what_is_cut_off_is_asked_neither_for_its_place_nor_whether_it_is_there() -> None:
    far = example(1)
    text = "bread " * 200 + far.passages[0]
    at = len(text) - len(far.passages[0])
    long = RankingExample(far.question, (text,), (1.0,), (1,), (at + far.starts[0],), (at + far.ends[0],))
    learner = CrossEncoderLearner(RECIPE, base().path, None, "cpu", torch.float32)
    seen = [learner.collate([each]) for each in (far, long)]
    assert [each["answerable"].tolist() for each in seen] == [[1, 0, 0], [UNKNOWN]]
    assert [(each["spans"][0] >= 0).all().item() for each in seen] == [True, False]


def test_examples_travel_as_json(tmp_path: Path) -> None:
    _, train, _ = export_files(RECIPE, [example(1)], [], tmp_path)
    assert read_examples(train) == [example(1)]


def test_other_weights_and_missing_files_are_refused(trained: Path, tmp_path: Path) -> None:
    said = json.loads((trained / CROSS_ENCODER).read_text())
    (tmp_path / CROSS_ENCODER).write_text(json.dumps({**said, "sha256": "0" * 64}))
    with pytest.raises(ConfigError, match="trained on other weights"):
        CrossEncoder.load(tmp_path)
    (tmp_path / CROSS_ENCODER).write_text(json.dumps(said))
    with pytest.raises(ConfigError, match="cannot be read"):
        CrossEncoder.load(tmp_path)
    (tmp_path / CROSS_ENCODER).write_text("{}")
    with pytest.raises(ConfigError, match="no cross-encoder that this okralong can read"):
        CrossEncoder.load(tmp_path)


def chunk(text: str, start: int = 0) -> Chunk:
    return Chunk("d:0", "d", 150, 0, start, start + len(text), 10, text)


def test_a_share_of_the_evidence_or_of_the_chunk_counts() -> None:
    held = chunk("x" * 100, start=50)
    assert share_of(held, [Span("d", 60, 80)]) == 1.0  # the evidence stands in the chunk
    assert share_of(held, [Span("d", 0, 400)]) == 1.0  # the chunk stands in the evidence
    assert share_of(held, [Span("d", 140, 160)]) == 0.5
    assert share_of(held, [Span("e", 60, 80)]) == 0.0


def test_an_answer_is_placed_within_the_evidence_alone() -> None:
    text = "In 1990 sales were 12. In 1991 sales were 12 million."
    evidence = [Span("d", 23, len(text))]
    assert place_of(chunk(text), evidence, "?", ("12",), ("12",)) == (42, 44)
    assert place_of(chunk(text), [Span("d", 0, 8)], "?", ("12",), ("12",)) is None


def test_a_sentence_is_placed_by_the_words_that_the_question_lacks() -> None:
    text = "The company was founded in Leeds, and its first chairman was Vera Crowhurst, a baker."
    place = covering_span(text, 0, "Who was the first chairman?", "The first chairman was Vera Crowhurst.")
    assert place is not None
    assert text[place[0] : place[1]] == "Vera Crowhurst"
    assert covering_span(text, 0, "Who was it?", "Somebody else altogether") is None
    assert UNKNOWN == -100
