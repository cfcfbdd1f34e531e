"""The generator over unlike prompts: a batch says what each alone says, vectors matter, limits are each one's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.sara.artifact import adapter_of, served_generator
from okralong.pipelines.sara.generator import MixedGenerator
from okralong.pipelines.sara.prompts import Asked, MixedMessage, RefusedError, Text, Vectors, Written
from tests.fakes.random_reader import write_random_reader
from tests.sara.compressors import random_compressor


@pytest.fixture(scope="session")
def folder(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compressor for the tiny generator."""
    return random_compressor(tmp_path_factory.mktemp("for-tiny"), hidden=32, generator=str(tiny))


@pytest.fixture(scope="session")
def model(folder: Path, tiny: Path) -> MixedGenerator:
    return MixedGenerator.load(folder, str(tiny), window=400, precision="float32")


def asked(text: str, rows: int = 0, seed: int = 1, **how: Any) -> Asked:
    vectors = np.random.default_rng(seed).normal(size=(rows, 32)).astype(np.float32)
    content = (Text(text), Vectors(vectors), Text("?")) if rows else (Text(text),)
    return Asked((MixedMessage("system", (Text("Be brief."),)), MixedMessage("user", content)), **how)


def written(model: MixedGenerator, *requests: Asked) -> list[Written]:
    found = model.answer(requests)
    assert all(isinstance(each, Written) for each in found)
    return [each for each in found if isinstance(each, Written)]


def test_a_batch_of_unlike_prompts_says_what_each_alone_says(model: MixedGenerator) -> None:
    batch = [
        asked("Short", max_tokens=5),
        asked("A good deal longer than the other one " * 4, rows=3, max_tokens=9),
        asked("Alone", rows=7, seed=4, max_tokens=1),
    ]
    together = written(model, *batch)
    assert together == [written(model, each)[0] for each in batch]
    assert [each.completion_tokens for each in together] == [5, 9, 1]
    assert {each.finish_reason for each in together} == {"length"}
    assert all(each.prompt_ms is not None and each.prompt_ms > 0 for each in together)


def test_a_vector_is_one_token_of_the_prompt(model: MixedGenerator) -> None:
    none, one, four = (written(model, asked("Say", rows=rows, max_tokens=1))[0] for rows in (0, 1, 4))
    assert four.prompt_tokens - one.prompt_tokens == 3
    assert one.prompt_tokens - none.prompt_tokens == 2, "the vector, and the question mark behind it"


def test_other_vectors_make_another_reply(model: MixedGenerator) -> None:
    replies = {written(model, asked("Say", rows=4, seed=seed, max_tokens=12))[0].text for seed in range(5)}
    assert len(replies) > 1


def test_a_seed_draws_the_same_again_whatever_stands_beside_it(model: MixedGenerator) -> None:
    draws = [replace(asked("Say", rows=2), temperature=1.0, seed=seed, max_tokens=8) for seed in (1, 2, 1)]
    first, other, again = written(model, *draws)
    assert first == again
    assert first.text != other.text
    assert written(model, asked("Beside", max_tokens=3), draws[0])[1] == first


def test_a_stop_word_ends_the_text(model: MixedGenerator) -> None:
    (whole,) = written(model, asked("Say", rows=2, max_tokens=20))
    word = whole.text[6:9]
    (cut,) = written(model, asked("Say", rows=2, max_tokens=20, stop=(word,)))
    assert cut.text == whole.text[: whole.text.index(word)]
    assert cut.finish_reason == "stop"


def test_the_end_of_a_turn_ends_the_reply_and_is_counted(model: MixedGenerator) -> None:
    request = asked("Say", max_tokens=20)
    row = model.row_for(request)
    end = model.tokenizer.eos_token_id
    said = model.read_reply(request, row, [40, 41, end, end, end])
    assert (said.completion_tokens, said.finish_reason) == (3, "stop")
    assert model.read_reply(replace(request, max_tokens=2), row, [40, 41, end]).finish_reason == "length"


def test_what_passes_the_window_is_refused_and_the_others_are_not(model: MixedGenerator) -> None:
    long, fine = model.answer([asked("word " * 500, max_tokens=4), asked("Hi", max_tokens=4)])
    assert isinstance(long, RefusedError)
    assert "window holds 400 in total" in long.message
    assert isinstance(fine, Written)


def test_what_no_tokenizer_takes_costs_the_others_nothing(model: MixedGenerator) -> None:
    broken, fine = model.answer([asked("half a character: \ud800", max_tokens=4), asked("Hi", max_tokens=4)])
    assert isinstance(broken, RefusedError)
    assert fine == written(model, asked("Hi", max_tokens=4))[0]


def test_a_long_prompt_and_another_s_long_reply_do_not_pass_the_window(model: MixedGenerator) -> None:
    pair = [asked("word " * 250, max_tokens=4), asked("Hi", max_tokens=300)]
    assert written(model, *pair) == [written(model, each)[0] for each in pair]
    rows = [(place, model.row_for(each)) for place, each in enumerate(pair)]
    assert [[place for place, _ in group] for group in model.batches_that_fit(pair, rows)] == [[0], [1]]
    short = [replace(each, max_tokens=4) for each in pair]
    assert [[place for place, _ in group] for group in model.batches_that_fit(short, rows)] == [[0, 1]]


def test_an_adapter_beside_the_compressor_is_merged(tiny: Path, tmp_path: Path) -> None:
    plain = random_compressor(tmp_path / "plain", hidden=32, generator=str(tiny))
    tuned = random_compressor(tmp_path / "tuned", hidden=32, generator=str(tiny))
    write_random_reader(tuned / "lora", tiny, layers=range(2), spread=0.5)
    assert (adapter_of(plain), adapter_of(tuned)) == (None, tuned / "lora")
    one, other = served_generator(plain, str(tiny)), served_generator(tuned, str(tiny))
    assert one.name != other.name
    request = asked("Say", rows=2, max_tokens=8)
    both = [MixedGenerator.load(each, str(tiny), 400, "float32") for each in (plain, tuned)]
    replies = [written(each, request)[0].text for each in both]
    assert replies[0] != replies[1]


def test_a_compressor_for_another_size_is_refused(tiny: Path, tmp_path: Path) -> None:
    wrong = random_compressor(tmp_path, hidden=40, generator=str(tiny))
    with pytest.raises(ConfigError, match=r"vectors of length 40, and the token embeddings of .* have length 32"):
        MixedGenerator.load(wrong, str(tiny), 400)
    gone = random_compressor(tmp_path / "gone", hidden=32, generator="nowhere")
    with pytest.raises(ConfigError, match="cannot be loaded"):
        MixedGenerator.load(gone, str(tmp_path / "nowhere"), 400)
